"""The pipe, its loss, and how a model is made, saved, loaded strictly and uploaded."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModel, PreTrainedTokenizerBase

from hf_spanner import METHODS, SpanNERConfig, SpanNERModel
from hf_spanner.core.spans import Span, pack_spans
from hf_spanner.methods.boundary_smoothing import BoundarySmoothingModel
from hf_spanner.training.collator import SpanNERCollator

SOURCE = ["modeling_boundary_smoothing.py", "modeling_span_ner.py", "pipeline_span_ner.py", "spans.py", "words.py"]


@pytest.fixture
def model(tiny_model: Callable[..., SpanNERModel]) -> SpanNERModel:
    """A tiny model without BiLSTM."""
    return tiny_model(lstm_layers=0)


@pytest.fixture
def batch(rows: list[dict[str, Any]], tokenizer: PreTrainedTokenizerBase, model: SpanNERModel) -> dict[str, Tensor]:
    """The batch that holds all rows."""
    return SpanNERCollator(tokenizer, model.config.label2id)(rows)


@pytest.fixture
def saved(model: SpanNERModel, tmp_path: Path) -> Path:
    """The folder of the saved model."""
    model.save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def test_the_base_gives_no_hook() -> None:
    base = SpanNERModel(SpanNERConfig(encoder_config={"model_type": "bert", "num_hidden_layers": 1, "hidden_size": 12}))
    with pytest.raises(NotImplementedError):
        base.score_spans(torch.zeros(1, 1, 12), torch.ones(1, 1, dtype=torch.bool), None, {})
    with pytest.raises(NotImplementedError):
        base.compute_loss(None, torch.zeros(1, 0, 3))
    with pytest.raises(NotImplementedError):
        base.candidate_spans(None, {})
    assert base.unreachable([(0, 1, 0)]) == 0


def test_loss_is_the_sum_over_sentences_by_the_sentences_of_the_step(
    model: SpanNERModel, batch: dict[str, Tensor]
) -> None:
    losses, _ = model.compute_loss(model(**batch), batch["labels"])
    assert losses.shape == (5,)
    assert model(**batch).loss.item() == pytest.approx(losses.sum().item() / 5)
    assert model(**batch, num_items_in_batch=20).loss.item() == pytest.approx(losses.sum().item() / 20)
    del batch["labels"]
    assert model(**batch).loss is None


def test_decode_is_resolved_calibrated_and_above_the_threshold(
    model: SpanNERModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """logit(0.9) = ln 9 and temperature 2 give 0.75; logit(0.5) = 0 stays as it is."""
    model.config.temperature = 2.0
    table = pack_spans([[Span(0, 2, 0, 0.9), Span(1, 3, 1, 0.8), Span(3, 4, 2, 0.5)], []])
    monkeypatch.setattr(model, "candidate_spans", lambda output, decoding: table)
    output = SimpleNamespace(word_mask=torch.ones(2, 5, dtype=torch.bool))
    first, second = model.decode(output)
    assert first == [Span(0, 2, 0, pytest.approx(0.75)), Span(3, 4, 2, pytest.approx(0.5))]
    assert second == []
    assert len(model.decode(output, {"threshold": 0.6})[0]) == 1
    assert len(model.decode(output, {"overlap": "any"})[0]) == 3


def test_unknown_decoding_setting_is_refused(model: SpanNERModel, batch: dict[str, Tensor]) -> None:
    with pytest.raises(ValueError, match="unknown decoding parameter treshold"):
        model(**batch, decoding={"treshold": 0.5})


def test_from_encoder_refuses_unknown_fields(tiny_encoder: Path) -> None:
    with pytest.raises(ValueError, match="unknown field afine_size of BoundarySmoothingConfig"):
        BoundarySmoothingModel.from_encoder(tiny_encoder, ["A"], afine_size=3)
    with pytest.raises(ValueError, match="affine_size"):
        BoundarySmoothingModel.from_encoder(tiny_encoder, ["A"], affine_size=0)


def test_from_encoder_refuses_a_text_as_labels(tiny_encoder: Path) -> None:
    """Its letters would become labels."""
    for method in METHODS.values():
        with pytest.raises(ValueError, match="labels must be a list of names, such as \\['LOC'\\], got the text 'LOC'"):
            method.from_encoder(tiny_encoder, labels="LOC")
        for field in ("id2label", "label2id"):
            with pytest.raises(ValueError, match=field):
                method.config_class(**{"id2label": {0: "LOC"}, "label2id": {"LOC": 0}} | {field: "LOC"})


def test_from_encoder_keeps_the_order_of_labels(tiny_model: Callable[..., SpanNERModel]) -> None:
    config = tiny_model(labels=("Z", "A", "10")).config
    assert config.id2label == {0: "Z", 1: "A", 2: "10"}
    assert config.label2id == {"Z": 0, "A": 1, "10": 2}


def test_a_saved_folder_is_complete(saved: Path, tiny_encoder: Path) -> None:
    names = {path.name for path in saved.iterdir()}
    assert {"config.json", "model.safetensors", *SOURCE} <= names
    assert not any(name.startswith("trainer_") for name in names)
    config = json.loads((saved / "config.json").read_text(encoding="utf-8"))
    assert config["custom_pipelines"] == {
        "span-ner": {"impl": "pipeline_span_ner.SpanNERPipeline", "pt": ["AutoModel"], "type": "text"}
    }
    assert config["auto_map"]["AutoModel"] == "modeling_boundary_smoothing.BoundarySmoothingModel"
    assert "/" not in config["encoder_config"].get("_name_or_path", "")
    for path in saved.glob("*.json"):
        text = path.read_text(encoding="utf-8")
        assert str(tiny_encoder) not in text
        assert not [value for value in strings(json.loads(text)) if Path(value).is_absolute()]


def strings(value: Any) -> Iterator[str]:
    """All strings that a JSON value holds."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(inner)


def test_only_the_main_process_writes_source(model: SpanNERModel, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path, is_main_process=False)
    assert not list(tmp_path.glob("*.py"))


def test_dtype_is_saved_and_loaded(model: SpanNERModel, tmp_path: Path) -> None:
    model.to(torch.bfloat16).save_pretrained(tmp_path)
    loaded = AutoModel.from_pretrained(tmp_path, dtype="auto")
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.bfloat16}
    assert AutoModel.from_pretrained(tmp_path, dtype=torch.float32).dtype == torch.float32


def test_settings_given_at_loading_win_and_are_checked(saved: Path) -> None:
    assert AutoModel.from_pretrained(saved, threshold=0.5).config.threshold == 0.5
    with pytest.raises(ValueError, match="threshold must be a number in"):
        AutoModel.from_pretrained(saved, threshold=2)


def test_a_new_label_set_is_an_explicit_choice(saved: Path, model: SpanNERModel) -> None:
    labels = {0: "A", 1: "B", 2: "C", 3: "D"}
    loaded = AutoModel.from_pretrained(saved, id2label=labels, ignore_mismatched_sizes=True)
    assert loaded.config.num_labels == 4
    assert loaded.biaffine.bias.shape == (5,)
    assert all(torch.isfinite(parameter).all() for parameter in loaded.parameters())
    assert torch.equal(loaded.start_layer.weight, model.start_layer.weight)
    assert loaded.biaffine.pair_weight.abs().sum() > 0
