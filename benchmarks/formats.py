"""Writes corpora in every format that is read and written, reads them back, and counts what differs.

    python benchmarks/formats.py ../corpora [--rows 2000] [--formats brat conll]

For each format: rows and entities that came back as they were, that moved or are missing without having been counted,
and what writer and reader counted, by name. Rows that a format joins are compared as documents: the words and the
entities of all rows of one document.
"""

import argparse
import logging
import tempfile
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from datasets.utils.logging import disable_progress_bar

from hf_spanner.data.formats.documents import NO_DOCUMENT
from hf_spanner.data.formats.table import FORMATS
from hf_spanner.data.policy import ReadReport, logger
from hf_spanner.data.readers import read_rows
from hf_spanner.data.writers import save_rows

SUFFIXES = {"conll": ".tsv", "brat": "", "parquet": ".parquet", "spacy": ".spacy", "pubtator": ".txt"}
CHOICES: dict[str, dict[str, Any]] = {
    "label-studio": {"annotator": "predictions"},
    "brat": {"words": "blanks"},
    "pubtator": {"words": "blanks"},
    "conll": {"scheme": "IOB2", "comments": "keep"},
}
BY_DOCUMENT = {"brat", "pubtator"}


def main() -> None:
    """Print a line for each format."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--rows", type=int, help="of each split at most")
    parser.add_argument("--formats", nargs="*", default=[name for name, item in FORMATS.items() if item.write])
    given = parser.parse_args()
    logger.setLevel(logging.ERROR)
    disable_progress_bar()
    files = sorted(path for path in given.corpora.rglob("*.jsonl*") if path.is_file())
    print("format | files | rows | entities | same | dropped by the writer | missing or moved | counted")
    for name in given.formats:
        totals, counts = Counter[str](), Counter[str]()
        for path in files:
            rows: list[Any] = list(islice(read_rows(path), given.rows))
            compare(rows, name, totals, counts)
        numbers = [totals[key] for key in ("files", "rows", "entities", "same", "dropped", "lost")]
        print(f"{name} | {' | '.join(map(str, numbers))} | {dict(counts)}", flush=True)


def compare(rows: list[Any], name: str, totals: Counter[str], counts: Counter[str]) -> None:
    """Write rows and read them back."""
    written, read = ReadReport(), ReadReport()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"corpus{SUFFIXES.get(name, '.json')}"
        save_rows(rows, path, format=name, on_error="drop", report=written)
        choices = CHOICES.get(name, {})
        back = list(read_rows(path, format=None if name == "gliner" else name, on_error="drop", report=read, **choices))
    before, after = entities_of(rows, name), entities_of(back, name)
    same = sum((before & after).values())
    dropped = len(list(before.elements())) - written.num_entities
    totals.update(files=1, rows=len(rows), entities=sum(before.values()), same=same, dropped=dropped)
    totals["lost"] += sum(before.values()) - same - dropped
    for report in (written, read):
        counts.update(report.counts)


def entities_of(rows: Iterable[Any], name: str) -> Counter[tuple]:
    """Entities with where they stand: in the words of their row, or of all rows in the order of their documents."""
    found = Counter[tuple]()
    if name not in BY_DOCUMENT:
        for row in rows:
            words = tuple(row["tokens"])
            found.update((words, item["start"], item["end"], item["label"]) for item in row["entities"])
        return found
    first = 0
    in_order = sorted(rows, key=lambda row: row["document"] or NO_DOCUMENT) if name == "brat" else rows
    for row in in_order:
        words = row["tokens"]
        for item in row["entities"]:
            surface = tuple(words[item["start"] : item["end"]])
            found[surface, first + item["start"], first + item["end"], item["label"]] += 1
        first += len(words)
    return found


if __name__ == "__main__":
    main()
