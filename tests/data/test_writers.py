"""Writing rows to files."""

import logging

import pytest

from hf_spanner import load_rows, save_rows
from hf_spanner.data.policy import ReadReport

ROWS = [{"id": "1", "document": "d", "tokens": ["Ana"], "entities": [{"start": 0, "end": 1, "label": "PER"}]}]


def test_loaded_rows_can_be_saved_and_loaded(tmp_path):
    report = ReadReport()
    save_rows(load_rows(ROWS), tmp_path / "a.jsonl", report=report)
    assert list(load_rows(tmp_path / "a.jsonl")) == ROWS
    assert (report.num_rows, report.num_entities) == (1, 1)


@pytest.mark.parametrize("name", ["a.conllu", "a", "a.xyz"])
def test_a_format_that_cannot_be_written_is_refused_by_name(tmp_path, name):
    with pytest.raises(ValueError, match=r"format of path .* allowed for writing: \['"):
        save_rows(ROWS, tmp_path / name, format="spert" if name == "a.conllu" else None)


def test_what_exists_is_not_overwritten_and_a_failure_leaves_nothing(tmp_path):
    path = tmp_path / "a.jsonl"
    with pytest.raises(ValueError, match="row 1"):
        save_rows([*ROWS, {"tokens": None, "entities": []}], path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="ends with .gz"):
        save_rows(ROWS, tmp_path / "a.spacy.gz")
    (tmp_path / ".unfinished-a.jsonl").mkdir()  # of a call that was killed
    save_rows(ROWS, path)
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ValueError, match="exists; allowed: a new name"):
        save_rows(ROWS, path)


def test_what_was_left_out_is_logged(tmp_path, caplog):
    scored = [{"tokens": ["Ana"], "entities": [{"start": 0, "end": 1, "label": "PER", "score": 0.5}]}]
    with caplog.at_level(logging.WARNING):
        save_rows(scored, tmp_path / "a.json", format="gliner")
    assert "left out, scores of a row's entities: 1" in caplog.text
