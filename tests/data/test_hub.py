import pytest
from datasets import ClassLabel, Dataset, Features, IterableDataset, LargeList, List, Sequence, Value

from hf_spanner.data.hub import dataset_records

TAGS = ["O", "B-PER", "I-PER"]
WORDS = {"tokens": List(Value("string"))}


def records_of(dataset, reading):
    return list(dataset_records(dataset, "corpus", reading))


@pytest.mark.parametrize("kind", [List, Sequence, LargeList])
def test_tag_numbers_become_names(kind, reading):
    features = Features({**WORDS, "ner_tags": kind(ClassLabel(names=TAGS))})
    dataset = Dataset.from_dict({"tokens": [["Ana", "Li"], []], "ner_tags": [[1, 2], []]}, features=features)
    expected = [
        ("corpus, row 0 (from 0)", {"tokens": ["Ana", "Li"], "ner_tags": ["B-PER", "I-PER"]}),
        ("corpus, row 1 (from 0)", {"tokens": [], "ner_tags": []}),
    ]
    assert records_of(dataset, reading()) == expected
    assert records_of(dataset.with_format("numpy"), reading()) == expected
    assert records_of(dataset.to_iterable_dataset(), reading()) == expected


def test_a_number_that_is_no_class_is_refused_or_dropped(reading):
    features = Features({**WORDS, "ner_tags": List(ClassLabel(names=TAGS))})
    dataset = Dataset.from_dict({"tokens": [["a"], ["b"]], "ner_tags": [[-1], [0]]}, features=features)
    with pytest.raises(ValueError, match=r"corpus, row 0 \(from 0\): ner_tags is -1 .*0 to 2"):
        records_of(dataset, reading())
    assert [record["tokens"] for _, record in records_of(dataset, reading(on_error="drop"))] == [["b"]]


def test_numbers_of_a_field_that_holds_no_tags_refuse_nothing(reading):
    features = Features({**WORDS, "ner_tags": List(ClassLabel(names=TAGS)), "labels": List(ClassLabel(names=["news"]))})
    dataset = Dataset.from_dict({"tokens": [["a"]], "ner_tags": [[1]], "labels": [[-1]]}, features=features)
    assert records_of(dataset, reading())[0][1]["ner_tags"] == ["B-PER"]
    features = Features({**WORDS, "entities": List(List(Value("string"))), "tags": List(ClassLabel(names=TAGS))})
    dataset = Dataset.from_dict({"tokens": [["a"]], "entities": [[]], "tags": [[-1]]}, features=features)
    with pytest.raises(ValueError, match="tags is -1"):
        records_of(dataset, reading())


@pytest.mark.parametrize(
    ("kind", "numbered", "named"),
    [
        (List, [{"start": 0, "end": 1, "label": 1}], [{"start": 0, "end": 1, "label": "PER"}]),
        (Sequence, {"start": [0], "end": [1], "label": [1]}, {"start": [0], "end": [1], "label": ["PER"]}),
    ],
)
def test_label_numbers_of_entities_become_names(kind, numbered, named, reading):
    span = {"start": Value("int32"), "end": Value("int32"), "label": ClassLabel(names=["LOC", "PER"])}
    features = Features({**WORDS, "entities": kind(span)})
    dataset = Dataset.from_list([{"tokens": ["Ana"], "entities": numbered}], features=features)
    assert records_of(dataset, reading())[0][1]["entities"] == named


def test_names_and_datasets_without_features_pass_unchanged(reading):
    record = {"tokens": ["Ana"], "ner_tags": ["B-PER"], "entities": None}
    assert records_of(Dataset.from_list([record]), reading())[0][1] == record
    assert records_of(IterableDataset.from_generator(lambda: iter([record])), reading())[0][1] == record
