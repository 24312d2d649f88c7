"""Kinds of surfaces and weights by hand, and that a weighted map is true where only the shares of the kinds differ."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.calibration.fitting import ScoredPredictions, fitted_calibration
from hf_spanner.calibration.shift import KINDS, shift_weights, surface_kinds
from hf_spanner.core.calibration import calibrated_score
from hf_spanner.metrics.span_ner.reliability import calibration_error

TRAINING = [
    {"tokens": ["Ana", "Lake", "Ana"], "entities": [{"start": 0, "end": 1, "label": "PER"}]},
    {"tokens": ["Ana", "Lake"], "entities": [{"start": 0, "end": 2, "label": "LOC"}]},
]
SOURCE = {"name": "dev.jsonl", "num_rows": 3, "fingerprint": "ab"}


def span(start: int, end: int, label: str) -> dict:
    """An entity without a score."""
    return {"start": start, "end": end, "label": label}


def test_a_surface_is_new_or_known_by_its_label_or_by_another() -> None:
    """Letter case counts, and a word inside of a longer entity is none itself."""
    texts = [["Ana", "Lake", "saw", "ana"], ["Lake"]]
    predicted = [[span(0, 2, "LOC"), span(0, 2, "PER"), span(0, 1, "PER"), span(3, 4, "PER")], [span(0, 1, "LOC")]]
    kinds = surface_kinds(predicted, texts, TRAINING)
    assert [KINDS[kind] for kind in kinds] == ["same label", "other label", "same label", "new", "new"]
    assert surface_kinds([[]], [["Ana"]], TRAINING).shape == (0,)


def test_weights_worked_by_hand() -> None:
    weights = shift_weights(np.repeat([0, 2], [2, 8]), np.repeat([0, 2], [5, 5]))
    np.testing.assert_allclose(weights, np.repeat([2.2, 5.5 / 8.5], [2, 8]))


@given(held_out=st.lists(st.integers(0, 2), min_size=1), coming=st.lists(st.integers(0, 2), min_size=1))
def test_weights_are_positive_and_one_where_nothing_shifts(held_out: list[int], coming: list[int]) -> None:
    assert (shift_weights(np.array(held_out), np.array(coming)) > 0).all()
    np.testing.assert_allclose(shift_weights(np.array(held_out), np.array(held_out[::-1])), 1.0)


@pytest.mark.parametrize("kind", ["temperature", "platt", "isotonic"])
def test_the_weighted_map_is_true_where_new_surfaces_are_more_frequent(kind: str) -> None:
    """All score .9; new ones are right in 3 of 5 cases, known ones in 19 of 20. New are 2 of 10, then 6 of 10."""
    random = np.random.default_rng(0)

    def drawn(share_new: float) -> tuple[np.ndarray, ScoredPredictions]:
        kinds = np.where(random.random(20_000) < share_new, 0, 2)
        correct = random.random(20_000) < np.where(kinds == 0, 0.6, 0.95)
        return kinds, ScoredPredictions(np.full(20_000, 0.9), correct, np.full(20_000, "A"), np.arange(20_000))

    (held_out, fitted_on), (coming, judged) = drawn(0.2), drawn(0.6)
    errors = []
    for weights in (None, shift_weights(held_out, coming)):
        fitted = fitted_calibration(kind, fitted_on, fitted_on=SOURCE, weights=weights)
        scores = [calibrated_score(score, fitted["all"]) for score in judged.scores.tolist()]
        errors.append(calibration_error(scores, judged.correct.tolist())["ece"])
    assert errors[0] == pytest.approx(0.88 - 0.74, abs=0.015)
    assert errors[1] < 0.015
