"""Locate and Label (Shen et al. 2021): filter seed spans, move their boundaries, then classify."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import initialization as init

from hf_spanner.core.modeling_span_ner import TOTAL, SpanNERModel, SpanNEROutput
from hf_spanner.core.spans import Limits, Span, pack_spans
from hf_spanner.core.word_encoder import word_lengths
from hf_spanner.methods.locate_and_label.configuration_locate_and_label import LocateAndLabelConfig
from hf_spanner.methods.locate_and_label.loss_locate_and_label import (
    assign_gold,
    classification_loss,
    filter_loss,
    fixed_keys,
    is_first_label,
    masked_mean,
    moved_spans,
    overlap_loss,
    paired_iou,
    regression_loss,
    sampled_negatives,
    soft_weights,
)
from hf_spanner.methods.locate_and_label.soft_nms_locate_and_label import soft_nms
from hf_spanner.methods.locate_and_label.span_pooling_locate_and_label import (
    pooled_seeds,
    pooled_spans,
    range_maxima,
    seed_spans,
)


@dataclass
class LocateAndLabelOutput(SpanNEROutput):
    """Adds to the common output; `logits` is (B, K), the filter's for each seed (zeros without a filter).

    Args:
        words: (B, N, D) vectors of the words.
        maxima: (J, B, N, D) maxima over runs of words.
        seeds: (K, 2) long, (start, end) of the seeds, the same for all sentences.
        offsets: (B, K, 2) moves of both boundaries (zeros without a regressor).
        proposals: (P, 3) long, (sentence, start, end) of moved seeds that passed the filter; None in a training step.
        class_logits: (P, C + 1), none last; None in a training step.
    """

    words: Tensor | None = None
    maxima: Tensor | None = None
    seeds: Tensor | None = None
    offsets: Tensor | None = None
    proposals: Tensor | None = None
    class_logits: Tensor | None = None


class LocateAndLabelModel(SpanNERModel):
    """Seeds that overlap an entity enough are moved onto it and classified there.

    Time after the encoder: O(K d h) with K seeds, K below N times the longest seed, so linear in N; at inference the
    classifier runs on proposals only. Memory: O(K (d + h) + N d log N) a sentence; with gold also one (K, G) table.
    The three parts of a head's input are never joined: its first layer acts on each part by itself, and on a boundary
    word once for each word.
    """

    config: LocateAndLabelConfig
    config_class = LocateAndLabelConfig

    def __init__(self, config: LocateAndLabelConfig) -> None:
        super().__init__(config)
        assert config.num_labels is not None
        width = self.word_encoder.output_size
        self.filter = SpanHead(config, width, 1) if config.use_filter else None
        self.regressor = SpanHead(config, width, 2) if config.use_regressor else None
        self.classifier = SpanHead(config, width, config.num_labels + 1)
        self.post_init()

    def score_spans(
        self, words: Tensor, word_mask: Tensor, labels: Tensor | None, decoding: Mapping[str, Any]
    ) -> LocateAndLabelOutput:
        """Filter and regressor on all seeds; outside training also the classifier on what the filter keeps."""
        is_training_step = self.training and labels is not None
        lengths = self.config.seed_lengths if is_training_step else range(1, self.config.max_seed_length + 1)
        seeds = seed_spans(words.shape[1], lengths, words.device)  # (K, 2)
        maxima = range_maxima(words)  # (J, B, N, D)
        spans = seeds.expand(len(words), -1, -1)  # (B, K, 2)
        logits, offsets = self._stage_one(words, word_mask, pooled_seeds(maxima, lengths), spans)
        output = LocateAndLabelOutput(
            logits=logits, word_mask=word_mask, words=words, maxima=maxima, seeds=seeds, offsets=offsets
        )
        if not is_training_step:
            output.proposals, output.class_logits = self._classified_proposals(output)
        return output

    def compute_loss(self, output: LocateAndLabelOutput, labels: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The four weighted losses, each a mean over those seeds of a sentence that it concerns.

        Gold that is no seed takes part as a positive seed that does not have to move (official code, not in the paper).
        The parts are the unweighted losses of the existing heads, how many positive seeds the filter keeps
        (`filter_recall`), and how many of these are moved exactly (`exact_moves`).
        """
        config = self.config
        assert output.seeds is not None
        spans, logits, offsets, is_legal = self._training_spans(output, labels)  # (B, K + G, ...)
        pairs = assign_gold(spans, labels)
        is_positive = is_legal & (pairs.iou > config.positive_iou)
        num_negatives = is_positive.sum(dim=1) * config.negatives_per_positive + config.min_negatives  # (B,)
        keys = torch.rand(is_legal.shape, device=labels.device) if self.training else fixed_keys(spans)
        is_sampled = is_positive | sampled_negatives(is_legal & ~is_positive, num_negatives, keys)
        lengths = word_lengths(output.word_mask)[:, None].expand(is_legal.shape)  # (B, K + G)
        moved = moved_spans(spans, offsets.detach(), lengths)  # (B, K + G, 2)
        moved_iou = paired_iou(moved, pairs.gold).masked_fill(pairs.iou == 0, 0.0)
        is_exact = moved_iou >= 1
        classes = torch.where(is_exact, pairs.label, self.classifier.num_outputs - 1)
        can_classify = is_sampled & is_legal_span(moved, output.word_mask)
        class_logits = self._class_logits(output, moved)  # (B, K + G, C + 1)
        weights = soft_weights(pairs.iou, threshold=config.positive_iou, exponent=config.soft_exponent)
        moved_weights = soft_weights(moved_iou, threshold=1.0, exponent=config.soft_exponent)
        targets = pairs.gold - spans  # (B, K + G, 2)
        losses = {
            "filter_loss": masked_mean(filter_loss(logits, is_positive, weights, gamma=config.focal_gamma), is_sampled),
            "regression_loss": masked_mean(regression_loss(offsets, targets), is_positive),
            "overlap_loss": masked_mean(overlap_loss(spans + offsets.float(), pairs.gold), is_positive),
            "classification_loss": masked_mean(classification_loss(class_logits, classes, moved_weights), can_classify),
        }
        weighted = [weight * losses[name] for name, weight in self.loss_weights.items()]
        parts = {name: losses[name] for name in self.loss_weights}
        is_kept = is_positive & self._passes_filter(logits)
        return torch.stack(weighted).sum(dim=0), parts | self._shares(is_positive, is_kept, is_kept & is_exact)

    def _shares(self, is_positive: Tensor, is_kept: Tensor, is_exact: Tensor) -> dict[str, Tensor]:
        """Shares to log as two sums each, (B,) float32, from (B, K) bool."""
        positives, kept, exact = (is_counted.sum(dim=1).float() for is_counted in (is_positive, is_kept, is_exact))
        shares = {"exact_moves": exact, f"{TOTAL}exact_moves": kept}
        return (
            shares | {"filter_recall": kept, f"{TOTAL}filter_recall": positives} if self.filter is not None else shares
        )

    @property
    def loss_weights(self) -> dict[str, float]:
        """Weights of the losses by name; a loss without its head has none."""
        config = self.config
        weights = {"classification_loss": config.classification_loss_weight}
        if config.use_filter:
            weights["filter_loss"] = config.filter_loss_weight
        if config.use_regressor:
            weights["regression_loss"] = config.regression_loss_weight
            weights["overlap_loss"] = config.overlap_loss_weight
        return weights

    def candidate_spans(self, output: LocateAndLabelOutput, decoding: Mapping[str, Any]) -> Tensor:
        """(B, K, 4) packed: classified proposals that Soft-NMS leaves, with equal ones merged.

        The score is the classifier's probability; its decay by Soft-NMS only orders and drops.
        """
        assert output.proposals is not None
        assert output.class_logits is not None
        best = output.class_logits.softmax(dim=-1, dtype=torch.float32).max(dim=-1)  # (P,)
        is_entity = best.indices < output.class_logits.shape[-1] - 1
        table = torch.cat([output.proposals, best.indices[:, None]], dim=1)[is_entity].cpu().numpy()  # (E, 4)
        scores = best.values[is_entity].detach().cpu().numpy()  # (E,)
        bounds = np.searchsorted(table[:, 0], np.arange(len(output.word_mask) + 1))
        spans = [
            kept_spans(table[first:last, 1:], scores[first:last], decoding if self.config.use_soft_nms else None)
            for first, last in pairwise(bounds)
        ]
        return pack_spans(spans).to(output.logits.device)

    @property
    def limits(self) -> Limits:
        """Each span has one type, and without a regressor none is longer than the longest seed."""
        return Limits(one_label=True, max_length=None if self.config.use_regressor else self.config.max_seed_length)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Layers of a head by their widths; at the paper's width of 1,024 close to the official code's 0.02."""
        super()._init_weights(module)
        if isinstance(module, PartLayer):
            init.normal_(module.weight, std=(2 / (3 * module.in_features)) ** 0.5)
        elif isinstance(module, OutputLayer):
            init.normal_(module.weight, std=module.in_features**-0.5)

    def _stage_one(self, words: Tensor, word_mask: Tensor, pooled: Tensor, spans: Tensor) -> tuple[Tensor, Tensor]:
        """Filter logits (B, K) and boundary moves (B, K, 2) of (B, K, 2) spans with their (B, K, D) maxima."""
        starts, lasts = word_places(spans)
        logits = pooled.new_zeros(spans.shape[:2])
        offsets = pooled.new_zeros(spans.shape)
        if self.filter is not None:
            logits = self.filter(pooled, words, words, starts, lasts)[..., 0]
        if self.regressor is not None:
            last_word = word_lengths(word_mask) - 1  # (B,)
            places = torch.arange(words.shape[1], device=words.device)
            next_places = (places + 1).minimum(last_word[:, None])  # (B, N)
            before = torch.cat([words[:, :1], words[:, :-1]], dim=1)
            after = words.gather(1, next_places[..., None].expand_as(words))
            offsets = self.regressor(pooled, before, after, starts, lasts)
        return logits, offsets

    def _training_spans(self, output: LocateAndLabelOutput, gold: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Spans, filter logits, moves and legality of the training seeds and, after them, of gold that is no seed."""
        assert output.words is not None
        assert output.maxima is not None
        assert output.seeds is not None
        assert output.offsets is not None
        seed_lengths = torch.tensor(self.config.seed_lengths, device=gold.device)
        seeds = output.seeds.expand(len(gold), -1, -1)  # (B, K, 2)
        is_seed = torch.isin(seeds[..., 1] - seeds[..., 0], seed_lengths) & is_legal_span(seeds, output.word_mask)
        is_gold = is_first_label(gold)  # (B, G)
        extra = torch.where(is_gold[..., None], gold[..., :2], gold.new_tensor([0, 1]))  # (B, G, 2)
        is_extra = is_gold & ~torch.isin(extra[..., 1] - extra[..., 0], seed_lengths)
        logits, offsets = self._stage_one(output.words, output.word_mask, self._pooled(output, extra), extra)
        return (
            torch.cat([seeds, extra], dim=1),
            torch.cat([output.logits, logits], dim=1),
            torch.cat([output.offsets, offsets], dim=1),
            torch.cat([is_seed, is_extra], dim=1),
        )

    def _pooled(self, output: LocateAndLabelOutput, spans: Tensor) -> Tensor:
        """(B, K, D) maxima over (B, K, 2) spans, all within the batch's words."""
        assert output.maxima is not None
        sentence = torch.arange(len(spans), device=spans.device)[:, None].expand(spans.shape[:2])
        pooled = pooled_spans(output.maxima, sentence.flatten(), spans[..., 0].flatten(), spans[..., 1].flatten())
        return pooled.view(*spans.shape[:2], pooled.shape[-1])

    def _class_logits(self, output: LocateAndLabelOutput, spans: Tensor) -> Tensor:
        """(B, K, C + 1) of (B, K, 2) spans; an empty span counts as one word, its value is for the caller to mask."""
        assert output.words is not None
        starts = spans[..., 0].clamp(max=output.words.shape[1] - 1)
        spans = torch.stack([starts, torch.maximum(spans[..., 1], starts + 1)], dim=-1)
        places = word_places(spans)
        return self.classifier(self._pooled(output, spans), output.words, output.words, *places)

    def _passes_filter(self, logits: Tensor) -> Tensor:
        """Bool in the shape of the filter logits."""
        if self.filter is None:
            return torch.ones_like(logits, dtype=torch.bool)
        return logits.float().sigmoid() > self.config.filter_threshold

    def _classified_proposals(self, output: LocateAndLabelOutput) -> tuple[Tensor, Tensor]:
        """Proposals (P, 3), moved and each once, ordered by sentence, and their class logits (P, C + 1)."""
        assert output.words is not None
        assert output.maxima is not None
        assert output.seeds is not None
        assert output.offsets is not None
        word_mask = output.word_mask
        seeds = output.seeds.expand(len(word_mask), -1, -1)  # (B, K, 2)
        lengths = word_lengths(word_mask)[:, None].expand(seeds.shape[:2])
        moved = moved_spans(seeds, output.offsets, lengths)  # (B, K, 2)
        is_legal = is_legal_span(seeds, word_mask) & is_legal_span(moved, word_mask)
        sentence, seed = (self._passes_filter(output.logits) & is_legal).nonzero(as_tuple=True)  # (P,)
        proposals = torch.cat([sentence[:, None], moved[sentence, seed]], dim=1).unique(dim=0)  # (P, 3)
        sentence, starts, ends = proposals.unbind(dim=1)
        pooled = pooled_spans(output.maxima, sentence, starts, ends)
        flat = output.words.flatten(0, 1)[None]
        first_word = sentence * word_mask.shape[1]
        logits = self.classifier(pooled[None], flat, flat, (first_word + starts)[None], (first_word + ends - 1)[None])
        return proposals, logits[0]


class PartLayer(nn.Linear):
    """One of the three parts of a head's first layer; a class of its own, as `OutputLayer`, for its initialisation."""


class OutputLayer(nn.Linear):
    """A head's last layer."""


class SpanHead(nn.Module):
    """Linear, GELU, Linear on [maximum ; left word ; right word] of each span, with dropout in front.

    The first layer acts on each of the three parts by itself, and on words before they are gathered. So dropout on a
    boundary word is drawn once for each word and not once for each span.

    Args:
        config: `head_size`, `head_dropout`.
        width: D.
        num_outputs: O.
    """

    def __init__(self, config: LocateAndLabelConfig, width: int, num_outputs: int) -> None:
        super().__init__()
        self.num_outputs = num_outputs
        self.dropout = nn.Dropout(config.head_dropout)
        self.pool_layer = PartLayer(width, config.head_size)
        self.left_layer = PartLayer(width, config.head_size, bias=False)
        self.right_layer = PartLayer(width, config.head_size, bias=False)
        self.output_layer = OutputLayer(config.head_size, num_outputs)

    def forward(self, pooled: Tensor, left: Tensor, right: Tensor, starts: Tensor, lasts: Tensor) -> Tensor:
        """Values of the spans.

        Args:
            pooled: (B, K, D) maxima over the spans.
            left: (B, N, D) vectors read at the first word.
            right: (B, N, D) vectors read at the last word.
            starts: (B, K) long, first words.
            lasts: (B, K) long, last words.

        Returns:
            (B, K, O).
        """
        hidden = self.pool_layer(self.dropout(pooled))  # (B, K, h)
        hidden = hidden + word_rows(self.left_layer(self.dropout(left)), starts)
        hidden = hidden + word_rows(self.right_layer(self.dropout(right)), lasts)
        return self.output_layer(nn.functional.gelu(hidden))


def word_rows(words: Tensor, places: Tensor) -> Tensor:
    """(B, K, h) rows of (B, N, h) at (B, K) places."""
    first = torch.arange(len(words), device=words.device)[:, None] * words.shape[1]  # (B, 1)
    return words.flatten(0, 1).index_select(0, (first + places).flatten()).view(*places.shape, words.shape[-1])


def word_places(spans: Tensor) -> tuple[Tensor, Tensor]:
    """First and last words, (B, K) long each, of (B, K, 2) spans."""
    return spans[..., 0], spans[..., 1] - 1


def is_legal_span(spans: Tensor, word_mask: Tensor) -> Tensor:
    """(B, K) bool: (B, K, 2) spans that are not empty and whose first and last word have tokens, (B, N) mask."""
    last_place = word_mask.shape[1] - 1
    starts, lasts = word_places(spans)
    has_start = word_mask.gather(1, starts.clamp(0, last_place))
    return (starts <= lasts) & has_start & word_mask.gather(1, lasts.clamp(0, last_place))


def kept_spans(table: np.ndarray, scores: np.ndarray, decoding: Mapping[str, Any] | None) -> list[Span]:
    """Spans of one sentence that Soft-NMS keeps; without settings it keeps all.

    Args:
        table: (E, 3) int, start, end, label; each (start, end) occurs once.
        scores: (E,) float, probabilities.
        decoding: `nms_iou`, `nms_decay` and `nms_threshold`, or None.
    """
    if decoding is not None and len(table) > 0:
        limits = {name: decoding[f"nms_{name}"] for name in ("iou", "decay", "threshold")}
        is_kept = soft_nms(table[:, :2], scores, **limits) >= 0
        table, scores = table[is_kept], scores[is_kept]
    rows = zip(table.tolist(), scores.tolist(), strict=True)
    return [Span(start, end, label, score) for (start, end, label), score in rows]
