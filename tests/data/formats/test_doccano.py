"""doccano's files, written by doccano from records that we wrote."""

import pytest

from hf_spanner.data.formats.doccano import doccano_rows
from hf_spanner.data.policy import ReadReport
from hf_spanner.data.readers import read_rows
from hf_spanner.data.writers import save_rows

ROWS = [[("ORG", "The University of New York"), ("LOC", "New York"), ("LOC", "Oslo")], [("LOC", "Lake Tarn")], []]


@pytest.mark.parametrize("name", ["doccano_label.jsonl", "doccano_relation.jsonl"])
def test_both_kinds_of_export_are_read_with_words_and_documents(name, tool_files, surfaces):
    report = ReadReport()
    rows = list(read_rows(tool_files / name, report=report))
    assert surfaces(rows) == ROWS
    assert [row["document"] for row in rows] == ["d1", None, None]
    assert rows[0]["id"] == "x1"
    assert rows[1]["tokens"] == ["Lake", "Tarn", "'s", "end"]
    assert report.counts == ({"skipped, relation": 1, "skipped, comment": 1} if "relation" in name else {})


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"text": None, "label": []}, "text is None"),
        ({"text": "a", "label": {"X": {"a": [[0, 0]]}}}, "a list as label, labels or entities"),
        ({"text": "Ana", "label": [[0, 4, "X"]]}, r"label\[0\]\.\(start, end\) is \(0, 4\) \(range\)"),
        ({"text": "Ana", "label": ["X"]}, r"label\[0\] is 'X' \(type\)"),
        ({"text": "Ana met", "labels": [[0, 2, "X"]]}, "misaligned"),
    ],
)
def test_malformed_records_are_refused_or_dropped(record, message, refused):
    refused(doccano_rows, record, message)


def test_written_records_have_the_same_fields_so_that_the_tool_can_store_them(tmp_path, lines):
    rows = [{"tokens": ["Ana"], "entities": [], "id": "7"}, {"tokens": ["Bo"], "entities": [], "document": "d"}]
    save_rows(rows, tmp_path / "a.jsonl", format="doccano")
    assert [list(record) for record in lines(tmp_path / "a.jsonl")] == [
        ["text", "label", "tokens", "row_id", "document"]
    ] * 2
