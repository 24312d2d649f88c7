"""How Tang et al. 2023 train: their optimisation recipe as defaults. Never ships in a checkpoint."""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from hf_spanner.methods.bopn.configuration_bopn import BOPNConfig
from hf_spanner.methods.bopn.loss_bopn import cell_mask, offset_moves, offset_names
from hf_spanner.methods.bopn.modeling_bopn import BOPNOutput
from hf_spanner.training.trainer import SpanNERTrainer, SpanNERTrainingArguments


@dataclass
class BOPNTrainingArguments(SpanNERTrainingArguments):
    """Table 7 of the paper and the official code; where they give ranges, the code's value for ACE."""

    learning_rate: float = 1.0e-5  # 5e-6 .. 3e-5 in Table 7
    head_learning_rate: float | None = 1.0e-3  # Table 7, "Learning rate (Other)"
    num_train_epochs: float = 50  # 50 .. 80 in Table 7
    per_device_train_batch_size: int = 8  # 8 .. 16 in Table 7
    warmup_steps: float = 0.1  # Table 7, "Warm factor"; linear warm-up, then linear decay
    max_grad_norm: float = 1.0  # not in the paper; 1 or 5 in the official code
    weight_decay: float = 0.0  # not in the paper; official code


class BOPNTrainer(SpanNERTrainer):
    """Logs how well each offset label is learnt, and what the votes are worth.

    * `accuracy_<label>`: share of the cells of a label, as in `offset_names`, that are predicted so; upper triangle
      only, since decoding reads no other.
    * `vote_reach`: share of gold spans that perfect labels would recover by votes if their centre were missed.
    * `vote_recall`: the same with the predicted labels.

    Each is a ratio of two means over the same steps as the loss; a label that did not occur is left out.
    """

    def loss_parts(self, output: BOPNOutput, labels: Tensor) -> dict[str, Tensor]:
        """Numerators and denominators, (B,) each."""
        config = cast(BOPNConfig, self._config)
        assert output.targets is not None  # the loss was taken
        best = output.logits.argmax(dim=-1)  # (B, N, N, M)
        is_upper = cell_mask(output.word_mask, mask_lower=True)
        of_label, right = label_counts(best, output.targets, is_upper, config.num_offset_labels)  # (B, L) each
        names = offset_names(config.max_offset)
        parts = {f"{TOTAL}accuracy_{name}": of_label[:, place] for place, name in enumerate(names)}
        parts |= {f"accuracy_{name}": right[:, place] for place, name in enumerate(names)}
        enough = config.min_votes or max(1, config.max_offset)
        is_gold = labels[..., 0] >= 0  # (B, G)
        for name, table in (("vote_reach", output.targets), ("vote_recall", best)):
            votes = gold_votes(table, labels, is_upper, config.max_offset)  # (B, G, 2)
            num_votes = votes.sum(dim=-1) if config.pool_votes else votes.amax(dim=-1)
            parts[name] = ((num_votes >= enough) & is_gold).sum(dim=1).float()
            parts[TOTAL + name] = is_gold.sum(dim=1).float()
        return parts

    def logged_parts(self, means: dict[str, float]) -> dict[str, float]:
        """Ratios of the parts' means."""
        names = [name for name in means if not name.startswith(TOTAL)]
        return {name: means[name] / means[TOTAL + name] for name in names if means[TOTAL + name] > 0}


TOTAL = "total_"


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
    found = best[sentence, firsts, lasts, types]  # (B, G, L - 1)
    is_vote = (found == torch.arange(len(moves), device=best.device)) & is_inside & is_upper[sentence, firsts, lasts]
    return (is_vote[..., None] & is_kind).sum(dim=2)
