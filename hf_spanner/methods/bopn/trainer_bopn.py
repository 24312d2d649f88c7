"""How Tang et al. 2023 train: their optimisation recipe as defaults. Never ships in a checkpoint."""

from dataclasses import dataclass

from hf_spanner.training.arguments import SpanNERTrainingArguments
from hf_spanner.training.trainer import SpanNERTrainer


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

    * `accuracy_<label>`: share of the cells of a label, as in `offset_names`, that are predicted to have it;
      upper triangle only, since decoding reads no other.
    * `vote_reach`: share of gold spans that perfect labels would recover by votes if their centre were missed.
    * `vote_recall`: the same with the predicted labels.

    Each is a ratio of two means over the same steps as the loss; a label that did not occur is left out.
    """
