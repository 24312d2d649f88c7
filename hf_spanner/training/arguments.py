"""The training arguments that all methods share."""

from dataclasses import dataclass, field

import torch
from transformers import TrainingArguments


@dataclass
class SpanNERTrainingArguments(TrainingArguments):
    """Arguments of training that all methods share; a method's own class sets its paper's values.

    Args:
        head_learning_rate: Learning rate of all parameters outside the encoder; None takes `learning_rate`.
        greater_is_better: Whether a higher `metric_for_best_model` is better. None follows its name: lower is better
            for a loss, as in the library, and for a calibration error (`ece`).
    """

    head_learning_rate: float | None = field(
        default=None, metadata={"help": "Learning rate of all parameters outside the encoder."}
    )
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
        self.remove_unused_columns = False
        if self.greater_is_better is None and f"_{self.metric_for_best_model}".endswith("_ece"):
            self.greater_is_better = False
        super().__post_init__()
        self.dataloader_pin_memory &= torch.accelerator.is_available()  # without one the loader warns of it
