"""Checkpoints of an earlier version load and answer as they did."""

import json
from pathlib import Path

import pytest
from transformers import AutoModel, AutoTokenizer, pipeline

from hf_spanner import METHODS

FOLDER = Path(__file__).parents[1] / "fixtures" / "checkpoints"
MAX_BYTES = 60_000


def test_an_earlier_checkpoint_answers_as_it_did(method: str) -> None:
    """Spans equal, scores within 1e-5; one at a time and in a batch."""
    answers = json.loads((FOLDER / method / "answers.json").read_text(encoding="utf-8"))
    assert sum(len(answer["entities"]) for answer in answers) > 1
    tagger = pipeline("span-ner", model=str(FOLDER / method), device="cpu")
    texts = [answer["text"] for answer in answers]
    for found in (tagger(texts), [tagger(text) for text in texts]):
        for entities, answer in zip(found, answers, strict=True):
            assert [entity | {"score": 0.0} for entity in entities] == [
                entity | {"score": 0.0} for entity in answer["entities"]
            ]
            scores = [entity["score"] for entity in answer["entities"]]
            assert [entity["score"] for entity in entities] == pytest.approx(scores, abs=1e-5)


def test_an_earlier_checkpoint_survives_another_save(method: str, tmp_path: Path) -> None:
    """The same weights and settings; the configuration says which version wrote it."""
    loaded = AutoModel.from_pretrained(FOLDER / method)
    loaded.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(FOLDER / method).save_pretrained(tmp_path)
    again = AutoModel.from_pretrained(tmp_path)
    assert all(value.equal(again.state_dict()[name]) for name, value in loaded.state_dict().items())
    assert again.config.to_diff_dict() == loaded.config.to_diff_dict()
    earlier = json.loads((FOLDER / method / "config.json").read_text(encoding="utf-8"))
    assert earlier["spanner_version"]
    assert earlier["model_type"] == method


def test_every_method_has_a_small_checkpoint_without_pickles() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(METHODS)
    for path in FOLDER.iterdir():
        assert sum(file.stat().st_size for file in path.iterdir()) < MAX_BYTES
        assert {file.suffix for file in path.iterdir()} == {".json", ".safetensors"}
