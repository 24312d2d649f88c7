"""Defaults from the paper, ranges checked before any tensor exists, room for prompts, and values kept on disk."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig, BertConfig, RobertaConfig

from hf_spanner.methods.bopn import BOPNConfig


def with_labels(num_labels: int, **fields: Any) -> BOPNConfig:
    return BOPNConfig(id2label={index: f"T{index}" for index in range(num_labels)}, **fields)


def test_defaults_are_those_of_the_paper() -> None:
    """Table 7: LSTM 256 with dropout 0.5, region 20, biaffine 150 with dropout 0.2; S = 2, l = 2 in Table 4."""
    config = BOPNConfig()
    assert (config.lstm_layers, config.lstm_size, config.lstm_dropout, config.pooling) == (1, 256, 0.5, "mean")
    assert (config.region_embedding_size, config.biaffine_size, config.biaffine_dropout) == (20, 150, 0.2)
    assert (config.max_offset, config.num_convolutions, config.conv_style, config.conv_groups) == (
        2,
        2,
        "parallel",
        None,
    )
    assert (config.has_type_inputs, config.has_type_conditioned_term, config.distance_embedding_size) == (
        True,
        False,
        0,
    )
    assert (config.mask_lower, config.label_smoothing, config.loss_reduction) == (False, 0.0, "mean")
    assert (config.decode_mode, config.min_votes, config.pool_votes, config.confidence) == (
        "votes",
        None,
        False,
        "label",
    )
    assert config.num_offset_labels == 10


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_offset", -1),
        ("max_offset", 17),
        ("prompt_init", "zeros"),
        ("prompt_std", 0),
        ("region_embedding_size", -1),
        ("distance_embedding_size", 10**9),
        ("biaffine_size", 0),
        ("biaffine_dropout", 1.0),
        ("num_convolutions", 4),
        ("conv_style", "residual"),
        ("conv_groups", 2),
        ("label_smoothing", 1.0),
        ("loss_reduction", "none"),
        ("decode_mode", "centre"),
        ("min_votes", 0),
        ("confidence", "mean"),
        ("has_type_inputs", 1),
        ("has_type_conditioned_term", None),
        ("mask_lower", "yes"),
        ("pool_votes", 0),
    ],
)
def test_values_out_of_range_are_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=field):
        BOPNConfig(**{field: value})


def test_prompts_take_positions_of_the_encoder() -> None:
    """There are 64 positions and 2 special tokens; RoBERTa's positions start at pad_token_id + 1 = 2."""
    bert, roberta = BertConfig(max_position_embeddings=64), RobertaConfig(max_position_embeddings=66, pad_token_id=1)
    assert with_labels(10, encoder_config=bert).window_size == 52
    assert with_labels(10, encoder_config=roberta).window_size == 52
    assert with_labels(10, encoder_config=bert, has_type_inputs=False).window_size == 62
    with pytest.raises(ValueError, match=r"window_size must lie in \[1, 52\]"):
        with_labels(10, encoder_config=bert, window_size=53)


def test_types_that_leave_no_room_are_refused() -> None:
    """61 types and 2 special tokens leave one of 64 positions."""
    bert = BertConfig(max_position_embeddings=64)
    assert with_labels(61, encoder_config=bert).window_size == 1
    with pytest.raises(ValueError, match=r"id2label .* 62 types, of which at most 61 fit"):
        with_labels(62, encoder_config=bert)
    assert with_labels(62, encoder_config=bert, has_type_inputs=False).window_size == 62


def test_settings_of_a_call_are_those_of_decoding() -> None:
    config = BOPNConfig()
    assert config.decoding({"decode_mode": "all", "min_votes": 1})["min_votes"] == 1
    assert config.decoding({"min_votes": None})["min_votes"] is None
    for wrong in ({"decode_mode": "any"}, {"min_votes": 0}, {"max_offset": 3}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            config.decoding(wrong)


def test_every_own_field_comes_back_from_disk(tmp_path: Path) -> None:
    values = {
        "max_offset": 3,
        "has_type_inputs": False,
        "prompt_init": "label_names",
        "prompt_std": 1.0,
        "region_embedding_size": 0,
        "distance_embedding_size": 20,
        "biaffine_size": 7,
        "biaffine_dropout": 0.33,
        "has_type_conditioned_term": True,
        "num_convolutions": 3,
        "conv_style": "sequential_residual",
        "conv_groups": 1,
        "mask_lower": True,
        "label_smoothing": 0.01,
        "loss_reduction": "sum",
        "decode_mode": "rules",
        "min_votes": 2,
        "pool_votes": True,
        "confidence": "sum",
    }
    BOPNConfig(**values).save_pretrained(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path)
    assert type(config) is BOPNConfig
    assert {name: getattr(config, name) for name in values} == values
