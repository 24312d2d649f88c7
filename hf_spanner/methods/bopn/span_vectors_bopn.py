"""Span vectors of BOPN: conditional layer norm and region embedding (Tang et al. 2023, section 3.1)."""

import torch
from torch import Tensor, nn

from hf_spanner.methods.bopn.configuration_bopn import BOPNConfig

NORM_EPSILON = 1e-6  # 1e-12 in the official code, which is 0 in half precision
NUM_DISTANCE_BUCKETS = 10  # of |i - j|: 0, 1, 2-3, 4-7 .. 256 and more, for each sign


class SpanVectors(nn.Module):
    """Vectors x_ij = ReLU(W [v_ij ; e_ij] + b) of pairs of words, for a block of first words at a time.

    v_ij = gamma_j * Norm(h_i) + lambda_j (Eq. 1), with gamma and lambda linear in h_j; e_ij is the region embedding
    and, as an option, a distance embedding. W acts on gamma_j * Norm(h_i), lambda_j and e_ij apart, so the last two are
    never spread over the pairs before it. Dropout on v is drawn for each last word j and holds for all its pairs: each
    number is dropped at the stated rate, but an (N, N, d) mask costs more to draw than the layer takes. Dropout on e
    acts once for each entry and block.

    Args:
        config: `region_embedding_size`, `distance_embedding_size`, `biaffine_size`, `biaffine_dropout`.
        width: d, size of a word vector.
    """

    def __init__(self, config: BOPNConfig, width: int) -> None:
        super().__init__()
        self.width = width
        self.scale_layer = ScaleLayer(width, width)
        self.shift_layer = ShiftLayer(width, width)
        self.dropout = nn.Dropout(config.biaffine_dropout)
        self.regions = PairEmbedding(2, config.region_embedding_size) if config.region_embedding_size > 0 else None
        num_distances = 2 * NUM_DISTANCE_BUCKETS - 1
        size = config.distance_embedding_size
        self.distances = PairEmbedding(num_distances, size) if size > 0 else None
        self.layer = ReluLayer(width + config.region_embedding_size + size, config.biaffine_size)

    def parts(self, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Norm(h_i) (B, N, d), gamma_j (B, N, d) and W lambda_j + b (B, N, d_b), of (B, N, d) words."""
        normed = nn.functional.layer_norm(words, (self.width,), eps=NORM_EPSILON)
        kept = self.dropout(torch.ones_like(words))
        shift = nn.functional.linear(
            self.shift_layer(words) * kept, self.layer.weight[:, : self.width], self.layer.bias
        )
        return normed, self.scale_layer(words) * kept, shift

    def forward(self, normed: Tensor, gamma: Tensor, shift: Tensor, first_gap: int) -> Tensor:
        """Vectors of the pairs of a block of first words with a block of last words.

        Args:
            normed: (B, R, d), of the first words.
            gamma: (B, C, d), of the last words.
            shift: (B, C, d_b), of the last words.
            first_gap: Place of the block's first last word in the sentence, less that of its first first word.

        Returns:
            (B, R, C, d_b). The largest tensor on the way is (B, R, C, d).
        """
        span_weight, pair_weight = self.layer.weight.tensor_split([self.width], dim=1)
        vectors = nn.functional.linear(gamma[:, None] * normed[:, :, None], span_weight)  # (B, R, C, d_b)
        starts = torch.arange(normed.shape[1], device=normed.device)[:, None]  # (R, 1)
        gaps = first_gap + torch.arange(gamma.shape[1], device=normed.device) - starts  # (R, C), last less first word
        region_weight, distance_weight = pair_weight.tensor_split([pair_weight.shape[1] - self._distance_size], dim=1)
        rest = shift[:, None]  # (B, 1, C, d_b)
        if self.regions is not None:
            rest = rest + (self.dropout(self.regions.weight) @ region_weight.T)[(gaps < 0).long()]
        if self.distances is not None:
            rest = rest + (self.dropout(self.distances.weight) @ distance_weight.T)[distance_buckets(gaps)]
        return (vectors + rest).relu()

    @property
    def _distance_size(self) -> int:
        return 0 if self.distances is None else self.distances.embedding_dim


class ScaleLayer(nn.Linear):
    """gamma of conditional layer norm, 1 at the start."""


class ShiftLayer(nn.Linear):
    """lambda of conditional layer norm, 0 at the start, where it is a plain layer norm."""


class ReluLayer(nn.Linear):
    """Linear layer in front of a ReLU, a class of its own so that its initialisation can be told from others."""


class PairEmbedding(nn.Embedding):
    """Embedding of what a pair of words shares; a class of its own for its initialisation."""


def distance_buckets(gaps: Tensor) -> Tensor:
    """Index in 0 .. 18 of signed distances: |gap| in 0, 1, 2-3, 4-7 .. 256 and more, negative ones first."""
    sizes = torch.bucketize(gaps.abs(), 2 ** torch.arange(NUM_DISTANCE_BUCKETS - 1, device=gaps.device), right=True)
    return NUM_DISTANCE_BUCKETS - 1 + gaps.sign() * sizes
