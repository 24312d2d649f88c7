"""Offset labels, their annotation and the loss of BOPN (Tang et al. 2023, sections 2 and 3.3)."""

import torch
from torch import Tensor, nn

from hf_spanner.core.modeling_span_ner import TOTAL

IGNORED = -100


def offset_names(max_offset: int) -> list[str]:
    """Names of the labels as in the paper, in the order of their indices: -2S, -2E, -1S, -1E, 0, 1S ... and out."""
    before = [f"{offset}{boundary}" for offset in range(-max_offset, 0) for boundary in "SE"]
    after = [f"{offset}{boundary}" for offset in range(1, max_offset + 1) for boundary in "SE"]
    return [*before, "0", *after, "out"]


def offset_moves(max_offset: int, device: torch.device) -> Tensor:
    """How far a cell with each label lies from its entity: cell = entity + move, so a vote is for cell - move.

    Paper: section 2. Label "-1E" at (i, j): the cell ends one word before the entity (i, j + 1), its move is (0, -1).

    Args:
        max_offset: S.
        device: Where the table is made.

    Returns:
        (4 S + 2, 2) long (start, end), in the order of `offset_names`; centre (index 2 S) and out (the last) are 0.
    """
    offsets = [offset for offset in range(-max_offset, max_offset + 1) if offset]
    moves = [move for offset in offsets for move in ((offset, 0), (0, offset))]
    moves.insert(2 * max_offset, (0, 0))
    return torch.tensor([*moves, (0, 0)], device=device)


def cell_mask(word_mask: Tensor, *, mask_lower: bool) -> Tensor:
    """(B, N, N) bool: cells of two words with tokens, both triangles unless the lower is masked; from (B, N)."""
    is_real = word_mask[:, :, None] & word_mask[:, None, :]
    return is_real.triu() if mask_lower else is_real


def offset_targets(labels: Tensor, num_words: int, *, max_offset: int, num_labels: int) -> Tensor:
    """Offset label of every cell for every type.

    Paper: section 2; precise rule from the official code. A gold cell is a centre. A cell that shares one boundary with
    gold spans and lies at most S words off gets the offset to the nearest; ties go to the earlier start, then the
    earlier end. All other cells are out. Cell (j, i) has the label of (i, j).

    Each gold span writes a number on its 4 S + 1 cells that orders the writers as the rule does, and the least stays:
    ((distance N + start) N + end) L + label. No two spans write the same number.

    Args:
        labels: (B, G, 3) long gold (start, end, label), half-open and legal; padding -100.
        num_words: N.
        max_offset: S.
        num_labels: M, entity types.

    Returns:
        (B, N, N, M) long in 0 .. 4 S + 1, cell (i, j) the span of words i to j.
    """
    batch_size, device = len(labels), labels.device
    num_offsets = 4 * max_offset + 2
    num_places = ((max_offset * num_words + num_words) * num_words + num_words) * num_offsets
    dtype = torch.int32 if num_places < torch.iinfo(torch.int32).max else torch.long  # the table is large, 32 bits do
    unwritten = torch.iinfo(dtype).max
    shape = (batch_size, num_words, num_words, num_labels)
    ranks = torch.full(shape, unwritten, device=device, dtype=dtype)
    moves = offset_moves(max_offset, device)[:-1]  # (4 S + 1, 2)
    starts, ends, types = labels[..., 0], labels[..., 1] - 1, labels[..., 2].clamp(min=0)  # (B, G), inclusive ends
    sentence = torch.arange(batch_size, device=device)[:, None]
    firsts, lasts = starts[..., None] + moves[:, 0], ends[..., None] + moves[:, 1]  # (B, G, 4 S + 1)
    is_legal = (firsts >= 0) & (lasts < num_words) & (firsts <= lasts) & (starts >= 0)[..., None]
    distances = moves.abs().sum(dim=-1)  # (4 S + 1,)
    places = (distances * num_words + starts[..., None]) * num_words + ends[..., None]  # (B, G, 4 S + 1)
    written = places * num_offsets + torch.arange(len(moves), device=device)
    rows = (sentence[..., None] * num_words + firsts) * num_words + lasts
    cells = rows * num_labels + types[..., None]  # (B, G, 4 S + 1)
    cells, written = cells.masked_fill(~is_legal, 0), written.masked_fill(~is_legal, unwritten)
    ranks.view(-1).scatter_reduce_(0, cells.flatten(), written.flatten().to(dtype), "amin")
    ranks = torch.minimum(ranks, ranks.transpose(1, 2))
    return torch.where(ranks == unwritten, num_offsets - 1, ranks % num_offsets).long()


def bopn_loss(logits: Tensor, targets: Tensor, is_cell: Tensor, *, label_smoothing: float, reduction: str) -> Tensor:
    """Cross entropy over the cells of each sentence (Eq. 7).

    Args:
        logits: (B, N, N, M, L), any float type; the softmax is taken in float32.
        targets: (B, N, N, M) long.
        is_cell: (B, N, N) bool, cells that count.
        label_smoothing: Mass spread over all L labels; not in the paper, 0.01 and 0.1 in the official code.
        reduction: `mean` over the cells and types of a sentence as in Eq. 7, or their `sum`, which weighs each cell of
            a batch alike, as the official code does.

    Returns:
        (B,) float32.
    """
    counted = targets.masked_fill(~is_cell[..., None], IGNORED)
    losses = nn.functional.cross_entropy(
        logits.float().reshape(-1, logits.shape[-1]),
        counted.flatten(),
        ignore_index=IGNORED,
        reduction="none",
        label_smoothing=label_smoothing,
    )
    sums = losses.view(len(logits), -1).sum(dim=1)  # (B,)
    if reduction == "sum":
        return sums
    return sums / (is_cell.sum(dim=(1, 2)) * targets.shape[-1]).clamp(min=1)


def learning_parts(
    best: Tensor,
    targets: Tensor,
    labels: Tensor,
    is_upper: Tensor,
    *,
    max_offset: int,
    min_votes: int,
    pool_votes: bool,
) -> dict[str, Tensor]:
    """How well each offset label is learnt and what the votes are worth, as counts whose ratios are logged.

    `accuracy_<label>` counts the cells of a label that are predicted to have it; `vote_reach` the gold spans that
    perfect labels would recover by votes if their centre were missed, `vote_recall` the same with the predicted labels.
    Each has its denominator under `TOTAL` and its name.

    Args:
        best: (B, N, N, M) long, predicted labels.
        targets: (B, N, N, M) long.
        labels: (B, G, 3) long gold, padding -100.
        is_upper: (B, N, N) bool, cells that count, since decoding reads no other.
        max_offset: S.
        min_votes: Start votes or end votes that are enough.
        pool_votes: Count both together.

    Returns:
        (B,) float32 each.
    """
    names = offset_names(max_offset)
    label_totals, right = label_counts(best, targets, is_upper, len(names))  # (B, L) each
    parts = {f"{TOTAL}accuracy_{name}": label_totals[:, place] for place, name in enumerate(names)}
    parts |= {f"accuracy_{name}": right[:, place] for place, name in enumerate(names)}
    is_gold = labels[..., 0] >= 0  # (B, G)
    for name, table in (("vote_reach", targets), ("vote_recall", best)):
        votes = gold_votes(table, labels, is_upper, max_offset)  # (B, G, 2)
        num_votes = votes.sum(dim=-1) if pool_votes else votes.amax(dim=-1)
        parts[name] = ((num_votes >= min_votes) & is_gold).sum(dim=1).float()
        parts[TOTAL + name] = is_gold.sum(dim=1).float()
    return parts


def label_counts(best: Tensor, targets: Tensor, is_upper: Tensor, num_offsets: int) -> tuple[Tensor, Tensor]:
    """How many cells have each label, and how many of them are predicted right.

    Args:
        best: (B, N, N, M) long, predicted labels.
        targets: (B, N, N, M) long.
        is_upper: (B, N, N) bool, cells that count.
        num_offsets: L.

    Returns:
        (B, L) float32 each.
    """
    counted = is_upper[..., None].expand_as(targets).flatten(1).float()  # (B, N N M)
    zeros = counted.new_zeros(len(targets), num_offsets)
    places = targets.flatten(1)
    right = counted * (best == targets).flatten(1)
    return zeros.scatter_add(1, places, counted), zeros.scatter_add(1, places, right)


def gold_votes(best: Tensor, labels: Tensor, is_upper: Tensor, max_offset: int) -> Tensor:
    """Start votes and end votes that each gold span gets from the cells around it.

    Args:
        best: (B, N, N, M) long, labels of the cells.
        labels: (B, G, 3) long gold, padding -100.
        is_upper: (B, N, N) bool, cells that vote.
        max_offset: S.

    Returns:
        (B, G, 2) long.
    """
    moves = offset_moves(max_offset, best.device)[:-1]  # (L - 1, 2)
    is_kind = moves != 0  # (L - 1, 2), start votes and end votes
    last = best.shape[1] - 1
    spans = torch.stack([labels[..., 0], labels[..., 1] - 1], dim=-1)  # (B, G, 2)
    members = spans[:, :, None] + moves  # (B, G, L - 1, 2)
    is_inside = ((members >= 0) & (members <= last)).all(dim=-1)  # (B, G, L - 1)
    firsts, lasts = members.clamp(0, last).unbind(dim=-1)
    sentence = torch.arange(len(best), device=best.device)[:, None, None]
    types = labels[..., 2].clamp(min=0)[..., None]  # (B, G, 1)
    predicted = best[sentence, firsts, lasts, types]  # (B, G, L - 1)
    is_vote = (
        (predicted == torch.arange(len(moves), device=best.device)) & is_inside & is_upper[sentence, firsts, lasts]
    )
    return (is_vote[..., None] & is_kind).sum(dim=2)
