"""JSON lines: each line is one record."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hf_spanner.data.lines import text_lines
from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Problem


def json_records(path: Path, reading: Reading) -> Iterator[tuple[str, dict[str, Any]]]:
    """Records of a JSON lines file, each with its place; blank lines hold none.

    Args:
        path: The file.
        reading: Options and report.

    Yields:
        "file, line n" and the record.

    Raises:
        ValueError: If a line is not a JSON object in valid Unicode, or an object in it holds a key twice, unless such
            lines are dropped.
    """
    for number, line in text_lines(path):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            record = DECODER.decode(line)
            if "\\u" in line:  # an escape may hold half of a character, which no UTF-8 file can
                json.dumps(record, ensure_ascii=False).encode("utf-8")
        except (ValueError, RecursionError) as error:
            reading.refuse_row(place, Problem("JSON", "line", line, f"one JSON object a line ({error})"))
            continue
        if isinstance(record, dict):
            yield place, record
        else:
            reading.refuse_row(place, Problem("JSON", "line", line, "one JSON object a line"))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of some pairs; a repeated key is refused, since JSON would keep its last value alone."""
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} stands twice in one object")
    return values


DECODER = json.JSONDecoder(object_pairs_hook=_object)
