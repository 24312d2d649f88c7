"""Boundary Smoothing (Zhu and Li 2022): a biaffine classifier over all spans."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import initialization as init

from hf_spanner.core.modeling_span_ner import SpanNERModel, SpanNEROutput
from hf_spanner.core.spans import Limits, pack_candidates
from hf_spanner.methods.boundary_smoothing.configuration_boundary_smoothing import BoundarySmoothingConfig
from hf_spanner.methods.boundary_smoothing.loss_boundary_smoothing import (
    boundary_smoothing_loss,
    legal_spans,
    smoothed_targets,
    target_entropy,
)


class BoundarySmoothingModel(SpanNERModel):
    """Every span gets a distribution over types and none from its two boundary words and its width.

    Time after the encoder: O(N C d^2 + N^2 C d). Memory: O(N^2 C) a sentence; the two boundary vectors of a
    pair are never joined into one. `logits` of its output is (B, N, N, C + 1), cell (i, j) the span of words i to j,
    none last.
    """

    config: BoundarySmoothingConfig
    config_class = BoundarySmoothingConfig

    def __init__(self, config: BoundarySmoothingConfig) -> None:
        super().__init__(config)
        width = self.word_encoder.output_size
        self.dropout = nn.Dropout(config.reduction_dropout)
        self.start_layer = BoundaryLayer(width, config.affine_size)
        self.end_layer = BoundaryLayer(width, config.affine_size)
        self.biaffine = Biaffine(config)
        self.post_init()

    def score_spans(
        self, words: Tensor, word_mask: Tensor, labels: Tensor | None, decoding: Mapping[str, Any]
    ) -> SpanNEROutput:
        """Logits of all spans (Eq. 1); they do not depend on `labels` and `decoding`."""
        # a dropout mask for each of the two layers, as in the official code
        starts = self.start_layer(self.dropout(words)).relu()  # (B, N, d)
        ends = self.end_layer(self.dropout(words)).relu()  # (B, N, d)
        return SpanNEROutput(logits=self.biaffine(starts, ends), word_mask=word_mask)

    def compute_loss(self, output: SpanNEROutput, labels: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Cross entropy with smoothed targets summed over a sentence's spans (Eq. 4); in training also its floor."""
        is_legal = legal_spans(output.word_mask)
        targets = smoothed_targets(
            labels,
            is_legal,
            epsilon=self.config.smoothing_epsilon,
            distance=self.config.smoothing_distance,
            num_labels=output.logits.shape[-1] - 1,
            edge_mass=self.config.edge_mass,
        )
        losses = boundary_smoothing_loss(output.logits, targets, is_legal)
        return losses, {"target_entropy": target_entropy(targets, is_legal)} if self.training else {}

    def candidate_spans(self, output: SpanNEROutput, decoding: Mapping[str, Any]) -> Tensor:
        """(B, K, 4) packed: each legal span whose likeliest class is a type, with that class's softmax probability."""
        logits = output.logits.contiguous()  # classes side by side: several times faster to search
        best = logits.argmax(dim=-1)  # (B, N, N)
        is_candidate = (best < logits.shape[-1] - 1) & legal_spans(output.word_mask)
        sentence, starts, lasts = is_candidate.nonzero(as_tuple=True)  # (P,)
        labels = best[sentence, starts, lasts]  # (P,)
        scores = logits[sentence, starts, lasts].softmax(dim=-1, dtype=torch.float32).amax(dim=-1)  # (P,)
        return pack_candidates(sentence, starts, lasts + 1, labels, scores, len(best))

    @property
    def limits(self) -> Limits:
        """The softmax gives each span one type."""
        return Limits(one_label=True)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Initialisation of the official code; the paper is silent."""
        super()._init_weights(module)
        if isinstance(module, BoundaryLayer):
            init.kaiming_uniform_(module.weight, nonlinearity="relu")
        elif isinstance(module, Biaffine):
            init.orthogonal_(module.pair_weight)
            init.orthogonal_(module.linear_weight)
            init.zeros_(module.bias)
            if module.widths is not None:
                bound = (3 / module.widths.embedding_dim) ** 0.5
                init.uniform_(module.widths.weight, -bound, bound)


class BoundaryLayer(nn.Linear):
    """Linear layer in front of a ReLU, a class of its own so that its initialisation can be told from others."""


class Biaffine(nn.Module):
    """Scores of all (start, end) pairs: r_ij = h_i U h_j + W [h_i ; h_j ; w_{j-i}] + b (Eq. 1), none last.

    W acts on each of its three parts by itself, so no (N, N, 2 d + d_w) tensor is built; the part on the end vectors is
    the bias of the product with U. Dropout on the width embedding acts once for each width of a batch.

    Args:
        config: `affine_size`, `affine_dropout`, `width_embedding_size`, `max_width`, `num_labels`.
    """

    def __init__(self, config: BoundarySmoothingConfig) -> None:
        super().__init__()
        assert config.num_labels is not None
        size, num_classes = config.affine_size, config.num_labels + 1
        self.dropout = nn.Dropout(config.affine_dropout)
        self.pair_weight = nn.Parameter(torch.empty(num_classes, size, size))  # of (class, end, start): U transposed
        self.linear_weight = nn.Parameter(torch.empty(num_classes, 2 * size + config.width_embedding_size))
        self.bias = nn.Parameter(torch.empty(num_classes))
        has_widths = config.width_embedding_size > 0
        self.widths = nn.Embedding(config.max_width + 1, config.width_embedding_size) if has_widths else None

    def forward(self, starts: Tensor, ends: Tensor) -> Tensor:
        """Logits of all pairs.

        Args:
            starts: (B, N, d).
            ends: (B, N, d).

        Returns:
            (B, N, N, C + 1), a view of a (B, N, C + 1, N) table.
        """
        batch_size, num_words, size = starts.shape
        starts, ends = self.dropout(starts), self.dropout(ends)
        sizes = [size, size, self.linear_weight.shape[1] - 2 * size]
        start_weight, end_weight, width_weight = self.linear_weight.split(sizes, dim=1)
        projection = self.pair_weight.flatten(0, 1)  # ((C + 1) d, d)
        queries = nn.functional.linear(starts, projection, end_weight.flatten())  # (B, N, (C + 1) d)
        queries = queries.view(batch_size, -1, size)  # (B, N (C + 1), d)
        start_scores = nn.functional.linear(starts, start_weight, self.bias).view(batch_size, -1, 1)
        logits = torch.baddbmm(start_scores, queries, ends.transpose(1, 2))  # (B, N (C + 1), N)
        logits = logits.view(batch_size, num_words, -1, num_words)  # (B, N, C + 1, N)
        if self.widths is not None:
            logits = logits + self._width_scores(num_words, width_weight)
        return logits.transpose(2, 3)

    def _width_scores(self, num_words: int, width_weight: Tensor) -> Tensor:
        """(N, C + 1, N) scores of widths j - i, those outside the table clamped to its ends."""
        assert self.widths is not None
        places = torch.arange(self.widths.num_embeddings, device=width_weight.device)
        table = self.dropout(self.widths(places)) @ width_weight.T  # (W, C + 1)
        widths = torch.arange(1 - num_words, num_words, device=table.device)  # (2 N - 1,)
        scores = table[widths.clamp(0, len(table) - 1)]  # (2 N - 1, C + 1)
        return scores.unfold(0, num_words, 1).flip(0)
