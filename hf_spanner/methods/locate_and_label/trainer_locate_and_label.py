"""How Shen et al. 2021 train Locate and Label: their optimisation recipe as defaults. Never ships in a checkpoint."""

from dataclasses import dataclass

from hf_spanner.training.arguments import SpanNERTrainingArguments
from hf_spanner.training.trainer import SpanNERTrainer


@dataclass
class LocateAndLabelTrainingArguments(SpanNERTrainingArguments):
    """Section 3.3, Table 6 and the official configurations, the values for ACE 2005 where data sets differ."""

    learning_rate: float = 3.0e-5  # one rate for all parameters
    head_learning_rate: float | None = 3.0e-5
    num_train_epochs: float = 35
    per_device_train_batch_size: int = 8
    warmup_steps: float = 0.05  # not in the paper; official configuration; linear warm-up, then linear decay
    max_grad_norm: float = 1.0  # not in the paper; official code
    weight_decay: float = 0.01  # not in the paper; official code


class LocateAndLabelTrainer(SpanNERTrainer):
    """Logs the four losses unweighted, `filter_recall` and `exact_moves`.

    `filter_recall` is the share of positive seeds that the filter keeps, `exact_moves` the share of these proposals
    whose moved boundaries are those of the gold span. Nothing is logged for a head that does not exist.
    """
