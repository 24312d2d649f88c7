import gzip
import json
import logging

import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, IterableDatasetDict, List, Value

from hf_spanner.data import readers
from hf_spanner.data.policy import ReadReport
from hf_spanner.data.readers import load_rows, read_rows
from hf_spanner.data.schema import FEATURES

ROW = {"id": None, "document": None, "tokens": ["Ana"], "entities": [{"start": 0, "end": 1, "label": "PER"}]}


def conll(path, word="Ana"):
    path.write_text(f"{word} B-PER\n", encoding="utf-8")
    return path


def jsonl(path, *words):
    lines = [json.dumps({"tokens": [word], "entities": [[0, 1, "PER"]]}) for word in words]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def tagged_dataset():
    features = Features({"tokens": List(Value("string")), "ner_tags": List(ClassLabel(names=["O", "B-PER"]))})
    return Dataset.from_dict({"tokens": [["Ana"]], "ner_tags": [[1]]}, features=features)


def words_of(rows):
    return [row["tokens"] for row in rows]


def test_every_format_gives_the_same_rows_by_its_suffix(tmp_path):
    (tmp_path / "b.txt").write_text("Ana", encoding="utf-8")
    (tmp_path / "b.ann").write_text("T1\tPER 0 3\tAna", encoding="utf-8")
    packed = tmp_path / "p.jsonl.gz"
    packed.write_bytes(gzip.compress(jsonl(tmp_path / "p.jsonl", "Ana").read_bytes()))
    tagged_dataset().to_parquet(tmp_path / "q.parquet")
    (tmp_path / "t.tsv").write_text("Ana\tB-PER\n", encoding="utf-8")
    for path in (conll(tmp_path / "c.conll"), packed, tmp_path / "q.parquet", tmp_path / "t.tsv"):
        assert list(read_rows(path)) == [ROW]
        assert list(load_rows(path)) == [ROW]
    for path in (tmp_path / "b.ann", tmp_path / "b.txt"):
        assert list(load_rows(str(path))) == [ROW | {"document": "b"}]


def test_a_parquet_path_is_no_pattern(tmp_path, monkeypatch):
    folder = tmp_path / "x[1]"
    folder.mkdir()
    tagged_dataset().to_parquet(folder / "weird.parquet")
    Dataset.from_list([{"tokens": ["Bo"], "entities": []}]).to_parquet(folder / "we[i]rd.parquet")
    assert words_of(load_rows(folder / "we[i]rd.parquet")) == [["Bo"]]
    monkeypatch.chdir(folder)
    assert words_of(load_rows("weird.parquet")) == [["Ana"]]
    (folder / "weird.parquet").rename(folder / "we::ird.parquet")
    with pytest.raises(ValueError, match="we::ird.parquet must not hold '::'"):
        load_rows(folder / "we::ird.parquet")


def test_a_given_format_goes_before_the_suffix(tmp_path):
    path = conll(tmp_path / "eng.testa")
    with pytest.raises(ValueError, match="format of path .*eng.testa is None, allowed: .*conll"):
        read_rows(path)
    assert words_of(read_rows(path, format="conll")) == [["Ana"]]


def test_rows_of_a_dataset_have_the_features_of_the_package(tmp_path):
    rows = load_rows(jsonl(tmp_path / "a.jsonl", "Ana", "Bo"))
    assert rows.features == FEATURES
    assert words_of(rows) == [["Ana"], ["Bo"]]
    assert load_rows(jsonl(tmp_path / "empty.jsonl")).features == FEATURES


def test_data_with_almost_nothing_in_it_is_read_as_it_is(cases, tmp_path):
    for item in cases("R-01")["input"]["items"]:
        path = tmp_path / "few.jsonl"
        records = [{"tokens": row["tokens"], "entities": row["spans"]} for row in item["data"]]
        path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
        rows = load_rows(path)
        assert words_of(rows) == [row["tokens"] for row in item["data"]]
        assert [[list(entity.values()) for entity in row["entities"]] for row in rows] == [
            row["spans"] for row in item["data"]
        ]


def test_an_edited_file_is_never_read_stale(tmp_path):
    path = conll(tmp_path / "a.conll", "Ana")
    first = load_rows(path)
    conll(path, "Bob")
    assert words_of(load_rows(path)) == [["Bob"]]
    assert words_of(first) == [["Ana"]]


def test_a_folder_gives_the_split_asked_for(tmp_path):
    conll(tmp_path / "train.conll", "train")
    jsonl(tmp_path / "dev.jsonl", "dev")
    (tmp_path / "README.md").write_text("not data", encoding="utf-8")
    assert words_of(load_rows(tmp_path, split="train")) == [["train"]]
    assert words_of(load_rows(tmp_path, split="validation")) == [["dev"]]
    assert words_of(load_rows(tmp_path, split="dev")) == [["dev"]]
    with pytest.raises(ValueError, match=r"split is None, allowed for .*'validation', 'train'"):
        load_rows(tmp_path)
    jsonl(tmp_path / "train.jsonl", "x")
    with pytest.raises(ValueError, match="several files of one split"):
        load_rows(tmp_path, split="train")


def test_a_folder_with_one_split_needs_no_name_and_joins_shards(tmp_path):
    for number in (1, 0, 2):
        jsonl(tmp_path / f"train-{number:05d}-of-00003.jsonl", str(number))
    assert words_of(load_rows(tmp_path)) == [["0"], ["1"], ["2"]]
    (tmp_path / "train-00001-of-00003.jsonl").rename(tmp_path / "train-00000-of-00003.json")
    with pytest.raises(ValueError, match=r"\['-00001-of-00003'\], \['-00000-of-00003'\].*\(shards\)"):
        load_rows(tmp_path)


def test_folders_of_brat_pairs_are_a_source_and_a_split(tmp_path):
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "b.txt").write_text("Ana", encoding="utf-8")
    (tmp_path / "test" / "b.ann").write_text("T1\tPER 0 3\tAna", encoding="utf-8")
    conll(tmp_path / "train.conll")
    for rows in (load_rows(tmp_path, split="test"), load_rows(tmp_path / "test")):
        assert list(rows) == [ROW | {"document": "b"}]


@pytest.mark.parametrize("format", [None, "brat"])
def test_brat_pairs_may_be_named_after_splits(tmp_path, format):
    for name, word in (("train", "Ana"), ("dev", "Bob")):
        (tmp_path / f"{name}.txt").write_text(word, encoding="utf-8")
        (tmp_path / f"{name}.ann").write_text(f"T1\tPER 0 3\t{word}", encoding="utf-8")
    assert list(load_rows(tmp_path, split="train", format=format)) == [ROW | {"document": "train"}]
    assert words_of(load_rows(tmp_path, split="dev", format=format)) == [["Bob"]]


def test_datasets_in_memory_saved_and_from_the_hub(tmp_path, monkeypatch):
    dataset = tagged_dataset()
    assert list(load_rows(dataset)) == [ROW]
    assert list(load_rows(dataset.to_iterable_dataset())) == [ROW]
    dataset.save_to_disk(tmp_path / "one")
    assert list(load_rows(tmp_path / "one")) == [ROW]
    splits = DatasetDict({"train": dataset, "validation": Dataset.from_list([{"tokens": ["a"], "ner_tags": ["O"]}])})
    splits.save_to_disk(tmp_path / "two")
    assert words_of(load_rows(tmp_path / "two", split="dev")) == [["a"]]
    asked = []
    monkeypatch.setattr(readers, "load_dataset", lambda *args: asked.append(args) or splits)
    assert list(load_rows("someone/corpus", subset="en", split="train")) == [ROW]
    assert asked == [("someone/corpus", "en")]
    with pytest.raises(ValueError, match="split is 'test', allowed for someone/corpus"):
        load_rows("someone/corpus", split="test")


def test_rows_loaded_once_can_be_loaded_again(tmp_path):
    rows = load_rows(conll(tmp_path / "a.conll"))
    assert list(load_rows(rows)) == list(rows)


def test_what_is_not_there_or_not_possible_is_refused(tmp_path):
    path = conll(tmp_path / "a.conll")
    for source in ("missing.conll", "../missing", tmp_path / "missing", "a b"):
        with pytest.raises(ValueError, match="path .*does not exist"):
            load_rows(source)
    with pytest.raises(ValueError, match="path .*does not exist"):
        read_rows("missing.conll")
    with pytest.raises(ValueError, match=r"split, subset are \('train', None\), allowed for one file"):
        load_rows(path, split="train")
    with pytest.raises(ValueError, match="split is 'train', allowed for one dataset: None"):
        load_rows(tagged_dataset(), split="train")
    with pytest.raises(ValueError, match="on_error must be one of"):
        read_rows(path, on_error="skip")


def test_what_was_dropped_is_logged_once_and_reported(tmp_path, caplog):
    path = tmp_path / "a.conll"
    path.write_text("a I-X\n\nb 0\n\nc B-X\nd I-Y\n\ne B-X\n", encoding="utf-8")
    report = ReadReport()
    with caplog.at_level(logging.INFO):
        rows = load_rows(path, scheme="IOB2", on_error="drop", report=report)
    assert (len(rows), report.num_rows, report.num_entities) == (3, 3, 2)
    assert report.counts == {"dropped, ill-formed tags": 2, "dropped, unknown tag": 1}
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "dropped, unknown tag: 1, e.g. " in record.getMessage()


def test_a_detected_scheme_is_told(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        load_rows(conll(tmp_path / "a.conll"))
    assert "IOB2 detected from 1 sentences" in caplog.text


def test_an_error_while_loading_is_the_error_of_the_reader(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("a B-X\nb\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"a\.conll, line 2"):
        load_rows(path)


def test_splits_and_lists_in_memory_are_read_by_name():
    train, test = tagged_dataset(), Dataset.from_list([{"tokens": ["Bo"], "tags": ["O"]}])
    for splits in (
        DatasetDict({"train": train, "test": test}),
        IterableDatasetDict({"train": train.to_iterable_dataset(), "test": test.to_iterable_dataset()}),
        {"train": train, "test": [{"tokens": ("Bo",), "entities": []}]},
    ):
        assert list(load_rows(splits, split="train")) == [ROW]
        assert words_of(load_rows(splits, split="test")) == [["Bo"]]
        with pytest.raises(ValueError, match=r"split is None, allowed for dataset: \['train', 'test'\]"):
            load_rows(splits)
    assert list(load_rows(DatasetDict({"validation": train}))) == [ROW]


@pytest.mark.parametrize("name", ["validation", "dev", "valid", "val"])
@pytest.mark.parametrize("asked", ["validation", "dev", "valid", "val"])
def test_any_usual_name_of_a_split_finds_it(name, asked, tmp_path):
    """In memory, where it was saved, and as a file."""
    parts = DatasetDict({"train": Dataset.from_list([{"tokens": ["a"], "ner_tags": ["O"]}]), name: tagged_dataset()})
    assert list(load_rows(parts, split=asked)) == [ROW]
    parts.save_to_disk(tmp_path / "saved")
    assert list(load_rows(tmp_path / "saved", split=asked)) == [ROW]
    (tmp_path / "files").mkdir()
    conll(tmp_path / "files" / f"{name}.conll")
    conll(tmp_path / "files" / "train.conll", "Bo")
    assert list(load_rows(tmp_path / "files", split=asked)) == [ROW]
    assert list(load_rows([{"tokens": ["Ana"], "entities": [(0, 1, "PER")]}])) == [ROW]
    with pytest.raises(ValueError, match=r"^rows, row 1 \(from 0\): row is 3 \(type\)"):
        load_rows([ROW, 3])
    with pytest.raises(ValueError, match="source is int, allowed: a path, a dataset, a list of dicts"):
        load_rows(3)
    with pytest.raises(ValueError, match="allowed for what is in memory: None"):
        load_rows([ROW], format="jsonl")


@pytest.mark.parametrize("field", ["ner_tags", "tags", "labels"])
def test_class_numbers_take_the_names_that_are_given(field, tmp_path):
    names = ["O", "B-PER", "I-PER"]
    records = [{"tokens": ["Ana"], field: [1]}]
    plain = Dataset.from_list(records)
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(records[0]), encoding="utf-8")
    for source in (records, plain, path):
        assert list(load_rows(source, class_names=names)) == [ROW]
        with pytest.raises(ValueError, match=rf"{field} is \[1\] .*numbers of class_names"):
            load_rows(source)
    with pytest.raises(ValueError, match=rf"{field} is \['O', 3\]"):
        load_rows([{"tokens": ["a", "b"], field: [0, 3]}], class_names=names)
    features = Features({"tokens": List(Value("string")), field: List(ClassLabel(names=names))})
    named = plain.cast(features)
    assert list(load_rows(named)) == list(load_rows(named, class_names=names)) == [ROW]
    with pytest.raises(ValueError, match=r"class_names must be left out for dataset, whose own names are"):
        load_rows(named, class_names=["O", "B-LOC", "I-LOC"])


def test_label_numbers_of_entities_take_the_names_that_are_given():
    for entity in ({"start": 0, "end": 1, "label": 1}, [0, 1, 1]):
        assert list(load_rows([{"tokens": ["Ana"], "entities": [entity]}], class_names=["LOC", "PER"])) == [ROW]
    with pytest.raises(ValueError, match="class_names must be a list of names"):
        load_rows([], class_names="PER")


@pytest.mark.parametrize("name", ["a.conll", "a.jsonl", "a.parquet", "list"])
def test_a_source_of_which_nothing_could_be_read_is_an_error_also_when_dropping(name, tmp_path):
    path = tmp_path / name
    records = [{"tokens": ["a"], "ner_tags": ["X"]}] * 2
    if name == "a.parquet":
        Dataset.from_list(records).to_parquet(path)
    else:
        path.write_text("a X\n\na X\n" if name == "a.conll" else "{}\n{}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"nothing could be read, all rows were dropped \(2\); e.g. .*(line|row) [01]"):
        load_rows(records if name == "list" else path, on_error="drop")


def test_rows_without_any_entity_are_told(tmp_path, caplog):
    load_rows([{"tokens": ["a"], "entities": []}])
    assert "dataset: none of its 1 rows has an entity" in caplog.text
    caplog.clear()
    load_rows([ROW, {"tokens": ["a"], "entities": []}])
    load_rows([])
    assert caplog.text == ""


def test_labels_without_prefix_are_read_when_asked_for(tmp_path):
    """As in Few-NERD, in columns and as classes of a data set; without the choice the message names it."""
    path = tmp_path / "a.conll"
    path.write_text("Ana\tperson-actor\nLi\tperson-actor\nmet\tO\nBo\tperson-other\n", encoding="utf-8")
    names = ["O", "person-actor", "person-other"]
    features = Features({"tokens": List(Value("string")), "ner_tags": List(ClassLabel(names=names))})
    columns = {"tokens": [["Ana", "Li", "met", "Bo"]], "ner_tags": [[1, 1, 0, 2]]}
    expected = [
        {"start": 0, "end": 2, "label": "person-actor"},
        {"start": 3, "end": 4, "label": "person-other"},
    ]
    for source in (path, Dataset.from_dict(columns, features=features)):
        with pytest.raises(ValueError, match="tag is 'person-actor'.*; scheme IO takes tags without prefix"):
            load_rows(source)
        assert list(load_rows(source, scheme="IO")["entities"]) == [expected]
    with pytest.raises(ValueError, match=r"split, subset are \(None, 'small'\), allowed for one file"):
        load_rows(path, subset="small")
