"""Maps from raw score to probability: values by hand, order, ends, the choice by label, and what a map may hold."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.core.calibration import SMALLEST_SCORE, CalibrationRule, calibrated_score, calibrated_spans
from hf_spanner.core.spans import Span

SCORES = st.floats(0, 1)
POINTS = st.integers(1, 6).flatmap(
    lambda size: st.tuples(
        st.lists(SCORES, min_size=size, max_size=size, unique=True).map(sorted),
        st.lists(SCORES, min_size=size, max_size=size).map(sorted),
    )
)
MAPS = st.one_of(
    st.floats(0.05, 100).map(lambda temperature: {"temperature": temperature}),
    st.tuples(st.floats(0, 20), st.floats(-20, 20)).map(lambda pair: {"slope": pair[0], "intercept": pair[1]}),
    POINTS.map(lambda points: {"scores": points[0], "probabilities": points[1]}),
)
SOURCE = {"name": "dev.jsonl", "num_rows": 3, "fingerprint": "ab"}


def record(kind: str = "platt", **changes: Any) -> dict[str, Any]:
    """A calibration that the rule admits, with some entries changed."""
    parameters = {
        "temperature": {"temperature": 2.0},
        "platt": {"slope": 0.5, "intercept": -1},
        "isotonic": {"scores": [0.25, 0.75], "probabilities": [0.5, 1.0]},
    }[kind]
    return {"kind": kind, "all": parameters, "per_label": {"A": parameters}, "fitted_on": SOURCE, **changes}


def test_temperature_worked_by_hand() -> None:
    """logit(0.9) = ln 9 is halved: sigmoid(ln 3) = 3 / 4. logit(0.2) = -ln 4 is doubled: sigmoid(-ln 16) = 1 / 17."""
    assert calibrated_score(0.9, {"temperature": 2.0}) == pytest.approx(0.75)
    assert calibrated_score(0.2, {"temperature": 0.5}) == pytest.approx(1 / 17)


def test_platt_worked_by_hand() -> None:
    """Half of logit(0.9) = ln 9 is ln 3; with ln 2 added it is ln 6, whose sigmoid is 6 / 7."""
    assert calibrated_score(0.9, {"slope": 0.5, "intercept": math.log(2)}) == pytest.approx(6 / 7)
    assert calibrated_score(0.5, {"slope": 3.0, "intercept": -math.log(4)}) == pytest.approx(1 / 5)


@pytest.mark.parametrize(("score", "expected"), [(0, 0.1), (0.2, 0.1), (0.3, 0.2), (0.4, 0.3), (0.5, 0.3), (1, 0.3)])
def test_isotonic_worked_by_hand(score: float, expected: float) -> None:
    """The map is level below 0.2 and above 0.4; half of the way from 0.2 to 0.4 is half of the way from 0.1 to 0.3."""
    assert calibrated_score(score, {"scores": [0.2, 0.4], "probabilities": [0.1, 0.3]}) == pytest.approx(expected)


@given(SCORES, POINTS)
def test_isotonic_is_numpys_interpolation(score: float, points: tuple[list[float], list[float]]) -> None:
    expected = float(np.interp(score, *points))
    probability = calibrated_score(score, {"scores": points[0], "probabilities": points[1]})
    assert probability == pytest.approx(expected, abs=1e-9)


@given(SCORES, SCORES, MAPS)
def test_order_is_kept_and_scores_stay_probabilities(first: float, second: float, parameters: dict) -> None:
    low, high = (calibrated_score(score, parameters) for score in sorted((first, second)))
    assert 0 <= low <= high + 1e-12
    assert high <= 1


@given(st.floats(0, 1, exclude_min=True, exclude_max=True), st.floats(1.001, 1_000))
def test_a_large_temperature_moves_towards_one_half(score: float, temperature: float) -> None:
    scaled = calibrated_score(score, {"temperature": temperature})
    assert abs(scaled - 0.5) <= abs(score - 0.5) + 1e-12


@given(SCORES, st.sampled_from([5e-324, 1e-6, 1e-3, 0.01]))
def test_a_tiny_temperature_gives_a_probability(score: float, temperature: float) -> None:
    assert 0 <= calibrated_score(score, {"temperature": temperature}) <= 1


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_scores_of_zero_and_one_are_read_as_their_neighbours(temperature: float) -> None:
    """E-06: float32 rounds what lies nearer to 1 than 2 ** -25, with log-odds of 25 ln 2, to 1."""
    assert np.float32(1 - SMALLEST_SCORE) == 1
    assert np.float32(1 - 3 * SMALLEST_SCORE) < 1
    odds = 2.0 ** (25 / temperature)
    assert calibrated_score(1.0, {"temperature": temperature}) == pytest.approx(odds / (1 + odds), rel=1e-7)
    assert calibrated_score(0.0, {"temperature": temperature}) == pytest.approx(1 / (1 + odds), rel=1e-6)


def test_a_label_takes_its_own_map_or_else_that_of_all() -> None:
    spans = [Span(0, 1, 0, 0.9), Span(1, 2, 1, 0.9)]
    maps = {"all": {"temperature": 2.0}, "per_label": {"B": {"temperature": 1.0}}}
    calibrated = calibrated_spans(spans, maps, {0: "A", 1: "B"})
    assert calibrated == [Span(0, 1, 0, pytest.approx(0.75)), Span(1, 2, 1, pytest.approx(0.9))]
    assert calibrated_spans(spans, None, {0: "A", 1: "B"}) == spans


@pytest.mark.parametrize("kind", ["temperature", "platt", "isotonic"])
def test_the_rule_admits_every_kind(kind: str) -> None:
    assert CalibrationRule().admits(record(kind))


ENTRY = {"target": 0.9, "all": 0.5, "per_label": {"A": None}}
PROMISES = {"delta": 0.05, "decoding": {"overlap": "flat"}, "precision": [ENTRY], "recall": []}


def test_the_rule_admits_promises() -> None:
    assert CalibrationRule().admits(record(promises=PROMISES))


WRONG = [
    record(promises=[]),
    record(promises={**PROMISES, "delta": 2}),
    record(promises={**PROMISES, "decoding": "flat"}),
    record(promises={**PROMISES, "recall": None}),
    record(promises={**PROMISES, "precision": [{**ENTRY, "target": "0.9"}]}),
    record(promises={**PROMISES, "precision": [{**ENTRY, "all": 1.5}]}),
    record(promises={**PROMISES, "precision": [{**ENTRY, "per_label": {"A": "0.5"}}]}),
    record(promises={**PROMISES, "precision": [{"target": 0.9, "all": 0.5}]}),
    {**record(), "kind": "beta"},
    {**record(), "kind": ["platt"]},
    record(all={"temperature": 2.0}),
    record(all={"slope": -0.1, "intercept": 0}),
    record(all={"slope": 1, "intercept": float("nan")}),
    record(all={"slope": True, "intercept": 0}),
    record(per_label=[]),
    record(per_label={"A": {"slope": 1}}),
    record(fitted_on={}),
    record(fitted_on={**SOURCE, "num_rows": 0}),
    record(fitted_on={**SOURCE, "num_rows": True}),
    record(fitted_on={**SOURCE, "fingerprint": 7}),
    record("temperature", all={"temperature": 0}),
    record("temperature", all={"temperature": float("inf")}),
    record("isotonic", all={"scores": [], "probabilities": []}),
    record("isotonic", all={"scores": [0.5, 0.5], "probabilities": [0.1, 0.2]}),
    record("isotonic", all={"scores": [0.5, 0.6], "probabilities": [0.2, 0.1]}),
    record("isotonic", all={"scores": [0.5, 0.6], "probabilities": [0.2]}),
    record("isotonic", all={"scores": [0.5], "probabilities": [1.2]}),
    record("isotonic", all={"scores": "0", "probabilities": [0.5]}),
    {name: value for name, value in record().items() if name != "fitted_on"},
    record(extra=1),
]


@pytest.mark.parametrize("value", WRONG, ids=range(len(WRONG)))
def test_the_rule_refuses_what_is_no_monotone_map(value: dict[str, Any]) -> None:
    assert not CalibrationRule().admits(value)
