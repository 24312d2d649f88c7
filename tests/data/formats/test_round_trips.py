"""Rows in every format that is read and written: an entity comes back where it was, or is counted by name."""

from collections import Counter
from contextlib import suppress
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.data.formats.table import FORMATS
from hf_spanner.data.policy import ReadReport
from hf_spanner.data.readers import read_rows
from hf_spanner.data.writers import save_rows

SUFFIXES = {"conll": ".tsv", "brat": "", "parquet": ".parquet", "spacy": ".spacy", "pubtator": ".txt"}
CHOICES: dict[str, dict[str, Any]] = {
    "label-studio": {"annotator": "predictions"},
    "brat": {"words": "blanks"},
    "pubtator": {"words": "blanks"},
    "conll": {"scheme": "IOB2", "comments": "keep"},
}
JOINING = ("brat", "pubtator")
WORDS = st.one_of(
    st.sampled_from(
        ["Ana", ".", "'s", "#", "-DOCSTART-", "O", "\U0001f600", "\u00a0", "e\u0301", "a b", "1|t|x", "\\", ""]
    ),
    st.text(st.characters(codec="utf-8"), max_size=3),
)
MOST = 3  # entities of a row
LABELS = st.sampled_from(["PER", "LOC", "a-b", "two words", "\u4eba"])


@st.composite
def corpora(draw):
    rows = []
    for document in ("a", "b", None):
        for _ in range(draw(st.integers(0, 2))):
            words = draw(st.lists(WORDS, max_size=6))
            spans = set()
            for _ in range(draw(st.integers(0, MOST)) if words else 0):
                start = draw(st.integers(0, len(words) - 1))
                spans.add((start, draw(st.integers(start + 1, len(words))), draw(LABELS)))
            entities = [{"start": start, "end": end, "label": label} for start, end, label in sorted(spans)]
            rows.append({"id": None, "document": document, "tokens": words, "entities": entities})
    return rows


def said(report):
    """How many cases of a report may concern an entity."""
    return sum(
        count for name, count in report.counts.items() if name.startswith(("dropped", "changed", "left out, token"))
    )


def surface_of(row, item):
    return (item["label"], "".join("".join(row["tokens"][item["start"] : item["end"]]).split()))


def found(rows, name):
    """Entities by their document or row, label and surface."""
    counts = Counter()
    if name in JOINING:
        for _, group in groupby(rows, key=lambda row: row["document"] or "rows" if name == "brat" else None):
            counts.update(surface_of(row, item) for row in group for item in row["entities"])
    else:
        for row in rows:
            counts.update((row["tokens"].__repr__(), *surface_of(row, item)) for item in row["entities"])
    return counts


@pytest.mark.parametrize("name", [name for name, format in FORMATS.items() if format.is_read and format.write])
@given(rows=corpora())
def test_no_entity_is_lost_or_changed_without_being_counted(name, rows, tmp_path_factory):
    if name == "spacy":
        pytest.importorskip("spacy")
    path = tmp_path_factory.mktemp("trip") / f"corpus{SUFFIXES.get(name, '.json')}"
    written, read = ReadReport(), ReadReport()
    save_rows(rows, path, format=name, on_error="drop", report=written)
    own = None if name == "gliner" else name
    choices = {"misaligned": "widen", **CHOICES.get(name, {})}
    back: list[Any] = []
    with suppress(ValueError):  # a file of which nothing could be read, which the counts show
        back.extend(read_rows(path, format=own, on_error="drop", report=read, **choices))
    before, after = found(rows, name), found(back, name)
    assert sum(after.values()) == read.num_entities or not back
    assert before.total() - written.num_entities <= MOST * said(written)
    assert written.num_entities - after.total() <= MOST * said(read)
    assert (after - before).total() <= MOST * (said(written) + said(read))
