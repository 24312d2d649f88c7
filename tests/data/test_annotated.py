import pytest
from datasets import ClassLabel, Dataset, Features, List, Value

from hf_spanner.data.annotated import annotated_rows
from hf_spanner.data.readers import load_rows

ENTITY = {"start": 0, "end": 1, "label": "PER"}
TAGGED = {"tokens": ["Ana", "met"], "ner_tags": ["B-PER", "O"]}


def entities_of(rows):
    return [list(row["entities"]) for row in rows]


def test_rows_in_the_form_of_training_are_given_back_as_they_are():
    rows = [{"tokens": ["Ana"], "entities": [ENTITY], "source": "x"}]
    dataset = Dataset.from_list(rows)
    assert annotated_rows(rows) == rows
    assert annotated_rows(dataset) is dataset
    read = load_rows(rows)
    assert annotated_rows(read) is read
    assert annotated_rows([]) == []


@pytest.mark.parametrize(
    "row",
    [
        TAGGED,
        {"tokens": ["Ana", "met"], "labels": ["B-PER", "O"]},
        {"tokens": ["Ana", "met"], "entities": [[0, 1, "PER"]]},
        {"tokens": ["Ana", "met"], "entities": {"start": [0], "end": [1], "label": ["PER"]}},
        {"tokenized_text": ["Ana", "met"], "ner": [[0, 0, "PER"]]},
        {"text": "Ana met", "entities": [{"start": 0, "end": 3, "label": "PER"}]},
    ],
)
def test_rows_of_another_form_are_read(row):
    sources = [[row], iter([row])]
    mixed = [row[field][0] for field in ("entities", "ner") if isinstance(row.get(field), list)]
    if not any(isinstance(entity, list) for entity in mixed):  # a column of a dataset has one type
        sources += [Dataset.from_list([row]), Dataset.from_list([row]).to_iterable_dataset()]
    for rows in sources:
        assert entities_of(annotated_rows(rows)) == [[ENTITY]]


def test_class_numbers_of_a_dataset_take_its_names():
    features = Features({"tokens": List(Value("string")), "ner_tags": List(ClassLabel(names=["O", "B-PER"]))})
    dataset = Dataset.from_list([{"tokens": ["Ana"], "ner_tags": [1]}], features=features)
    assert entities_of(annotated_rows(dataset)) == [[ENTITY]]
    label = {"start": Value("int32"), "end": Value("int32"), "label": ClassLabel(names=["LOC", "PER"])}
    features = Features({"tokens": List(Value("string")), "entities": List(label)})
    dataset = Dataset.from_list([{"tokens": ["Ana"], "entities": [ENTITY | {"label": 1}]}], features=features)
    assert entities_of(annotated_rows(dataset)) == [[ENTITY]]


def test_what_would_lose_all_labels_is_refused():
    with pytest.raises(ValueError, match=r"^rows, row 0 \(from 0\): ner_tags is .*two truths"):
        annotated_rows([TAGGED | {"entities": []}])
    with pytest.raises(ValueError, match=r"^rows, row 1 \(from 0\): fields is \['tokens'\] \(form\)"):
        annotated_rows([TAGGED, {"tokens": ["a"]}])
