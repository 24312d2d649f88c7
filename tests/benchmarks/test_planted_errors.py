"""How the benchmark of reviews counts what is found."""

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture
def review(benchmark_script: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_script("review")


def test_calibration_and_precision_by_hand(review: ModuleType) -> None:
    """In the bin of .8 half are right, .3 off; in that of .2 none, .2 off: (2 * .3 + 2 * .2) / 4."""
    error = review.calibration_error(np.array([0.8, 0.8, 0.2, 0.2]), np.array([True, False, False, False]))
    assert error == pytest.approx(0.25)
    assert (
        review.precisions(np.array([0.1, 0.9, 0.5]), np.array([True, False, True]), [1, 2]) == "0.000 of 1, 0.500 of 2"
    )
