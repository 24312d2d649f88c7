"""Strict and boundary-only F1 of labelled spans, with how far their scores can be trusted."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .curves import precision_recall_curve
from .matching import SpanKey, SpanLists, matched_spans
from .reliability import BINNINGS, brier_split, calibration_error, label_calibration_errors
from .resampling import bootstrap_intervals


def score_spans(
    predictions: SpanLists,
    references: SpanLists,
    *,
    num_bins: int = 10,
    zero_division: float = 0.0,
    documents: Sequence[str | None] | None = None,
    num_resamples: int = 0,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """Precision, recall and F1 (strict and boundary-only) of predicted spans, and the calibration of their scores.

    Strict: a predicted span is correct if the gold spans of the same text hold one of equal start, end and label. Both
    sides are sets within a text; repeats are removed, counted, and a repeated prediction keeps its best score.
    Boundary-only: the same with labels removed. Micro ("overall") pools the counts of all texts; macro is the plain
    mean over the labels seen on either side. Calibration is judged over all predicted spans, repeats removed.

    precision = correct / predicted, recall = correct / gold, f1 = 2 correct / (predicted + gold). A ratio whose
    denominator is 0, and a macro mean over no label, is `zero_division`. So F1 is `zero_division` only where there is
    neither gold nor prediction; with one side empty it is 0.0, whatever `zero_division` is. Without predictions there
    is nothing to be calibrated: each calibration error, and each number of the Brier score, is None then.

    Args:
        predictions: One sequence per text of {"start", "end", "label", "score"}; offsets half-open in any one unit,
            scores in [0, 1]. Further keys are ignored. Labels are compared as given, letter case and blanks included.
        references: The gold spans in the same order of texts, without score.
        num_bins: Number of calibration bins, at least 1.
        zero_division: Value of an undefined ratio, in [0, 1].
        documents: For intervals, the document of each text; None, for a text or for all, is a document of its own.
        num_resamples: Number of resamples of the documents for intervals; 0 leaves intervals out.
        confidence_level: Level of the intervals, in (0, 1).
        seed: Seed of the resamples.

    Returns:
        Plain Python values: overall_precision, overall_recall, overall_f1, overall_ece, overall_mce, overall_ece_mass,
        overall_brier, brier_split {reliability, resolution, uncertainty, within_bin}, average_precision,
        macro_precision, macro_recall, macro_f1, boundary_precision, boundary_recall, boundary_f1, num_gold,
        num_predicted, num_correct, duplicates_removed {predictions, references}, reliability (the bins of
        `calibration_error`), per_label {label: {precision, recall, f1, ece, support, num_predicted}} in the order of
        the label names and, if there are resamples, intervals (see `bootstrap_intervals`).

    Raises:
        ValueError: If the sides differ in length, a span lacks a key or has an impossible value, a score is missing or
            lies outside [0, 1], or an option is out of range.
    """
    if not 0.0 <= zero_division <= 1.0:
        raise ValueError(f"zero_division must lie in [0, 1], got {zero_division}")
    predicted, gold = matched_spans(predictions, references)
    correct = gold.intersection(predicted)
    calibration = _calibration(predicted, gold, num_bins, zero_division)
    bins = calibration.pop("reliability")
    per_label = _label_scores(correct, predicted, gold, num_bins, zero_division)
    scores = {
        **_prefixed("overall", _ratios(len(correct), len(predicted), len(gold), zero_division)),
        **calibration,
        **_prefixed("macro", _macro_average(per_label, zero_division)),
        **_prefixed("boundary", _boundary_ratios(predicted, gold, zero_division)),
        **_counts(predictions, references, predicted, gold),
        "reliability": bins,
        "per_label": per_label,
    }
    if num_resamples != 0:
        scores["intervals"] = bootstrap_intervals(
            predictions,
            references,
            documents=documents,
            num_resamples=num_resamples,
            confidence_level=confidence_level,
            seed=seed,
            num_bins=num_bins,
            zero_division=zero_division,
        )
    return scores


def score_text(value: float | None, digits: int = 4) -> str:
    """A score for people; one that is not defined is `none`, so that no 0.0000 reads like perfection."""
    return "none" if value is None else f"{value:.{digits}f}"


def _calibration(
    predicted: Mapping[SpanKey, float], gold: set[SpanKey], num_bins: int, zero_division: float
) -> dict[str, Any]:
    """Calibration errors and Brier score with its parts, None without predictions; and average precision."""
    values, flags = list(predicted.values()), [key in gold for key in predicted]
    by_width, by_mass = (calibration_error(values, flags, num_bins, binning=binning) for binning in BINNINGS)
    brier: dict[str, Any] = brier_split(values, flags, num_bins)
    errors = {
        "overall_ece": by_width["ece"],
        "overall_mce": by_width["mce"],
        "overall_ece_mass": by_mass["ece"],
        "overall_brier": brier.pop("brier"),
    }
    if not predicted:
        errors, brier = dict.fromkeys(errors), dict.fromkeys(brier)
    curve = precision_recall_curve(values, flags, len(gold), zero_division=zero_division)
    further = {"brier_split": brier, "average_precision": curve["average_precision"], "reliability": by_width["bins"]}
    return errors | further


def _counts(
    predictions: SpanLists, references: SpanLists, predicted: Mapping[SpanKey, float], gold: set[SpanKey]
) -> dict[str, Any]:
    """The counts that give the strict scores, and how many repeats were removed."""
    return {
        "num_gold": len(gold),
        "num_predicted": len(predicted),
        "num_correct": len(gold.intersection(predicted)),
        "duplicates_removed": {
            "predictions": sum(map(len, predictions)) - len(predicted),
            "references": sum(map(len, references)) - len(gold),
        },
    }


def _label_scores(
    correct: Iterable[SpanKey],
    predicted: Mapping[SpanKey, float],
    gold: set[SpanKey],
    num_bins: int,
    zero_division: float,
) -> dict[str, dict[str, Any]]:
    """Precision, recall, F1, calibration error and the counts of every label seen on either side."""
    num_correct, num_predicted, support = (Counter(key[3] for key in keys) for keys in (correct, predicted, gold))
    flags, labels = [key in gold for key in predicted], [key[3] for key in predicted]
    errors = label_calibration_errors(list(predicted.values()), flags, labels, num_bins)
    return {
        label: {
            **_ratios(num_correct[label], num_predicted[label], support[label], zero_division),
            "ece": errors.get(label),
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
