"""Predictions of rows in words, by anything that is called as the pipeline is."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any


def predicted_entities(
    ner: Callable[..., Iterable[Any]],
    rows: Iterable[Mapping[str, Any]],
    batch_size: int,
    decoding: Mapping[str, Any] | None = None,
) -> Iterator[list[dict[str, Any]]]:
    """Entities that a pipeline predicts for rows, with offsets in words; neighbours of a row are its context.

    Args:
        ner: A `SpanNERPipeline`.
        rows: Rows with `tokens` and, for context, `document`.
        batch_size: Windows run through the model at once.
        decoding: Settings of inference by name, which override the model's own.

    Yields:
        For each row its entities (start, end, label, score).
    """
    rows = list(rows)
    answers = ner(
        (row["tokens"] for row in rows),
        pretokenized=True,
        documents=[row.get("document") for row in rows],
        batch_size=batch_size,
        **(decoding or {}),
    )
    for answer in answers:
        yield [
            {"start": e["word_start"], "end": e["word_end"], "label": e["entity_group"], "score": e["score"]}
            for e in answer
        ]
