"""How far scores can be trusted: calibration errors over bins, and the Brier score with its parts."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from .matching import INTEGER, NUMBER, check_score

Binning = Literal["width", "mass"]
BINNINGS = ("width", "mass")


def calibration_error(
    scores: Sequence[float], correct: Sequence[bool], num_bins: int = 10, *, binning: Binning = "width"
) -> dict[str, Any]:
    """Expected and maximum calibration error over bins, with the bins themselves.

    ECE = sum_k (n_k / n) |precision_k - confidence_k| and MCE = max_k |precision_k - confidence_k|, with n_k scores in
    bin k, precision_k the share of them that are correct and confidence_k their mean; empty bins take no part (Guo et
    al. 2017, section 2; Zhu and Li 2022). `bin_numbers` defines the bins. A score of lower precision counts as the
    number it is: float32(0.3) is 0.3000000119 and lies in (0.3, 0.4].

    Args:
        scores: Confidences in [0, 1].
        correct: For each score whether its prediction was correct.
        num_bins: K, at least 1.
        binning: `width` for bins of equal width, `mass` for bins of equally many scores.

    Returns:
        ece and mce: floats in [0, 1], 0.0 without scores; count: number of scores; bins: dicts of low, high, count,
        precision, confidence, lowest first. By width there are K, and an empty one has count 0 and holds 0.0 twice; by
        mass only those that hold scores, low and high being the lowest and highest of them. The order of the pairs
        changes no bit.

    Raises:
        ValueError: If the lengths differ, a score is missing, not finite or outside [0, 1], a flag is neither true nor
            false, num_bins is no positive integer, or the binning is unknown.
    """
    values, flags = checked_outcomes(scores, correct)
    bins = bin_numbers(values, num_bins, binning=binning)  # (n,)
    counts, num_correct, score_sums = _bin_sums(values, flags, bins, num_bins)
    divisors = np.maximum(counts, 1)
    precisions, confidences = num_correct / divisors, score_sums / divisors
    if binning == "width":
        borders = _borders(num_bins)
        kept, lows, highs = np.arange(num_bins), borders[:-1], borders[1:]
    else:
        kept, firsts = np.unique(bins, return_index=True)
        lows, highs = values[firsts], values[firsts + counts[kept] - 1]
    columns = (lows, highs, counts[kept], precisions[kept], confidences[kept])
    names = ("low", "high", "count", "precision", "confidence")
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return {
        "ece": float(np.abs(num_correct - score_sums).sum()) / max(len(values), 1),
        "mce": float(np.abs(precisions - confidences).max()),
        "count": len(values),
        "bins": [dict(zip(names, row, strict=True)) for row in rows],
    }


def label_calibration_errors(
    scores: Sequence[float], correct: Sequence[bool], labels: Sequence[str], num_bins: int = 10
) -> dict[str, float]:
    """ECE in bins of equal width over the predictions of each label.

    Args:
        scores: Confidences in [0, 1].
        correct: For each score whether its prediction was correct.
        labels: For each score the label that was predicted.
        num_bins: K, at least 1.

    Returns:
        For each label, by name, what `calibration_error` gives for its predictions alone, to the bit.

    Raises:
        ValueError: As `calibration_error`, or if there are not as many labels or outcomes as scores.
    """
    if not len(labels) == len(scores) == len(correct):
        lengths = f"{len(labels)}, {len(scores)} and {len(correct)}"
        raise ValueError(f"labels, scores and correct must be equally long, got {lengths}")
    places: dict[str, list[int]] = {}
    for place, label in enumerate(labels):
        places.setdefault(label, []).append(place)
    errors = {}
    for label, label_places in sorted(places.items()):
        errors[label] = calibration_error(
            [scores[i] for i in label_places], [correct[i] for i in label_places], num_bins
        )["ece"]
    return errors


def brier_split(
    scores: Sequence[float], correct: Sequence[bool], num_bins: int = 10, *, binning: Binning = "width"
) -> dict[str, float]:
    """Brier score, the mean squared difference of score and outcome, and the parts that add up to it over bins.

    With score f_i and outcome y_i (1 if correct), in bin k the count n_k, mean score f_k and precision o_k, and with o
    the precision of all:

        brier       = 1/n sum_i (f_i - y_i)^2
        reliability = 1/n sum_k n_k (f_k - o_k)^2
        resolution  = 1/n sum_k n_k (o_k - o)^2
        uncertainty = o (1 - o)
        within_bin  = 1/n sum_k sum_(i in k) [(f_i - f_k)^2 - 2 (f_i - f_k) (y_i - o_k)]

        brier = reliability - resolution + uncertainty + within_bin

    The three parts are those of Murphy 1973 and exact where all scores of a bin are equal. Scores that differ within a
    bin add their variance and take away twice their covariance with the outcomes (Stephenson et al. 2008), which is
    `within_bin`; it is negative where the scores order the predictions of a bin well.

    Args:
        scores: Confidences in [0, 1].
        correct: For each score whether its prediction was correct.
        num_bins: K, at least 1.
        binning: As in `calibration_error`.

    Returns:
        brier, reliability, resolution, uncertainty, within_bin; all 0.0 without scores.

    Raises:
        ValueError: As `calibration_error`.
    """
    values, flags = checked_outcomes(scores, correct)
    bins = bin_numbers(values, num_bins, binning=binning)  # (n,)
    counts, num_correct, score_sums = _bin_sums(values, flags, bins, num_bins)
    size, divisors = max(len(values), 1), np.maximum(counts, 1)
    precisions, confidences = num_correct / divisors, score_sums / divisors  # (K,)
    base = float(num_correct.sum()) / size
    score_spread, outcome_spread = values - confidences[bins], flags - precisions[bins]  # (n,)
    return {
        "brier": float(np.square(values - flags).sum()) / size,
        "reliability": float((counts * np.square(confidences - precisions)).sum()) / size,
        "resolution": float((counts * np.square(precisions - base)).sum()) / size,
        "uncertainty": base * (1.0 - base),
        "within_bin": float((np.square(score_spread) - 2.0 * score_spread * outcome_spread).sum()) / size,
    }


def bin_numbers(values: np.ndarray, num_bins: int, *, binning: Binning = "width") -> np.ndarray:
    """The bin of each score, counted from 0.

    width: bin k of K, counted from 1, holds (k-1)/K < score <= k/K; 0.0 joins the first bin. The borders are the
    doubles nearest to k/K and scores are compared as doubles, so 0.3 of 10 bins lies in (0.2, 0.3].

    mass: equal scores stay together. With b scores below a group of m equal ones, the group goes to bin
    floor(K (b + m/2) / n), counted from 0, where its middle lies; computed in integers. So neither the order of the
    scores nor rounding matters, and without ties no bin is more than one score larger than another.

    Args:
        values: (n,) float64 in [0, 1], any order.
        num_bins: K, at least 1.
        binning: `width` or `mass`.

    Returns:
        (n,) integers in [0, K), rising with the score.

    Raises:
        ValueError: If num_bins is no positive integer or the binning is unknown.
    """
    if not isinstance(num_bins, INTEGER) or num_bins < 1:
        raise ValueError(f"num_bins must be an integer >= 1, got {num_bins!r}")
    if binning not in BINNINGS:
        raise ValueError(f"binning must be one of {', '.join(BINNINGS)}, got {binning!r}")
    if binning == "width":
        return np.searchsorted(_borders(num_bins)[1:], values, side="left")
    _, groups, sizes = np.unique(values, return_inverse=True, return_counts=True)
    twice_middles = 2 * np.cumsum(sizes) - sizes  # 2 b + m
    return (num_bins * twice_middles // (2 * max(len(values), 1)))[groups]


def checked_outcomes(scores: Sequence[float], correct: Sequence[bool]) -> tuple[np.ndarray, np.ndarray]:
    """Scores and outcomes as arrays, sorted, so that no sum over them depends on the order of the pairs.

    Args:
        scores: Confidences in [0, 1].
        correct: For each score whether its prediction was correct.

    Returns:
        (n,) float64 rising scores, and (n,) float64 outcomes, 0.0 or 1.0; of equal scores the wrong come first.

    Raises:
        ValueError: If the lengths differ, a score is missing, not finite or outside [0, 1], or a flag is neither true
            nor false.
    """
    if len(scores) != len(correct):
        raise ValueError(f"scores and correct must be equally long, got {len(scores)} and {len(correct)}")
    if not all(issubclass(kind, NUMBER) for kind in set(map(type, scores))):
        _check_scores(scores)
    values = np.asarray(scores, dtype=np.float64)  # (n,)
    if not ((values >= 0.0) & (values <= 1.0)).all():  # NaN fails
        _check_scores(scores)
    flags = np.asarray(correct, dtype=np.float64)  # (n,)
    if not np.isin(flags, (0.0, 1.0)).all():
        raise ValueError(f"correct must hold 0 or 1 (false or true) only, got {sorted(set(flags.tolist()))[:5]}")
    order = np.lexsort((flags, values))
    return values[order], flags[order]


def _check_scores(scores: Sequence[float]) -> None:
    """Refuse the first value that is no score."""
    for index, score in enumerate(scores):
        check_score(score, f"scores[{index}]")


def _borders(num_bins: int) -> np.ndarray:
    """(K + 1,) borders; k / K is correctly rounded, a running sum or k * (1 / K) is not (3 * 0.1 > 0.3)."""
    return np.arange(num_bins + 1) / num_bins


def _bin_sums(
    values: np.ndarray, flags: np.ndarray, bins: np.ndarray, num_bins: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(K,) counts, numbers of correct predictions and sums of scores."""
    return (
        np.bincount(bins, minlength=num_bins),
        np.bincount(bins, weights=flags, minlength=num_bins),
        np.bincount(bins, weights=values, minlength=num_bins),
    )
