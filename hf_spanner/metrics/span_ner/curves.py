"""Precision and recall over thresholds, and the area under the curve."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .reliability import checked_outcomes


def precision_recall_curve(
    scores: Sequence[float], correct: Sequence[bool], num_gold: int, *, zero_division: float = 0.0
) -> dict[str, Any]:
    """Precision, recall and F1 of the predictions at or above each threshold, and the average precision.

    A threshold keeps the predictions with score >= threshold; between two neighbouring scores nothing changes, so each
    distinct score gives one point. Recall is against all gold spans, those without a prediction included, so the curve
    ends at the recall of all predictions and not at 1.

    The area is the average precision by steps, sum_i (R_i - R_(i-1)) P_i over falling thresholds with R_0 = 0. Recall
    that is never reached adds nothing, and nothing is interpolated: straight lines between points flatter (Davis and
    Goadrich 2006).

    Args:
        scores: Confidences in [0, 1].
        correct: For each score whether its prediction was correct.
        num_gold: Number of all gold spans, at least the number of correct predictions.
        zero_division: Recall and average precision where there is no gold span.

    Returns:
        thresholds (falling distinct scores), precision, recall and f1, equally long lists, and average_precision.

    Raises:
        ValueError: As `calibration_error`, or if num_gold is below the number of correct predictions.
    """
    values, flags = checked_outcomes(scores, correct)
    if num_gold < flags.sum():
        raise ValueError(f"num_gold must be at least the {int(flags.sum())} correct predictions, got {num_gold}")
    thresholds, firsts = np.unique(values, return_index=True)  # rising, and how many predictions lie below
    thresholds, firsts = thresholds[::-1], firsts[::-1]
    num_kept = len(values) - firsts  # (T,)
    num_correct = np.append(np.cumsum(flags[::-1]), 0.0)[num_kept - 1]  # (T,)
    precision = num_correct / num_kept
    if num_gold == 0:
        recall, average_precision = np.full(len(thresholds), zero_division), float(zero_division)
    else:
        recall = num_correct / num_gold
        average_precision = float((np.diff(num_correct, prepend=0.0) * precision).sum()) / num_gold
    return {
        "thresholds": thresholds.tolist(),
        "precision": precision.tolist(),
        "recall": recall.tolist(),
        "f1": (2.0 * num_correct / (num_kept + num_gold)).tolist(),
        "average_precision": average_precision,
    }
