"""The training arguments that all methods share."""

from dataclasses import dataclass, field
from math import ceil

import torch
from transformers import TrainingArguments
from transformers.trainer_utils import IntervalStrategy

# what `count_in_steps` changes
COUNTED_FIELDS = (
    "max_steps",
    "eval_delay",
    *(f"{action}_{what}" for action in ("eval", "save", "logging") for what in ("strategy", "steps")),
)


@dataclass
class SpanNERTrainingArguments(TrainingArguments):
    """Arguments of training that all methods share; a method's own class sets its paper's values.

    Args:
        head_learning_rate: Learning rate of all parameters outside the encoder; None takes `learning_rate`.
        greater_is_better: Whether a higher `metric_for_best_model` is better. None follows its name: lower is better
            for a loss, as in the library, and for a calibration error (`ece`).
        min_steps: Fewest steps of a training. Where the epochs make fewer, as they do with few sentences, it takes this
            many instead, in as many equal parts as there were to be epochs, rounded up; what would be done after each
            epoch is done after each part. With `max_steps` it has no effect.
    """

    head_learning_rate: float | None = field(
        default=None, metadata={"help": "Learning rate of all parameters outside the encoder."}
    )
    min_steps: int = field(default=0, metadata={"help": "Fewest steps, where the epochs would make fewer."})
    eval_strategy: str = "epoch"
    save_strategy: str = "epoch"
    logging_strategy: str = "epoch"
    save_total_limit: int | None = 1
    load_best_model_at_end: bool = True
    metric_for_best_model: str | None = "f1"
    per_device_eval_batch_size: int = 32
    train_sampling_strategy: str = "group_by_length"
    remove_unused_columns: bool | None = False

    def __post_init__(self) -> None:
        """Check what would break span training, then fill the rest."""
        if self.label_smoothing_factor:
            raise ValueError(
                "label_smoothing_factor must be 0: it would replace the method's loss, "
                f"got {self.label_smoothing_factor}"
            )
        if self.dataloader_drop_last:
            raise ValueError("dataloader_drop_last must be False: it would leave rows out of the evaluation, got True")
        if not self.eval_do_concat_batches:
            raise ValueError("eval_do_concat_batches must be True: windows are merged over batches, got False")
        if self.batch_eval_metrics:
            raise ValueError("batch_eval_metrics must be False: rows are scored when all windows are read, got True")
        if self.head_learning_rate is not None and self.head_learning_rate < 0:
            raise ValueError(f"head_learning_rate must be at least 0, got {self.head_learning_rate}")
        if self.min_steps < 0:
            raise ValueError(f"min_steps must be at least 0, got {self.min_steps}")
        self.remove_unused_columns = False
        if self.greater_is_better is None and f"_{self.metric_for_best_model}".endswith("_ece"):
            self.greater_is_better = False
        super().__post_init__()
        self.dataloader_pin_memory &= torch.accelerator.is_available()  # without one the loader warns of it

    def count_in_steps(self, num_windows: int) -> str | None:
        """Take `min_steps` in place of the epochs if these make fewer.

        Args:
            num_windows: Windows, of one sentence or more, that an epoch has.

        Returns:
            What was changed, as a sentence for people, or None.
        """
        size = self.train_batch_size * self.gradient_accumulation_steps * self.world_size
        steps = ceil(ceil(num_windows / size) * self.num_train_epochs)
        if self.max_steps > 0 or steps >= self.min_steps:
            return None
        parts = max(ceil(self.num_train_epochs), 1)
        every = ceil(self.min_steps / parts)
        self.max_steps = every * parts
        if self.eval_strategy == IntervalStrategy.EPOCH:
            self.eval_delay *= every
        for action in ("eval", "save", "logging"):
            if getattr(self, f"{action}_strategy") == IntervalStrategy.EPOCH:
                setattr(self, f"{action}_strategy", IntervalStrategy.STEPS)
                setattr(self, f"{action}_steps", every)
        return (
            f"few sentences: {self.num_train_epochs:g} epochs of {num_windows:,} would be {steps} steps; training "
            f"takes {self.max_steps}, in parts of {every}, since min_steps is {self.min_steps}"
        )
