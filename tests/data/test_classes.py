import pytest

from hf_spanner.data.classes import named_record

NAMES = ["O", "B-PER"]


def test_numbers_take_their_names_and_others_stay():
    record = {"ner_tags": [1, "O", 2, -1, True, None], "tags": [1], "tokens": [0]}
    named = named_record(record, {"ner_tags": NAMES, "labels": NAMES}, None)
    assert named == record | {"ner_tags": ["B-PER", "O", 2, -1, True, None]}
    assert record["ner_tags"][0] == 1


@pytest.mark.parametrize(
    ("entities", "named"),
    [
        ([{"start": 0, "end": 1, "label": 1}], [{"start": 0, "end": 1, "label": "PER"}]),
        ([[0, 1, 1], (0, 1, 0)], [[0, 1, "PER"], [0, 1, "LOC"]]),
        ({"start": [0], "end": [1], "label": [1]}, {"start": [0], "end": [1], "label": ["PER"]}),
        ([{"start": 0}, [0, 1], 3], [{"start": 0}, [0, 1], 3]),
        ({"start": [0]}, {"start": [0]}),
        ("x", "x"),
        (None, None),
    ],
)
def test_labels_of_entities_take_their_names_and_malformed_ones_stay(entities, named):
    assert named_record({"entities": entities}, {}, ["LOC", "PER"]) == {"entities": named}
