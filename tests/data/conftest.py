"""The trouble cases and their files, for the tests of the readers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hf_spanner.data.policy import Reading, ReadOptions, ReadReport

CASES = Path(__file__).parent.parent / "fixtures" / "cases"


@pytest.fixture(scope="session")
def case() -> Callable[[str], dict[str, Any]]:
    """Gives a trouble case by its id."""
    with (CASES / "cases.jsonl").open(encoding="utf-8") as file:
        cases = {record["id"]: record for record in map(json.loads, file)}
    return cases.__getitem__


@pytest.fixture(scope="session")
def case_files() -> Path:
    """Folder of the files of the trouble cases."""
    return CASES / "files"


@pytest.fixture
def reading() -> Callable[..., Reading]:
    """Makes a reading with the given options and an empty report."""
    return lambda **options: Reading(ReadOptions(**options), ReadReport())
