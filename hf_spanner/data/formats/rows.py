"""Rows as JSON lines, the form that holds all that a row may have."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hf_spanner.data.formats.writing import Writing, open_output
from hf_spanner.data.schema import Row


def write_jsonl(rows: Iterable[Row], path: Path, writing: Writing) -> None:
    """Write a row a line: id and document if it has them, words, and entities in words.

    A row that has its raw text keeps it, and its entities state their surfaces, which show that they count words.
    """
    with open_output(path) as file:
        for row in writing.counted(rows, text=True, scores=True):
            record: dict[str, Any] = {name: row.get(name) for name in ("id", "document") if row.get(name) is not None}
            record |= {"tokens": row["tokens"], "entities": row["entities"]}
            if "text" in row:
                surfaces = [" ".join(row["tokens"][item["start"] : item["end"]]) for item in row["entities"]]
                stated = zip(row["entities"], surfaces, strict=True)
                record |= {"text": row["text"], "entities": [{**item, "text": surface} for item, surface in stated]}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
