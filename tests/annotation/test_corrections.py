"""Suspects as lines, and decisions on them."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from hf_spanner.annotation.corrections import (
    corrected_rows,
    read_decisions,
    suspect_record,
    suspect_table,
    with_suggestions,
)
from hf_spanner.annotation.surfaces import Occurrence
from hf_spanner.annotation.suspects import Suspect
from hf_spanner.data.schema import sorted_entities

ROW = {
    "id": "r",
    "document": "d",
    "tokens": ["Ana", "met", "the", "Bank", "of", "Oslo"],
    "entities": sorted_entities([(0, 1, "LOC"), (3, 6, "ORG")]),
}
SUSPECTS = [
    Suspect(0, "wrong_label", 0.91234, (0, 1, "LOC"), (0, 1, "PER"), 0.98765),
    Suspect(0, "missed_entity", 0.6, None, (5, 6, "LOC"), 0.9, Occurrence(0, 5, 6, None, "LOC", 4, 5)),
    Suspect(0, "no_entity", 0.2, (3, 6, "ORG"), None, 0.0),
]
RECORDS = [suspect_record(suspect, rank, ROW) for rank, suspect in enumerate(SUSPECTS, start=1)]


def spans(entities: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    return [(entity["start"], entity["end"], entity["label"]) for entity in entities]


def decided(*decisions: str | None, **changes: Any) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"f, line {number}", {**record, "decision": decision, **changes})
        for number, (record, decision) in enumerate(zip(RECORDS, decisions, strict=False), start=1)
    ]


def test_a_record_says_all_that_a_decision_needs() -> None:
    assert RECORDS[0] == {
        "rank": 1,
        "probability": 0.9123,
        "kind": "wrong_label",
        "row": 0,
        "id": "r",
        "document": "d",
        "annotated": {"start": 0, "end": 1, "label": "LOC", "text": "Ana"},
        "suggested": {"start": 0, "end": 1, "label": "PER", "text": "Ana"},
        "score": 0.9877,
        "elsewhere": None,
        "tokens": ROW["tokens"],
        "decision": None,
    }
    assert (RECORDS[1]["annotated"], RECORDS[1]["elsewhere"]) == (None, "LOC in 4 of 5")


def test_the_table_can_be_read_by_a_person() -> None:
    rows = list(csv.DictReader(io.StringIO(suspect_table(RECORDS))))
    assert [row["annotated"] for row in rows] == ["Ana [LOC]", "", "Bank of Oslo [ORG]"]
    assert [row["suggested"] for row in rows] == ["Ana [PER]", "Oslo [LOC]", ""]
    assert {row["context"] for row in rows} == {"Ana met the Bank of Oslo"}


def test_suggestions_stand_with_their_probability() -> None:
    entities = with_suggestions(ROW, RECORDS[:2])
    assert spans(entities) == [(0, 1, "PER"), (3, 6, "ORG"), (5, 6, "LOC")]
    assert [entity.get("score") for entity in entities] == [0.9123, None, 0.6]
    second = {**RECORDS[0], "suggested": {"start": 0, "end": 2, "label": "ORG"}}
    assert with_suggestions(ROW, [RECORDS[0], second]) == with_suggestions(ROW, [RECORDS[0]])


def test_what_is_accepted_changes_and_is_logged() -> None:
    (row,), log = corrected_rows([ROW], decided("accept", "reject", "accept"))
    assert spans(row["entities"]) == [(0, 1, "PER")]
    assert row["tokens"] == ROW["tokens"]
    assert log[0] == {
        "place": "f, line 1",
        "row": 0,
        "id": "r",
        "kind": "wrong_label",
        "probability": 0.9123,
        "before": {"start": 0, "end": 1, "label": "LOC", "text": "Ana"},
        "after": {"start": 0, "end": 1, "label": "PER", "text": "Ana"},
    }
    assert (log[1]["before"]["text"], log[1]["after"]) == ("Bank of Oslo", None)


def test_undecided_changes_nothing() -> None:
    assert corrected_rows([ROW], decided(None, None, None)) == ([ROW], [])


def test_a_suggestion_may_be_edited() -> None:
    (row,), log = corrected_rows([ROW], decided("accept", suggested={"start": 0, "end": 1, "label": "ORG"}))
    assert spans(row["entities"])[0] == (0, 1, "ORG")
    assert log[0]["after"]["text"] == "Ana"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"row": 1}, "f, line 1: row is 1 .*allowed: 0 to 0"),
        ({"tokens": ["Bo"]}, r"tokens is \['Bo'\] .*those of row 0"),
        ({"annotated": {"start": 1, "end": 2, "label": "LOC"}}, r"annotated is \(1, 2, 'LOC'\) .*one of the row's"),
        ({"suggested": {"start": 3, "end": 6, "label": "ORG"}}, r"suggested is \(3, 6, 'ORG'\) .*has not yet"),
        ({"suggested": {"start": 5, "end": 7, "label": "ORG"}}, r"suggested.\(start, end\) is \(5, 7\)"),
        ({"suggested": {"start": 5, "end": 6, "label": " "}}, r"suggested.label is ' '"),
    ],
)
def test_a_decision_of_other_rows_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        corrected_rows([ROW], decided("accept", **changes))


def test_one_annotation_is_changed_once() -> None:
    with pytest.raises(ValueError, match="line 2: annotated is"):
        corrected_rows([ROW], [*decided("accept"), ("f, line 2", decided("accept")[0][1])])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: is no JSON"),
        ("[]", "line 2: line is "),
        ('{"row": 0}', "line 2: kind is None"),
        (json.dumps({**RECORDS[0], "decision": "yes"}), "decision is 'yes' .*accept, reject or null"),
        (json.dumps({**RECORDS[0], "kind": "typo"}), "kind is 'typo' .*missed_entity"),
        (json.dumps({**RECORDS[0], "annotated": None, "suggested": None}), "suggested is None"),
        (json.dumps({**RECORDS[0], "annotated": {"start": 0}}), "annotated is .*null, or {start, end, label}"),
    ],
)
def test_a_line_that_is_no_decision_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "decisions.jsonl"
    path.write_text(json.dumps(RECORDS[0]) + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_decisions(path)


def test_decisions_are_read_with_their_places(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS) + "\n", encoding="utf-8")
    assert read_decisions(path) == [(f"{path}, line {number}", record) for number, record in enumerate(RECORDS, 1)]
