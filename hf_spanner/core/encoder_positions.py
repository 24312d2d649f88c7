"""How many tokens an encoder can read at once."""

from copy import deepcopy

import torch
from torch import nn
from transformers import PreTrainedConfig
from transformers.initialization import no_init_weights

from hf_spanner.core.text_encoder import new_encoder

UNSTATED = 512  # positions of an encoder that neither states their number nor has a table of them
STATED = ("max_position_embeddings", "max_encoder_position_embeddings", "n_positions", "max_seq_len")
TABLES = ("position_embeddings", "embed_positions", "positions_embed", "wpe")


def position_capacity(encoder_config: PreTrainedConfig) -> int:
    """The most tokens, special ones included, for which an encoder has positions.

    The encoder itself is asked, since the number in its configuration may be larger: where the table of positions has a
    row for padding, the first token takes the row after it. The encoder is built without memory for its weights, once
    for each configuration in a process.

    Args:
        encoder_config: The configuration of any encoder that `AutoModel` builds.

    Returns:
        The number that the configuration states, or what the table holds if that is less.
    """
    key = type(encoder_config), encoder_config.to_json_string()
    if key not in KNOWN_CAPACITIES:
        KNOWN_CAPACITIES[key] = measured_capacity(deepcopy(encoder_config))
    return KNOWN_CAPACITIES[key]


KNOWN_CAPACITIES: dict[tuple[type[PreTrainedConfig], str], int] = {}


def measured_capacity(config: PreTrainedConfig) -> int:
    """The capacity of an encoder that is built for it."""
    fields = config.to_dict()
    names = (config.attribute_map.get(name, name) for name in STATED)
    stated = next((fields[name] for name in names if fields.get(name)), UNSTATED)
    with torch.device("meta"), no_init_weights():
        encoder = new_encoder(config)
    for name, module in encoder.named_modules():
        weights = dict(module.named_parameters(recurse=False))
        if name.rpartition(".")[2] in TABLES and "weight" in weights:
            return min(stated, len(weights["weight"]) - first_row(module))
    return stated


def first_row(table: nn.Module) -> int:
    """The row of a table of positions that the first token takes: after a row for padding, or at an offset."""
    padding_row = vars(table).get("padding_idx")
    return vars(table).get("offset", 0) if padding_row is None else padding_row + 1
