"""Prodigy's JSON lines, in the form of its documentation."""

import pytest

from hf_spanner.data.formats.prodigy import prodigy_rows
from hf_spanner.data.policy import ReadReport
from hf_spanner.data.readers import read_rows
from hf_spanner.data.writers import save_rows


def test_accepted_tasks_are_rows_and_the_others_are_counted(tool_files, surfaces):
    report = ReadReport()
    rows = list(read_rows(tool_files / "prodigy.jsonl", report=report))
    assert surfaces(rows) == [[("PERSON", "Ana Holt"), ("GPE", "Oslo")], []]
    assert rows[1]["tokens"] == ["It", "rained", ".", "All", "day", "."]
    assert report.counts == {
        "dropped, task with the answer reject": 1,
        "dropped, task with the answer ignore": 1,
        "left out, token of white space": 1,
    }
    assert report.num_dropped_rows == 2


def test_annotators_of_one_text_are_known_by_its_hash(placed, reading, surfaces):
    task = {"text": "Ana", "_input_hash": 1, "answer": "accept"}
    tasks = placed(
        task | {"spans": [{"start": 0, "end": 3, "label": "X"}], "_annotator_id": "a"},
        task | {"spans": [], "_session_id": "b"},
    )
    with pytest.raises(ValueError, match=r"annotators is \['a', 'b'\]"):
        list(prodigy_rows(tasks, "f", reading()))
    assert surfaces(prodigy_rows(tasks, "f", reading(annotator="a"))) == [[("X", "Ana")]]
    assert surfaces(prodigy_rows(tasks, "f", reading(annotator="b"))) == [[]]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"text": 3, "spans": []}, "text is 3"),
        ({"text": "Ana", "spans": [{"start": 0, "end": 9, "label": "X"}]}, r"spans\[0\]\.\(start, end\)"),
        ({"text": "Ana", "spans": 5}, "spans is 5"),
        ({"text": "Ana", "spans": [], "relations": 5}, "relations is 5"),
        ({"text": "Ana", "spans": ["Ana"]}, r"spans\[0\] is 'Ana'"),
        (
            {"text": "Ana", "spans": [], "tokens": [{"text": "Bo", "start": 0, "end": 3}]},
            r"tokens\[0\] is .*\(tokens\)",
        ),
    ],
)
def test_malformed_tasks_are_refused_or_dropped(record, message, refused):
    refused(prodigy_rows, record | {"answer": "accept"}, message)


def test_relations_are_counted_and_tasks_without_an_answer_too(placed, reading):
    strict = reading()
    list(prodigy_rows(placed({"text": "Ana", "spans": [], "relations": [{"head": 0, "child": 1}]}), "f", strict))
    assert strict.report.counts == {"skipped, relation": 1, "kept, task without an answer": 1}


def test_written_tasks_have_tokens_for_the_manual_recipes(tmp_path, lines):
    row = {"id": "7", "tokens": ["Ana", "'s", "Oslo"], "entities": [{"start": 0, "end": 2, "label": "X", "score": 0.5}]}
    save_rows(
        [row | {"text": "Ana's Oslo", "offsets": [(0, 3), (3, 5), (6, 10)]}], tmp_path / "a.jsonl", format="prodigy"
    )
    (task,) = lines(tmp_path / "a.jsonl")
    assert [(token["text"], token["ws"]) for token in task["tokens"]] == [("Ana", False), ("'s", True), ("Oslo", False)]
    assert task["spans"] == [
        {"start": 0, "end": 5, "label": "X", "token_start": 0, "token_end": 1, "text": "Ana's", "score": 0.5}
    ]
    assert task["meta"] == {"id": "7"}
