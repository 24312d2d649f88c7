"""Files of GLiNER, SpERT and DyGIE."""

import pytest

from hf_spanner.data.formats.sentences import dygie_rows, spert_rows
from hf_spanner.data.policy import ReadReport
from hf_spanner.data.readers import read_rows
from hf_spanner.data.writers import save_rows


def test_a_file_of_sperts_own_script_is_read(tool_files, surfaces):
    report = ReadReport()
    rows = list(read_rows(tool_files / "spert.json", report=report))
    assert surfaces(rows) == [[("Peop", "Ana Holt"), ("Loc", "Lake Tarn"), ("Loc", "Oslo")], []]
    assert [row["id"] for row in rows] == ["5", "6"]
    assert report.counts == {"skipped, relation": 1}
    assert "SpERT's JSON, by entities[0].type" in next(iter(report.formats.values()))


def test_the_offsets_of_dygie_count_the_words_of_the_document(tool_files, surfaces):
    report = ReadReport()
    rows = list(read_rows(tool_files / "dygie.jsonl", report=report))
    assert surfaces(rows) == [[("PER", "Ana Holt"), ("LOC", "Oslo")], [("LOC", "Lake Tarn")]]
    assert [row["document"] for row in rows] == ["d1", "d1"]
    assert report.counts == {"skipped, relation": 1, "skipped, coreference cluster": 1}


@pytest.mark.parametrize(
    ("rows_of", "record", "message"),
    [
        (dygie_rows, {"sentences": [["a"]], "ner": []}, "a list of words and a list of spans a sentence"),
        (dygie_rows, {"sentences": [["a"], ["b"]], "ner": [[], [[0, 1, "X"]]]}, r"sentence 1 \(from 0\).*\(range\)"),
        (dygie_rows, {"sentences": [["a"]], "ner": [[[0, 0]]]}, r"entities\[0\] is \[0, 0\]"),
        (spert_rows, {"tokens": ["a"], "entities": [{"type": "X", "start": 0, "end": 2}]}, r"\(range\)"),
        (spert_rows, {"tokens": ["a"], "entities": None}, "without entities here"),
    ],
)
def test_malformed_records_are_refused_or_dropped(rows_of, record, message, refused):
    refused(rows_of, record, message)


def test_gliners_ends_are_inclusive_and_come_back(tmp_path, lines):
    row = {"id": "7", "document": "d", "tokens": ["Lake", "Tarn"], "entities": [{"start": 0, "end": 2, "label": "X"}]}
    report = ReadReport()
    scored = [{**row["entities"][0], "score": 0.5}]
    save_rows([row, row | {"entities": scored}], tmp_path / "a.json", format="gliner", report=report)
    assert '"ner": [[0, 1, "X"]]' in (tmp_path / "a.json").read_text(encoding="utf-8")
    assert list(read_rows(tmp_path / "a.json")) == [row, row]
    assert report.counts == {"left out, scores of a row's entities": 1}
