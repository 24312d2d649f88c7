"""Checkpoints of an earlier version load and answer as they did."""

import gzip
import json
from pathlib import Path

import pytest
from transformers import AutoModel, AutoTokenizer, pipeline

import hf_spanner

FOLDERS = sorted((Path(__file__).parents[1] / "fixtures" / "checkpoints").iterdir())
MAX_BYTES = 60_000
every_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


@every_folder
def test_an_earlier_checkpoint_answers_as_it_did(folder: Path) -> None:
    """Spans are equal and scores within 1e-5, for texts one at a time and in a batch."""
    answers = json.loads(gzip.decompress((folder / "answers.json.gz").read_bytes()))
    assert sum(len(answer["entities"]) for answer in answers) > 1
    tagger = pipeline("span-ner", model=str(folder), device="cpu")
    texts = [answer["text"] for answer in answers]
    for predictions in (tagger(texts), [tagger(text) for text in texts]):
        for entities, answer in zip(predictions, answers, strict=True):
            assert [entity | {"score": 0.0} for entity in entities] == [
                entity | {"score": 0.0} for entity in answer["entities"]
            ]
            scores = [entity["score"] for entity in answer["entities"]]
            assert [entity["score"] for entity in entities] == pytest.approx(scores, abs=1e-5)


@every_folder
def test_an_earlier_checkpoint_survives_another_save(folder: Path, tmp_path: Path) -> None:
    """Weights and settings stay the same, and the configuration says which version wrote it."""
    loaded = AutoModel.from_pretrained(folder)
    loaded.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
    saved_again = AutoModel.from_pretrained(tmp_path)
    assert all(value.equal(saved_again.state_dict()[name]) for name, value in loaded.state_dict().items())
    assert saved_again.config.to_diff_dict() == loaded.config.to_diff_dict()
    earlier = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert folder.name == f"{earlier['model_type']}-{earlier['spanner_version']}"
    assert earlier["model_type"] in hf_spanner.METHODS


@every_folder
def test_a_checkpoint_is_small_and_holds_no_pickle(folder: Path) -> None:
    assert sum(file.stat().st_size for file in folder.iterdir()) < MAX_BYTES
    assert {"".join(file.suffixes) for file in folder.iterdir()} == {".json", ".json.gz", ".safetensors"}


def test_the_checkpoints_of_the_first_version_are_there() -> None:
    """They are only ever added to; a later method has its own once somebody runs `make checkpoints`."""
    first = {"bopn-0.1.0", "boundary_smoothing-0.1.0", "diffusion_ner-0.1.0", "locate_and_label-0.1.0"}
    assert first <= {folder.name for folder in FOLDERS}
