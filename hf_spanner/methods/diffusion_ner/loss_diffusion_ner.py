"""Matching of noisy spans with gold spans, and the loss of DiffusionNER (Shen et al. 2023, section 4.2, Appendix A)."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus
from transformers.utils.import_utils import is_scipy_available, requires_backends

from hf_spanner.core.modeling_span_ner import TOTAL
from hf_spanner.core.spans import span_iou

if is_scipy_available():
    from scipy.optimize import linear_sum_assignment


def matching_costs(left: Tensor, right: Tensor, types: Tensor, gold: Tensor) -> Tensor:
    """cost(k, i) = -(P_l(l_i) + P_r(r_i) + P_c(c_i)) of span k and gold span i (Appendix A).

    Args:
        left: (B, K, N) probabilities of each word to be the left boundary.
        right: (B, K, N), the right one.
        types: (B, K, C + 1) probabilities.
        gold: (B, G, 3) long (start, end, label), half-open; padding -100.

    Returns:
        (B, K, G) in [-3, 0], infinite for padding.
    """
    is_padding = gold[..., 0] < 0  # (B, G)
    places = [gold[..., 0], gold[..., 1] - 1, gold[..., 2]]
    parts = [
        scores.gather(2, place.clamp(min=0)[:, None].expand(-1, scores.shape[1], -1))
        for scores, place in zip((left, right, types), places, strict=True)
    ]
    return -(parts[0] + parts[1] + parts[2]).masked_fill(is_padding[:, None], -torch.inf)


def matched_gold(costs: Tensor, span_mask: Tensor | None, *, repeat_targets: bool) -> Tensor:
    """The gold span that each noisy span is matched with, at the lowest total cost (Hungarian algorithm, Appendix A).

    The paper's "empty" targets cost nothing, so spans beyond the gold ones stay unmatched. Each sentence is solved by
    itself; all costs travel to the host in one copy.

    Args:
        costs: (B, K, G), infinite for padding of gold.
        span_mask: (B, K) bool, spans that exist; None: all.
        repeat_targets: Repeat the gold spans of a sentence up to the number of its noisy spans; where they do not
            divide it, the first ones are repeated once more (official configurations).

    Returns:
        (B, K) long index into G; -1 for spans matched with none.

    Raises:
        ImportError: If scipy is not installed.
    """
    requires_backends(matched_gold, "scipy")
    if span_mask is not None:
        costs = costs.masked_fill(~span_mask[..., None], torch.inf)
    tables = costs.detach().cpu().numpy()
    matched = np.full(tables.shape[:2], -1, dtype=np.int64)
    for row, table in enumerate(tables):
        is_finite = np.isfinite(table)
        spans, columns = is_finite.any(axis=1).nonzero()[0], is_finite.any(axis=0).nonzero()[0]
        if repeat_targets and 0 < len(columns) < len(spans):
            columns = np.resize(columns, len(spans))
        chosen, taken = linear_sum_assignment(table[np.ix_(spans, columns)])
        matched[row, spans[chosen]] = columns[taken]
    return torch.from_numpy(matched).to(costs.device)


def boundary_losses(logits: Tensor, places: Tensor, word_mask: Tensor, *, kind: str) -> Tensor:
    """Loss of one boundary of each span.

    The paper's -log P of the gold word alone is lowest where every word is a boundary, if P is a sigmoid. So either the
    other words are penalised too (`bce`, official code), or P is a softmax over words (`nll`).

    Args:
        logits: (B, K, N), the lowest number for padding.
        places: (B, K) long, the gold word of each span; any word where there is none.
        word_mask: (B, N) bool.
        kind: `bce`, summed over the words of the sentence, or `nll`.

    Returns:
        (B, K) float32.
    """
    logits = logits.float()
    gold = logits.gather(2, places[..., None])[..., 0]  # (B, K)
    if kind == "nll":
        return logits.logsumexp(dim=2) - gold
    # -log sigmoid(z) = softplus(z) - z for the gold word, -log(1 - sigmoid(z)) = softplus(z) for the others
    return softplus(logits).masked_fill(~word_mask[:, None], 0.0).sum(dim=2) - gold


def type_losses(
    logits: Tensor, matched: Tensor, targets: Tensor, span_mask: Tensor, none_weight: float | None
) -> Tensor:
    """Weighted cross entropy of the types, as a plain mean over the spans of a sentence (official code).

    Args:
        logits: (B, K, C + 1), none last.
        matched: (B, K) bool.
        targets: (B, K) long, the type of matched spans and C for the others.
        span_mask: (B, K) bool, spans that exist.
        none_weight: Weight of unmatched spans; None is max(n, 1) / max(K - n, 1) with n matched ones, in each sentence
            by itself (the official code counts over the batch).

    Returns:
        (B,) float32.
    """
    losses = -logits.float().log_softmax(dim=-1).gather(2, targets[..., None])[..., 0]  # (B, K)
    num_spans = span_mask.sum(dim=1)  # (B,)
    num_matched = (matched & span_mask).sum(dim=1)  # (B,)
    balance = num_matched.clamp(min=1) / (num_spans - num_matched).clamp(min=1)  # (B,)
    weights = balance if none_weight is None else torch.full_like(balance, none_weight)
    losses = torch.where(matched, losses, losses * weights[:, None])
    return losses.masked_fill(~span_mask, 0.0).sum(dim=1) / num_spans.clamp(min=1)


def span_type_losses(
    logits: Tensor, spans: Tensor, gold: Tensor, span_mask: Tensor | None, none_weight: float | None
) -> Tensor:
    """Type loss of spans by themselves: the type of the gold span with the same boundaries, else none.

    Not in the paper, where a span has the type of what it is matched with, wherever it points. Of two gold spans with
    the same boundaries the first one counts.

    Args:
        logits: (B, M, C + 1), none last.
        spans: (B, M, 2) long, first and last word.
        gold: (B, G, 3) long (start, end, label), half-open; padding -100.
        span_mask: (B, M) bool, spans that exist; None: all.
        none_weight: Weight of spans that are not gold; None as in `type_losses`.

    Returns:
        (B,) float32, means over the spans of a sentence.
    """
    is_same = (gold[:, None, :, 0] == spans[..., :1]) & (gold[:, None, :, 1] == spans[..., 1:] + 1)  # (B, M, G)
    is_gold, places = (is_same & (gold[:, None, :, 0] >= 0)).max(dim=-1)  # (B, M)
    targets = gold[..., 2].gather(1, places).masked_fill(~is_gold, logits.shape[-1] - 1)
    mask = torch.ones_like(is_gold) if span_mask is None else span_mask
    return type_losses(logits, is_gold, targets, mask, none_weight)


def matched_boundary_losses(
    left: Tensor, right: Tensor, matched: Tensor, gold: Tensor, *, word_mask: Tensor, kind: str
) -> Tensor:
    """Boundary loss of each sentence (section 4.2), given the matching.

    Args:
        left: (B, K, N) logits of the left boundary.
        right: (B, K, N) logits of the right boundary.
        matched: (B, K) long, index into G or -1.
        gold: (B, G, 3) long (start, end, label), half-open.
        word_mask: (B, N) bool.
        kind: `bce` or `nll`.

    Returns:
        (B,) float32, left and right losses summed over matched spans and divided by their number.
    """
    is_matched = matched >= 0
    starts, ends, _ = paired_gold(matched, gold).unbind(dim=-1)
    losses = boundary_losses(left, starts.clamp(min=0), word_mask, kind=kind)
    losses = losses + boundary_losses(right, (ends - 1).clamp(min=0), word_mask, kind=kind)  # (B, K)
    return losses.masked_fill(~is_matched, 0.0).sum(dim=1) / is_matched.sum(dim=1).clamp(min=1)


def matched_type_losses(
    logits: Tensor, matched: Tensor, gold: Tensor, span_mask: Tensor | None, none_weight: float | None
) -> Tensor:
    """Type loss of each sentence (section 4.2), given the matching: spans that are matched with none are none.

    Args:
        logits: (B, K, C + 1), none last.
        matched: (B, K) long, index into G or -1.
        gold: (B, G, 3) long (start, end, label), half-open.
        span_mask: (B, K) bool, spans that exist; None: all.
        none_weight: As in `type_losses`.

    Returns:
        (B,) float32.
    """
    is_matched = matched >= 0
    targets = paired_gold(matched, gold)[..., 2].masked_fill(~is_matched, logits.shape[-1] - 1)
    mask = torch.ones_like(is_matched) if span_mask is None else span_mask
    return type_losses(logits, is_matched, targets, mask, none_weight)


def paired_gold(matched: Tensor, gold: Tensor) -> Tensor:
    """(B, K, 3) gold span of each noisy span, any where there is none."""
    return gold.gather(1, matched.clamp(min=0)[..., None].expand(-1, -1, 3))


def denoising_parts(path: Tensor, matched: Tensor, gold: Tensor) -> dict[str, Tensor]:
    """How many spans are matched, and how well they lie on their gold before and after denoising.

    Args:
        path: (B, S + 1, K, 2) long, first and last word.
        matched: (B, K) long, index into G or -1.
        gold: (B, G, 3) long (start, end, label), half-open.

    Returns:
        (B,) float32 each: `matched_share` of the spans, and the mean IoU of the matched spans with their gold in the
        first and the last row of the path, `iou_noisy` and `iou_denoised`, whose totals count the sentences with any.
    """
    is_matched = matched >= 0  # (B, K)
    counts = is_matched.sum(dim=1)  # (B,)
    parts = {"matched_share": counts / is_matched.shape[1]}
    for name, place in (("iou_noisy", 0), ("iou_denoised", -1)):
        spans = path[:, place]  # (B, K, 2)
        overlaps = span_iou(torch.stack([spans[..., 0], spans[..., 1] + 1], dim=-1), gold[..., :2])  # (B, K, G)
        matched_overlaps = overlaps.gather(2, matched.clamp(min=0)[..., None])[..., 0]  # (B, K)
        total = matched_overlaps.clamp(min=0).masked_fill(~is_matched, 0.0).sum(dim=1)
        parts[name] = total / counts.clamp(min=1)
        parts[TOTAL + name] = (counts > 0).float()
    return parts
