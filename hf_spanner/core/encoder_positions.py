"""How many tokens an encoder can read at once."""

import json
from functools import lru_cache

import torch
from transformers import AutoModel, PreTrainedConfig
from transformers.initialization import no_init_weights

UNSTATED = 512  # positions of an encoder that neither states their number nor has a table of them


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
    return _capacity(type(encoder_config), encoder_config.to_json_string())


@lru_cache
def _capacity(config_class: type[PreTrainedConfig], text: str) -> int:
    config = config_class.from_dict(json.loads(text))
    stated = config.to_dict().get("max_position_embeddings") or UNSTATED
    with torch.device("meta"), no_init_weights():
        encoder = AutoModel.from_config(config)
    for name, weight in encoder.named_parameters():
        if name.endswith(".position_embeddings.weight"):
            padding_row = vars(encoder.get_submodule(name.removesuffix(".weight"))).get("padding_idx")
            return min(stated, len(weight) - (0 if padding_row is None else padding_row + 1))
    return stated
