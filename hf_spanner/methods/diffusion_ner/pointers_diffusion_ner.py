"""Which words a noisy span points at: its fusion with each word, and where the word lies from the span."""

from typing import Any

import torch
from torch import Tensor, nn

from hf_spanner.core.linear_weights import LinearWeights

# How many numbers of the (B, K, N, h) fusion of spans and words exist at a time: on a CPU as many as fit a core's
# cache, elsewhere 64 MiB, so that few kernels are started.
CPU_CHUNK, CHUNK = 2**19, 2**24
POSITION_RANK = 16  # width between a span's vector and its scores of relative positions


class WordPointer(nn.Module):
    """How likely each word is a boundary of each span: v . ReLU(W_S H_S[m] + W_X H[k]) + c, before the sigmoid.

    With a range of positions a score of where the word lies from the first, and one of where it lies from the last word
    of the noisy span is added; neither is in the paper.

    Args:
        size: h.
        position_range: R; 0 is none.
        has_left: Distances are also counted from a third word, where the left pointer points.
    """

    def __init__(self, size: int, position_range: int, *, has_left: bool = False) -> None:
        super().__init__()
        has_positions = position_range > 0
        self.from_first = RelativePositions(size, position_range) if has_positions else None
        self.from_last = RelativePositions(size, position_range) if has_positions else None
        self.from_left = RelativePositions(size, position_range) if has_positions and has_left else None
        self.words = nn.Linear(size, size)
        self.spans = nn.Linear(size, size, bias=False)  # the words' layer has the bias
        self.output = PointerOutput(size, 1)

    def forward(self, words: Tensor, vectors: Tensor, spans: Tensor) -> Tensor:
        """Logits of the words.

        Args:
            words: (B, N, h), projected.
            vectors: (B, K, h) of the noisy spans.
            spans: (B, K, 2) long, their first and last words, or (B, K, 3), then where the left pointer points.

        Returns:
            (B, K, N) float32.
        """
        scores = self.output(words, self.spans(vectors))
        parts = (self.from_first, self.from_last, self.from_left)
        for positions, places in zip(parts, spans.unbind(dim=-1), strict=False):
            if positions is not None:
                scores = scores + positions(vectors, places, words.shape[1])
        return scores


class PointerOutput(LinearWeights):
    """v . ReLU(words + spans) + c: a class whose forward uses all of its weights, so that offloading fetches them."""

    def forward(self, words: Tensor, spans: Tensor) -> Tensor:
        """(B, K, N) float32 logits of (B, N, h) and (B, K, h) projections."""
        return FusionScores.apply(words.float(), spans.float(), self.weight[0].float()) + self.bias.float()


class RelativePositions(nn.Module):
    """Scores of words by their distance from a word of each noisy span: a(H[k])[clip(m - place, -R, R)].

    a(x) = b + W_2 W_1 x. W_2 and b start at 0, where it changes nothing. As the table follows from the span's vector,
    it depends on the time: early on the way a pointer may look farther away.

    Memory: (K, 2 R + 1) for the tables and (K, N) for the scores.

    Args:
        size: h.
        reach: R, distances beyond it share a score.
    """

    def __init__(self, size: int, reach: int) -> None:
        super().__init__()
        self.reach = reach
        self.reduce = ReducingLayer(size, POSITION_RANK, bias=False)
        self.expand = ZeroLayer(POSITION_RANK, 2 * reach + 1)

    def forward(self, vectors: Tensor, places: Tensor, num_words: int) -> Tensor:
        """(B, K, N) float32 scores, from (B, K, h) vectors of spans and (B, K) long words that distances start from."""
        table = self.expand(self.reduce(vectors)).float()  # (B, K, 2 R + 1)
        distances = torch.arange(num_words, device=places.device) - places[..., None]  # (B, K, N)
        return table.gather(2, distances.clamp(-self.reach, self.reach) + self.reach)


class ReducingLayer(nn.Linear):
    """Linear layer whose outputs start at the size of its inputs, so that what reads them learns soon."""


class ZeroLayer(nn.Linear):
    """Linear layer that starts at 0, a class of its own so that its initialisation can be told from others."""


class FusionScores(torch.autograd.Function):
    """scores[b, k, m] = weight . ReLU(words[b, m] + spans[b, k]), in float32.

    The (B, K, N, h) fusion is never held: it is made, and made again for the gradients, one chunk at a time. With
    ReLU(w + s) = max(w, -s) + s a chunk is written once and read once.
    """

    @staticmethod
    def forward(ctx: Any, words: Tensor, spans: Tensor, weight: Tensor) -> Tensor:
        """(B, K, N) of (B, N, h) words, (B, K, h) spans and an (h,) weight."""
        ctx.save_for_backward(words, spans, weight)
        scores = words.new_empty(len(words), spans.shape[1], words.shape[1])
        with torch.autocast(words.device.type, enabled=False):
            for rows, columns in chunks(spans.shape[1], words):
                fused = torch.maximum(words[rows, None], -spans[rows, columns, None])  # (b, k, N, h)
                scores[rows, columns] = fused @ weight
            return scores.add_((spans @ weight)[..., None])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of words, spans and weight, from that of the scores."""
        words, spans, weight = ctx.saved_tensors
        word_gradients, span_gradients = torch.zeros_like(words), torch.zeros_like(spans)
        with torch.autocast(words.device.type, enabled=False):
            for rows, columns in chunks(spans.shape[1], words):
                is_active = words[rows, None] > -spans[rows, columns, None]  # (b, k, N, h)
                active = gradients[0][rows, columns, :, None] * is_active
                word_gradients[rows] += active.sum(dim=1)
                span_gradients[rows, columns] = active.sum(dim=2)
            weight_gradient = (word_gradients * words).sum(dim=(0, 1)) + (span_gradients * spans).sum(dim=(0, 1))
            return word_gradients * weight, span_gradients * weight, weight_gradient


def chunks(num_spans: int, words: Tensor) -> list[tuple[slice, slice]]:
    """Slices of sentences and of spans that cut the (B, K, N, h) fusion with (B, N, h) words into parts of one chunk.

    One span of one sentence is the smallest part.
    """
    batch_size, num_words, size = words.shape
    chunk = CPU_CHUNK if words.device.type == "cpu" else CHUNK
    spans = max(1, min(num_spans, chunk // (num_words * size)))
    sentences = max(1, chunk // (num_words * size * num_spans))
    return [
        (slice(row, row + sentences), slice(column, column + spans))
        for row in range(0, batch_size, sentences)
        for column in range(0, num_spans, spans)
    ]
