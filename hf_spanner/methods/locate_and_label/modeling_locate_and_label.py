"""Locate and Label (Shen et al. 2021): filter seed spans, move their boundaries, then classify."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import initialization as init

from hf_spanner.core.modeling_span_ner import TOTAL, SpanNERModel, SpanNEROutput
from hf_spanner.core.spans import Limits, Span, pack_spans
from hf_spanner.core.word_encoder import word_lengths
from hf_spanner.methods.locate_and_label.configuration_locate_and_label import LocateAndLabelConfig
from hf_spanner.methods.locate_and_label.loss_locate_and_label import (
    SampledSpans,
    all_labels,
    assign_gold,
    classification_loss,
    filter_loss,
    fixed_keys,
    is_first_label,
    label_losses,
    moved_spans,
    overlap_loss,
    paired_iou,
    regression_loss,
    sampled_negatives,
    sentence_means,
    sentence_sums,
    soft_weights,
)
from hf_spanner.methods.locate_and_label.soft_nms_locate_and_label import after_soft_nms
from hf_spanner.methods.locate_and_label.span_pooling_locate_and_label import (
    pooled_seeds,
    pooled_spans,
    range_maxima,
    seed_spans,
)

RARE = 0.01  # where each label is a decision of its own, its probability at the start (Lin et al. 2017, section 3.3)


@dataclass
class LocateAndLabelOutput(SpanNEROutput):
    """Adds to the common output; `logits` is (B, K), the filter's for each seed (zeros without a filter).

    A training step scores the P spans of its sample and nothing else: there `logits` is (P,) and `offsets` (P, 2).

    Args:
        words: (B, N, D) vectors of the words.
        maxima: (J, B, N, D) maxima over runs of words.
        seeds: (K, 2) long, (start, end) of the seeds, the same for all sentences; None in a training step.
        offsets: (B, K, 2) moves of both boundaries (zeros without a regressor, and for seeds that the filter drops).
        proposals: (P, 3) long, (sentence, start, end) of moved seeds that passed the filter; in a training step of all
            moved spans of the sample, also those that a move has made illegal.
        class_logits: (P, C + 1), none last; with `multi_label` (P, C), the log-odds of each label.
        trust: (P,) float32, what the classifier's probabilities are multiplied by; None: 1.
        sample: The spans that the loss is taken on; None except in a training step.
    """

    # always set; ModelOutput wants a default of None after its first field
    words: Tensor = None  # type: ignore[assignment]
    maxima: Tensor = None  # type: ignore[assignment]
    seeds: Tensor | None = None
    offsets: Tensor = None  # type: ignore[assignment]
    proposals: Tensor = None  # type: ignore[assignment]
    class_logits: Tensor = None  # type: ignore[assignment]
    trust: Tensor | None = None
    sample: SampledSpans | None = None


class LocateAndLabelModel(SpanNERModel):
    """Seeds that overlap an entity enough are moved onto it and classified there.

    Time after the encoder: O(K d h) with K seeds, K below N times the longest seed, so linear in N; at inference the
    regressor runs on seeds that pass the filter and the classifier on proposals only. Memory: O(K (d + h) + N d log N)
    a sentence; with gold also one (K, G) table. The three parts of a head's input are never joined: its first layer
    acts on each part by itself, and on a boundary word once for each word. With `multi_label` each label is a decision
    of its own, so a span may have several.
    """

    config: LocateAndLabelConfig
    config_class = LocateAndLabelConfig

    def __init__(self, config: LocateAndLabelConfig) -> None:
        super().__init__(config)
        assert config.num_labels is not None
        width = self.word_encoder.output_size
        self.filter = SpanHead(config, width, 1) if config.use_filter else None
        self.regressor = SpanHead(config, width, 2) if config.use_regressor else None
        self.classifier = SpanHead(config, width, config.num_labels + (not config.multi_label))
        self.classifier.output_layer.is_rare = config.multi_label
        self.post_init()

    def score_spans(
        self, words: Tensor, word_mask: Tensor, labels: Tensor | None, decoding: Mapping[str, Any]
    ) -> LocateAndLabelOutput:
        """The filter on all seeds, the other heads on what it keeps; in training all three on the sample alone."""
        maxima = range_maxima(words)  # (J, B, N, D)
        if self.training and labels is not None:
            return self._scored_sample(words, maxima, word_mask, labels)
        lengths = range(1, self.config.max_seed_length + 1)
        seeds = seed_spans(words.shape[1], lengths, words.device)  # (K, 2)
        sentence = torch.arange(len(words), device=words.device)[:, None]  # (B, 1)
        pooled, rows = pooled_seeds(maxima, lengths), word_rows(sentence, seeds, words.shape[1])
        logits = self._filter_logits(words, pooled, rows)
        passed = self._passes_filter(logits, decoding["filter_threshold"]).nonzero(as_tuple=True)  # (S,) each
        moves = self._moves(words, word_mask, pooled[passed], [row[passed] for row in rows])
        offsets = moves.new_zeros(*logits.shape, 2).index_put(passed, moves)
        output = LocateAndLabelOutput(
            logits=logits, word_mask=word_mask, words=words, maxima=maxima, seeds=seeds, offsets=offsets
        )
        output.proposals, trust = self._proposals(output, decoding["filter_threshold"])
        output.trust = trust if self.weighs_filter(decoding) else None
        output.class_logits = self._class_logits(words, maxima, output.proposals)
        return output

    def compute_loss(self, output: LocateAndLabelOutput, labels: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The four weighted losses, each a mean over those spans of a sentence's sample that it concerns.

        Gold that is no seed takes part as a positive seed that does not have to move (official code, not in the paper).
        The parts are the unweighted losses of the existing heads, how many positive seeds the filter keeps
        (`filter_recall`), and how many of these are moved exactly (`exact_moves`).
        """
        config, word_mask = self.config, output.word_mask
        if output.sample is None:
            output = self._scored_sample(output.words, output.maxima, word_mask, labels)
        sample, offsets, moved = output.sample, output.offsets, output.proposals[:, 1:]
        assert sample is not None
        moved_iou = paired_iou(moved, sample.gold).masked_fill(sample.iou == 0, 0.0)
        is_exact = moved_iou >= 1
        weights = soft_weights(sample.iou, threshold=config.positive_iou, exponent=config.soft_exponent)
        moved_weights = soft_weights(moved_iou, threshold=1.0, exponent=config.soft_exponent)
        is_positive = sample.is_positive
        concerned = {
            "filter_loss": (
                filter_loss(output.logits, is_positive, weights, gamma=config.focal_gamma),
                torch.ones_like(is_positive),
            ),
            "regression_loss": (regression_loss(offsets, sample.gold - sample.spans), is_positive),
            "overlap_loss": (overlap_loss(sample.spans + offsets.float(), sample.gold), is_positive),
            "classification_loss": (
                self._classification_loss(output.class_logits, labels, sample, is_exact, moved_weights),
                is_legal_span(sample.sentence, moved, word_mask),
            ),
        }
        place = (sample.sentence, len(word_mask))
        parts = {name: sentence_means(*concerned[name], *place) for name in self.loss_weights}
        weighted = [weight * parts[name] for name, weight in self.loss_weights.items()]
        is_kept = is_positive & self._passes_filter(output.logits, config.filter_threshold)
        counts = [sentence_sums(is_counted, *place) for is_counted in (is_positive, is_kept, is_kept & is_exact)]
        return torch.stack(weighted).sum(dim=0), parts | self._shares(*counts)

    def _classification_loss(
        self, logits: Tensor, gold: Tensor, sample: SampledSpans, is_exact: Tensor, weights: Tensor
    ) -> Tensor:
        """(P,) of the sampled spans, of which those that are moved exactly have the labels of their gold."""
        if not self.config.multi_label:
            classes = torch.where(is_exact, sample.label, self.classifier.num_outputs - 1)
            return classification_loss(logits, classes, weights)
        targets = all_labels(sample.gold, gold[sample.sentence], self.classifier.num_outputs)
        return label_losses(logits, targets * is_exact[:, None], weights)

    def _shares(self, positives: Tensor, kept: Tensor, exact: Tensor) -> dict[str, Tensor]:
        """Shares to log as two sums each, from (B,) counts."""
        shares = {"exact_moves": exact, f"{TOTAL}exact_moves": kept}
        if self.filter is None:
            return shares
        return shares | {"filter_recall": kept, f"{TOTAL}filter_recall": positives}

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

        The score is the classifier's probability, with `confidence: product` times the filter's. Its decay by Soft-NMS
        drops and orders: of spans that clash under `overlap`, those stay whose decayed score is higher.
        """
        places, labels, values = found_labels(output.class_logits, multi_label=self.config.multi_label)
        if output.trust is not None:
            values = values * output.trust[places]
        table = torch.cat([output.proposals[places], labels[:, None]], dim=1).cpu().numpy()  # (E, 4)
        scores = values.detach().cpu().numpy()  # (E,)
        bounds = np.searchsorted(table[:, 0], np.arange(len(output.word_mask) + 1))
        spans, id2label = [], cast(dict[int, str], self.config.id2label)
        for first, last in pairwise(bounds):
            rows = zip(table[first:last, 1:].tolist(), scores[first:last].tolist(), strict=True)
            entities = [Span(start, end, label, score) for (start, end, label), score in rows]
            spans.append(after_soft_nms(entities, decoding, id2label) if self.config.use_soft_nms else entities)
        return pack_spans(spans).to(output.logits.device)

    @property
    def limits(self) -> Limits:
        """One type a span, unless `multi_label` allows more; without a regressor no longer than the longest seed."""
        longest = None if self.config.use_regressor else self.config.max_seed_length
        return Limits(one_label=not self.config.multi_label, max_length=longest)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Layers of a head by their widths; at the paper's width of 1,024 close to the official code's 0.02."""
        super()._init_weights(module)
        if isinstance(module, PartLayer):
            init.normal_(module.weight, std=(2 / (3 * module.in_features)) ** 0.5)
        elif isinstance(module, OutputLayer):
            init.normal_(module.weight, std=module.in_features**-0.5)
            if module.is_rare:
                init.constant_(module.bias, math.log(RARE / (1 - RARE)))

    def _sampled_spans(self, word_mask: Tensor, gold: Tensor) -> SampledSpans:
        """Positive seeds, gold that is no seed, and sampled negative seeds; in training the sample is random."""
        config = self.config
        seeds = seed_spans(word_mask.shape[1], config.seed_lengths, gold.device).expand(len(gold), -1, -1)  # (B, K, 2)
        is_gold = is_first_label(gold)  # (B, G)
        extra = torch.where(is_gold[..., None], gold[..., :2], gold.new_tensor([0, 1]))  # (B, G, 2)
        seed_lengths = torch.tensor(config.seed_lengths, device=gold.device)
        is_extra = is_gold & ~torch.isin(extra[..., 1] - extra[..., 0], seed_lengths)
        spans = torch.cat([seeds, extra], dim=1)  # (B, K + G, 2)
        sentence = torch.arange(len(gold), device=gold.device)[:, None]
        is_legal = torch.cat([is_legal_span(sentence, seeds, word_mask), is_extra], dim=1)  # (B, K + G)
        pairs = assign_gold(spans, gold)
        is_positive = is_legal & (pairs.iou > config.positive_iou)
        num_negatives = is_positive.sum(dim=1) * config.negatives_per_positive + config.min_negatives  # (B,)
        keys = torch.rand(is_legal.shape, device=gold.device) if self.training else fixed_keys(spans)
        is_sampled = is_positive | sampled_negatives(is_legal & ~is_positive, num_negatives, keys)
        places = is_sampled.nonzero(as_tuple=True)  # (P,) each
        values = (spans, pairs.iou, pairs.gold, pairs.label, is_positive)
        return SampledSpans(places[0], *(value[places] for value in values))

    def _scored_sample(self, words: Tensor, maxima: Tensor, word_mask: Tensor, gold: Tensor) -> LocateAndLabelOutput:
        """The three heads on the spans that the loss is taken on; the sample follows from the gold alone."""
        sample = self._sampled_spans(word_mask, gold)
        pooled = pooled_spans(maxima, sample.sentence, *sample.spans.unbind(dim=1))  # (P, D)
        rows = word_rows(sample.sentence, sample.spans, words.shape[1])
        logits, offsets = self._filter_logits(words, pooled, rows), self._moves(words, word_mask, pooled, rows)
        moved = moved_spans(sample.spans, offsets.detach(), word_lengths(word_mask)[sample.sentence])  # (P, 2)
        proposals = torch.cat([sample.sentence[:, None], moved], dim=1)  # (P, 3)
        return LocateAndLabelOutput(
            logits=logits,
            word_mask=word_mask,
            words=words,
            maxima=maxima,
            offsets=offsets,
            proposals=proposals,
            class_logits=self._class_logits(words, maxima, proposals),
            sample=sample,
        )

    def _filter_logits(self, words: Tensor, pooled: Tensor, rows: Sequence[Tensor]) -> Tensor:
        """(...) of spans with (..., D) maxima whose first and last words are these (...) rows."""
        if self.filter is None:
            return pooled.new_zeros(pooled.shape[:-1])
        return self.filter(pooled, words, words, *rows)[..., 0]

    def _moves(self, words: Tensor, word_mask: Tensor, pooled: Tensor, rows: Sequence[Tensor]) -> Tensor:
        """(..., 2) of the same."""
        if self.regressor is None:
            return pooled.new_zeros(*pooled.shape[:-1], 2)
        last_word = word_lengths(word_mask) - 1  # (B,)
        next_places = (torch.arange(words.shape[1], device=words.device) + 1).minimum(last_word[:, None])  # (B, N)
        before = torch.cat([words[:, :1], words[:, :-1]], dim=1)
        after = words.gather(1, next_places[..., None].expand_as(words))
        return self.regressor(pooled, before, after, *rows)

    def weighs_filter(self, decoding: Mapping[str, Any]) -> bool:
        """Whether the filter's probability is a factor of the score."""
        return decoding["confidence"] == "product" and self.filter is not None

    def _proposals(self, output: LocateAndLabelOutput, threshold: float) -> tuple[Tensor, Tensor]:
        """(P, 3) long, moved seeds that pass the filter, each once, ordered by sentence, and (P,) float32.

        The numbers are the filter's probabilities, the largest where several seeds are moved onto one span.
        """
        assert output.seeds is not None
        word_mask = output.word_mask
        sentence = torch.arange(len(word_mask), device=word_mask.device)[:, None]  # (B, 1)
        moved = moved_spans(output.seeds, output.offsets, word_lengths(word_mask)[:, None])  # (B, K, 2)
        is_legal = is_legal_span(sentence, output.seeds, word_mask) & is_legal_span(sentence, moved, word_mask)
        places = (self._passes_filter(output.logits, threshold) & is_legal).nonzero(as_tuple=True)  # (P,) each
        passed = torch.cat([places[0][:, None], moved[places]], dim=1)
        proposals, place = passed.unique(dim=0, return_inverse=True)
        scores = output.logits[places].float().sigmoid()
        return proposals, scores.new_zeros(len(proposals)).scatter_reduce(0, place, scores, "amax")

    def _class_logits(self, words: Tensor, maxima: Tensor, proposals: Tensor) -> Tensor:
        """(P, C + 1) of (P, 3) spans; an empty span counts as one word, its value is for the caller to mask."""
        sentence, starts, ends = proposals.unbind(dim=1)
        starts = starts.clamp(max=words.shape[1] - 1)
        ends = torch.maximum(ends, starts + 1)
        places = word_rows(sentence, torch.stack([starts, ends], dim=1), words.shape[1])
        return self.classifier(pooled_spans(maxima, sentence, starts, ends), words, words, *places)

    def _passes_filter(self, logits: Tensor, threshold: float) -> Tensor:
        """Bool in the shape of the filter logits."""
        if self.filter is None:
            return torch.ones_like(logits, dtype=torch.bool)
        return logits.float().sigmoid() > threshold


def found_labels(class_logits: Tensor, *, multi_label: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The labels that proposals get: the likeliest class unless it is none, or each label that is likelier than not.

    Args:
        class_logits: (P, C + 1), none last; with `multi_label` (P, C).
        multi_label: Whether each label is a decision of its own.

    Returns:
        (E,) long places among the proposals in order, (E,) long labels and (E,) float32 probabilities.
    """
    if multi_label:
        probabilities = class_logits.float().sigmoid()
        places, labels = (probabilities > 0.5).nonzero(as_tuple=True)
        return places, labels, probabilities[places, labels]
    scores, classes = class_logits.softmax(dim=-1, dtype=torch.float32).max(dim=-1)
    places = (classes < class_logits.shape[-1] - 1).nonzero(as_tuple=True)[0]
    return places, classes[places], scores[places]


class PartLayer(nn.Linear):
    """One of the three parts of a head's first layer; a class of its own, as `OutputLayer`, for its initialisation."""


class OutputLayer(nn.Linear):
    """A head's last layer; if `is_rare`, its outputs are decisions of their own, of probability `RARE` at first."""

    is_rare = False


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
            pooled: (..., D) maxima over the spans.
            left: (B, N, D) vectors read at the first word.
            right: (B, N, D) vectors read at the last word.
            starts: (...) long, rows of the first words among the B N words.
            lasts: (...) long, rows of the last words.

        Returns:
            (..., O).
        """
        hidden = self.pool_layer(self.dropout(pooled))  # (..., h)
        for layer, words, rows in ((self.left_layer, left, starts), (self.right_layer, right, lasts)):
            table = layer(self.dropout(words)).flatten(0, 1)  # (B N, h)
            hidden = hidden + table.index_select(0, rows.flatten()).view_as(hidden)
        return self.output_layer(nn.functional.gelu(hidden))


def word_rows(sentence: Tensor, spans: Tensor, num_words: int) -> tuple[Tensor, Tensor]:
    """Rows of first and last words in a flat (B N, h) table, (...) long each, of spans (..., 2) of sentences."""
    first_row = sentence * num_words
    return first_row + spans[..., 0], first_row + spans[..., 1] - 1


def is_legal_span(sentence: Tensor, spans: Tensor, word_mask: Tensor) -> Tensor:
    """(...) bool: spans (..., 2) of sentences that are not empty and whose first and last word have tokens."""
    last_place = word_mask.shape[1] - 1
    starts, lasts = spans[..., 0], spans[..., 1] - 1
    has_tokens = [word_mask[sentence, places.clamp(0, last_place)] for places in (starts, lasts)]
    return (starts <= lasts) & has_tokens[0] & has_tokens[1]
