"""Defaults from the paper, ranges checked before any tensor exists, and values kept on disk."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig, BertConfig

from hf_spanner.methods.diffusion_ner import DiffusionNERConfig


def test_defaults_are_those_of_the_paper() -> None:
    """Section 5.3: K 60, T 1000, gamma 5, phi 2.5, lambda 1; Appendix C: max pooling, 8 heads; Algorithm 2: eta 0."""
    config = DiffusionNERConfig()
    assert (config.num_train_spans, config.num_spans, config.num_timesteps, config.num_steps) == (60, 60, 1000, 5)
    assert (config.phi, config.signal_scale, config.eta, config.schedule) == (2.5, 1.0, 0.0, "cosine")
    assert (config.pooling, config.num_attention_heads, config.lstm_layers) == ("max", 8, 2)
    assert (config.span_form, config.span_pooling, config.boundary_loss) == ("lr", "mean", "bce")
    assert (config.has_self_attention, config.has_cross_attention, config.has_slot_embedding) == (True, True, False)
    assert (config.num_decoder_layers, config.feedforward_size, config.decoder_dropout) == (2, 1024, 0.1)
    assert (config.overlap, config.threshold, config.num_draws, config.spans_per_word) == ("flat", 0.0, 1, 0.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_train_spans", 0),
        ("num_timesteps", 1),
        ("schedule", "sigmoid"),
        ("signal_scale", 0.0),
        ("signal_scale", float("nan")),
        ("expansion", "copy"),
        ("span_form", "rl"),
        ("span_pooling", "max"),
        ("num_decoder_layers", 0),
        ("num_attention_heads", 0),
        ("feedforward_size", 10**12),
        ("decoder_dropout", 1.0),
        ("boundary_loss", "ce"),
        ("boundary_loss_weight", -1.0),
        ("none_weight", -0.1),
        ("num_steps", 0),
        ("multi_label", True),
        ("num_spans", 10**9),
        ("spans_per_word", -1.0),
        ("num_draws", 0),
        ("seed", -1),
        ("seed", 2**31),
        ("eta", 1.5),
        ("phi", 3.5),
        ("confidence", "sum"),
    ],
)
def test_values_out_of_range_are_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        DiffusionNERConfig(**{field: value})


@pytest.mark.parametrize("field", ["num_train_spans", "num_steps", "num_spans", "seed", "repeat_targets"])
def test_values_of_another_type_are_refused_by_name(field: str) -> None:
    with pytest.raises((ValueError, TypeError), match=field):
        DiffusionNERConfig(**{field: 1.5})


def test_heads_must_divide_the_width_of_the_word_vectors() -> None:
    with pytest.raises(ValueError, match="num_attention_heads must divide .* 12, got 8"):
        DiffusionNERConfig(lstm_size=12)
    small = BertConfig(hidden_size=20, num_attention_heads=2, intermediate_size=8)
    with pytest.raises(ValueError, match="num_attention_heads must divide .* 20, got 8"):
        DiffusionNERConfig(lstm_layers=0, encoder_config=small)
    assert DiffusionNERConfig(lstm_layers=0, num_attention_heads=4, encoder_config=small).denoiser_size == 20
    assert DiffusionNERConfig(lstm_size=64).denoiser_size == 64


def test_width_must_be_even_for_sines_and_cosines() -> None:
    odd = BertConfig(hidden_size=15, num_attention_heads=3, intermediate_size=8)
    with pytest.raises(ValueError, match="even and at least 4, got 15"):
        DiffusionNERConfig(lstm_layers=0, num_attention_heads=5, encoder_config=odd)
    with pytest.raises(ValueError, match="even and at least 4, got 2"):
        DiffusionNERConfig(lstm_size=2, num_attention_heads=1)


def test_more_steps_than_times_are_refused_before_any_call() -> None:
    with pytest.raises(ValueError, match="num_steps must be at most num_timesteps = 4, got 5"):
        DiffusionNERConfig(num_timesteps=4)
    assert DiffusionNERConfig(num_timesteps=4, num_steps=4).num_steps == 4


def test_settings_of_sampling_may_be_given_in_a_call() -> None:
    config = DiffusionNERConfig()
    settings = {"num_steps": 1, "num_spans": 10, "num_draws": 3, "seed": 7, "eta": 1.0, "phi": 0.0, "threshold": 0.5}
    decoding = config.decoding(settings)
    assert {name: decoding[name] for name in settings} == settings
    assert config.num_steps == 5
    with pytest.raises(ValueError, match="num_steps"):
        config.decoding({"num_steps": 0})
    with pytest.raises(ValueError, match="num_train_spans"):
        config.decoding({"num_train_spans": 3})


def test_every_own_field_comes_back_from_disk(tmp_path: Path) -> None:
    values = {
        "num_train_spans": 7,
        "num_timesteps": 100,
        "schedule": "linear",
        "signal_scale": 2.0,
        "expansion": "repetition",
        "repeat_targets": not DiffusionNERConfig().repeat_targets,
        "span_form": "lw",
        "span_pooling": "boundary",
        "num_decoder_layers": 1,
        "num_attention_heads": 4,
        "feedforward_size": 8,
        "decoder_dropout": 0.0,
        "has_self_attention": False,
        "has_cross_attention": False,
        "has_time_mlp": False,
        "has_slot_embedding": True,
        "boundary_loss": "nll",
        "boundary_loss_weight": 5.0,
        "type_loss_weight": 4.0,
        "none_weight": 0.1,
        "num_steps": 2,
        "num_spans": 9,
        "spans_per_word": 1.5,
        "num_draws": 2,
        "seed": 3,
        "eta": 1.0,
        "phi": 2.6,
        "confidence": "geometric",
        "pooling": "mean",
        "lstm_layers": 1,
    }
    DiffusionNERConfig(**values).save_pretrained(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path)
    assert type(config) is DiffusionNERConfig
    assert {name: getattr(config, name) for name in values} == values
