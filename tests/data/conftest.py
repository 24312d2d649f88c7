"""What the tests of the readers share."""

from collections.abc import Callable

import pytest

from hf_spanner.data.policy import Reading, ReadOptions, ReadReport


@pytest.fixture
def reading() -> Callable[..., Reading]:
    """Makes a reading with the given options and an empty report."""
    return lambda **options: Reading(ReadOptions(**options), ReadReport())
