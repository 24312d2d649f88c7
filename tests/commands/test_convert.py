"""Converting between formats, and what is said of it."""

import json

import pytest

TEXT = {"text": "Ana met Bo.", "id": "x", "entities": [{"start": 0, "end": 3, "label": "PER", "score": 0.5}]}


def test_predictions_become_tasks_and_rows_again(program, write_jsonl, tmp_path, capsys):
    path = write_jsonl("predictions.jsonl", [TEXT])
    program("convert").main([str(path), str(tmp_path / "tasks.json"), "--to", "label-studio"])
    printed = capsys.readouterr()
    assert '<Label value="PER"' in printed.out
    assert f"read {path}: 1 rows, 1 entities" in printed.err
    assert f"wrote {tmp_path / 'tasks.json'} as Label Studio's JSON: 1 rows, 1 entities" in printed.err
    back = tmp_path / "back.jsonl"
    program("convert").main([str(tmp_path / "tasks.json"), str(back), "--annotator", "predictions"])
    printed = capsys.readouterr()
    assert "read as Label Studio's JSON, by data, predictions in " in printed.err
    (row,) = map(json.loads, back.read_text(encoding="utf-8").splitlines())
    assert row["tokens"] == ["Ana", "met", "Bo", "."]
    assert row["entities"] == [{"start": 0, "end": 1, "label": "PER", "score": 0.5, "text": "Ana"}]


def test_predictions_of_a_model_that_splits_hyphens_become_tasks(program, write_jsonl, tmp_path):
    entity = {"start": 0, "end": 8, "label": "LOC"}
    path = write_jsonl("predictions.jsonl", [{"text": "New York-based", "entities": [entity]}])
    with pytest.raises(ValueError, match="split_hyphens=True"):
        program("convert").main([str(path), str(tmp_path / "a.jsonl")])
    program("convert").main([str(path), str(tmp_path / "b.jsonl"), "--split-hyphens"])
    assert json.loads((tmp_path / "b.jsonl").read_text(encoding="utf-8"))["tokens"] == ["New", "York", "-", "based"]


def test_a_given_format_goes_before_detection(program, write_jsonl, tmp_path):
    path = write_jsonl("rows.jsonl", [TEXT])
    with pytest.raises(ValueError, match="a list as label, labels or entities|entities"):
        program("convert").main([str(path), str(tmp_path / "a.jsonl"), "--from", "doccano"])


def test_a_folder_is_read_by_its_split(program, write_jsonl, tmp_path, capsys):
    write_jsonl("dev.jsonl", [TEXT])
    out = tmp_path / "out"
    out.mkdir()
    program("convert").main([str(tmp_path), str(out / "a.json"), "--to", "gliner", "--split", "dev"])
    assert "1 rows, 1 entities" in capsys.readouterr().err


def test_reports_are_said_once(program, write_jsonl, tmp_path, capsys, messages):
    path = write_jsonl("rows.jsonl", [TEXT])
    program("convert").main([str(path), str(tmp_path / "a.json"), "--to", "gliner"])
    assert capsys.readouterr().err.count("left out, scores of a row's entities: 1") == 1
    assert messages == []
