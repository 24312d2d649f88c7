"""The BiLSTM of a word encoder as nodes of a graph."""

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

GATES = (0, 3, 1, 2)  # torch has input, forget, cell, output; ONNX input, output, forget, cell


class GraphLSTM(nn.Module):
    """The states of a bidirectional LSTM, to be traced and not run: a graph has no packed sequences.

    Each layer is one LSTM of ONNX, which takes the lengths beside the words.

    Args:
        lstm: The LSTM, whose weights are copied.
    """

    def __init__(self, lstm: nn.LSTM) -> None:
        super().__init__()
        self.size = lstm.hidden_size
        self.layers = nn.ModuleList(LayerWeights(lstm, layer) for layer in range(lstm.num_layers))

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        """(B, N, 2 h) states of (B, N, D) words up to their (B,) lengths, zeros after them."""
        sequence = words.transpose(0, 1)  # (N, B, D)
        for layer in cast(Iterable[LayerWeights], self.layers):
            states = torch.onnx.ops.symbolic(
                "LSTM",
                (sequence, layer.inner, layer.recurrent, layer.bias, lengths.to(torch.int32)),
                {"direction": "bidirectional", "hidden_size": self.size},
                dtype=words.dtype,
                shape=(sequence.shape[0], 2, sequence.shape[1], self.size),
            )  # (N, 2, B, h)
            sequence = states.transpose(1, 2).flatten(2)  # (N, B, 2 h)
        return sequence.transpose(0, 1)


class LayerWeights(nn.Module):
    """The weights of one layer in the order of ONNX: both directions, and in each the gates of `GATES`.

    Args:
        lstm: The LSTM.
        layer: Which of its layers.
    """

    def __init__(self, lstm: nn.LSTM, layer: int) -> None:
        super().__init__()
        inner, recurrent, inner_bias, recurrent_bias = (
            torch.stack([self._reordered(lstm, f"{kind}_l{layer}{side}") for side in ("", "_reverse")])
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        self.inner: Tensor = nn.Buffer(inner)  # (2, 4 h, D)
        self.recurrent: Tensor = nn.Buffer(recurrent)  # (2, 4 h, h)
        self.bias: Tensor = nn.Buffer(torch.cat([inner_bias, recurrent_bias], dim=1))  # (2, 8 h)

    @staticmethod
    def _reordered(lstm: nn.LSTM, name: str) -> Tensor:
        parts = lstm.get_parameter(name).detach().chunk(4)
        return torch.cat([parts[gate] for gate in GATES])
