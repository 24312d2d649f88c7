"""Span vectors of BOPN: conditional layer norm and region embedding (Tang et al. 2023, section 3.1)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hf_spanner.core.linear_weights import LinearWeights
from hf_spanner.methods.bopn.configuration_bopn import BOPNConfig

NORM_EPSILON = 1e-6  # 1e-12 in the official code, which is 0 in half precision
NUM_DISTANCE_BUCKETS = 10  # buckets of |i - j|: 0, 1, 2-3, 4-7 .. 256 and more, for each sign


class SpanVectors(nn.Module):
    """Vectors x_ij = ReLU(W [v_ij ; e_ij] + b) of pairs of words, for a block of first and last words at a time.

    v_ij = gamma_j * Norm(h_i) + lambda_j (Eq. 1), with gamma and lambda linear in h_j; e_ij is the region embedding
    and, as an option, a distance embedding. W acts on v and on e by itself, so e is never spread over the pairs before
    it. Dropout on v is `pair_dropout`; on e it acts once for each entry and block.

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
        self.layer = SpanLayer(width + config.region_embedding_size + size, config.biaffine_size)

    def parts(self, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Norm(h_i), gamma_j and lambda_j, each (B, N, d), of (B, N, d) words."""
        normed = nn.functional.layer_norm(words, (self.width,), eps=NORM_EPSILON)
        return normed, self.scale_layer(words), self.shift_layer(words)

    def forward(self, normed: Tensor, gamma: Tensor, shift: Tensor, first_gap: int) -> Tensor:
        """Vectors of the pairs of a block of first words with a block of last words.

        Args:
            normed: (B, R, d), of the first words.
            gamma: (B, C, d), of the last words.
            shift: (B, C, d), lambda of the last words.
            first_gap: Place of the block's first last word in the sentence, less that of its first first word.

        Returns:
            (B, R, C, d_b). The largest tensor on the way is (B, R, C, d).
        """
        vectors = torch.addcmul(shift[:, None], gamma[:, None], normed[:, :, None])  # (B, R, C, d)
        if self.training and self.dropout.p > 0:
            vectors = pair_dropout(vectors, self.dropout.p)
        starts = torch.arange(normed.shape[1], device=normed.device)[:, None]  # (R, 1)
        gaps = first_gap + torch.arange(gamma.shape[1], device=normed.device) - starts  # (R, C), last less first word
        shared = []
        if self.regions is not None:
            shared.append((self.dropout(all_rows(self.regions, gaps.device)), (gaps < 0).long()))
        if self.distances is not None:
            shared.append((self.dropout(all_rows(self.distances, gaps.device)), distance_buckets(gaps)))
        return self.layer(vectors, shared).relu()  # (B, R, C, d_b)


class ScaleLayer(nn.Linear):
    """gamma of conditional layer norm, 1 at the start."""


class ShiftLayer(nn.Linear):
    """lambda of conditional layer norm, 0 at the start, where it is a plain layer norm."""


class ReluLayer(nn.Linear):
    """Linear layer in front of a ReLU, a class of its own so that its initialisation can be told from others."""


class SpanLayer(LinearWeights):
    """W [v ; e] + b, where W acts on v and on each part of e by itself."""

    def forward(self, vectors: Tensor, shared: Sequence[tuple[Tensor, Tensor]] = ()) -> Tensor:
        """Sums for all pairs.

        Args:
            vectors: (B, R, C, d), v; with nothing shared [v ; e].
            shared: For each part of e a (K, size) table of its values and the (R, C) row of each pair.

        Returns:
            (B, R, C, d_b).
        """
        sizes = [vectors.shape[-1], *(table.shape[1] for table, _ in shared)]
        span_weight, *table_weights = self.weight.split(sizes, dim=1)
        sums = nn.functional.linear(vectors, span_weight, self.bias)
        for (table, places), weight in zip(shared, table_weights, strict=True):
            sums = sums + (table @ weight.T)[places]
        return sums


class PairEmbedding(nn.Embedding):
    """Embedding of what a pair of words shares, a class of its own so that its initialisation can differ."""


def all_rows(table: nn.Embedding, device: torch.device) -> Tensor:
    """(K, size) all rows of a table, asked of its forward: what is kept off the device is fetched for that."""
    return table(torch.arange(table.num_embeddings, device=device))


def pair_dropout(vectors: Tensor, rate: float) -> Tensor:
    """Dropout over pairs of words from random numbers of words alone, as a number for each pair costs ten times more.

    An entry of pair (i, j) is dropped where u_i + v_j modulo 2^16 is small, with u and v uniform for each word and
    entry. So each is dropped at the rate, and any two of different pairs independently of each other.

    Args:
        vectors: (B, R, C, d).
        rate: In (0, 1), rounded to a multiple of 2^-16.

    Returns:
        (B, R, C, d); what is kept is scaled up so that the means stay.
    """
    batch_size, num_rows, num_columns, size = vectors.shape
    shapes = (batch_size, num_rows, 1, size), (batch_size, 1, num_columns, size)
    row_numbers, column_numbers = (
        torch.randint(-(2**15), 2**15, shape, dtype=torch.int16, device=vectors.device) for shape in shapes
    )
    num_dropped = round(rate * 2**16)  # so many of the lowest of the 2^16 values are dropped
    is_kept = row_numbers + column_numbers >= num_dropped - 2**15  # the sum wraps around
    return vectors * is_kept * (1 / (1 - num_dropped / 2**16))


def distance_buckets(gaps: Tensor) -> Tensor:
    """Index in 0 .. 18 of signed distances: |gap| in 0, 1, 2-3, 4-7 .. 256 and more, negative ones first."""
    sizes = torch.bucketize(gaps.abs(), 2 ** torch.arange(NUM_DISTANCE_BUCKETS - 1, device=gaps.device), right=True)
    return NUM_DISTANCE_BUCKETS - 1 + gaps.sign() * sizes
