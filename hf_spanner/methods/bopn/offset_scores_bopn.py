"""Offset scores of BOPN: biaffine of types and spans, 3-d convolutions (Tang et al. 2023, section 3.2)."""

import torch
from torch import Tensor, nn

from hf_spanner.core.linear_weights import LinearWeights
from hf_spanner.methods.bopn.configuration_bopn import BOPNConfig
from hf_spanner.methods.bopn.span_vectors_bopn import NORM_EPSILON, ReluLayer


class TypeMaps(nn.Module):
    """The biaffine with the types folded in: c_mij = y_m U x_ij + W [y_m ; x_ij] + b = A_m x_ij + a_m (Eq. 3).

    Args:
        config: `biaffine_size`, `biaffine_dropout`, `max_offset`, `has_type_conditioned_term`.
        width: d, size of a type vector.
    """

    def __init__(self, config: BOPNConfig, width: int) -> None:
        super().__init__()
        size, num_offsets = config.biaffine_size, config.num_offset_labels
        self.dropout = nn.Dropout(config.biaffine_dropout)
        self.type_layer = ReluLayer(width, size)
        self.pair_weight = nn.Parameter(torch.empty(num_offsets, size, size))  # of (label, span, type): U transposed
        self.linear_weight = nn.Parameter(torch.empty(num_offsets, 2 * size))
        self.bias = nn.Parameter(torch.empty(num_offsets))
        self.term = TypeConditionedTerm(config, width) if config.has_type_conditioned_term else None

    def forward(self, types: Tensor) -> tuple[Tensor, Tensor]:
        """Maps from span vectors to scores.

        Args:
            types: (B, M, d).

        Returns:
            A (B, M, L, d_b) and a (B, M, L).
        """
        vectors = self.type_layer(self.dropout(types)).relu()  # (B, M, d_b)
        type_weight, span_weight = self.linear_weight.chunk(2, dim=1)  # (L, d_b) each
        folded = nn.functional.linear(vectors, self.pair_weight.flatten(0, 1))  # (B, M, L d_b)
        maps = folded.unflatten(-1, span_weight.shape) + span_weight
        biases = nn.functional.linear(vectors, type_weight, self.bias)
        if self.term is not None:
            term_maps, term_biases = self.term(types)
            maps, biases = maps + term_maps, biases + term_biases
        return maps, biases


class TypeConditionedTerm(nn.Module):
    """P (gamma_x * Norm(h_m) + lambda_x), the type vector normalised under the span's condition (official code).

    With gamma_x = W_g x + g and lambda_x = W_l x + l it is linear in x: A_m = P diag(Norm(h_m)) W_g + P W_l and
    a_m = P (Norm(h_m) * g + l), so the (B, M, N, N, d) tensor of the official code is never made.

    Args:
        config: `biaffine_size`, `max_offset`.
        width: d.
    """

    def __init__(self, config: BOPNConfig, width: int) -> None:
        super().__init__()
        self.width = width
        self.scale_weight = nn.Parameter(torch.empty(width, config.biaffine_size))
        self.shift_weight = nn.Parameter(torch.empty(width, config.biaffine_size))
        self.scale = nn.Parameter(torch.empty(width))
        self.shift = nn.Parameter(torch.empty(width))
        self.output = OffsetOutput(width, config.num_offset_labels, bias=False)

    def forward(self, types: Tensor) -> tuple[Tensor, Tensor]:
        """A (B, M, L, d_b) and a (B, M, L) of (B, M, d) types."""
        normed = nn.functional.layer_norm(types, (self.width,), eps=NORM_EPSILON)  # (B, M, d)
        projection = self.output()  # (L, d)
        scaled = projection * normed[:, :, None]  # (B, M, L, d)
        maps = scaled @ self.scale_weight + projection @ self.shift_weight
        return maps, nn.functional.linear(normed * self.scale + self.shift, projection)


class OffsetOutput(LinearWeights):
    """P, which its forward gives as it is, so that offloading fetches it."""

    def forward(self) -> Tensor:
        """(L, d)."""
        return self.weight


class OffsetConvolutions(nn.Module):
    """Convolutions over (first word, last word, type), so that scores of near cells and other types agree.

    `parallel` (Eq. 4 and 5): every dilation reads the scores, and a linear layer on all outputs gives the new scores.
    `sequential_residual` (official code): dropout of whole labels, a 1 x 1 x 1 convolution, then dilation 1, 2 .. one
    after another; the linear layer's output is added to the scores. Cells that do not count are 0 before each
    convolution, so padding changes nothing. Kernels run over (type, first word, last word) with labels side by side,
    two to three times as fast as in the order of the scores; weights keep the order (first word, last word, type).

    Memory: 3 tables of the scores' size; training keeps 2 l + 2.

    Args:
        config: `num_convolutions`, `conv_style`, `conv_groups`, `biaffine_dropout`, `max_offset`.
    """

    def __init__(self, config: BOPNConfig) -> None:
        super().__init__()
        num_offsets, dilations = config.num_offset_labels, range(1, config.num_convolutions + 1)
        groups = num_offsets if config.conv_groups is None else 1
        self.layers = nn.ModuleList(
            Convolution(num_offsets, num_offsets, 3, padding=dilation, dilation=dilation, groups=groups)
            for dilation in dilations
        )
        self.is_sequential = config.conv_style == "sequential_residual"
        if self.is_sequential:
            self.dropout = nn.Dropout3d(config.biaffine_dropout)
            self.first = Convolution(num_offsets, num_offsets, 1)
        self.output = OutputLayer(len(dilations) * num_offsets, num_offsets)

    def forward(self, scores: Tensor, is_cell: Tensor) -> Tensor:
        """New scores.

        Args:
            scores: (B, N, N, M, L).
            is_cell: (B, N, N) bool.

        Returns:
            (B, N, N, M, L).
        """
        is_hidden = ~is_cell[:, None, :, :, None]  # (B, 1, N, N, 1)
        table = scores.permute(0, 3, 1, 2, 4)  # (B, M, N, N, L)
        if self.is_sequential:
            table = self._filtered(self.first, self.dropout(table.transpose(1, 4)).transpose(1, 4))
        mixed, weights = self.output(len(self.layers))  # (L,), l of (L, L)
        table = table.masked_fill(is_hidden, 0.0)
        for convolution, weight in zip(self.layers, weights, strict=True):
            output = self._filtered(convolution, table)
            mixed = mixed + nn.functional.linear(output, weight)
            if self.is_sequential:
                table = output.masked_fill(is_hidden, 0.0)
        mixed = mixed.permute(0, 2, 3, 1, 4)  # (B, N, N, M, L)
        return scores + mixed if self.is_sequential else mixed

    @staticmethod
    def _filtered(convolution: nn.Module, table: Tensor) -> Tensor:
        """GELU of a convolution of a (B, M, N, N, L) table."""
        return nn.functional.gelu(convolution(table.contiguous().permute(0, 4, 1, 2, 3))).permute(0, 2, 3, 4, 1)


class Convolution(nn.Conv3d):
    """3-d convolution over tables (B, L, M, N, N) whose weight is (L, L or 1, first word, last word, type)."""

    def forward(self, table: Tensor) -> Tensor:
        """New table of the same shape."""
        return self._conv_forward(table, self.weight.permute(0, 1, 4, 2, 3), self.bias)


class OutputLayer(LinearWeights):
    """Weights of the linear layer after the convolutions, which acts on the output of each by itself."""

    def forward(self, num_parts: int) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Its bias, and its weight cut into one part for each convolution."""
        return self.bias, self.weight.chunk(num_parts, dim=1)
