"""What the tests of formats share."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hf_spanner.data.policy import ReadReport
from hf_spanner.data.readers import read_rows

FILES = Path(__file__).parents[2] / "fixtures" / "formats"


@pytest.fixture(scope="session")
def tool_files() -> Path:
    """The folder of files that the tools themselves wrote."""
    return FILES


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
def read(tmp_path, surfaces) -> Callable[..., tuple[Any, list[Any], ReadReport]]:
    """Reads a text as a file of a name: its surfaces, its rows and the report."""

    def reader(text: str, name: str = "doc.tsv", **choices: Any) -> tuple[Any, list[Any], ReadReport]:
        (tmp_path / name).write_text(text, encoding="utf-8")
        report = ReadReport()
        rows = list(read_rows(tmp_path / name, report=report, **choices))
        return surfaces(rows), rows, report

    return reader


@pytest.fixture
def placed() -> Callable[..., list[tuple[str, Mapping[str, Any]]]]:
    """Gives records their places."""
    return lambda *records: [(f"f, line {line}", record) for line, record in enumerate(records, start=1)]


@pytest.fixture
def refused(placed, reading) -> Callable[..., None]:
    """Checks that a record is refused with a message, or is counted once."""

    def check(rows_of: Callable[..., Any], record: Mapping[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            list(rows_of(placed(record), "f", reading()))
        lenient = reading(on_error="drop")
        list(rows_of(placed(record), "f", lenient))
        assert sum(lenient.report.counts.values()) == 1

    return check


@pytest.fixture
def lines() -> Callable[[Path], Sequence[Any]]:
    """The records of a file of JSON lines."""
    return lambda path: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
