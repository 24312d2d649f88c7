"""Thresholds whose precision or recall is promised with confidence, from held-out predictions."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import betainc
from scipy.stats import binom
from scipy.stats import t as student_t

from hf_spanner.calibration.fitting import ScoredPredictions, Spans, prediction_columns
from hf_spanner.core.calibration import calibrated_score
from hf_spanner.data.schema import span_key

RECALL_GRID = tuple(step / 100 for step in range(101))
NUM_STEPS = 50  # steps of a grid that is laid by scores
MARGIN = 6  # a grid starts where this many times the fewest predictions that can ever do are expected,
LEAST_SHARE = 0.1  # and not above this share of the scores


def precision_threshold(
    scores: Sequence[float] | np.ndarray,
    correct: Sequence[bool] | np.ndarray,
    grid: Sequence[float],
    *,
    target: float,
    delta: float,
    documents: Sequence[int] | np.ndarray | None = None,
) -> float | None:
    """Smallest threshold whose precision is at least `target` with confidence 1 - delta; None if there is none.

    Thresholds are tested from high to low, each at level delta, up to the first that fails: fixed-sequence testing,
    which needs no correction for their number (Angelopoulos et al. 2021, "Learn then Test", section 2.3). A test is the
    exact binomial one, the same as asking the one-sided Clopper-Pearson bound of the precision to reach the target; it
    takes predictions as independent of each other. With `documents` those of one may go together, and two tests must
    pass. The first lets predictions count by their effective number: divided by how much more the right ones vary with
    the documents than single ones would, and by what the few documents leave unknown of that (Korn and Graubard 1998).
    The second is Student's one-sided t test of the mean over documents of (right predictions - target times
    predictions), which few documents of unequal size need. Only documents with a prediction above the threshold count.

    The promise needs documents like those to come, and a grid that was fixed without these scores (`score_grid` lays
    one by other scores).

    Args:
        scores: (n,) calibrated scores of held-out predictions; one equal to a threshold is above it.
        correct: (n,) whether each is right.
        grid: Thresholds in [0, 1], in any order; the highest should leave enough predictions to pass its test.
        target: Precision to promise, in (0, 1).
        delta: Probability of a broken promise that is accepted, in (0, 0.5).
        documents: (n,) number of each prediction's document; nothing can be promised of a single document. None takes
            predictions as independent.

    Returns:
        The lowest threshold reached, or None if the highest fails already.

    Raises:
        ValueError: If the lengths differ, the grid is empty, or a number lies outside of its range.
    """
    for name, column in (("correct", correct), ("documents", documents)):
        if column is not None and len(scores) != len(column):
            raise ValueError(f"{name} must be as long as scores, {len(scores)}, got {len(column)}")
    falling = sorted(_checked_grid(grid, target, delta), reverse=True)
    values, flags = np.asarray(scores, dtype=float), np.asarray(correct, dtype=bool)
    tests = ((threshold, flags & (values >= threshold), values >= threshold) for threshold in falling)
    return _last_passed(tests, documents, target=target, delta=delta)


def recall_threshold(
    gold_scores: Sequence[float] | np.ndarray,
    grid: Sequence[float] = RECALL_GRID,
    *,
    target: float,
    delta: float,
    documents: Sequence[int] | np.ndarray | None = None,
) -> float | None:
    """Largest threshold whose recall is at least `target` with confidence 1 - delta; None if there is none.

    This works as `precision_threshold` does, but recall falls as the threshold rises, so thresholds are tested from low
    to high.

    Args:
        gold_scores: (G,) for each held-out gold entity the calibrated score with which it was found; -1 if it was not.
        grid: Thresholds in [0, 1], in any order.
        target: Recall to promise, in (0, 1).
        delta: Probability of a broken promise that is accepted, in (0, 0.5).
        documents: (G,) number of each entity's document, as for `precision_threshold`.

    Returns:
        The highest threshold reached, or None if the lowest fails already.

    Raises:
        ValueError: If the grid is empty, or a number lies outside of its range.
    """
    rising = sorted(_checked_grid(grid, target, delta))
    values = np.asarray(gold_scores, dtype=float)
    if documents is not None and len(documents) != len(values):
        raise ValueError(f"documents must be as long as gold_scores, {len(values)}, got {len(documents)}")
    tests = ((threshold, values >= threshold, np.ones(len(values), dtype=bool)) for threshold in rising)
    return _last_passed(tests, documents, target=target, delta=delta)


def score_grid(scores: Sequence[float] | np.ndarray, num_tested: int, *, target: float, delta: float) -> list[float]:
    """Thresholds for `precision_threshold`, laid by scores that take no part in the test.

    Among as many predictions as will be tested, the highest threshold leaves about six times the fewest that can pass
    (if all of them are right: log(delta) / log(target)), and a tenth at least, so that the sequence does not end at its
    first step for want of data; the others follow at equal shares of the scores, down to 0.

    Args:
        scores: (m,) calibrated scores of other predictions; without any the grid is 0 alone.
        num_tested: Predictions of the test.
        target: Precision to promise, in (0, 1).
        delta: Probability of a broken promise that is accepted, in (0, 0.5).

    Returns:
        At most 51 thresholds, falling, the last 0.

    Raises:
        ValueError: If target or delta lies outside of its range.
    """
    _check_rates(target, delta)
    if not len(scores):
        return [0.0]
    falling = np.sort(np.asarray(scores, dtype=float))[::-1]
    fewest = math.ceil(math.log(delta) / math.log(target))
    first_share = min(1.0, max(LEAST_SHARE, MARGIN * fewest / max(num_tested, 1)))
    shares = np.linspace(first_share, 1.0, NUM_STEPS)
    ranks = np.maximum(np.ceil(shares * len(falling)).astype(int), 1) - 1
    return sorted({*falling[ranks].tolist(), 0.0}, reverse=True)


def threshold_promises(
    calibration: Mapping[str, Any],
    laid: ScoredPredictions,
    tested: ScoredPredictions,
    gold: ScoredPredictions,
    *,
    precision: Sequence[float],
    recall: Sequence[float],
    delta: float,
    decoding: Mapping[str, Any],
) -> dict[str, Any]:
    """The entry `promises` of a calibration: thresholds for all labels and for each, for each rate asked for.

    The tests let predictions of a document go together. Each threshold is a promise of its own at confidence 1 - delta;
    m of them hold at once at confidence 1 - m delta.

    Args:
        calibration: Maps that were fitted without the predictions of the test.
        laid: Raw predictions by whose scores the grids are laid; they may be those of the fit.
        tested: Raw predictions of other rows, and which documents they are of.
        gold: Gold of these other rows: the raw score with which each was found, -1 if it was not.
        precision: Precisions to promise, each in (0, 1).
        recall: Recalls to promise, each in (0, 1).
        delta: Probability of a broken promise that is accepted, in (0, 0.5).
        decoding: The settings of inference except the threshold.

    Returns:
        Plain values, as `CalibrationRule` admits them.
    """
    laid, tested, gold = (_calibrated(calibration, side) for side in (laid, tested, gold))

    def precise(target: float, label: str | None) -> float | None:
        tested_label, laid_label = _with_label(tested, label), _with_label(laid, label)
        grid = score_grid(laid_label.scores, len(tested_label.scores), target=target, delta=delta)
        scores, correct, _, documents = tested_label
        return precision_threshold(scores, correct, grid, target=target, delta=delta, documents=documents)

    def complete(target: float, label: str | None) -> float | None:
        gold_label = _with_label(gold, label)
        return recall_threshold(gold_label.scores, target=target, delta=delta, documents=gold_label.documents)

    labels = sorted({*tested.labels.tolist(), *gold.labels.tolist()})
    sides = {"precision": (precise, precision), "recall": (complete, recall)}
    promises = {
        side: [
            {"target": rate, "all": test(rate, None), "per_label": {label: test(rate, label) for label in labels}}
            for rate in rates
        ]
        for side, (test, rates) in sides.items()
    }
    return {"delta": delta, "decoding": dict(decoding), **promises}


def found_gold(predicted: Spans, gold: Spans, documents: Sequence[int] | np.ndarray | None = None) -> ScoredPredictions:
    """Gold entities as if they were predictions: the score with which each was found, -1 if it was not.

    Args:
        predicted: For each row its entities with start, end, label and score, each once.
        gold: The same without score, in the same order of rows; repeats count once.
        documents: As for `scored_predictions`.

    Returns:
        Scores, whether each was found, labels, and documents.
    """
    rows = []
    places = range(len(predicted)) if documents is None else documents
    for entities, gold_entities, place in zip(predicted, gold, places, strict=True):
        scores = {span_key(entity): entity["score"] for entity in entities}
        keys = dict.fromkeys(span_key(entity) for entity in gold_entities)
        rows += [(scores.get(key, -1.0), key in scores, key[2], place) for key in keys]
    return prediction_columns(rows)


def halves(documents: np.ndarray, seed: int) -> np.ndarray:
    """A random half of the documents.

    Args:
        documents: (n,) number of each row's document, from 0, as `document_places` gives it.
        seed: Seed of the draw.

    Returns:
        (n,) bool, True for the rows of the first half.

    Raises:
        ValueError: If there are fewer than four documents.
    """
    size = len(np.unique(documents))
    if size < 4:
        raise ValueError(f"promises need rows of at least 4 documents, half for the map and half for tests, got {size}")
    return (np.random.default_rng(seed).permutation(size) < size / 2)[documents]


def _calibrated(calibration: Mapping[str, Any], raw: ScoredPredictions) -> ScoredPredictions:
    """The same with calibrated scores; -1 stays."""
    maps = calibration["per_label"]
    scores = [
        calibrated_score(score, maps.get(label, calibration["all"])) if score >= 0 else score
        for score, label in zip(raw.scores.tolist(), raw.labels.tolist(), strict=True)
    ]
    return raw._replace(scores=np.array(scores, dtype=float))


def _with_label(predictions: ScoredPredictions, label: str | None) -> ScoredPredictions:
    return predictions if label is None else predictions.where(predictions.labels == label)


def _check_rates(target: float, delta: float) -> None:
    for name, value, highest in (("target", target, 1), ("delta", delta, 0.5)):
        if not 0 < value < highest:
            raise ValueError(f"{name} must lie in (0, {highest:g}), got {value}")


def _checked_grid(grid: Sequence[float], target: float, delta: float) -> Sequence[float]:
    _check_rates(target, delta)
    outside = [value for value in grid if not 0 <= value <= 1]
    if outside or not len(grid):
        raise ValueError(f"grid must hold thresholds in [0, 1], at least one, got {outside or 'none'}")
    return grid


def _last_passed(
    tests: Iterable[tuple[float, np.ndarray, np.ndarray]],
    documents: Sequence[int] | np.ndarray | None,
    *,
    target: float,
    delta: float,
) -> float | None:
    """The last threshold before the first whose (n,) successes among (n,) trials are not enough; n numbers at once."""
    places = None if documents is None else np.unique(documents, return_inverse=True)[1]
    last = None
    for threshold, is_success, is_trial in tests:
        if places is None:
            # P(at least so many successes) at the target itself
            is_sure = binom.sf(is_success.sum() - 1, is_trial.sum(), target) <= delta
        else:
            right, trials = (np.bincount(places, weights=mask) for mask in (is_success, is_trial))
            is_sure = _is_sure_of_documents(right[trials > 0], trials[trials > 0], target, delta)
        if not is_sure:
            break
        last = float(threshold)
    return last


def _is_sure_of_documents(right: np.ndarray, trials: np.ndarray, target: float, delta: float) -> bool:
    """Whether (D,) successes among (D,) trials of documents speak for a rate of at least the target."""
    size, num_right, num_all = len(trials), right.sum(), trials.sum()
    excesses = right - target * trials
    if size < 2 or excesses.mean() <= 0:
        return False
    rate = num_right / num_all
    variance = size / (size - 1) * ((right - rate * trials) ** 2).sum()  # of the sum of successes
    share = num_all * rate * (1 - rate) / variance if variance > 0 else 1.0
    unknown = student_t.isf(delta, size - 1) / student_t.isf(delta, num_all - 1)
    share = min(1.0, share / unknown**2)  # of each trial that counts
    error = excesses.std(ddof=1) / math.sqrt(size)
    is_above = error == 0 or student_t.sf(excesses.mean() / error, size - 1) <= delta
    return bool(is_above and betainc(share * num_right, share * (num_all - num_right) + 1, target) <= delta)
