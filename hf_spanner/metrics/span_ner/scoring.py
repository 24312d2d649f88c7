"""Strict and boundary-only F1 of labelled spans, and the calibration error of their scores."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

# One sequence per text, of spans as mappings with start, end, label and, for predictions, score.
SpanLists = Sequence[Sequence[Mapping[str, Any]]]
# (text, start, end, label): two spans are the same only if all four are.
SpanKey = tuple[int, int, int, str]

INTEGER = (int, np.integer)
NUMBER = (int, float, np.integer, np.floating)


def score_spans(
    predictions: SpanLists, references: SpanLists, *, num_bins: int = 10, zero_division: float = 0.0
) -> dict[str, Any]:
    """Precision, recall and F1 (strict and boundary-only) and the calibration error of predicted spans.

    Strict: a predicted span is correct if the gold spans of the same text hold one of equal start, end and label. Both
    sides are sets within a text; repeats are removed, counted, and a repeated prediction keeps its best score.
    Boundary-only: the same with labels removed. Micro ("overall") pools the counts of all texts; macro is the plain
    mean over the labels seen on either side. The calibration error is taken over all predicted spans, repeats removed.

    precision = correct / predicted, recall = correct / gold, f1 = 2 correct / (predicted + gold). A ratio whose
    denominator is 0, and a macro mean over no label, is `zero_division`. So F1 is `zero_division` only where there is
    neither gold nor prediction; with one side empty it is 0.0, whatever `zero_division` is.

    Args:
        predictions: One sequence per text of {"start", "end", "label", "score"}; offsets half-open in any one unit,
            scores in [0, 1]. Further keys are ignored. Labels are compared as given, letter case and blanks included.
        references: The gold spans in the same order of texts, without score.
        num_bins: Number of equal calibration bins, at least 1.
        zero_division: Value of an undefined ratio, in [0, 1].

    Returns:
        Plain Python values: overall_precision, overall_recall, overall_f1, overall_ece, macro_precision, macro_recall,
        macro_f1, boundary_precision, boundary_recall, boundary_f1, num_gold, num_predicted, num_correct,
        duplicates_removed {predictions, references}, reliability (the bins of `calibration_error`) and
        per_label {label: {precision, recall, f1, support, num_predicted}} in the order of the label names.

    Raises:
        ValueError: If the sides differ in length, a span lacks a key or has an impossible value, a score is missing or
            lies outside [0, 1], or an option is out of range.
    """
    if len(predictions) != len(references):
        raise ValueError(
            "predictions and references must hold one entry per text, "
            f"got {len(predictions)} predictions and {len(references)} references"
        )
    if not 0.0 <= zero_division <= 1.0:
        raise ValueError(f"zero_division must lie in [0, 1], got {zero_division}")
    predicted = _best_scores(predictions)
    gold = set(_keys(references, "references"))
    correct = gold.intersection(predicted)
    calibration = calibration_error(list(predicted.values()), [key in correct for key in predicted], num_bins=num_bins)
    per_label = _label_scores(correct, predicted, gold, zero_division)
    return {
        **_prefixed("overall", _ratios(len(correct), len(predicted), len(gold), zero_division)),
        "overall_ece": calibration["ece"],
        **_prefixed("macro", _macro_average(per_label, zero_division)),
        **_prefixed("boundary", _boundary_ratios(predicted, gold, zero_division)),
        "num_gold": len(gold),
        "num_predicted": len(predicted),
        "num_correct": len(correct),
        "duplicates_removed": {
            "predictions": sum(map(len, predictions)) - len(predicted),
            "references": sum(map(len, references)) - len(gold),
        },
        "reliability": calibration["bins"],
        "per_label": per_label,
    }


def calibration_error(scores: Sequence[float], correct: Sequence[bool], num_bins: int = 10) -> dict[str, Any]:
    """Expected calibration error over equal bins, with the bins themselves.

    ECE = sum_k (n_k / n) |precision_k - confidence_k|, with n_k scores in bin k, precision_k the share of them that are
    correct and confidence_k their mean; empty bins add nothing (Guo et al. 2017, section 2; Zhu and Li 2022).
    Bin k of K holds (k-1)/K < score <= k/K; 0.0 joins the first bin. The borders are the doubles nearest to k/K and
    scores are compared as doubles, so 0.3 of 10 bins lies in (0.2, 0.3]. A score of lower precision counts as the
    number it is: float32(0.3) is 0.3000000119 and lies in (0.3, 0.4].

    Args:
        scores: Confidences in [0, 1].
        correct: For each score whether its prediction was correct.
        num_bins: K, at least 1.

    Returns:
        ece: float in [0, 1], 0.0 without scores; count: number of scores; bins: K dicts of low, high, count,
        precision, confidence. An empty bin has count 0 and holds 0.0 twice. The order of the pairs changes no bit.

    Raises:
        ValueError: If the lengths differ, a score is missing, not finite or outside [0, 1], a flag is neither true nor
            false, or num_bins is no positive integer.
    """
    if not isinstance(num_bins, INTEGER) or num_bins < 1:
        raise ValueError(f"num_bins must be an integer >= 1, got {num_bins!r}")
    if len(scores) != len(correct):
        raise ValueError(f"scores and correct must be equally long, got {len(scores)} and {len(correct)}")
    for index, score in enumerate(scores):
        _check_score(score, f"scores[{index}]")
    flags = np.asarray(correct, dtype=np.float64)  # (n,)
    if not np.isin(flags, (0.0, 1.0)).all():
        raise ValueError(f"correct must hold 0 or 1 (false or true) only, got {sorted(set(flags.tolist()))[:5]}")
    values = np.asarray(scores, dtype=np.float64)  # (n,)
    order = np.argsort(values)  # floating sums depend on the order of their terms
    values, flags = values[order], flags[order]

    # k / K is correctly rounded; a running sum or k * (1 / K) is not (3 * 0.1 > 0.3)
    borders = np.arange(num_bins + 1) / num_bins  # (K + 1,)
    bins = np.searchsorted(borders[1:], values, side="left")  # (n,)
    counts = np.bincount(bins, minlength=num_bins)  # (K,)
    num_correct = np.bincount(bins, weights=flags, minlength=num_bins)  # (K,)
    score_sums = np.bincount(bins, weights=values, minlength=num_bins)  # (K,)
    divisors = np.maximum(counts, 1)
    rows = zip(
        borders[:-1].tolist(),
        borders[1:].tolist(),
        counts.tolist(),
        (num_correct / divisors).tolist(),
        (score_sums / divisors).tolist(),
        strict=True,
    )
    names = ("low", "high", "count", "precision", "confidence")
    return {
        "ece": float(np.abs(num_correct - score_sums).sum()) / max(len(values), 1),
        "count": len(values),
        "bins": [dict(zip(names, row, strict=True)) for row in rows],
    }


def _best_scores(predictions: SpanLists) -> dict[SpanKey, float]:
    """Every predicted span once, with its best score."""
    best: dict[SpanKey, float] = {}
    spans = (span for text in predictions for span in text)
    for key, span in zip(_keys(predictions, "predictions"), spans, strict=True):
        if "score" not in span:
            raise ValueError(f"predictions[{key[0]}]: score is missing from span {key[1:]}")
        _check_score(span["score"], f"predictions[{key[0]}], span {key[1:]}")
        best[key] = max(best.get(key, 0.0), float(span["score"]))
    return best


def _keys(texts: SpanLists, side: str) -> Iterable[SpanKey]:
    """The checked key of every span, in order, repeats included."""
    for index, text in enumerate(texts):
        for span in text:
            if "start" not in span or "end" not in span or "label" not in span:
                raise ValueError(f"{side}[{index}]: a span must have start, end and label, got {dict(span)}")
            start, end, label = span["start"], span["end"], span["label"]
            if not isinstance(start, INTEGER) or not isinstance(end, INTEGER) or not 0 <= start < end:
                raise ValueError(f"{side}[{index}]: start and end must be integers, 0 <= start < end, got {dict(span)}")
            if not isinstance(label, str):
                raise ValueError(f"{side}[{index}]: label must be a string, got {dict(span)}")
            yield index, int(start), int(end), str(label)


def _check_score(score: Any, where: str) -> None:
    """Refuse a score that is no number in [0, 1]; NaN fails the comparison."""
    if not isinstance(score, NUMBER) or not 0.0 <= score <= 1.0:
        raise ValueError(f"{where}: score must be a number in [0, 1], got {score!r}")


def _label_scores(
    correct: Iterable[SpanKey], predicted: Iterable[SpanKey], gold: Iterable[SpanKey], zero_division: float
) -> dict[str, dict[str, Any]]:
    """Precision, recall, F1 and the counts of every label seen on either side."""
    num_correct, num_predicted, support = (Counter(key[3] for key in keys) for keys in (correct, predicted, gold))
    return {
        label: {
            **_ratios(num_correct[label], num_predicted[label], support[label], zero_division),
            "support": support[label],
            "num_predicted": num_predicted[label],
        }
        for label in sorted(num_predicted.keys() | support.keys())
    }


def _macro_average(per_label: Mapping[str, Mapping[str, Any]], zero_division: float) -> dict[str, float]:
    """Plain means over the labels."""
    return {
        name: _ratio(sum(scores[name] for scores in per_label.values()), len(per_label), zero_division)
        for name in ("precision", "recall", "f1")
    }


def _boundary_ratios(predicted: Iterable[SpanKey], gold: Iterable[SpanKey], zero_division: float) -> dict[str, float]:
    """Precision, recall and F1 of (text, start, end) sets."""
    predicted_boundaries = {key[:3] for key in predicted}
    gold_boundaries = {key[:3] for key in gold}
    num_correct = len(predicted_boundaries & gold_boundaries)
    return _ratios(num_correct, len(predicted_boundaries), len(gold_boundaries), zero_division)


def _ratios(num_correct: int, num_predicted: int, num_gold: int, zero_division: float) -> dict[str, float]:
    """Precision, recall and F1 of three counts."""
    return {
        "precision": _ratio(num_correct, num_predicted, zero_division),
        "recall": _ratio(num_correct, num_gold, zero_division),
        # the harmonic mean in counts: defined as soon as one side holds a span
        "f1": _ratio(2 * num_correct, num_predicted + num_gold, zero_division),
    }


def _ratio(numerator: float, denominator: int, zero_division: float) -> float:
    """The quotient, or `zero_division` where it is undefined."""
    return float(numerator / denominator) if denominator else float(zero_division)


def _prefixed(prefix: str, scores: Mapping[str, float]) -> dict[str, float]:
    """The same values under `<prefix>_<name>`."""
    return {f"{prefix}_{name}": value for name, value in scores.items()}
