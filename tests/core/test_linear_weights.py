"""Weights that look like a linear layer's."""

import torch
from torch import nn

from hf_spanner.core.linear_weights import LinearWeights


def test_weights_are_drawn_as_those_of_a_linear_layer_and_shared_with_it() -> None:
    torch.manual_seed(1)
    layer = nn.Linear(3, 2)
    torch.manual_seed(1)
    weights = LinearWeights(3, 2)
    assert not isinstance(weights, nn.Linear)
    assert {name: value.tolist() for name, value in weights.state_dict().items()} == {
        name: value.tolist() for name, value in layer.state_dict().items()
    }
    shared = weights.as_layer()
    assert shared.weight is weights.weight
    assert shared.bias is weights.bias


def test_a_bias_may_be_absent() -> None:
    weights = LinearWeights(3, 2, bias=False)
    assert [name for name, _ in weights.named_parameters()] == ["weight"]
    assert weights.as_layer().bias is None
