import pytest

from hf_spanner.data.records import record_rows


def rows_of(records, reading):
    placed = [(f"f, line {line}", record) for line, record in enumerate(records, start=1)]
    return list(record_rows(placed, "f", reading))


@pytest.mark.parametrize(
    ("record", "mentions"),
    [
        (
            {"id": 1, "data": {"text": "a"}, "annotations": []},
            ["['annotations', 'data', 'id']", "Label Studio's"],
        ),
        ({"text": "a", "label": [], "annotation_id": 1, "id": 1}, ["Label Studio's JSON-MIN"]),
        ({"text": "a", "label": [[0, 1, "X"]]}, ["doccano's"]),
        ({"text": "a", "spans": [], "answer": "accept"}, ["Prodigy's", "['answer', 'spans', 'text']"]),
        ({"sentences": [["a"]], "ner": [[]], "doc_key": "d"}, ["DyGIE's"]),
        ({"words": ["a"], "ner_tags": ["O"]}, ["tokens with ner_tags, without tokens here"]),
        ({"tokens": ["a"], "pos_tags": ["NN"]}, ["tokens with entities, without entities here"]),
        (
            {"text": "a", "entities": [{"id": 1, "label": "X", "start_offset": 0, "end_offset": 1}]},
            ["entities[0] is {", "doccano's, with start_offset and end_offset in place of start and end"],
        ),
        (
            {"tokens": ["a"], "entities": [{"type": "X", "start": 0, "end": 1}]},
            ["SpERT's, with type in place"],
        ),
        ({"text": "a", "entities": [{"offsets": [[0, 1]], "type": "X", "text": ["a"]}]}, ["BigBio's"]),
    ],
)
def test_forms_of_annotation_tools_are_named_with_the_fields_that_are_there(record, mentions, reading):
    with pytest.raises(ValueError, match="^f, line 1: ") as error:
        rows_of([record], reading())
    assert [text for text in mentions if text not in str(error.value)] == []
