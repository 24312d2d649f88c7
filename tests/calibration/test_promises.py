"""Thresholds with a promise: worked numbers, a slow twin, the grid, and the promise kept in simulation."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc
from scipy.stats import beta, ttest_1samp
from scipy.stats import t as student_t

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
    """29 of 29 found at 0.8 promise recall 0.9 up to 0.8; with one not found, 28 of 29 do not, as 0.1989 > 0.05."""
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


def test_documents_worked_by_hand() -> None:
    """Three documents have 30 of 30, 20 of 20 and 20 of 20 right.

    All are right and so vary no more than single ones would, but for what three documents leave unknown: t of 0.05 is
    1.667 with 69 degrees of freedom and 2.920 with 2, so 70 * (1.667 / 2.920) ** 2 = 22.8 of them count, and
    0.9 ** 22.8 = 0.0905, 0.85 ** 22.8 = 0.0246. Right less 0.85 times all is 4.5, 3 and 3: mean 3.5, standard error
    0.5, so Student's t = 7 with two degrees of freedom has a tail of 0.0099.
    """
    documents = [7] * 30 + [2] * 20 + [5] * 20
    for target, expected in ((0.9, None), (0.85, 0.5)):
        settings: dict = {"target": target, "delta": 0.05, "documents": documents}
        assert precision_threshold([0.5] * 70, [True] * 70, [0.5], **settings) == expected
        assert recall_threshold([0.5] * 70, [0.5], **settings) == expected
    assert precision_threshold([0.5] * 70, [True] * 70, [0.5], target=0.9, delta=0.05) == 0.5  # 0.9 ** 70 = 0.0006


def test_students_test_worked_by_hand() -> None:
    """One document has 400 of 400 right, three others 1 of 1: right less 0.9 times all is 40 and three times 0.1.

    The mean is 10.075 and the standard error 9.975, so t = 1.01 with three degrees of freedom has a tail of 0.193,
    while of 403 predictions 403 * (1.649 / 2.353) ** 2 = 197.7 count, and 0.9 ** 197.7 is next to nothing.
    """
    settings: dict = {"target": 0.9, "delta": 0.05}
    documents = [0] * 400 + [1, 2, 3]
    assert precision_threshold([0.5] * 403, [True] * 403, [0.5], documents=documents, **settings) is None
    even = np.arange(403) % 4
    assert precision_threshold([0.5] * 403, [True] * 403, [0.5], documents=even, **settings) == 0.5


def test_the_effective_number_worked_by_hand() -> None:
    """Of 40 documents one has 3 of 6 right, the others all of 6: 237 of 240, a rate of 0.9875.

    The documents' sum varies by 40 / 39 * (39 * 0.075 ** 2 + 2.925 ** 2) = 9, single predictions by 2.9625, so 0.329
    of each counts, and for what 40 documents leave unknown 0.971 of that (at delta 0.0937). With target 0.95 the tail
    is then 0.0937, too, for 0.0019 of single ones and 0.0023 by Student.
    """
    correct = [True] * 237 + [False] * 3
    documents = np.repeat(np.arange(40), 6)
    share = 2.9625 / 9 * 0.971
    assert betainc(237 * share, 3 * share + 1, 0.95) == pytest.approx(0.0937, abs=1e-4)
    for delta, expected in ((0.0940, 0.5), (0.0934, None)):
        settings: dict = {"target": 0.95, "delta": delta, "documents": documents}
        assert precision_threshold([0.5] * 240, correct, [0.5], **settings) == expected


def test_one_document_promises_nothing_and_alike_documents_no_less() -> None:
    settings: dict = {"target": 0.9, "delta": 0.05}
    assert precision_threshold([0.5] * 60, [True] * 60, [0.5], documents=[3] * 60, **settings) is None
    assert precision_threshold([0.5] * 60, [True] * 60, [0.5], documents=list(range(6)) * 10, **settings) == 0.5
    assert precision_threshold([0.5] * 60, [True] * 60, [0.6], documents=list(range(6)) * 10, **settings) is None
    assert precision_threshold([], [], [0.6], documents=[], **settings) is None


@given(
    st.lists(st.tuples(st.sampled_from([0.2, 0.5, 0.9]), st.booleans(), st.integers(0, 4)), min_size=1, max_size=30),
    st.sampled_from([0.2, 0.5, 0.7]),
    st.sampled_from([0.05, 0.3]),
)
def test_documents_are_those_of_the_slow_twin(rows: list[tuple[float, bool, int]], target: float, delta: float) -> None:
    scores, correct, documents = (list(column) for column in zip(*rows, strict=True))
    found = [score if flag else -1.0 for score, flag in zip(scores, correct, strict=True)]
    settings: dict = {"target": target, "delta": delta, "documents": documents}
    for grid, is_trial, threshold in (
        (
            GRID[::-1],
            lambda score, threshold: score >= threshold,
            precision_threshold(scores, correct, GRID, **settings),
        ),
        (GRID, lambda score, threshold: True, recall_threshold(found, GRID, **settings)),
    ):
        expected = None
        for place in grid:
            trials = [(flag and score >= place, name) for score, flag, name in rows if is_trial(score, place)]
            counts = {name: [right for right, other in trials if other == name] for _, name in trials}
            if not is_sure_of_documents([(sum(flags), len(flags)) for flags in counts.values()], target, delta):
                break
            expected = place
        assert threshold == expected


def is_sure_of_documents(counts: list[tuple[int, int]], target: float, delta: float) -> bool:
    """Both tests of (right, all) by document, one after the other."""
    right, trials = sum(one for one, _ in counts), sum(one for _, one in counts)
    sums = [one - target * among for one, among in counts]
    if len(counts) < 2 or not right:
        return False
    rate = right / trials
    variance = sum((one - rate * among) ** 2 for one, among in counts) * len(counts) / (len(counts) - 1)
    share = trials * rate * (1 - rate) / variance if variance else 1.0
    share = min(1.0, share * (student_t.ppf(delta, trials - 1) / student_t.ppf(delta, len(counts) - 1)) ** 2)
    if beta.cdf(target, share * right, share * (trials - right) + 1) > delta:
        return False
    if max(sums) - min(sums) < 1e-9:
        return sums[0] > 0
    return ttest_1samp(sums, 0.0, alternative="greater").pvalue <= delta


@pytest.mark.parametrize(("num_documents", "least"), [(4, 0.15), (10, 0.12), (40, 0.15)])
def test_the_promise_is_kept_where_predictions_of_a_document_go_together(num_documents: int, least: float) -> None:
    """Documents of 50 predictions, the first of 250, have a precision of their own, 0.9 with a deviation of 0.06.

    The true precision is the target, so every promise is broken; by a test of single predictions one in eight is, or
    more.
    """
    random = np.random.default_rng(5)
    documents = np.repeat(np.arange(num_documents), [250] + [50] * (num_documents - 1))
    num_broken = {"documents": 0, "predictions": 0}
    for _ in range(NUM_DRAWS):
        correct = random.random(len(documents)) < random.beta(21.6, 2.4, num_documents)[documents]
        for name, units in (("documents", documents), ("predictions", None)):
            settings: dict = {"target": 0.9, "delta": 0.05, "documents": units}
            num_broken[name] += precision_threshold(np.ones(len(documents)), correct, [0.0], **settings) is not None
    assert num_broken["documents"] / NUM_DRAWS <= 0.08
    assert num_broken["predictions"] / NUM_DRAWS > least


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


def test_a_grid_starts_where_six_times_the_fewest_are_expected_and_ends_at_zero() -> None:
    """For 0.9 and 0.05 the fewest are 29, so the grid starts at the 174th of the 1,000 tested scores, or at a tenth."""
    scores = np.arange(1, 1_001) / 1_000
    grid = score_grid(scores, 1_000, target=0.9, delta=0.05)
    assert grid[0] == pytest.approx(0.827)
    assert score_grid(scores, 10_000, target=0.9, delta=0.05)[0] == pytest.approx(0.901)
    assert grid == sorted(set(grid), reverse=True)
    assert (len(grid), grid[-2], grid[-1]) == (51, 0.001, 0.0)
    assert score_grid([0.5], 3, target=0.9, delta=0.05) == [0.5, 0.0]


def columns(*parts: tuple[int, float, bool, str]) -> ScoredPredictions:
    """Predictions in parts; those of a part have one score, one rightness and one label; documents are single."""
    counts = [part[0] for part in parts]
    values = (np.repeat([part[place] for part in parts], counts) for place in (1, 2, 3))
    return ScoredPredictions(*values, np.arange(sum(counts)))


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
    scored = found_gold(predicted, gold, [7, 4])
    assert scored.documents.tolist() == [7, 7, 4]
    assert found_gold(predicted, gold).documents.tolist() == [0, 0, 1]
    assert scored.scores.tolist() == [0.5, -1.0, -1.0]
    assert scored.correct.tolist() == [True, False, False]
    assert scored.labels.tolist() == ["A", "A", "B"]


def test_halves_keep_documents_together() -> None:
    documents = np.array([place // 3 for place in range(30)] + list(range(10, 20)))
    is_first = halves(documents, seed=0)
    by_document = is_first[:30].reshape(10, 3)
    assert (by_document.all(axis=1) == by_document.any(axis=1)).all()
    assert by_document[:, 0].sum() + is_first[30:].sum() == 10
    assert is_first.tolist() == halves(documents, seed=0).tolist()
    assert is_first.tolist() != halves(documents, seed=1).tolist()
    with pytest.raises(ValueError, match="promises need rows of at least 4 documents, .*, got 3"):
        halves(documents[:9], seed=0)
    assert halves(documents[:12], seed=0).sum() == 6


def test_absurd_requests_are_refused() -> None:
    with pytest.raises(ValueError, match=r"target must lie in \(0, 1\), got 1"):
        precision_threshold([0.5], [True], [0.5], target=1, delta=0.05)
    with pytest.raises(ValueError, match=r"delta must lie in \(0, 0.5\), got 0"):
        recall_threshold([0.5], target=0.9, delta=0)
    with pytest.raises(ValueError, match=r"target must lie in \(0, 1\), got 1.0"):
        score_grid([0.5], 1, target=1.0, delta=0.05)
    with pytest.raises(ValueError, match=r"delta must lie in \(0, 0.5\), got 0"):
        score_grid([], 1, target=0.9, delta=0)
    with pytest.raises(ValueError, match=r"grid must hold thresholds in \[0, 1\], at least one, got \[1.5\]"):
        recall_threshold([0.5], [0.5, 1.5], target=0.9, delta=0.05)
    with pytest.raises(ValueError, match="at least one, got none"):
        precision_threshold([0.5], [True], [], target=0.9, delta=0.05)
    with pytest.raises(ValueError, match="correct must be as long as scores, 1, got 2"):
        precision_threshold([0.5], [True, False], [0.5], target=0.9, delta=0.05)
    with pytest.raises(ValueError, match="documents must be as long as scores, 1, got 2"):
        precision_threshold([0.5], [True], [0.5], target=0.9, delta=0.05, documents=[1, 2])
    with pytest.raises(ValueError, match="documents must be as long as gold_scores, 1, got 2"):
        recall_threshold([0.5], [0.5], target=0.9, delta=0.05, documents=[1, 2])
