"""How Zhu and Li 2022 train: their optimisation recipe as defaults. Never ships in a checkpoint."""

from dataclasses import dataclass

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
