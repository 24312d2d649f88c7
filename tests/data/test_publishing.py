"""Data sets for the Hub."""

import pytest
from huggingface_hub import DatasetCard

from hf_spanner.data import publishing
from hf_spanner.data.publishing import push_rows, save_dataset
from hf_spanner.data.readers import load_rows

ENTITIES = [{"start": 0, "end": 2, "label": "LOC"}]
TRAIN = [{"id": "1", "document": "d", "tokens": ["Lake", "Tarn"], "entities": ENTITIES}]
SPLITS = {"train": TRAIN, "validation": [{"tokens": ["Bo"], "entities": []}]}


def test_a_folder_holds_its_splits_and_a_card_that_the_hub_reads(tmp_path):
    folder = tmp_path / "corpus"
    save_dataset(SPLITS, folder, name="someone/corpus", license="cc-by-4.0", language="en")
    card = DatasetCard.load(folder / "README.md")
    assert card.data.task_ids == ["named-entity-recognition"]
    assert (card.data.license, card.data.language, card.data.size_categories) == ("cc-by-4.0", ["en"], ["n<1K"])
    (config,) = card.data.configs
    files = {item["split"]: folder / item["path"] for item in config["data_files"]}
    assert list(load_rows(folder, split="train")) == list(load_rows(files["train"])) == TRAIN
    assert load_rows(files["validation"])[0]["tokens"] == ["Bo"]
    assert "entities" in card.text
    assert 'load_rows("someone/corpus", split="train")' in card.text
    with pytest.raises(ValueError, match="exists"):
        save_dataset(SPLITS, folder, name="x")
    with pytest.raises(ValueError, match="at least one"):
        save_dataset({}, tmp_path / "other", name="x")
    with pytest.raises(ValueError, match=r"letters, digits and underscores, got \['a\.b'\]"):
        save_dataset({"a.b": TRAIN}, tmp_path / "other", name="x")
    with pytest.raises(ValueError, match="tokens"):
        save_dataset({**SPLITS, "test": [{"tokens": 1, "entities": []}]}, tmp_path / "other", name="x")
    assert not (tmp_path / "other").exists()


def test_pushed_rows_are_one_commit_of_such_a_folder(monkeypatch):
    calls = []

    class Api:
        def __init__(self, token):
            calls.append(("token", token))

        def create_repo(self, name, **options):
            calls.append((name, options))

        def upload_folder(self, *, repo_id, repo_type, folder_path):
            names = sorted(path.relative_to(folder_path).as_posix() for path in folder_path.rglob("*.*"))
            calls.append((repo_id, repo_type, names))
            return "https://hub/commit"

    monkeypatch.setattr(publishing, "HfApi", Api)
    assert push_rows(SPLITS, "someone/corpus", token="t") == "https://hub/commit"
    assert calls == [
        ("token", "t"),
        ("someone/corpus", {"repo_type": "dataset", "private": True, "exist_ok": True}),
        ("someone/corpus", "dataset", ["README.md", "data/train.parquet", "data/validation.parquet"]),
    ]
