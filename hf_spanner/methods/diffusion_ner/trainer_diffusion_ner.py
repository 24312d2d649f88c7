"""How Shen et al. 2023 train: their optimisation recipe as defaults. Never ships in a checkpoint."""

from dataclasses import dataclass, field
from typing import Any, cast

from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import TrainingArguments

from hf_spanner.methods.diffusion_ner.modeling_diffusion_ner import DiffusionNERModel
from hf_spanner.training.arguments import SpanNERTrainingArguments
from hf_spanner.training.trainer import SpanNERTrainer


@dataclass
class DiffusionNERTrainingArguments(SpanNERTrainingArguments):
    """Section 5.3 and Appendix C of the paper.

    Args:
        freeze_encoder_epochs: First epochs in which the encoder keeps its weights; fewer than are trained.
    """

    freeze_encoder_epochs: float = field(
        default=5.0,  # "we first fix the parameters of BERT and train the model for 5 epochs"
        metadata={"help": "First epochs in which the encoder keeps its weights."},
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

    arguments_class = DiffusionNERTrainingArguments
    args: DiffusionNERTrainingArguments

    @property
    def noisy_model(self) -> DiffusionNERModel:
        """The model itself, inside of what adapters put around it."""
        return next(module for module in self.model.modules() if isinstance(module, DiffusionNERModel))

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """Loss of a batch, with the noise of the present step."""
        noisy_model = self.noisy_model
        noisy_model.training_seed = (self.args.seed << 31) + self.state.global_step
        try:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        finally:
            noisy_model.training_seed = None  # other loops draw their own noise

    def set_initial_training_values(self, args: TrainingArguments, dataloader: DataLoader) -> Any:
        """Numbers of epochs and steps, as in `Trainer`.

        Raises:
            ValueError: If the encoder would be frozen until the end.
        """
        values = super().set_initial_training_values(args, dataloader)
        steps_an_epoch, max_steps = values[1], values[-1]
        frozen = self.args.freeze_encoder_epochs
        if frozen and frozen * steps_an_epoch >= max_steps:
            raise ValueError(
                f"freeze_encoder_epochs must be below the {max_steps / steps_an_epoch:.4g} epochs that are trained, "
                f"or 0 to train the encoder from the start, got {frozen}"
            )
        return values

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """Gradients of a batch, without those of the encoder in the first `freeze_encoder_epochs`.

        They are dropped when all processes have shared them, which keeps these in step; so they neither count in the
        clipped norm nor fill the optimiser's means.
        """
        loss = super().training_step(model, inputs, num_items_in_batch)
        if cast(float, self.state.epoch) < self.args.freeze_encoder_epochs:
            for parameter in self.noisy_model.word_encoder.encoder.parameters():
                parameter.grad = None
        return loss
