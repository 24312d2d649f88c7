"""The denoising network: noisy spans and a sentence in, boundaries and types out (Shen et al. 2023, section 4.2)."""

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad, scaled_dot_product_attention

from hf_spanner.core.linear_weights import LinearWeights
from hf_spanner.methods.diffusion_ner.configuration_diffusion_ner import DiffusionNERConfig
from hf_spanner.methods.diffusion_ner.pointers_diffusion_ner import WordPointer

LOWEST = torch.finfo(torch.float32).min


class Sentence(NamedTuple):
    """What the denoiser needs of a sentence, computed once for all steps.

    Args:
        word_mask: (B, N) bool.
        pooled: What span pooling reads: (B, N + 1, h) prefix sums, or (B, N, 2 h) projections of first and last word.
        attended: For each layer (B, heads, N, h / heads) keys and values, or None without cross-attention.
        left: (B, N, h) words as the left pointer sees them.
        right: (B, N, h) the same for the right one.
        left_words: (B, N, h) words as the right pointer sees those of the left one, or None.
        typed: What types are read from, of `PointedWords.read`, or None.
    """

    word_mask: Tensor
    pooled: Tensor
    attended: list[tuple[Tensor, Tensor] | None]
    left: Tensor
    right: Tensor
    left_words: Tensor | None
    typed: tuple[Tensor, Tensor, Tensor] | None


class Denoiser(nn.Module):
    """f(x_t, S, t) without its sentence encoder: pooling, span encoder, time, two pointers and types.

    Time of a step: O(K^2 h + K N h + K h^2). Memory: O(K N + (K + N) h) for a sentence and one chunk of the fusion.

    Args:
        config: All fields of the denoiser, and `num_labels`.
    """

    def __init__(self, config: DiffusionNERConfig) -> None:
        super().__init__()
        assert config.num_labels is not None
        size = config.denoiser_size
        self.dropout = nn.Dropout(config.decoder_dropout)
        is_mean = config.span_pooling == "mean"
        self.pooling = MeanPooling() if is_mean else BoundaryPooling(size, config.decoder_dropout)
        self.layers = nn.ModuleList(SpanEncoderLayer(config) for _ in range(config.num_decoder_layers))
        self.slots = SinusoidalEmbedding(size, has_mlp=True) if config.has_slot_embedding else None
        self.time = SinusoidalEmbedding(size, has_mlp=config.has_time_mlp)
        self.left = WordPointer(size, config.position_range)
        self.right = WordPointer(size, config.position_range, has_left=config.right_reads_left)
        self.left_word = nn.Linear(size, size, bias=False) if config.right_reads_left else None
        self.pointed = PointedWords(size) if config.type_reading == "pointed" else None
        self.types = nn.Sequential(nn.Linear(size, size), nn.GELU(), nn.Linear(size, config.num_labels + 1))

    def read(self, words: Tensor, word_mask: Tensor) -> Sentence:
        """Projections of (B, N, h) words, which no step changes."""
        return Sentence(
            word_mask,
            self.pooling.read(words),
            [cast(SpanEncoderLayer, layer).read(words) for layer in self.layers],
            self.left.words(words),
            self.right.words(words),
            None if self.left_word is None else self.left_word(words),
            None if self.pointed is None else self.pointed.read(words),
        )

    def forward(self, sentence: Sentence, spans: Tensor, times: Tensor, counts: Tensor | None = None) -> Tensor:
        """Vectors of noisy spans (equation of the span encoder, section 4.2).

        Args:
            sentence: What `read` gave.
            spans: (B, R, K, 2) long, first and last word; spans of different draws r do not see each other.
            times: (B,) long, or (1,) for all.
            counts: (B, R, K), how many equal spans each one stands for, 0 for none; None: one each.

        Returns:
            (B, R K, h).
        """
        num_draws, num_spans = spans.shape[1:3]
        vectors = self.pooling(sentence.pooled, spans.flatten(1, 2)).to(sentence.left.dtype)  # (B, R K, h)
        places = None
        if self.slots is not None:
            places = self.slots(torch.arange(num_spans, device=spans.device), vectors.dtype).repeat(num_draws, 1)
        bias = None if counts is None else counts.flatten(0, 1)[:, None, None].to(vectors.dtype).log()
        is_word = sentence.word_mask.clone()
        is_word[:, 0] = True  # a sentence without words still needs one to attend to
        for layer, attended in zip(self.layers, sentence.attended, strict=True):
            vectors = layer(vectors, places, attended, is_word[:, None, None], num_draws, bias)
        return vectors + self.time(times, vectors.dtype)[:, None]

    def boundaries(self, sentence: Sentence, vectors: Tensor, spans: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of each word as left and as right boundary.

        The right pointer may read the mean of the words under the softmax of the left one, and count distances from the
        likeliest of them.

        Args:
            sentence: What `read` gave.
            vectors: (B, R K, h) of the noisy spans.
            spans: (B, R, K, 2) long, their first and last words.

        Returns:
            Two (B, R K, N) float32; the lowest number for padding.
        """
        is_padding = ~sentence.word_mask[:, None]
        spans = spans.flatten(1, 2)  # (B, R K, 2)
        left = self.left(sentence.left, vectors, spans).masked_fill(is_padding, LOWEST)
        if sentence.left_words is not None:
            vectors = vectors + left.softmax(dim=-1).to(vectors.dtype) @ sentence.left_words
            spans = torch.cat([spans, left.argmax(dim=-1, keepdim=True)], dim=-1)  # (B, R K, 3)
        right = self.right(sentence.right, vectors, spans).masked_fill(is_padding, LOWEST)
        return left, right

    def type_logits(self, sentence: Sentence, vectors: Tensor, spans: Tensor) -> Tensor:
        """(B, M, C + 1) logits of types, none last.

        Args:
            sentence: What `read` gave.
            vectors: (B, M, h) of the noisy spans; read by the types of the paper.
            spans: (B, M, 2) long, the words that both pointers point at, in any order; read by `pointed` types.
        """
        if self.pointed is not None:
            assert sentence.typed is not None
            vectors = self.pointed(sentence.typed, spans.sort(dim=-1).values)
        return self.types(vectors)


class MeanPooling(nn.Module):
    """The mean of the words of a span (the paper), by differences of prefix sums, so that long spans cost no more."""

    def read(self, words: Tensor) -> Tensor:
        """(B, N + 1, h) float32 prefix sums of (B, N, h) words."""
        return pad(words.float().cumsum(dim=1), (0, 0, 1, 0))

    def forward(self, sums: Tensor, spans: Tensor) -> Tensor:
        """(B, K, h) means of the words of (B, K, 2) spans, first and last word."""
        first, last = spans.unbind(dim=-1)
        totals = gathered(sums, last + 1) - gathered(sums, first)  # (B, K, h)
        return totals / (last + 1 - first)[..., None]


class BoundaryPooling(nn.Module):
    """Projections of first and last word, side by side, projected to one (official code).

    Args:
        size: h.
        dropout: Rate after both projections.
    """

    def __init__(self, size: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.Linear(size, size)
        self.last = nn.Linear(size, size)
        self.output = nn.Linear(2 * size, size)
        self.dropout = nn.Dropout(dropout)

    def read(self, words: Tensor) -> Tensor:
        """(B, N, 2 h) projections of (B, N, h) words: there are fewer words than spans."""
        return torch.cat([self.first(words), self.last(words)], dim=-1)

    def forward(self, projected: Tensor, spans: Tensor) -> Tensor:
        """(B, K, h) vectors of (B, K, 2) spans, first and last word."""
        firsts, lasts = projected.chunk(2, dim=-1)
        pairs = [gathered(firsts, spans[..., 0]), gathered(lasts, spans[..., 1])]
        return self.dropout(self.output(self.dropout(torch.cat(pairs, dim=-1))))


class PointedWords(nn.Module):
    """What a type is read from in place of the noisy span: the words that both pointers point at and those between.

    W_l H[l] + W_r H[r] + W_b mean_{l <= m <= r} H[m] + c. Words are projected before the mean is taken, as there are
    fewer of them than spans. Not in the paper, whose types are told by vectors of noisy spans.

    Args:
        size: h.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.project = WordParts(3 * size, size)
        self.inside = MeanPooling()

    def read(self, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, N, h) projections of (B, N, h) words as left and as right word; prefix sums of those as words between."""
        left, right, inside = self.project(words)
        return left, right, self.inside.read(inside)

    def forward(self, typed: tuple[Tensor, Tensor, Tensor], spans: Tensor) -> Tensor:
        """(B, M, h) of what `read` gave and (B, M, 2) spans, first and last word."""
        left, right, sums = typed
        firsts, lasts = spans.unbind(dim=-1)
        return gathered(left, firsts) + gathered(right, lasts) + self.inside(sums, spans).to(left.dtype)


class WordParts(LinearWeights):
    """The three parts of W [l; r; b] + c; c goes to the first."""

    def forward(self, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Three (B, N, h) of (B, N, h) words."""
        left, right, inside = self.weight.chunk(3, dim=1)
        return linear(words, left, self.bias), linear(words, right), linear(words, inside)


class SpanEncoderLayer(nn.Module):
    """Self-attention over spans, cross-attention to words, feed-forward, each followed by a normalisation.

    Args:
        config: `num_attention_heads`, `feedforward_size`, `decoder_dropout`, `has_self_attention`,
            `has_cross_attention`.
    """

    def __init__(self, config: DiffusionNERConfig) -> None:
        super().__init__()
        size = config.denoiser_size
        self.dropout = nn.Dropout(config.decoder_dropout)
        if config.has_self_attention:
            self.self_attention, self.self_norm = Attention(size, config), nn.LayerNorm(size)
        if config.has_cross_attention:
            self.cross_attention, self.cross_norm = Attention(size, config), nn.LayerNorm(size)
        self.has_self_attention, self.has_cross_attention = config.has_self_attention, config.has_cross_attention
        self.expand = nn.Linear(size, config.feedforward_size)
        self.reduce = nn.Linear(config.feedforward_size, size)
        self.norm = nn.LayerNorm(size)

    def read(self, words: Tensor) -> tuple[Tensor, Tensor] | None:
        """Keys and values of the words."""
        if not self.has_cross_attention:
            return None
        return self.cross_attention.keys(words), self.cross_attention.values(words)

    def forward(
        self,
        spans: Tensor,
        places: Tensor | None,
        attended: tuple[Tensor, Tensor] | None,
        is_word: Tensor,
        num_draws: int,
        bias: Tensor | None,
    ) -> Tensor:
        """Spans that have seen each other and the sentence.

        Args:
            spans: (B, R K, h).
            places: (R K, h) embedding of their numbers, or None.
            attended: What `read` gave.
            is_word: (B, 1, 1, N) bool.
            num_draws: R.
            bias: (B R, 1, 1, K) added to what spans ask of spans, or None.

        Returns:
            (B, R K, h).
        """
        if self.has_self_attention:
            attention = self.self_attention
            draws = spans.unflatten(1, (num_draws, -1)).flatten(0, 1)  # (B R, K, h)
            placed = draws if places is None else draws + places[: draws.shape[1]]
            seen = attention(placed, attention.keys(placed), attention.values(draws), bias)
            spans = self.self_norm(spans + self.dropout(seen.view_as(spans)))
        if attended is not None:
            seen = self.cross_attention(spans if places is None else spans + places, *attended, is_word)
            spans = self.cross_norm(spans + self.dropout(seen))
        inner = self.dropout(self.expand(spans).relu())  # (B, R K, feedforward_size)
        return self.norm(spans + self.dropout(self.reduce(inner)))


class Attention(nn.Module):
    """Multi-head attention whose keys and values may be computed beforehand.

    Args:
        size: h.
        config: `num_attention_heads`, `decoder_dropout`.
    """

    def __init__(self, size: int, config: DiffusionNERConfig) -> None:
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.dropout = nn.Dropout(config.decoder_dropout)
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.output = nn.Linear(size, size)

    def keys(self, vectors: Tensor) -> Tensor:
        """(B, heads, M, h / heads) keys of (B, M, h) vectors."""
        return self._heads(self.key(vectors))

    def values(self, vectors: Tensor) -> Tensor:
        """(B, heads, M, h / heads) values of (B, M, h) vectors."""
        return self._heads(self.value(vectors))

    def forward(self, vectors: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """(B, K, h) answers to (B, K, h) vectors that ask; the mask (B, 1, 1, M) is bool or added to the scores."""
        queries = self._heads(self.query(vectors))  # (B, heads, K, h / heads)
        rate = self.dropout.p if self.training else 0.0
        seen = scaled_dot_product_attention(queries, keys, values, attn_mask=mask, dropout_p=rate)
        return self.output(seen.transpose(1, 2).flatten(2))

    def _heads(self, vectors: Tensor) -> Tensor:
        return vectors.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)


class SinusoidalEmbedding(nn.Module):
    """Embedding of whole numbers: [sin(t f), cos(t f)], f_i = exp(-ln(10000) i / (h / 2 - 1)), and two layers if asked.

    Args:
        size: h.
        has_mlp: Add a linear layer, GELU and a linear layer.
    """

    def __init__(self, size: int, *, has_mlp: bool) -> None:
        super().__init__()
        self.size = size
        self.mlp = nn.Sequential(nn.Linear(size, size), nn.GELU(), nn.Linear(size, size)) if has_mlp else nn.Identity()

    def forward(self, numbers: Tensor, dtype: torch.dtype) -> Tensor:
        """(M, h) of (M,) long numbers, in the given type."""
        half = self.size // 2
        exponents = torch.arange(half, device=numbers.device, dtype=torch.float32) / (half - 1)  # (h / 2,)
        angles = numbers[:, None] * (-math.log(10_000) * exponents).exp()  # (M, h / 2)
        return self.mlp(torch.cat([angles.sin(), angles.cos()], dim=-1).to(dtype))


def gathered(vectors: Tensor, places: Tensor) -> Tensor:
    """(B, K, h) rows of (B, N, h) vectors at (B, K) places."""
    return vectors.gather(1, places[..., None].expand(-1, -1, vectors.shape[-1]))
