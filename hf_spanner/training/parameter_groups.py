"""The parameters of an optimiser, in groups of one learning rate and one weight decay."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from torch import nn


def parameter_groups(
    model: nn.Module, rates: Mapping[bool, float], decayed: Collection[str], weight_decay: float
) -> list[dict[str, Any]]:
    """Encoder and rest, each with and without weight decay.

    Args:
        model: A span-NER model.
        rates: Learning rate of its encoder (True) and of the rest (False).
        decayed: Names of the parameters that decay.
        weight_decay: By how much.

    Returns:
        Up to four groups, as an optimiser takes them.
    """
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = defaultdict(list)
    for name, parameter in model.named_parameters():
        groups["word_encoder.encoder." in name, name in decayed].append(parameter)
    return [
        {"params": parameters, "lr": rates[is_encoder], "weight_decay": weight_decay if is_decayed else 0.0}
        for (is_encoder, is_decayed), parameters in sorted(groups.items())
    ]
