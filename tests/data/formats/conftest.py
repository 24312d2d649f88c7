"""What the tests of formats share."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hf_spanner.data.policy import Reading, ReadOptions, ReadReport

FILES = Path(__file__).parents[2] / "fixtures" / "formats"


@pytest.fixture(scope="session")
def tool_files() -> Path:
    """The folder of files that the tools themselves wrote."""
    return FILES


@pytest.fixture
def reading() -> Callable[..., Reading]:
    """Makes a reading with the given options and an empty report."""
    return lambda **options: Reading(ReadOptions(**options), ReadReport())


@pytest.fixture
def surfaces() -> Callable[..., list[list[tuple[str, str]]]]:
    """For each row its entities as (label, words)."""

    def of(rows: Any) -> list[list[tuple[str, str]]]:
        return [
            [(item["label"], " ".join(row["tokens"][item["start"] : item["end"]])) for item in row["entities"]]
            for row in rows
        ]

    return of


@pytest.fixture
def placed() -> Callable[..., list[tuple[str, Mapping[str, Any]]]]:
    """Gives records their places."""
    return lambda *records: [(f"f, line {line}", record) for line, record in enumerate(records, start=1)]


@pytest.fixture
def lines() -> Callable[[Path], Sequence[Any]]:
    """The records of a file of JSON lines."""
    return lambda path: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
