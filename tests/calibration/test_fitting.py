"""Fits of the three maps against worked values and slow twins, the fallback of labels, and the fingerprint of rows."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from hf_spanner.calibration.fitting import (
    FITS,
    MIN_PREDICTIONS,
    ScoredPredictions,
    fitted_calibration,
    fitted_isotonic,
    fitted_platt,
    fitted_temperature,
    rows_fingerprint,
    scored_predictions,
)
from hf_spanner.core.calibration import CalibrationRule, calibrated_score
from hf_spanner.metrics.span_ner.reliability import calibration_error

SOURCE = {"name": "dev.jsonl", "num_rows": 3, "fingerprint": "ab"}
PAIRS = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.4, 0.5, 0.75, 0.9, 1.0]), st.booleans()), min_size=1)


def arrays(pairs: list[tuple[float, bool]]) -> tuple[np.ndarray, np.ndarray]:
    """Scores and flags of the pairs, as arrays."""
    return np.array([score for score, _ in pairs]), np.array([flag for _, flag in pairs], dtype=bool)


def drawn(slope: float, intercept: float, num: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """Scores of a model whose true log-odds are a line of its own."""
    random = np.random.default_rng(0)
    scores = random.uniform(0.02, 0.98, num)
    return scores, random.random(num) < expit(slope * logit(scores) + intercept)


def predictions(num: int, label: str, *, share: float, score: float = 0.8) -> ScoredPredictions:
    """Predictions of one label and score, the first `share` of them right."""
    return ScoredPredictions(np.full(num, score), np.arange(num) < share * num, np.full(num, label), np.arange(num))


def joined(*parts: ScoredPredictions) -> ScoredPredictions:
    """All predictions of several sets together."""
    return ScoredPredictions(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def test_temperature_worked_by_hand() -> None:
    """Scores of 0.9 are right in 3 of 4 cases, so the best map gives 3 / 4; then ln 9 / T = ln 3 and T = 2."""
    scores, correct = np.full(4, 0.9), np.array([True, True, False, True])
    assert fitted_temperature(scores, correct, np.ones(4))["temperature"] == pytest.approx(2.0, abs=1e-3)


def test_temperature_stays_within_its_range_where_no_optimum_exists() -> None:
    right, wrong = np.ones(5, dtype=bool), np.zeros(5, dtype=bool)
    assert 0.05 <= fitted_temperature(np.full(5, 0.9), right, np.ones(5))["temperature"] < 0.1
    assert fitted_temperature(np.full(5, 0.9), wrong, np.ones(5))["temperature"] == pytest.approx(20, rel=0.01)


def test_platt_worked_by_hand() -> None:
    """Six of eight are right at 0.8 and two of eight at 0.2.

    The targets 9 / 10 and 1 / 10 give the means 0.7 and 0.3. The line through (logit 0.8, logit 0.7) and (logit 0.2,
    logit 0.3) has intercept 0.
    """
    scores = np.repeat([0.8, 0.2], 8)
    correct = np.tile(np.arange(8) < 6, 2) ^ np.repeat([False, True], 8)
    fitted = fitted_platt(scores, correct, np.ones(16))
    assert fitted["slope"] == pytest.approx(logit(0.7) / logit(0.8), abs=1e-4)
    assert fitted["intercept"] == pytest.approx(0.0, abs=1e-4)


def test_known_lines_are_found_again() -> None:
    scores, correct = drawn(0.5, 0.7)
    fitted = fitted_platt(scores, correct, np.ones(20_000))
    assert fitted == {"slope": pytest.approx(0.5, abs=0.05), "intercept": pytest.approx(0.7, abs=0.05)}
    scores, correct = drawn(0.4, 0.0)
    assert fitted_temperature(scores, correct, np.ones(20_000))["temperature"] == pytest.approx(2.5, abs=0.15)


def test_isotonic_worked_by_hand() -> None:
    """Rising scores have the shares 0, 1, 0 and 1, and the middle two are pooled to 1 / 2."""
    fitted = fitted_isotonic(np.array([0.1, 0.2, 0.3, 0.4]), np.array([False, True, False, True]), np.ones(4))
    assert fitted == {"scores": [0.1, 0.2, 0.3, 0.4], "probabilities": [0.0, 0.5, 0.5, 1.0]}


@given(PAIRS)
def test_isotonic_is_the_min_max_formula(pairs: list[tuple[float, bool]]) -> None:
    """For each start up to a score take the smallest mean over all later ends; the largest of these is the value."""
    scores, correct = arrays(pairs)
    points = np.unique(scores)
    fitted = fitted_isotonic(scores, correct, np.ones(len(scores)))
    for point in points:
        expected = max(
            min(correct[(scores >= low) & (scores <= high)].mean() for high in points[points >= point])
            for low in points[points <= point]
        )
        assert calibrated_score(float(point), fitted) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("kind", FITS)
@given(pairs=PAIRS)
def test_every_fit_is_a_map_that_the_configuration_takes(kind: str, pairs: list[tuple[float, bool]]) -> None:
    scores, correct = arrays(pairs)
    rows = ScoredPredictions(scores, correct, np.full(len(scores), "A"), np.arange(len(scores)))
    fitted = fitted_calibration(kind, rows, fitted_on=SOURCE, per_label=True, min_predictions=1)
    assert CalibrationRule().admits(fitted)
    assert fitted["per_label"] == {"A": fitted["all"]}
    values = [calibrated_score(score, fitted["all"]) for score in sorted(scores.tolist())]
    assert all(low <= high + 1e-12 for low, high in pairwise(values))


@pytest.mark.parametrize("kind", FITS)
@given(pairs=PAIRS, data=st.data())
def test_a_weight_is_as_good_as_so_many_equal_predictions(
    kind: str, pairs: list[tuple[float, bool]], data: st.DataObject
) -> None:
    scores, correct = arrays(pairs)
    counts = np.array(data.draw(st.lists(st.integers(1, 4), min_size=len(pairs), max_size=len(pairs))))
    once = ScoredPredictions(scores, correct, np.full(len(scores), "A"), np.arange(len(scores)))
    often = ScoredPredictions(*(np.repeat(column, counts) for column in once))
    options = {"fitted_on": SOURCE, "per_label": True, "min_predictions": 1}
    weighted = fitted_calibration(kind, once, weights=counts.astype(float), **options)
    repeated = fitted_calibration(kind, often, **options)
    assert weighted["per_label"] == {"A": weighted["all"]}
    for score in (0.05, 0.3, 0.5, 0.95):
        values = [calibrated_score(score, side["all"]) for side in (weighted, repeated)]
        assert values[0] == pytest.approx(values[1], abs=1e-3)


@pytest.mark.parametrize("kind", FITS)
def test_the_calibration_error_falls_on_other_draws(kind: str) -> None:
    scores, correct = drawn(0.4, 0.0)
    fitted = FITS[kind](scores[:10_000], correct[:10_000], np.ones(10_000))
    calibrated = [calibrated_score(score, fitted) for score in scores[10_000:].tolist()]
    before = calibration_error(scores[10_000:].tolist(), correct[10_000:].tolist())["ece"]
    after = calibration_error(calibrated, correct[10_000:].tolist())["ece"]
    assert before > 0.1
    assert after < 0.03


def test_a_label_with_too_few_predictions_takes_the_map_of_all() -> None:
    rows = joined(
        predictions(MIN_PREDICTIONS, "A", share=0.9),
        predictions(MIN_PREDICTIONS - 1, "B", share=0.1),
        predictions(MIN_PREDICTIONS, "C", share=0.5),
    )
    fitted = fitted_calibration("isotonic", rows, fitted_on=SOURCE, per_label=True)
    shares = {name: parameters["probabilities"] for name, parameters in fitted["per_label"].items()}
    assert shares == {"A": [pytest.approx(0.9)], "C": [pytest.approx(0.5)]}
    assert fitted["all"]["probabilities"] == [pytest.approx((45 + 5 + 25) / 149)]
    assert fitted["fitted_on"] == SOURCE
    assert fitted_calibration("isotonic", rows, fitted_on=SOURCE)["per_label"] == {}


def test_absurd_requests_are_refused() -> None:
    few = predictions(MIN_PREDICTIONS - 1, "A", share=0.5)
    with pytest.raises(ValueError, match="kind must be one of temperature, platt, isotonic, got 'beta'"):
        fitted_calibration("beta", few, fitted_on=SOURCE)
    with pytest.raises(ValueError, match="predictions must be at least 50 to fit a map, got 49"):
        fitted_calibration("platt", few, fitted_on=SOURCE)
    with pytest.raises(ValueError, match="min_predictions must be at least 1, got 0"):
        fitted_calibration("platt", few, fitted_on=SOURCE, min_predictions=0)


def test_right_is_equal_start_end_and_label_in_the_same_row() -> None:
    def entity(start: int, end: int, label: str, **score: float) -> dict[str, Any]:
        return {"start": start, "end": end, "label": label, **score}

    predicted = [
        [entity(0, 1, "A", score=0.9), entity(2, 4, "B", score=0.8), entity(5, 6, "A", score=0.7)],
        [entity(0, 1, "A", score=0.6)],
    ]
    scored = scored_predictions(predicted, [[entity(0, 1, "A"), entity(2, 4, "A"), entity(5, 7, "A")], []])
    assert scored.scores.tolist() == [0.9, 0.8, 0.7, 0.6]
    assert scored.correct.tolist() == [True, False, False, False]
    assert scored.labels.tolist() == ["A", "B", "A", "A"]
    assert scored_predictions([[]], [[]]).scores.shape == (0,)


def test_the_fingerprint_is_that_of_the_words_in_any_order() -> None:
    rows = [{"tokens": ["a", "b"], "entities": []}, {"tokens": ["c"], "entities": []}]
    assert rows_fingerprint(rows) == rows_fingerprint(rows[::-1])
    assert rows_fingerprint(rows) == rows_fingerprint([{"tokens": ["c"], "entities": [1]}, rows[0]])
    others = [rows[:1], [*rows, rows[0]], [{"tokens": ["a b"]}, rows[1]], [{"tokens": ["a"]}, {"tokens": ["b", "c"]}]]
    assert rows_fingerprint(rows) not in [rows_fingerprint(other) for other in others]
