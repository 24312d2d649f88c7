"""Labelled spans of texts as checked sets: what counts as a prediction, and what counts as right."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np

# One sequence per text, of spans as mappings with start, end, label and, for predictions, score.
SpanLists = Sequence[Sequence[Mapping[str, Any]]]
# (text, start, end, label): two spans are the same only if all four are.
SpanKey = tuple[int, int, int, str]

INTEGER = (int, np.integer)
NUMBER = (int, float, np.integer, np.floating)


def matched_spans(predictions: SpanLists, references: SpanLists) -> tuple[dict[SpanKey, float], set[SpanKey]]:
    """Every predicted span once, with its best score, and the set of gold spans; a prediction in that set is right.

    Args:
        predictions: One sequence per text of {"start", "end", "label", "score"}; further keys are ignored.
        references: The gold spans in the same order of texts, without score.

    Returns:
        The predicted spans in the order of their first appearance, and the gold spans.

    Raises:
        ValueError: If the sides differ in length or are no lists of lists of dicts, a span lacks a key or has an
            impossible value, or a score is missing or lies outside [0, 1].
    """
    for side, texts in (("predictions", predictions), ("references", references)):
        if not _is_list(texts):
            raise ValueError(f"{side} must be a list with a list of spans for each text, got {texts!r:.100}")
    if len(predictions) != len(references):
        raise ValueError(
            "predictions and references must hold one entry per text, "
            f"got {len(predictions)} predictions and {len(references)} references"
        )
    return best_scores(predictions), set(span_keys(references, "references"))


def best_scores(predictions: SpanLists) -> dict[SpanKey, float]:
    """Every predicted span once, with its best score."""
    best: dict[SpanKey, float] = {}
    spans = (span for text in predictions for span in text)
    for key, span in zip(span_keys(predictions, "predictions"), spans, strict=True):
        if "score" not in span:
            raise ValueError(f"predictions[{key[0]}]: score is missing from span {key[1:]}")
        check_score(span["score"], f"predictions[{key[0]}], span {key[1:]}")
        best[key] = max(best.get(key, 0.0), float(span["score"]))
    return best


def span_keys(texts: SpanLists, side: str) -> Iterator[SpanKey]:
    """The checked key of every span, in order, repeats included; `side` names the texts in messages."""
    for index, text in enumerate(texts):
        if not _is_list(text):
            raise ValueError(f"{side}[{index}]: the spans of a text must be a list, got {text!r:.100}")
        for span in text:
            if not isinstance(span, Mapping):
                raise ValueError(f"{side}[{index}]: a span must be a dict with start, end and label, got {span!r:.100}")
            if "start" not in span or "end" not in span or "label" not in span:
                raise ValueError(f"{side}[{index}]: a span must have start, end and label, got {dict(span)}")
            start, end, label = span["start"], span["end"], span["label"]
            if not isinstance(start, INTEGER) or not isinstance(end, INTEGER) or not 0 <= start < end:
                raise ValueError(f"{side}[{index}]: start and end must be integers, 0 <= start < end, got {dict(span)}")
            if not isinstance(label, str):
                raise ValueError(f"{side}[{index}]: label must be a string, got {dict(span)}")
            yield index, int(start), int(end), str(label)


def _is_list(value: object) -> bool:
    """Whether a value can be a list of texts or of spans, such as a list, an array or a column of a data set."""
    return isinstance(value, Iterable) and isinstance(value, Sized) and not isinstance(value, str | bytes | Mapping)


def check_score(score: Any, where: str) -> None:
    """Refuse a score that is no number in [0, 1]; NaN fails the comparison."""
    if not isinstance(score, NUMBER) or not 0.0 <= score <= 1.0:
        raise ValueError(f"{where}: score must be a number in [0, 1], got {score!r}")
