"""Assignment of gold to spans and the losses of Locate and Label (Shen et al. 2021, sections 2.2 to 2.5)."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, logsigmoid, smooth_l1_loss

from hf_spanner.core.spans import span_iou


@dataclass(frozen=True)
class Assignment:
    """What each span is compared with.

    Args:
        iou: (B, K) float32, IoU with the paired gold, 0 if the span has none.
        gold: (B, K, 2) long, the paired gold; without one, the span itself.
        label: (B, K) long, type of the paired gold; without one, 0.
    """

    iou: Tensor
    gold: Tensor
    label: Tensor


class SampledSpans(NamedTuple):
    """The spans that a loss is taken on, as flat lists ordered by sentence; they follow from the gold alone."""

    sentence: Tensor  # (P,) long
    spans: Tensor  # (P, 2) long
    iou: Tensor  # (P,) float32, with the paired gold
    gold: Tensor  # (P, 2) long, the paired gold; without one, the span itself
    label: Tensor  # (P,) long, type of the paired gold; without one, 0
    is_positive: Tensor  # (P,) bool


def is_first_label(gold: Tensor) -> Tensor:
    """(B, G) bool: rows of (B, G, 3) sorted gold that are neither padding nor another label of the span before."""
    is_new = (gold[:, 1:, :2] != gold[:, :-1, :2]).any(dim=-1)  # (B, G - 1)
    return torch.cat([torch.ones_like(gold[:, :1, 0], dtype=torch.bool), is_new], dim=1) & (gold[..., 0] >= 0)


def assign_gold(spans: Tensor, labels: Tensor) -> Assignment:
    """Pair each span with the gold that it overlaps most, the first on ties (section 2.2).

    Args:
        spans: (B, K, 2) long (start, end), half-open.
        labels: (B, G, 3) long gold, padding -100, G at least 1.

    Returns:
        The pairs; memory is that of one (B, K, G) table.
    """
    best = span_iou(spans, labels[..., :2]).max(dim=-1)  # (B, K)
    paired = labels.gather(1, best.indices[..., None].expand(-1, -1, 3))  # (B, K, 3)
    has_gold = best.values > 0
    gold = torch.where(has_gold[..., None], paired[..., :2], spans)
    return Assignment(best.values, gold, paired[..., 2].masked_fill(~has_gold, 0))


def paired_iou(first: Tensor, second: Tensor) -> Tensor:
    """(...) float32 IoU of each span (..., 2) of one set with its partner in another set of equal size."""
    one_to_one = span_iou(first.reshape(-1, 1, 2), second.reshape(-1, 1, 2))  # (P, 1, 1)
    return one_to_one.view(first.shape[:-1])


def sampled_negatives(is_negative: Tensor, num_negatives: Tensor, keys: Tensor) -> Tensor:
    """The negatives with the lowest keys, as many as a sentence may have (section 2.2, "1:5").

    Args:
        is_negative: (B, K) bool.
        num_negatives: (B,) long, most negatives of a sentence.
        keys: (B, K) float, random numbers in [0, 1).

    Returns:
        (B, K) bool.
    """
    ranks = keys.masked_fill(~is_negative, 2.0).argsort(dim=1).argsort(dim=1)  # (B, K)
    return is_negative & (ranks < num_negatives[:, None])


def fixed_keys(spans: Tensor) -> Tensor:
    """(B, K) float32 in [0, 1) that depend only on (B, K, 2) spans: outside training the sample is always the same."""
    mixed = (spans[..., 0] * 7_919 + spans[..., 1] * 104_729) * 2_654_435_761 % (1 << 32)
    return mixed.float() / (1 << 32)


def soft_weights(iou: Tensor, *, threshold: float, exponent: float) -> Tensor:
    """Weights w = IoU^eta from the threshold on, else (1 - IoU)^eta (Eq. 11); shape of `iou`."""
    return torch.where(iou >= threshold, iou, 1 - iou).pow(exponent)


def filter_loss(logits: Tensor, is_positive: Tensor, weights: Tensor, *, gamma: float) -> Tensor:
    """Weighted focal loss of each span: -w (1 - p)^gamma log p if positive, -w p^gamma log(1 - p) if not.

    Paper: Eq. 12.

    Args:
        logits: (P,) any float type.
        is_positive: (P,) bool.
        weights: (P,) float32.
        gamma: Focusing exponent.

    Returns:
        (P,) float32.
    """
    signed = torch.where(is_positive, logits.float(), -logits.float())
    doubt = (-signed).sigmoid().clamp(min=torch.finfo(torch.float32).tiny)  # a root has no gradient at 0
    return -weights * doubt.pow(gamma) * logsigmoid(signed)


def regression_loss(offsets: Tensor, targets: Tensor) -> Tensor:
    """(P,) float32: smooth L1 between (P, 2) predicted and wanted moves of the boundaries, both sides added."""
    return smooth_l1_loss(offsets.float(), targets.float(), reduction="none").sum(dim=-1)


def overlap_loss(spans: Tensor, gold: Tensor) -> Tensor:
    """1 - (min(e, e') - max(s, s')) / (max(e, e') - min(s, s')) of real-valued spans (Eq. 15).

    The fraction is negative for spans apart, so the loss may exceed 1. Ends are half-open; with inclusive ends a
    one-word hit would be 0 / 0.

    Args:
        spans: (P, 2) float, moved boundaries before rounding.
        gold: (P, 2) long, at least one word long.

    Returns:
        (P,) float32, at least 0.
    """
    spans, gold = spans.float(), gold.float()
    inner = torch.minimum(spans[..., 1], gold[..., 1]) - torch.maximum(spans[..., 0], gold[..., 0])
    outer = torch.maximum(spans[..., 1], gold[..., 1]) - torch.minimum(spans[..., 0], gold[..., 0])
    return 1 - inner / outer


def classification_loss(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """(P,) float32: weighted cross entropy of (P, C + 1) logits with (P,) long classes, none last."""
    return weights * cross_entropy(logits.float(), targets, reduction="none")


def all_labels(spans: Tensor, gold: Tensor, num_labels: int) -> Tensor:
    """Every label that gold gives a span, where one span may have several.

    Args:
        spans: (P, 2) long.
        gold: (P, G, 3) long, the gold of each span's sentence, padding -100.
        num_labels: C.

    Returns:
        (P, C) float32, 1 for a label of the span; memory is that of one (P, G) table.
    """
    is_same = (gold[..., :2] == spans[:, None]).all(dim=-1).float()  # (P, G)
    none = torch.zeros(len(spans), num_labels, device=gold.device)
    return none.scatter_reduce(1, gold[..., 2].clamp(min=0), is_same, "amax")


def label_losses(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """(P,) float32: weighted binary cross entropy of (P, C) logits with (P, C) targets, summed over the labels.

    Not in the paper, where each span has one type.
    """
    return weights * binary_cross_entropy_with_logits(logits.float(), targets, reduction="none").sum(dim=-1)


def moved_spans(spans: Tensor, offsets: Tensor, lengths: Tensor) -> Tensor:
    """Spans with both boundaries moved, rounded half up and kept inside the sentence (Eq. 6 and 7).

    Args:
        spans: (..., 2) long.
        offsets: (..., 2) float, moves of start and end.
        lengths: (...) long, words of each span's sentence.

    Returns:
        (..., 2) long; the start may lie at or after the end, which makes the span illegal.
    """
    limit = lengths[..., None]
    # the paper's end is inclusive and stops at L - 1
    return (spans + (offsets.float() + 0.5).floor().clamp(-limit, limit).long()).clamp(min=0).minimum(limit)


def sentence_sums(values: Tensor, sentence: Tensor, num_sentences: int) -> Tensor:
    """(B,) float32 sums of (P,) values by their (P,) sentence."""
    return torch.zeros(num_sentences, device=values.device).index_add(0, sentence, values.float())


def sentence_means(values: Tensor, mask: Tensor, sentence: Tensor, num_sentences: int) -> Tensor:
    """(B,) float32 means by (P,) sentence of those (P,) values where the mask holds; 0 for a sentence without any."""
    sums = sentence_sums(values.masked_fill(~mask, 0.0), sentence, num_sentences)
    return sums / sentence_sums(mask, sentence, num_sentences).clamp(min=1)
