"""How a pipeline is made, called and copied: what the library's own pipelines allow, ours allow too."""

import pickle
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from transformers import pipeline
from transformers.pipelines import PIPELINE_REGISTRY

from hf_spanner import METHODS, SpanNERPipeline, quickstart

ANA = "Ana met Bo"


@pytest.fixture(scope="module", params=METHODS)
def tagger(request: pytest.FixtureRequest, random_tagger: Callable[..., SpanNERPipeline]) -> SpanNERPipeline:
    """A pipeline on an untrained model of each method that finds entities."""
    return random_tagger(request.param)


def rounded(answers: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """Answers with scores of five digits, to which batches of another form agree."""
    return [[entity | {"score": pytest.approx(entity["score"], abs=1e-5)} for entity in answer] for answer in answers]


def test_arguments_of_every_pipeline_call_are_taken(tagger: SpanNERPipeline, caplog: pytest.LogCaptureFixture) -> None:
    """`num_workers` has no effect here; a second input by position is ignored with a warning, as in the library."""
    expected = tagger([ANA, "Oslo"])
    assert tagger([ANA, "Oslo"], num_workers=4, batch_size=1) == rounded(expected)
    assert caplog.text == ""
    assert tagger([ANA, "Oslo"], ["more"]) == expected
    assert "Ignoring args : (['more'],)" in caplog.text
    made = SpanNERPipeline(model=tagger.model, tokenizer=tagger.tokenizer, num_workers=2, batch_size=1)
    assert made([ANA, "Oslo"]) == rounded(expected)


@pytest.mark.parametrize("size", [0, -1, 2.5, "8"])
def test_a_batch_size_that_cannot_be_is_refused(random_tagger: Callable[..., SpanNERPipeline], size: Any) -> None:
    tagger = random_tagger("bopn")
    for call in (partial(tagger, ANA), partial(SpanNERPipeline, model=tagger.model, tokenizer=tagger.tokenizer)):
        with pytest.raises(ValueError, match=f"batch_size must be an integer of at least 1, got {size!r}"):
            call(batch_size=size)


def test_without_the_model_of_the_quickstart_the_command_that_makes_one_is_named(
    tagger: SpanNERPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quickstart, "MODEL_FOLDER", tmp_path / "none")
    with pytest.raises(ValueError, match=r"is not in .*none; `hf-spanner train` makes it"):
        pipeline("span-ner")
    monkeypatch.setattr(quickstart, "MODEL_FOLDER", tmp_path)
    tagger.model.save_pretrained(tmp_path)
    tagger.tokenizer.save_pretrained(tmp_path)
    entry = PIPELINE_REGISTRY.check_task("span-ner")[1]
    monkeypatch.setitem(entry, "default", quickstart.DefaultModel())
    assert pipeline("span-ner")(ANA) == tagger(ANA)


def test_settings_of_the_construction_hold_until_a_call_gives_others(tagger: SpanNERPipeline) -> None:
    made = SpanNERPipeline(model=tagger.model, tokenizer=tagger.tokenizer, pretokenized=True, threshold=1.0)
    words = ANA.split()
    assert made(words) == []
    assert made(words, threshold=0.0) == tagger(ANA)
    assert made(ANA, pretokenized=False, threshold=0.0) == tagger(ANA)


def test_a_pipeline_pickles_after_its_calls_as_before_them(
    random_tagger: Callable[..., SpanNERPipeline], tagger: SpanNERPipeline
) -> None:
    """Also where the encoder was asked for several layers, for which the library leaves hooks in it."""
    made = random_tagger(tagger.model.config.model_type, num_encoder_layers=2)
    before = pickle.loads(pickle.dumps(made))
    expected = made([ANA, "Oslo"])
    assert any(expected)
    for copied in (pickle.loads(pickle.dumps(made)), before, deepcopy(made), made):
        assert copied([ANA, "Oslo"]) == expected
    assert pickle.loads(pickle.dumps(made.model)).state_dict().keys() == made.model.state_dict().keys()
