"""A tiny configuration of every encoder family of transformers that reads text, made from the fields that it has."""

from dataclasses import fields
from typing import Any

from transformers import CONFIG_MAPPING, PreTrainedConfig

NUM_POSITIONS = 48
# Fields that most families have under these names, or under those that their attribute map gives.
SIZES: dict[str, Any] = {
    "vocab_size": 400,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 32,
    "max_position_embeddings": NUM_POSITIONS,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "cls_token_id": 2,
    "eos_token_id": 3,
    "sep_token_id": 3,
}
OWN: dict[str, dict[str, Any]] = {}


def tiny_config(family: str) -> PreTrainedConfig:
    """The tiny configuration of a family."""
    config_class = CONFIG_MAPPING[family]
    known = {field.name for field in fields(config_class)}
    names = {config_class.attribute_map.get(name, name): value for name, value in SIZES.items()}
    sizes = {name: value for name, value in names.items() if name in known}
    return config_class(**sizes | OWN.get(family, {}))
