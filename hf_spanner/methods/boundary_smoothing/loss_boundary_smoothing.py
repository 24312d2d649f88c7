"""Smoothed targets and the loss of Boundary Smoothing (Zhu and Li 2022, section 3.2)."""

import torch
from torch import Tensor


def legal_spans(word_mask: Tensor) -> Tensor:
    """(B, N, N) bool: cell (i, j) with i <= j whose first and last word have tokens, from a (B, N) mask."""
    return (word_mask[:, :, None] & word_mask[:, None, :]).triu()


def smoothing_ring(epsilon: float, distance: int) -> list[tuple[int, int, float]]:
    """Neighbours of a span within Manhattan distance D, as (start shift, end shift, share).

    Paper: section 3.2, all spans at one distance d share epsilon / D equally; a full ring has 4 d of them.
    """
    return [
        (start, end, epsilon / (distance * 4 * (abs(start) + abs(end))))
        for start in range(-distance, distance + 1)
        for end in range(-distance, distance + 1)
        if 0 < abs(start) + abs(end) <= distance
    ]


def smoothed_targets(
    labels: Tensor,
    is_legal: Tensor,
    *,
    epsilon: float,
    distance: int,
    num_labels: int,
    edge_mass: str = "center",
) -> Tensor:
    """Distribution over types and none for every span, with part of a gold span's mass on its neighbours.

    Paper: section 3.2 and Figure 1b. The gold span keeps 1 - epsilon, ring d = 1..D shares epsilon / D. What would fall
    on an illegal span returns to the gold span unless `edge_mass` is `none`, contributions of several gold spans add
    up, and a cell above 1 is divided by its sum (official code, not in the paper). None gets the rest.

    Args:
        labels: (B, G, 3) long gold (start, end, label), half-open, legal and each once; padding -100.
        is_legal: (B, N, N) bool, cell (i, j) is the span of words i to j.
        epsilon: Mass handed to neighbours.
        distance: D.
        num_labels: C.
        edge_mass: `center` or `none`.

    Returns:
        (B, N, N, C + 1) float32, none last; each cell sums to 1.
    """
    batch_size, num_words, _ = is_legal.shape
    device = labels.device
    targets = torch.zeros(batch_size, num_words, num_words, num_labels + 1, device=device)
    ring = smoothing_ring(epsilon, distance) if epsilon > 0 else []
    shifts = torch.tensor([[0, 0]] + [[start, end] for start, end, _ in ring], device=device)  # (R, 2)
    shares = torch.tensor([1 - epsilon] + [share for _, _, share in ring], dtype=torch.float32, device=device)
    cells = torch.stack([labels[..., 0], labels[..., 1] - 1], dim=-1)  # (B, G, 2)
    members = cells[:, :, None] + shifts  # (B, G, R, 2)
    is_inside = ((members >= 0) & (members < num_words)).all(dim=-1)  # (B, G, R)
    starts, ends = members.clamp(0, num_words - 1).unbind(dim=-1)  # (B, G, R)
    sentence = torch.arange(batch_size, device=device)[:, None, None].expand_as(starts)
    is_legal_member = is_inside & is_legal[sentence, starts, ends]  # (B, G, R)
    is_gold = labels[..., :1] >= 0  # (B, G, 1)
    mass = shares * (is_legal_member & is_gold)  # (B, G, R)
    if edge_mass == "center":
        returned = (shares * ~is_legal_member).sum(dim=-1) * is_gold[..., 0]  # (B, G)
        mass = torch.cat([mass[..., :1] + returned[..., None], mass[..., 1:]], dim=-1)
    types = labels[..., 2].clamp(min=0)[..., None].expand_as(starts)
    targets.index_put_((sentence, starts, ends, types), mass, accumulate=True)
    total = targets.clamp_(max=1).sum(dim=-1, keepdim=True)  # (B, N, N, 1)
    targets = targets / total.clamp(min=1)
    targets[..., -1] = (1 - targets.sum(dim=-1)).clamp(min=0)
    return targets


def boundary_smoothing_loss(logits: Tensor, targets: Tensor, is_legal: Tensor) -> Tensor:
    """Cross entropy with soft targets, summed over the legal spans of a sentence (Eq. 4; with hard targets Eq. 3).

    Args:
        logits: (B, N, N, C + 1), any float type; the softmax is taken in float32.
        targets: (B, N, N, C + 1) float32.
        is_legal: (B, N, N) bool.

    Returns:
        (B,) float32.
    """
    log_probabilities = logits.float().log_softmax(dim=-1)  # (B, N, N, C + 1)
    losses = -(targets * log_probabilities).sum(dim=-1)  # (B, N, N)
    return losses.masked_fill(~is_legal, 0.0).sum(dim=(1, 2))


def target_entropy(targets: Tensor, is_legal: Tensor) -> Tensor:
    """The least value of the loss, 0 with hard targets; what the loss has above it is the divergence of the model.

    Args:
        targets: (B, N, N, C + 1) float32.
        is_legal: (B, N, N) bool.

    Returns:
        (B,) float32, summed over the legal spans of a sentence like the loss.
    """
    entropies = torch.special.entr(targets).sum(dim=-1)  # (B, N, N)
    return entropies.masked_fill(~is_legal, 0.0).sum(dim=(1, 2))
