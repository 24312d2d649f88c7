"""Thresholds with a promise: worked numbers, a slow twin, the grid, and the promise kept in simulation."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from hf_spanner.calibration.fitting import ScoredPredictions, fitted_calibration
from hf_spanner.calibration.promises import (
    found_gold,
    halves,
    precision_threshold,
    recall_threshold,
    score_grid,
    threshold_promises,
)
from hf_spanner.core.calibration import CalibrationRule

GRID = [step / 20 for step in range(21)]
NUM_DRAWS = 2_000
PAIRS = st.lists(st.tuples(st.sampled_from([0.0, 0.2, 0.5, 0.5, 0.85, 0.9, 1.0]), st.booleans()), max_size=30)


def is_sure(successes: int, trials: int, target: float, delta: float) -> bool:
    """Whether the probability of so many successes by chance, at the target, is delta at most, in exact fractions."""
    rate = Fraction(target)
    tail = sum(comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(successes, trials + 1))
    return tail <= Fraction(delta)


def allowed_share(delta: float) -> float:
    """The share of broken promises that chance alone may show: delta and three standard errors."""
    return delta + 3 * (delta * (1 - delta) / NUM_DRAWS) ** 0.5


def test_precision_worked_by_hand() -> None:
    """All are right: 0.9 ** 29 = 0.0471 lies below 0.05, while 0.9 ** 28 = 0.0523 does not."""
    scores, grid = [0.8] * 28 + [0.6], [0.7, 0.5]
    assert precision_threshold([0.8] * 29, [True] * 29, grid, target=0.9, delta=0.05) == 0.5
    assert precision_threshold([0.8] * 28, [True] * 28, grid, target=0.9, delta=0.05) is None
    # with the 29th prediction at 0.6 the test at 0.7 has 28 and ends the sequence, though that at 0.5 would pass
    assert precision_threshold(scores, [True] * 29, grid, target=0.9, delta=0.05) is None
    assert precision_threshold(scores, [True] * 29, [0.5], target=0.9, delta=0.05) == 0.5


def test_the_sequence_ends_at_the_first_failure() -> None:
    """There are 30 right ones at 0.9, then 30 wrong ones at 0.6, then 1,000 right ones at 0.3, which come too late."""
    scores = [0.9] * 30 + [0.6] * 30 + [0.3] * 1_000
    correct = [True] * 30 + [False] * 30 + [True] * 1_000
    assert precision_threshold(scores, correct, [0.2, 0.5, 0.7, 0.9], target=0.9, delta=0.05) == 0.7
    assert precision_threshold(scores, correct, [0.2], target=0.9, delta=0.05) == 0.2


def test_recall_worked_by_hand() -> None:
    """29 of 29 found at 0.8 promise recall 0.9 up to 0.8; with one not found, 28 of 29 do not, as 0.1996 > 0.05."""
    assert recall_threshold([0.8] * 29, [0.0, 0.5, 0.8, 0.81], target=0.9, delta=0.05) == 0.8
    assert recall_threshold([0.8] * 28 + [-1.0], target=0.9, delta=0.05) is None
    assert recall_threshold([], target=0.9, delta=0.05) is None


@given(PAIRS, st.sampled_from([0.5, 0.7, 0.9]), st.sampled_from([0.05, 0.2]))
def test_precision_is_that_of_the_slow_twin(pairs: list[tuple[float, bool]], target: float, delta: float) -> None:
    expected = None
    for threshold in sorted(GRID, reverse=True):
        above = [flag for score, flag in pairs if score >= threshold]
        if not is_sure(sum(above), len(above), target, delta):
            break
        expected = threshold
    scores, correct = [score for score, _ in pairs], [flag for _, flag in pairs]
    assert precision_threshold(scores, correct, GRID, target=target, delta=delta) == expected
    grid = [0.0, 0.5, 0.85]  # it starts where there are predictions
    lowest = precision_threshold(scores, correct, grid, target=target, delta=delta)
    passed = [t for t in grid if is_sure(*counts(pairs, t), target, delta)]
    assert lowest == min((t for t in grid if all(other in passed for other in grid if other >= t)), default=None)


def counts(pairs: list[tuple[float, bool]], threshold: float) -> tuple[int, int]:
    """The number of right pairs and of all pairs among those that reach the threshold."""
    above = [flag for score, flag in pairs if score >= threshold]
    return sum(above), len(above)


@given(st.lists(st.sampled_from([-1.0, 0.2, 0.5, 0.9, 1.0]), max_size=30), st.sampled_from([0.3, 0.6, 0.9]))
def test_recall_is_that_of_the_slow_twin(gold_scores: list[float], target: float) -> None:
    expected = None
    for threshold in GRID:
        if not is_sure(sum(score >= threshold for score in gold_scores), len(gold_scores), target, 0.1):
            break
        expected = threshold
    assert recall_threshold(gold_scores, GRID, target=target, delta=0.1) == expected


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(1, n), st.just(n))))
def test_the_test_is_the_clopper_pearson_bound(pair: tuple[int, int]) -> None:
    successes, trials = pair
    bound = float(beta.ppf(0.05, successes, trials - successes + 1))
    correct = [True] * successes + [False] * (trials - successes)
    for target, expected in ((bound - 1e-6, 0.0), (bound + 1e-6, None)):
        assert precision_threshold([1.0] * trials, correct, [0.0], target=target, delta=0.05) == expected


@pytest.mark.parametrize(("target", "delta"), [(0.9, 0.05), (0.95, 0.05), (0.9, 0.2)])
def test_promised_precision_is_kept(target: float, delta: float) -> None:
    """Each is right with probability equal to its score.

    Scores are uniform on [0, 1], so the precision above t is (1 + t) / 2, and the grid is fixed. It is fine and ends
    above the boundary 2 target - 1 only by chance, so broken promises do occur.
    """
    random = np.random.default_rng(1)
    grid = np.linspace(0.96, 0.0, 97).tolist()
    num_broken = num_promises = 0
    for _ in range(NUM_DRAWS):
        scores = random.random(2_000)
        threshold = precision_threshold(scores, random.random(2_000) < scores, grid, target=target, delta=delta)
        if threshold is not None:
            num_promises += 1
            num_broken += (1 + threshold) / 2 < target - 1e-12
    assert num_promises > 0.2 * NUM_DRAWS
    assert 0 < num_broken / NUM_DRAWS <= allowed_share(delta)


def test_the_promise_is_kept_with_a_grid_laid_by_other_scores() -> None:
    """400 predictions lay the grid and 400 others are tested.

    Half of them are right in 97 % of cases, with scores of 0.9, and half in 70 %, with scores of 0.4. So all together
    have precision 0.835, and only a threshold above 0.4 keeps 0.9.
    """
    random = np.random.default_rng(2)
    num_broken = num_promises = 0
    for _ in range(NUM_DRAWS):
        is_high = random.random(800) < 0.5
        scores = np.where(is_high, 0.9, 0.4) + random.uniform(-0.1, 0.1, 800)
        correct = random.random(800) < np.where(is_high, 0.97, 0.7)
        grid = score_grid(scores[:400], 400, target=0.9, delta=0.05)
        threshold = precision_threshold(scores[400:], correct[400:], grid, target=0.9, delta=0.05)
        if threshold is not None:
            num_promises += 1
            share = np.clip((0.5 - threshold) / 0.2, 0, 1)  # those of the low ones above the threshold
            high = np.clip((1.0 - threshold) / 0.2, 0, 1)
            num_broken += (0.97 * high + 0.7 * share) / (high + share) < 0.9
    assert num_promises > 0.9 * NUM_DRAWS
    assert num_broken / NUM_DRAWS <= allowed_share(0.05)


def test_promised_recall_is_kept() -> None:
    """Gold is found in 95 % of cases with a uniform score: recall at t is 0.95 (1 - t), so t = 1 / 19 is the border."""
    random = np.random.default_rng(3)
    num_broken = num_promises = 0
    for _ in range(NUM_DRAWS):
        gold_scores = np.where(random.random(800) < 0.95, random.random(800), -1.0)
        threshold = recall_threshold(gold_scores, target=0.9, delta=0.05)
        if threshold is not None:
            num_promises += 1
            num_broken += 0.95 * (1 - threshold) < 0.9
    assert num_promises > 0.9 * NUM_DRAWS
    assert 0 < num_broken / NUM_DRAWS <= allowed_share(0.05)


def test_a_grid_starts_where_four_times_the_fewest_are_expected_and_ends_at_zero() -> None:
    """For 0.9 and 0.05 the fewest are 29, so the grid starts at the 116th of the 1,000 tested scores."""
    scores = np.arange(1, 1_001) / 1_000
    grid = score_grid(scores, 1_000, target=0.9, delta=0.05)
    assert grid[0] == pytest.approx(0.885)
    assert grid == sorted(set(grid), reverse=True)
    assert (len(grid), grid[-2], grid[-1]) == (51, 0.001, 0.0)
    assert score_grid([0.5], 3, target=0.9, delta=0.05) == [0.5, 0.0]


def columns(*parts: tuple[int, float, bool, str]) -> ScoredPredictions:
    """Predictions in parts; those of a part have one score, one rightness and one label."""
    counts = [part[0] for part in parts]
    return ScoredPredictions(*(np.repeat([part[place] for part in parts], counts) for place in (1, 2, 3)))


def test_promises_of_all_labels_and_of_each() -> None:
    """A score of 0.75 has log-odds ln 3; halved, A's is sqrt(3) / (1 + sqrt(3)) = 0.634, and B's 0.755 stays.

    For precision, A has 100 right ones, while B's 20 are fewer than the 29 that 0.9 needs. For recall, 100 of A's 110
    gold entities are found, so 0.8 holds up to 0.63 of the grid in hundredths; B's 20 of 20 hold 0.8 (0.8 ** 20 =
    0.012) up to 0.75.
    """
    source = {"name": "dev", "num_rows": 1, "fingerprint": "ab"}
    maps = {"A": {"temperature": 2.0}}
    calibration = {"kind": "temperature", "all": {"temperature": 1.0}, "per_label": maps, "fitted_on": source}
    tested = columns((100, 0.75, True, "A"), (20, 0.755, True, "B"))
    gold = columns((100, 0.75, True, "A"), (10, -1.0, False, "A"), (20, 0.755, True, "B"))
    rates = {"precision": [0.9], "recall": [0.8, 0.95]}
    promises = threshold_promises(calibration, tested, tested, gold, **rates, delta=0.05, decoding={"overlap": "flat"})
    assert (promises["delta"], promises["decoding"]) == (0.05, {"overlap": "flat"})
    assert promises["precision"] == [{"target": 0.9, "all": 0.0, "per_label": {"A": 0.0, "B": None}}]
    assert promises["recall"][0] == {"target": 0.8, "all": 0.63, "per_label": {"A": 0.63, "B": 0.75}}
    assert promises["recall"][1] == {"target": 0.95, "all": None, "per_label": {"A": None, "B": None}}
    assert CalibrationRule().admits({**calibration, "promises": promises})


def test_a_label_that_the_fitting_half_lacks_has_a_grid_of_zero_alone() -> None:
    source = {"name": "dev", "num_rows": 1, "fingerprint": "ab"}
    laid, tested = columns((60, 0.75, True, "A")), columns((60, 0.75, True, "B"))
    calibration = fitted_calibration("platt", laid, fitted_on=source)
    promises = threshold_promises(
        calibration, laid, tested, tested, precision=[0.9], recall=[], delta=0.05, decoding={}
    )
    assert promises["precision"][0]["per_label"] == {"B": 0.0}


def test_gold_has_the_score_with_which_it_was_found() -> None:
    def entity(start: int, label: str, **score: float) -> dict:
        return {"start": start, "end": start + 1, "label": label, **score}

    predicted = [[entity(0, "A", score=0.5), entity(2, "B", score=0.25)], []]
    gold = [[entity(0, "A"), entity(0, "A"), entity(2, "A")], [entity(2, "B")]]
    scored = found_gold(predicted, gold)
    assert scored.scores.tolist() == [0.5, -1.0, -1.0]
    assert scored.correct.tolist() == [True, False, False]
    assert scored.labels.tolist() == ["A", "A", "B"]


def test_halves_keep_documents_together() -> None:
    rows = [{"document": f"d{place // 3}"} for place in range(30)] + [{"document": None}, {}] * 5
    is_first = halves(rows, seed=0)
    by_document = is_first[:30].reshape(10, 3)
    assert (by_document.all(axis=1) == by_document.any(axis=1)).all()
    assert by_document[:, 0].sum() + is_first[30:].sum() == 10
    assert is_first.tolist() == halves(rows, seed=0).tolist()
    assert is_first.tolist() != halves(rows, seed=1).tolist()
    with pytest.raises(ValueError, match="promises need rows of at least 2 documents, .*, got 1"):
        halves(rows[:3], seed=0)


def test_absurd_requests_are_refused() -> None:
    with pytest.raises(ValueError, match=r"target must lie in \(0, 1\), got 1"):
        precision_threshold([0.5], [True], [0.5], target=1, delta=0.05)
    with pytest.raises(ValueError, match=r"delta must lie in \(0, 1\), got 0"):
        recall_threshold([0.5], target=0.9, delta=0)
    with pytest.raises(ValueError, match=r"target must lie in \(0, 1\), got 1.0"):
        score_grid([0.5], 1, target=1.0, delta=0.05)
    with pytest.raises(ValueError, match=r"delta must lie in \(0, 1\), got 0"):
        score_grid([], 1, target=0.9, delta=0)
    with pytest.raises(ValueError, match=r"grid must hold thresholds in \[0, 1\], at least one, got \[1.5\]"):
        recall_threshold([0.5], [0.5, 1.5], target=0.9, delta=0.05)
    with pytest.raises(ValueError, match="at least one, got none"):
        precision_threshold([0.5], [True], [], target=0.9, delta=0.05)
    with pytest.raises(ValueError, match="correct must be as long as scores, 1, got 2"):
        precision_threshold([0.5], [True, False], [0.5], target=0.9, delta=0.05)
