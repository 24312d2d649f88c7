"""Records of texts or words, and the same records with the entities that a pipeline finds in them."""

from collections.abc import Mapping, Sequence
from typing import Any

from hf_spanner.core.pipeline_span_ner import SpanNERPipeline
from hf_spanner.core.words import split_words
from hf_spanner.data.offsets import offsets_of_words
from hf_spanner.data.schema import Problem, words_problem

Record = dict[str, Any]


def record_problem(record: Mapping[str, Any]) -> Problem | None:
    """What is wrong with a record, or None: it must have `text` or `tokens`, or both where the words are the text's.

    Null is as good as none.
    """
    text, words = record.get("text"), record.get("tokens")
    if text is None and words is None:
        field, value = ("text", None) if "text" in record else ("fields", sorted(record.keys() - {"tokens"}))
        return Problem("type", field, value, "text or tokens")
    if text is not None and not isinstance(text, str):
        return Problem("type", "text", text, "a string")
    problem = None if words is None else words_problem(words)
    if problem is None and text is not None and words is not None and offsets_of_words(text, words) is None:
        problem = Problem("two truths", "text", text, f"a text of the words of tokens, {words[:8]}, or one of both")
    return problem


def answered_records(ner: SpanNERPipeline, records: Sequence[Record]) -> list[Record]:
    """The records in their order, each with the entities found in it; neighbours of one document are context.

    Args:
        ner: The pipeline.
        records: Records with `tokens` or else `text` and, for context, `document`.

    Returns:
        Records with `entities` (start, end, label, score, text; half-open in characters of the text or in words).
    """
    split_hyphens = ner.model.config.split_hyphens
    offsets = [
        split_words(record["text"], split_hyphens=split_hyphens) if record.get("tokens") is None else None
        for record in records
    ]
    answers = ner(
        [
            record["tokens"] if places is None else [record["text"][start:end] for start, end in places]
            for record, places in zip(records, offsets, strict=True)
        ],
        documents=[record.get("document") for record in records],
        pretokenized=True,
    )
    return [
        record | {"entities": [answered_entity(entity, record, places) for entity in entities]}
        for record, entities, places in zip(records, answers, offsets, strict=True)
    ]


def answered_entity(
    entity: Mapping[str, Any], record: Mapping[str, Any], offsets: Sequence[tuple[int, int]] | None
) -> Record:
    """An entity as in a row of data, with its score.

    Given the offsets of a text's words it is in characters, and says which words it is, too, by `word_start` and
    `word_end`.
    """
    start, end = entity["word_start"], entity["word_end"]
    label, score = entity["entity_group"], entity["score"]
    found = {"start": start, "end": end, "label": label, "score": score, "text": entity["word"]}
    if offsets is None:
        return found
    first, last = offsets[start][0], offsets[end - 1][1]
    text = record["text"][first:last]
    return found | {"start": first, "end": last, "text": text, "word_start": start, "word_end": end}
