"""Temperature scaling of a span's score."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.core.calibration import calibrated_score


def test_worked_by_hand() -> None:
    """logit(0.9) = ln 9; halved, sigmoid(ln 3) = 3 / 4. logit(0.2) = -ln 4; doubled, sigmoid(-ln 16) = 1 / 17."""
    assert calibrated_score(0.9, 2.0) == pytest.approx(0.75)
    assert calibrated_score(0.2, 0.5) == pytest.approx(1 / 17)


@given(st.floats(0, 1))
def test_temperature_one_changes_nothing(score: float) -> None:
    assert calibrated_score(score, 1.0) == score


@given(st.floats(0.01, 100))
def test_the_ends_and_the_middle_stay(temperature: float) -> None:
    assert [calibrated_score(score, temperature) for score in (0.0, 0.5, 1.0)] == [0.0, pytest.approx(0.5), 1.0]


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.05, 100))
def test_order_is_kept_and_scores_stay_probabilities(first: float, second: float, temperature: float) -> None:
    low, high = sorted((first, second))
    scaled_low, scaled_high = calibrated_score(low, temperature), calibrated_score(high, temperature)
    assert 0 <= scaled_low <= scaled_high + 1e-12
    assert scaled_high <= 1


@given(st.floats(1e-300, 1, exclude_max=True), st.floats(1.001, 1_000))
def test_a_large_temperature_moves_towards_one_half(score: float, temperature: float) -> None:
    scaled = calibrated_score(score, temperature)
    assert math.isfinite(scaled)
    assert abs(scaled - 0.5) <= abs(score - 0.5) + 1e-12


@given(st.floats(0, 1), st.sampled_from([1e-6, 1e-3, 0.01]))
def test_a_tiny_temperature_gives_a_probability(score: float, temperature: float) -> None:
    assert 0 <= calibrated_score(score, temperature) <= 1
