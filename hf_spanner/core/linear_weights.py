"""Weights shaped as those of a linear layer, for parts that use them in another way."""

from torch import nn


class LinearWeights(nn.Module):
    """Weight and bias as `nn.Linear` has them, for a forward that is not y = W x + b.

    It is no `nn.Linear`: what quantises all linear layers, or puts adapters on them, expects of each that forward.

    Args:
        in_features: Columns of the weight.
        out_features: Rows of the weight.
        bias: Whether there is one.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        layer = nn.Linear(in_features, out_features, bias=bias)
        self.weight, self.bias = layer.weight, layer.bias

    def as_layer(self) -> nn.Linear:
        """A linear layer that shares the weight and the bias, for what is told by that class, such as first values."""
        layer = nn.Linear(1, 1, device="meta")
        layer.weight, layer.bias = self.weight, self.bias
        return layer
