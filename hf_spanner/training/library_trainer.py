"""All that training takes from private names of transformers and accelerate; a new release of them is checked here.

Each stands with the reason why no public name will do, as seen in transformers 5.24 and accelerate 1.15.
"""

from typing import Any

from torch import nn
from torch.utils.data import Dataset, Sampler, SequentialSampler
from transformers import Trainer, TrainingArguments
from transformers.trainer_pt_utils import LengthGroupedSampler
from transformers.utils import logging

from hf_spanner.training.resume import EpochSampler

logger = logging.get_logger(__name__)


class LibraryTrainer(Trainer):
    """The library's Trainer: rows in an order that a resumed run repeats, checkpoints that are marked at their end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # models say False, since the library's own count is of elements of `labels`; ours is of sentences
        self.model_accepts_loss_kwargs = True

    def _save_rng_state(self, output_dir: str) -> None:
        """As in the library; then wait for all processes.

        The main process writes the file that marks a checkpoint as complete right after this, and may not do so before
        the others have written theirs. A callback's `on_save` comes too late: by then older checkpoints are removed, so
        that a kill between the two would leave none. On incomplete checkpoints see
        https://github.com/huggingface/transformers/issues/35782
        """
        super()._save_rng_state(output_dir)
        self.accelerator.wait_for_everyone()

    def end(self) -> None:
        """As in the library, once all processes are here: one that leaves while others work may abort at its exit."""
        self.accelerator.wait_for_everyone()
        super().end()

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler | None:
        """As in the library, but rows grouped by length come in an order that follows from seed and epoch.

        `get_train_dataloader` is public, but to override it is to repeat its workers, seeds and preparation. A sampler
        as an argument was proposed and not taken: https://github.com/huggingface/transformers/pull/43318
        """
        sampler = super()._get_train_sampler(train_dataset)
        if not isinstance(sampler, LengthGroupedSampler):
            return sampler
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        return EpochSampler(sampler.batch_size, sampler.lengths, seed, epoch=lambda: int(self.state.epoch or 0))

    def _get_eval_sampler(self, eval_dataset: Dataset) -> SequentialSampler:
        """Rows in their order, which is already by length; the library groups them anew wherever training does.

        For the same reason as above; see also https://github.com/huggingface/transformers/pull/48025
        """
        return SequentialSampler(eval_dataset)  # type: ignore[arg-type]

    def on_device(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """A batch on the device of the model, as the library begins every step of its own."""
        return self._prepare_inputs(inputs)


def forget_preparation(model: nn.Module) -> None:
    """Let accelerate prepare a model anew.

    An evaluation before training marks the bare model as prepared; several processes that then train would not share
    gradients. https://github.com/huggingface/transformers/pull/24014 prepares models for evaluation alone;
    https://github.com/huggingface/transformers/issues/48841 is another effect of it.
    """
    vars(model).pop("_is_accelerate_prepared", None)


def use_one_device(args: TrainingArguments) -> None:
    """Train on one device where one process sees several.

    The library would divide each batch among them, whereas the sentences of a step are counted as a whole. `n_gpu`
    cannot be set; https://github.com/amazon-science/chronos-forecasting/pull/434 does the same.
    """
    if args.n_gpu > 1:
        logger.warning("%d devices are there and this process uses one; accelerate launch takes all", args.n_gpu)
        args._n_gpu = 1
