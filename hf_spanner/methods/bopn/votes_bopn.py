"""From offset labels to entities: centres, votes and the rules that sift them (Tang et al. 2023, section 3.3)."""

from typing import NamedTuple

import torch
from torch import Tensor

from hf_spanner.methods.bopn.loss_bopn import cell_mask, offset_moves


class Entities(NamedTuple):
    """Proposed entities as flat lists ordered by sentence; spans by inclusive ends."""

    sentence: Tensor  # (K,) long
    starts: Tensor  # (K,) long
    lasts: Tensor  # (K,) long
    types: Tensor  # (K,) long
    scores: Tensor  # (K,) float32


def voted_entities(
    logits: Tensor,
    word_mask: Tensor,
    *,
    max_offset: int,
    decode_mode: str,
    min_votes: int,
    pool_votes: bool,
    confidence: str,
) -> Entities:
    """Entities that the likeliest labels of the upper triangle name or vote for.

    Label S(w) of cell (i, j) votes for (i - w, j), E(w) for (i, j - w), if that is a span of the sentence. A predicted
    centre is always an entity. Work and memory follow the number of labelled cells.

    Args:
        logits: (B, N, N, M, L).
        word_mask: (B, N) bool; spans begin and end on words with tokens.
        max_offset: S.
        decode_mode: `center`: centres alone. `votes`: also spans with enough votes (official code). `rules`: also spans
            with a vote that passes the rules of the paper, see `passes_rules`. `all`: also spans with any vote.
        min_votes: Start votes or end votes that are enough.
        pool_votes: Count both together.
        confidence: `label`: probability of the centre label or, for a span without one, the mean probability of its
            votes. `sum`: probability as a centre plus the mean probability of the votes, at most 1. `product`: `label`
            times the mean probability with which the cells that could vote for the span do.

    Returns:
        Each entity once.
    """
    best = logits.argmax(dim=-1)  # (B, N, N, M)
    is_upper = cell_mask(word_mask, mask_lower=True)
    cells, labels = labelled_cells(best, is_upper, max_offset, centres_only=decode_mode == "center")
    moves = offset_moves(max_offset, best.device)[labels]  # (P, 2)
    if decode_mode == "rules":
        is_kept = passes_rules(best, is_upper, cells, labels, max_offset)
        cells, labels, moves = cells[is_kept], labels[is_kept], moves[is_kept]
    probabilities = logits[cells.unbind(dim=1)].float().softmax(dim=-1)  # (P, L)
    label_probabilities = probabilities.gather(1, labels[:, None])[:, 0]  # (P,)
    places, entity = _entity_places(cells, moves, best.shape).unique(return_inverse=True)  # (K,), (P,)
    is_centre = (moves == 0).all(dim=1)  # (P,)
    kinds = torch.stack([is_centre, moves[:, 0] != 0, moves[:, 1] != 0], dim=1)  # (P, 3)
    counts = kinds.new_zeros(len(places), 3, dtype=torch.long).index_add_(0, entity, kinds.long())  # (K, 3)
    has_centre, num_votes = counts[:, 0] > 0, counts[:, 1:]
    weight = num_votes.sum(dim=1)  # (K,)
    mean_vote = _sums(label_probabilities * ~is_centre, entity, len(places)) / weight.clamp(min=1)  # (K,)
    spans = torch.stack(torch.unravel_index(places, best.shape), dim=1)  # (K, 4)
    if confidence == "sum":
        centre_probabilities = logits[spans.unbind(dim=1)].float().softmax(dim=-1)[:, 2 * max_offset]  # (K,)
        scores = (centre_probabilities + mean_vote).clamp(max=1)
    else:
        scores = torch.where(has_centre, _sums(label_probabilities * is_centre, entity, len(places)), mean_vote)
    if confidence == "product":
        scores = scores * agreement(logits, spans, is_upper, max_offset)
    enough = min_votes if decode_mode == "votes" else 1
    most_votes = weight if pool_votes else num_votes.amax(dim=1)  # (K,)
    is_entity = has_centre | (most_votes >= enough)
    sentence, starts, lasts, types = spans[is_entity].unbind(dim=1)
    return Entities(sentence, starts, lasts, types, scores[is_entity])


def agreement(logits: Tensor, spans: Tensor, is_upper: Tensor, max_offset: int) -> Tensor:
    """Mean probability with which the cells around each span vote for it.

    These are the spans of the sentence that differ in one boundary, by at most S words. An entity that the model is
    sure of has them all point at it; a centre on its own is often wrong. Not in the paper.

    Args:
        logits: (B, N, N, M, L).
        spans: (K, 4) long (sentence, start, last, type).
        is_upper: (B, N, N) bool, the spans of each sentence.
        max_offset: S.

    Returns:
        (K,) float32; 1 where no other span could vote.
    """
    labels = torch.arange(4 * max_offset + 1, device=logits.device)
    labels = labels[labels != 2 * max_offset]  # (4 S,)
    sentence, types = spans[:, 0, None], spans[:, 3, None]
    cells = spans[:, None, 1:3] + offset_moves(max_offset, logits.device)[labels]  # (K, 4 S, 2)
    is_legal = _is_span(sentence, cells, is_upper)  # (K, 4 S)
    firsts, lasts = cells.clamp(0, logits.shape[1] - 1).unbind(dim=-1)
    probabilities = logits[sentence, firsts, lasts, types].float().softmax(dim=-1)  # (K, 4 S, L)
    votes = probabilities.gather(2, labels[None, :, None].expand(len(spans), -1, 1))[..., 0]
    count = is_legal.sum(dim=1)  # (K,)
    return torch.where(count > 0, (votes * is_legal).sum(dim=1) / count.clamp(min=1), 1.0)


def labelled_cells(best: Tensor, is_upper: Tensor, max_offset: int, *, centres_only: bool) -> tuple[Tensor, Tensor]:
    """Cells whose label is not out and points at a span of the sentence.

    Args:
        best: (B, N, N, M) long, label of each cell.
        is_upper: (B, N, N) bool, the spans of each sentence.
        max_offset: S.
        centres_only: Leave out the cells with an offset.

    Returns:
        (P, 4) long (sentence, start, last, type) ordered by sentence, and (P,) long labels.
    """
    is_labelled = best == 2 * max_offset if centres_only else best < 4 * max_offset + 1
    cells = (is_labelled & is_upper[..., None]).nonzero()  # (P, 4)
    labels = best[cells.unbind(dim=1)]  # (P,)
    spans = cells[:, 1:3] - offset_moves(max_offset, best.device)[labels]  # (P, 2)
    is_legal = _is_span(cells[:, 0], spans, is_upper)
    return cells[is_legal], labels[is_legal]


def passes_rules(best: Tensor, is_upper: Tensor, cells: Tensor, labels: Tensor, max_offset: int) -> Tensor:
    """Which votes pass the two rules of section 3.3, read as precisely as the one sentence on each of them allows.

    1. "Align with their nearest center span": if predicted centres share a boundary with the cell within S words, the
       vote is for one of the nearest. Without such a centre it stays.
    2. "Sequential order with neighboring spans": a vote from |w| >= 2 words stays only if the next cell towards its
       entity votes for the same entity, from |w| - 1.

    Args:
        best: (B, N, N, M) long.
        is_upper: (B, N, N) bool.
        cells: (P, 4) long, as from `labelled_cells`.
        labels: (P,) long.
        max_offset: S.

    Returns:
        (P,) bool; centres pass.
    """
    moves = offset_moves(max_offset, best.device)  # (L, 2)
    distances = moves[:-1].abs().sum(dim=1)  # (L - 1,)
    sentence, types = cells[:, 0, None], cells[:, 3, None]  # (P, 1)
    around = cells[:, None, 1:3] - moves[:-1]  # (P, L - 1, 2), the entity that each label would mean
    is_span = _is_span(sentence, around, is_upper)
    firsts, lasts = around.clamp(0, best.shape[1] - 1).unbind(dim=-1)  # (P, L - 1)
    is_centre = is_span & (best[sentence, firsts, lasts, types] == 2 * max_offset)  # (P, L - 1)
    nearest = distances.where(is_centre, max_offset + 1).amin(dim=1)  # (P,)
    has_near_centre = nearest <= max_offset
    vote_moves, vote_distances = moves[labels], distances[labels]  # (P, 2), (P,)
    is_aligned = is_centre.gather(1, labels[:, None])[:, 0] & (vote_distances == nearest)
    step = vote_moves.sign()
    nearer_first, nearer_last = (cells[:, 1:3] - step).unbind(dim=1)  # (P,), between the cell and its legal entity
    nearer_moves = moves[best[cells[:, 0], nearer_first, nearer_last, cells[:, 3]]]  # (P, 2)
    is_ordered = (vote_distances < 2) | (nearer_moves == vote_moves - step).all(dim=1)
    return (is_aligned | ~has_near_centre) & is_ordered


def _is_span(sentence: Tensor, spans: Tensor, is_upper: Tensor) -> Tensor:
    """Whether (..., 2) spans (start, last) lie in their sentence, ordered, on words with tokens."""
    last = is_upper.shape[1] - 1
    is_inside = ((spans >= 0) & (spans <= last)).all(dim=-1)
    firsts, lasts = spans.clamp(0, last).unbind(dim=-1)
    return is_inside & is_upper[sentence, firsts, lasts]


def _entity_places(cells: Tensor, moves: Tensor, shape: torch.Size) -> Tensor:
    """(P,) long: place of each cell's entity in a flat (B, N, N, M) table."""
    sentence, starts, lasts, types = cells.unbind(dim=1)
    rows = (sentence * shape[1] + starts - moves[:, 0]) * shape[2] + lasts - moves[:, 1]
    return rows * shape[3] + types


def _sums(values: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """(K,) sums of (P,) values by group."""
    return values.new_zeros(num_groups).index_add_(0, group, values)
