"""The errors that the benchmark of reviews plants, and how it counts what is found."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from hf_spanner.annotation.suspects import Suspect

ROWS: list[dict[str, Any]] = [
    {
        "tokens": [f"w{word}" for word in range(12)],
        "entities": [
            {"start": start, "end": start + 2, "label": label} for start, label in zip((0, 4, 9), "ABC", strict=True)
        ],
    }
    for _ in range(20)
]


@pytest.fixture
def review(benchmark_script: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_script("review")


def test_planted_errors_are_those_that_are_listed(review: ModuleType) -> None:
    rows, errors = review.planted(ROWS, 0.3, 1)
    assert len(errors) == 18
    wrong, true = {key for key, _ in errors if key is not None}, {key for _, key in errors}
    assert review.keys(rows) - review.keys(ROWS) == wrong
    assert review.keys(ROWS) - review.keys(rows) == true
    for turn, (key, right) in enumerate(errors):
        if turn % 3 == 0:
            assert key is not None
            assert (key[:3], key[3] != right[3]) == (right[:3], True)
        elif turn % 3 == 1:
            assert key is not None
            assert (key[3], abs(key[1] - right[1]) + abs(key[2] - right[2])) == (right[3], 1)
        else:
            assert key is None
    assert review.planted(ROWS, 0.3, 1) == (rows, errors)
    assert review.planted(ROWS, 0.3, 2) != (rows, errors)


def test_a_suspect_names_an_error_by_the_wrong_or_the_true_entity(review: ModuleType) -> None:
    errors = [((0, 1, 2, "A"), (0, 1, 3, "A")), (None, (1, 0, 1, "B"))]
    suspects = [
        Suspect(0, "no_entity", 0.5, (1, 2, "A"), None, 0.0),
        Suspect(1, "missed_entity", 0.5, None, (0, 1, "B"), 0.9),
        Suspect(1, "missed_entity", 0.5, None, (0, 1, "C"), 0.9),
    ]
    assert review.planted_places(suspects, errors) == [0, 1, None]


def test_calibration_and_precision_by_hand(review: ModuleType) -> None:
    """In the bin of .8 half are right, .3 off; in that of .2 none, .2 off: (2 * .3 + 2 * .2) / 4."""
    error = review.calibration_error(np.array([0.8, 0.8, 0.2, 0.2]), np.array([True, False, False, False]))
    assert error == pytest.approx(0.25)
    assert (
        review.precisions(np.array([0.1, 0.9, 0.5]), np.array([True, False, True]), [1, 2]) == "0.000 of 1, 0.500 of 2"
    )
