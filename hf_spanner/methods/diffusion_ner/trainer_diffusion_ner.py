"""How Shen et al. 2023 train: their optimisation recipe as defaults. Never ships in a checkpoint."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from hf_spanner.methods.diffusion_ner.modeling_diffusion_ner import DiffusionNERModel
from hf_spanner.training.trainer import SpanNERTrainer, SpanNERTrainingArguments


@dataclass
class DiffusionNERTrainingArguments(SpanNERTrainingArguments):
    """Section 5.3 and Appendix C of the paper.

    Args:
        freeze_encoder_epochs: First epochs in which the encoder's learning rate is 0.
    """

    freeze_encoder_epochs: float = field(
        default=5.0,  # "we first fix the parameters of BERT and train the model for 5 epochs"
        metadata={"help": "First epochs in which the encoder's learning rate is 0."},
    )
    learning_rate: float = 2.0e-5  # rate of all parameters; tuned in 1e-5, 2e-5, 3e-5
    num_train_epochs: float = 100  # not in the paper's text; official configurations of ACE 2004 and 2005
    per_device_train_batch_size: int = 8
    warmup_steps: float = 0.1  # linear warm-up, then linear decay; the share is the official code's
    max_grad_norm: float = 1.0  # not in the paper; official code
    weight_decay: float = 0.01  # not in the paper; official code

    def __post_init__(self) -> None:
        """Check the frozen epochs, then the rest."""
        if self.freeze_encoder_epochs < 0:
            raise ValueError(f"freeze_encoder_epochs must be at least 0, got {self.freeze_encoder_epochs}")
        super().__post_init__()


class DiffusionNERTrainer(SpanNERTrainer):
    """Freezes the encoder first, seeds the noise of each step, and logs how far denoising goes.

    Beside the loss: `boundary_loss` and `type_loss` (not weighted), `matched_share` of noisy spans that are matched
    with gold, and the mean IoU of matched spans with their gold, `iou_noisy` before and `iou_denoised` after the step,
    over the sentences that have gold.

    The noise of a step follows from the arguments' seed, the number of the step and the text, so that it depends
    neither on how a batch is cut nor on where a run was resumed.
    """

    model: DiffusionNERModel
    args: DiffusionNERTrainingArguments

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """Loss of a batch, with the noise of the present step."""
        self.model.training_seed = (self.args.seed << 31) + self.state.global_step
        return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)

    def create_scheduler(self, num_training_steps: int, optimizer: Optimizer | None = None) -> LRScheduler:
        """The plain schedule, with 0 for the encoder in the first `freeze_encoder_epochs`.

        A rate of 0 keeps all processes in step, which switching gradients off does not.
        """
        scheduler = super().create_scheduler(num_training_steps, optimizer)
        if self.args.freeze_encoder_epochs == 0:
            return scheduler
        if not isinstance(scheduler, LambdaLR):
            raise ValueError(
                "freeze_encoder_epochs needs a schedule that is a function of the step, such as linear, "
                f"got lr_scheduler_type = {self.args.lr_scheduler_type}"
            )
        num_frozen = num_training_steps * self.args.freeze_encoder_epochs / self.args.num_train_epochs
        encoder_parameters = {id(parameter) for parameter in self.model.word_encoder.encoder.parameters()}
        groups = scheduler.optimizer.param_groups
        factors = [
            frozen_first(factor, num_frozen) if id(group["params"][0]) in encoder_parameters else factor
            for factor, group in zip(scheduler.lr_lambdas, groups, strict=True)
        ]
        self.lr_scheduler = LambdaLR(scheduler.optimizer, factors)
        return self.lr_scheduler


def frozen_first(factor: Any, num_frozen: float) -> Any:
    """A schedule that is 0 before step `num_frozen` and the given one from there on."""

    def factor_at(step: int) -> float:
        return 0.0 if step < num_frozen else factor(step)

    return factor_at
