"""Which tool wrote a record."""

import pytest

from hf_spanner.data.formats.json_forms import JSON_FORMS, form_rows
from hf_spanner.data.jsonl import json_records
from hf_spanner.data.lines import text_lines
from hf_spanner.data.readers import load_rows

VALUES = (None, 5, 10**11, 10**400, "0", "\U0001f600", [None], [3], [["0", "3"]], {"a": 1})
BIGBIO = {"passages": [{"text": ["Ana"], "offsets": [[0, 3]]}], "entities": [{"offsets": [[0, 3]], "type": "X"}]}
ENTITY = {"start": 0, "end": 1, "label": "X"}


def form_of(record):
    return next((name for name, form in JSON_FORMS.items() if form.shown_by(record)), None)


@pytest.mark.parametrize(
    ("record", "form"),
    [
        ({"id": 1, "data": {"text": "a"}, "annotations": []}, "label-studio"),
        ({"data": {"text": "a"}, "predictions": []}, "label-studio"),
        ({"text": "a", "label": [], "annotation_id": 1, "id": 1}, "label-studio-min"),
        ({"text": "a", "label": [[0, 1, "X"]]}, "doccano"),
        ({"text": "a", "labels": []}, "doccano"),
        ({"text": "a", "entities": [], "relations": [], "Comments": []}, "doccano"),
        ({"text": "a", "entities": [{"id": 1, "label": "X", "start_offset": 0, "end_offset": 1}]}, "doccano"),
        ({"text": "a", "spans": [], "answer": "accept"}, "prodigy"),
        ({"text": "a", "answer": "reject"}, "prodigy"),
        ({"sentences": [["a"]], "ner": [[]], "doc_key": "d"}, "dygie"),
        ({"tokens": ["a"], "entities": [{"type": "X", "start": 0, "end": 1}]}, "spert"),
        ({"text": "a", "entities": [{"offsets": [[0, 1]], "type": "X", "text": ["a"]}]}, "bigbio"),
        ({"passages": [], "entities": []}, "bigbio"),
        ({"text": "a", "label": {"X": {"a": [[0, 0]]}}}, None),
        ({"text": "a", "label": ["news"]}, None),
        ({"text": "a", "entities": [ENTITY], "spans": [], "answer": "accept"}, None),
        ({"tokens": ["a"], "entities": [ENTITY | {"type": "X"}]}, None),
        ({"tokens": ["a"], "ner_tags": ["O"], "annotation_id": 3}, None),
        ({"tokenized_text": ["a"], "ner": []}, None),
    ],
)
def test_a_form_is_shown_by_fields_that_ours_do_not_have(record, form):
    assert form_of(record) == form


def test_a_form_may_show_only_in_a_later_record_and_is_reported_with_its_place(placed, reading):
    strict = reading()
    records = placed(
        {"tokens": ["a"], "entities": []}, {"tokens": ["a"], "entities": [{"type": "X", "start": 0, "end": 1}]}
    )
    assert [len(row["entities"]) for row in form_rows(records, "f", strict)] == [0, 1]
    assert strict.report.formats == {
        "f": "SpERT's JSON, by entities[0].type, entities[0].start, entities[0].end in f, line 2"
    }


def test_records_in_memory_are_known_too():
    rows = load_rows([{"text": "Ana", "label": [[0, 3, "PER"]]}])
    assert rows[0]["entities"] == [{"start": 0, "end": 1, "label": "PER"}]
    assert (
        load_rows([{"full_text": "Ana", "tokens": ["Ana"], "labels": ["B-PER"], "document": 7}])[0]["document"] == "7"
    )
    assert load_rows([{"tokens": ["Ana"], "ner_tags": ["O"], "document_id": 3}])[0]["document"] == "3"
    assert load_rows([{"tokens": [], "entities": [], "document": None, "document_id": "d"}])[0]["document"] == "d"


def damaged(value):
    """All that becomes of a value if one part of it, at any depth, is another."""
    yield from VALUES
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        for other in damaged(value[key]):
            changed = value.copy()
            changed[key] = other
            yield changed


def test_damaged_records_of_the_tools_are_read_or_dropped(tool_files, placed, reading):
    files = tool_files.glob("*.json*")
    records = [record for path in files for _, record in json_records(text_lines(path), "f", reading())]
    for record in [BIGBIO, *records]:
        for other in damaged(record):
            if isinstance(other, dict):
                choices = reading(on_error="drop", annotator="first", details=True)
                list(form_rows(placed(record, other), "f", choices))
