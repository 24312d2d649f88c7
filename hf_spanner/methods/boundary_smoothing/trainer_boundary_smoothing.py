"""How Zhu and Li 2022 train: their optimisation recipe as defaults. Never ships in a checkpoint."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hf_spanner.training.arguments import SpanNERTrainingArguments
from hf_spanner.training.trainer import SpanNERTrainer


@dataclass
class BoundarySmoothingTrainingArguments(SpanNERTrainingArguments):
    """Section 4.1 of the paper; where it gives a range, the value the author names for CoNLL 2003."""

    learning_rate: float = 2.0e-5  # searched in 8e-6 .. 3e-5
    head_learning_rate: float | None = 2.0e-3  # searched in 1e-3 .. 3e-3
    num_train_epochs: float = 50
    per_device_train_batch_size: int = 48
    warmup_steps: float = 0.2  # linear warm-up over the first 20 % of steps, then linear decay
    max_grad_norm: float = 5.0
    weight_decay: float = 0.01  # not in the paper; AdamW's default in the official code


class BoundarySmoothingTrainer(SpanNERTrainer):
    """Logs `target_entropy` beside the loss: the floor that smoothed targets set, 0 with hard targets.

    The loss is that entropy plus the divergence of the model from the targets, which alone can reach 0.
    """


def width_quantile(rows: Iterable[Mapping[str, Any]], share: float = 0.975) -> int:
    """A value for `max_width` from training rows, as the later official code takes it; the paper is silent.

    Args:
        rows: Rows as `load_rows` gives them, read once.
        share: Share of the gold spans in (0, 1] whose widths get an embedding of their own.

    Returns:
        The least width that at least this share of the gold spans does not exceed, and at least 1. The width of a span
        is that of the paper, j - i: 0 for one word.

    Raises:
        ValueError: If the share is no share, or the rows hold no entity.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share must lie in (0, 1], got {share}")
    widths = [entity["end"] - entity["start"] - 1 for row in rows for entity in row["entities"]]
    if not widths:
        raise ValueError("rows must hold at least one entity, got none")
    return max(1, int(np.quantile(widths, share, method="inverted_cdf")))
