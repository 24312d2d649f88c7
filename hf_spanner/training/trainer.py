"""The Trainer of all methods: window rows, two learning rates, decoded evaluation."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from shutil import disk_usage
from typing import Any, cast

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, EvalLoopOutput
from transformers.utils import logging

from hf_spanner.core.modeling_span_ner import TOTAL, SpanNERModel, SpanNEROutput
from hf_spanner.core.overlap import resolve_overlaps
from hf_spanner.core.prediction import TextReader
from hf_spanner.core.spans import legal_gold, pack_spans, unpack_spans
from hf_spanner.metrics.span_ner.scoring import score_spans
from hf_spanner.training.collator import SpanNERCollator
from hf_spanner.training.library_trainer import LibraryTrainer, forget_preparation, use_one_device
from hf_spanner.training.progress import replace_progress
from hf_spanner.training.resume import check_writable, is_complete, last_complete_checkpoint
from hf_spanner.training.windows import EvaluationWindows, training_windows, window_rows

logger = logging.get_logger(__name__)

Rows = Iterable[Mapping[str, Any]]


@dataclass
class SpanNERTrainingArguments(TrainingArguments):
    """Arguments of training that all methods share; a method's own class sets its paper's values.

    Args:
        head_learning_rate: Learning rate of all parameters outside the encoder; None takes `learning_rate`.
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
    greater_is_better: bool | None = True
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
        super().__post_init__()
        self.dataloader_pin_memory &= torch.accelerator.is_available()  # without one the loader warns of it


class SpanNERTrainer(LibraryTrainer):
    """Trainer over rows with `tokens` and `entities`.

    Rows are cut into windows before the loader, and windows are merged before scoring, as in the pipeline; gold that
    no window can hold is reported and counts as missed. The loss of a step is the sum of sentence losses over the
    number of sentences of the step, on all processes. Evaluation keeps spans, never tables of scores.

    Args:
        model: A span-NER model. Its calibration is left out if it is to be trained, since it belongs to other weights.
        args: Its training arguments.
        train_dataset: Rows, or None.
        eval_dataset: Rows, or a dict of names and rows.
        processing_class: The model's tokenizer.
        compute_metrics: From (predicted, gold), lists of lists of dicts, to numbers by name; by default F1 and ECE.
        **kwargs: As in `Trainer`. `compute_loss_func` is called with the method's output (which
            holds its own `loss`), the gold (B, G, 3) as a method's `compute_loss` has it, and `num_items_in_batch`, the
            number of sentences to divide by; in evaluation it is None, which means those of the batch.
    """

    model: SpanNERModel
    args: SpanNERTrainingArguments
    eval_dataset: Any

    def __init__(
        self,
        model: SpanNERModel,
        args: SpanNERTrainingArguments,
        train_dataset: Rows | None = None,
        eval_dataset: Rows | dict[str, Rows] | None = None,
        processing_class: PreTrainedTokenizerBase | None = None,
        compute_metrics: Callable[[list, list], dict[str, float]] | None = None,
        **kwargs: Any,
    ) -> None:
        if processing_class is None:
            raise ValueError("processing_class must be the model's tokenizer, got None")
        use_one_device(args)
        config = model.config
        if train_dataset is not None and config.calibration is not None:
            logger.warning("the model's calibration belongs to its weights before training and is left out")
            config.calibration = None
        self.span_collator = SpanNERCollator(
            processing_class,
            cast(dict[str, int], config.label2id),
            window_size=cast(int, config.window_size),
            max_word_tokens=cast(int, config.window_overlap),
        )
        self.score = compute_metrics or span_metrics
        self.reader = TextReader(processing_class, config)
        self._decoding = config.decoding()  # those of the evaluation that is running
        self._part_sums: dict[str, Tensor] = {}  # those of this process since the last log
        self._num_steps: Tensor | float = 0.0  # its share of the steps since then
        self._config = config
        super().__init__(
            model=model,
            args=args,
            data_collator=kwargs.pop("data_collator", self.span_collator),
            train_dataset=None if train_dataset is None else self._training_windows(train_dataset, model),
            eval_dataset=cast(Any, eval_dataset),
            processing_class=processing_class,
            **kwargs,
        )
        self.label_names = ["labels"]
        replace_progress(self)

    def _training_windows(self, rows: Rows, model: SpanNERModel) -> Dataset:
        label2id = self.span_collator.label2id
        windows, report = window_rows(rows, self.reader, label2id)
        lost = sum(
            model.unreachable(
                [(entity["start"], entity["end"], label2id[entity["label"]]) for entity in window["entities"]]
            )
            for window in windows
        )
        tell = logger.warning if lost or report.examples else logger.info
        tell("training data: %s; %d that the method cannot reach", report, lost)
        return training_windows(windows)

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """Train; see `Trainer.train`. Training never goes on from a checkpoint that was not written to its end.

        Args:
            resume_from_checkpoint: A checkpoint, or True for the last complete one of the output folder.
            *args: As in `Trainer.train`.
            **kwargs: The same.

        Raises:
            ValueError: If there is no complete checkpoint, or the one given is not complete.
            OSError: If checkpoints are to be written and the output folder cannot be.
        """
        if resume_from_checkpoint is True:
            resume_from_checkpoint = str(last_complete_checkpoint(cast(str, self.args.output_dir)))
        if resume_from_checkpoint and not is_complete(Path(resume_from_checkpoint)):
            raise ValueError(f"{resume_from_checkpoint} is no complete checkpoint: {TRAINER_STATE_NAME} is not whole")
        if self.args.should_save and self.args.save_strategy != "no":
            check_writable(cast(str, self.args.output_dir))
        forget_preparation(self.model)
        try:
            return super().train(resume_from_checkpoint, *args, **kwargs)
        except Exception as error:
            step = f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
            folder = Path(cast(str, self.args.output_dir), step)
            if folder.is_dir() and not is_complete(folder):
                free = disk_usage(folder).free
                error.add_note(f"{folder} is incomplete, {free:,} bytes free on its disk; earlier ones are untouched")
            raise

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model; see `Trainer.save_model`.

        A checkpoint begins with it and ends with the file that marks it as complete. An older one of the same name
        loses its mark here.
        """
        if _internal_call and self.args.should_save:
            Path(cast(str, output_dir), TRAINER_STATE_NAME).unlink(missing_ok=True)
        super().save_model(output_dir, _internal_call)

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Scores of rows, or of the evaluation rows of a given name; see `Trainer.evaluate`."""
        dataset = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(dataset, str):
            dataset = self.eval_dataset[dataset]
        if isinstance(dataset, dict):
            return super().evaluate(dataset, ignore_keys, metric_key_prefix)
        return super().evaluate(self._evaluation_windows(dataset), ignore_keys, metric_key_prefix)

    def predict(
        self,
        test_dataset: Any,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "test",
        decoding: Mapping[str, Any] | None = None,
    ) -> Any:
        """Spans of rows: `predictions` holds for each row its entities as dicts, in the order of the rows.

        Args:
            test_dataset: Rows.
            ignore_keys: As in `Trainer.predict`.
            metric_key_prefix: The same.
            decoding: Settings of inference by name, which override the configuration's.
        """
        windows = self._evaluation_windows(test_dataset, decoding)
        return super().predict(cast(Any, windows), ignore_keys, metric_key_prefix)

    def _evaluation_windows(self, rows: Rows, decoding: Mapping[str, Any] | None = None) -> EvaluationWindows:
        windows = EvaluationWindows(rows, self.reader, self._config, self._config.decoding(decoding))
        if windows.report.examples:
            logger.warning_once(f"evaluation data: {windows.report}; these count as missed")
        return windows

    def evaluation_loop(
        self,
        dataloader: DataLoader,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """Spans, gold and scores of the rows whose windows the loader gives; the loop is the library's own."""
        windows = cast(EvaluationWindows, dataloader.dataset)
        self._decoding = windows.decoding
        loss_only = self.args.prediction_loss_only
        output = super().evaluation_loop(dataloader, description, loss_only, ignore_keys, metric_key_prefix)
        if loss_only:
            return output
        spans = windows.merged(cast(np.ndarray, output.predictions), cast(np.ndarray, output.label_ids))
        scores = {f"{metric_key_prefix}_{name}": score for name, score in self.score(spans, windows.gold).items()}
        return EvalLoopOutput(
            predictions=cast(Any, spans),
            label_ids=cast(Any, windows.gold),
            metrics=cast(dict[str, float], output.metrics) | scores,
            num_samples=len(windows.gold),
        )

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """Loss of a batch; the place of its windows is kept from the model."""
        inputs = {name: value for name, value in inputs.items() if name != "windows"} | {"return_dict": True}
        scorer: Callable[..., Any] = model
        if self.compute_loss_func is not None:
            # the library takes the labels out for it, but models use them to choose what to score
            num_labels = cast(int, self._config.num_labels)
            inputs["labels"] = legal_gold(inputs["labels"], inputs["word_mask"], num_labels)
            scorer = partial(model, labels=inputs["labels"])
        loss, output = super().compute_loss(cast(Any, scorer), inputs, True, num_items_in_batch)
        parts = cast(SpanNEROutput, output).loss_parts
        if model.training and parts is not None:
            num_sentences = len(inputs["word_mask"])
            num_items = num_sentences if num_items_in_batch is None else num_items_in_batch
            for name, values in parts.items():
                self._part_sums[name] = self._part_sums.get(name, 0.0) + values.sum() / num_items
            self._num_steps = self._num_steps + num_sentences / num_items
        return (loss, output) if return_outputs else loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log numbers; beside a training loss also its parts, each a mean over the same steps as the loss."""
        if "loss" in logs and self._part_sums:
            sums = torch.stack([*self._part_sums.values(), torch.as_tensor(self._num_steps, device=self.args.device)])
            *sums, num_steps = cast(Tensor, self.accelerator.reduce(sums, reduction="sum")).tolist()
            logs |= logged_parts({name: value / num_steps for name, value in zip(self._part_sums, sums, strict=True)})
            self._part_sums, self._num_steps = {}, 0.0
        super().log(logs, start_time)

    def get_batch_samples(
        self, epoch_iterator: Iterator, num_batches: int, device: torch.device
    ) -> tuple[list, Tensor | int | None]:
        """Batches of a step, and their number of sentences: over all processes where gradients are averaged so."""
        batches = list(islice(epoch_iterator, num_batches))
        count = torch.tensor(sum(len(batch["word_mask"]) for batch in batches), device=device)
        if self.args.average_tokens_across_devices and self.args.world_size > 1:
            count = cast(Tensor, self.accelerator.gather(count)).sum()
        return batches, count

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Loss, packed candidates (B, K, 4) and the place of each window (B, 4).

        Overlaps within a text of one window are already resolved here; this changes nothing later and keeps K small.
        """
        inputs = self.on_device(inputs)
        windows, decoding = inputs["windows"], self._decoding
        unwrapped = self.accelerator.unwrap_model(model)
        with torch.no_grad(), self.compute_loss_context_manager():
            loss, output = self.compute_loss(model, inputs | {"decoding": decoding}, return_outputs=True)
            packed = unwrapped.candidate_spans(output, decoding)
        if prediction_loss_only:
            return loss.detach(), None, None
        settings = unwrapped.config.merge_settings()
        kept = [
            resolve_overlaps(
                spans, policy=decoding["overlap"], id2label=settings["id2label"], multi_label=settings["multi_label"]
            )
            if count == 1
            else spans
            for spans, count in zip(unpack_spans(packed), windows[:, 3].tolist(), strict=True)
        ]
        return loss.detach(), pack_spans(kept).to(windows.device), windows

    def create_optimizer(self, model: PreTrainedModel | None = None) -> torch.optim.Optimizer:
        """Optimiser of four groups: encoder and rest, each with and without weight decay."""
        if self.optimizer is None:
            model = self.model if model is None else model
            decayed = set(self.get_decay_parameter_names(model))
            groups: dict[tuple[bool, bool], list[nn.Parameter]] = defaultdict(list)
            for name, parameter in model.named_parameters():
                groups["word_encoder.encoder." in name, name in decayed].append(parameter)
            rates = {True: self.args.learning_rate, False: self.args.head_learning_rate}
            rates[False] = rates[True] if rates[False] is None else rates[False]
            optimizer_class, settings = self.get_optimizer_cls_and_kwargs(self.args, model)
            self.optimizer = optimizer_class(
                [
                    {
                        "params": parameters,
                        "lr": rates[is_encoder],
                        "weight_decay": self.args.weight_decay if is_decayed else 0.0,
                    }
                    for (is_encoder, is_decayed), parameters in sorted(groups.items())
                ],
                **settings,
            )
        return self.optimizer


def logged_parts(means: Mapping[str, float]) -> dict[str, float]:
    """The parts of the loss to log, from their means: a ratio where there is a total, left out where the total is 0."""
    totals = {name.removeprefix(TOTAL): mean for name, mean in means.items() if name.startswith(TOTAL)}
    logged = {name: mean for name, mean in means.items() if not name.startswith(TOTAL) and totals.get(name) != 0}
    return {name: mean / totals.get(name, 1.0) for name, mean in logged.items()}


def span_metrics(predicted: list, gold: list) -> dict[str, float]:
    """Flat numbers for the log: strict, macro and boundary F1, ECE if it is defined, counts, and F1 of each label."""
    scores = score_spans(predicted, gold)
    flat = {name.removeprefix("overall_"): scores[name] for name in LOGGED_SCORES if scores[name] is not None}
    return flat | {f"f1_{label}": label_scores["f1"] for label, label_scores in scores["per_label"].items()}


LOGGED_SCORES = (
    "overall_f1",
    "overall_precision",
    "overall_recall",
    "overall_ece",
    "macro_f1",
    "boundary_f1",
    "num_gold",
    "num_predicted",
    "num_correct",
)
