"""The Trainer of all methods: window rows, two learning rates, decoded evaluation."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from math import inf
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, EvalLoopOutput
from transformers.utils import logging

from hf_spanner.core.modeling_span_ner import SpanNERModel, SpanNEROutput
from hf_spanner.core.overlap import resolve_overlaps
from hf_spanner.core.prediction import TextReader
from hf_spanner.core.spans import legal_gold, pack_spans, unpack_spans
from hf_spanner.training.arguments import COUNTED_FIELDS, SpanNERTrainingArguments
from hf_spanner.training.collator import SpanNERCollator
from hf_spanner.training.library_trainer import LibraryTrainer, forget_preparation, use_one_device
from hf_spanner.training.logged_numbers import check_best_metric, logged_parts, span_metrics
from hf_spanner.training.parameter_groups import parameter_groups
from hf_spanner.training.progress import replace_progress
from hf_spanner.training.resume import check_writable, is_complete, last_complete_checkpoint, note_incomplete
from hf_spanner.training.windows import EvaluationWindows, lasting_rows, training_windows, window_rows

logger = logging.get_logger(__name__)

Rows = Iterable[Mapping[str, Any]]
# what windows and batches rest on
READING_FIELDS = ("label2id", "window_size", "window_overlap", "context_sentences", "word_features")


class SpanNERTrainer(LibraryTrainer):
    """Trainer over rows with `tokens` and `entities`.

    Rows are cut into windows before the loader, and windows are merged before scoring, as in the pipeline; gold that
    no window can hold is reported and counts as missed. The loss of a step is the sum of sentence losses over the
    number of sentences of the step, on all processes. Evaluation keeps spans, never tables of scores.

    Args:
        model: A span-NER model, or None with a `model_init`. Its calibration is left out if it is to be trained, since
            it belongs to other weights.
        args: Its training arguments, of the trainer's `arguments_class`.
        train_dataset: Rows, or None.
        eval_dataset: Rows, or a dict of names and rows. They are cut into windows once, at their first evaluation.
        processing_class: The model's tokenizer.
        compute_metrics: From (predicted, gold), lists of lists of dicts, to numbers by name; by default F1 and ECE.
        **kwargs: As in `Trainer`. `compute_loss_func` is called with the method's output (which
            holds its own `loss`), the gold (B, G, 3) as a method's `compute_loss` has it, and `num_items_in_batch`, the
            number of sentences to divide by; in evaluation it is None, which means those of the batch.

    Raises:
        ValueError: If the tokenizer is missing, the arguments are of another class, or the rows do not fit the model.
    """

    arguments_class: ClassVar[type[SpanNERTrainingArguments]] = SpanNERTrainingArguments
    model: SpanNERModel
    args: SpanNERTrainingArguments
    eval_dataset: Any

    def __init__(
        self,
        model: SpanNERModel | None = None,
        args: SpanNERTrainingArguments | None = None,
        train_dataset: Rows | None = None,
        eval_dataset: Rows | dict[str, Rows] | None = None,
        processing_class: PreTrainedTokenizerBase | None = None,
        compute_metrics: Callable[[list, list], dict[str, float]] | None = None,
        data_collator: Callable | None = None,
        **kwargs: Any,
    ) -> None:
        if processing_class is None:
            raise ValueError("processing_class must be the model's tokenizer, got None")
        if not isinstance(args, self.arguments_class):
            name = self.arguments_class.__name__
            raise ValueError(f"args of {type(self).__name__} must be {name}, got {type(args).__name__}")
        use_one_device(args)
        self.processing_class, self._given_collator = processing_class, data_collator
        self._rows = lasting_rows(train_dataset)
        self._reading: dict[str, Any] = {}  # how rows are read at present
        self._kept_windows: list[EvaluationWindows] = []  # those of `eval_dataset`
        self.score = compute_metrics or span_metrics
        self._part_sums: dict[str, Tensor] = {}  # those of this process since the last log
        self._num_steps: Tensor | float = 0.0  # its share of the steps since then
        if model is not None:
            self._read_for(model)
        super().__init__(
            model=model,
            args=args,
            eval_dataset=lasting_rows(eval_dataset),
            processing_class=processing_class,
            **kwargs,
        )
        self._read_for(self.model)
        self.label_names = ["labels"]
        replace_progress(self)

    def call_model_init(self, trial: Any = None) -> Any:
        """A new model of `model_init`; rows are cut anew if it reads them in another way than the one before."""
        model = super().call_model_init(trial)
        self._read_for(cast(SpanNERModel, model))
        return model

    def _read_for(self, model: SpanNERModel) -> None:
        """Read and cut rows as a model does, unless they are already read so."""
        config = self._config = model.config
        if self._rows is not None and config.calibration is not None:
            logger.warning("the model's calibration belongs to its weights before training and is left out")
            config.calibration = None
        self._decoding = config.decoding()  # those of the evaluation that is running
        reading = {name: getattr(config, name) for name in READING_FIELDS}
        if reading != self._reading:
            tokenizer = cast(PreTrainedTokenizerBase, self.processing_class)
            self.reader = TextReader(tokenizer, config)
            self.span_collator = SpanNERCollator(
                tokenizer,
                reading["label2id"],
                window_size=reading["window_size"],
                max_word_tokens=reading["window_overlap"],
                word_features=reading["word_features"],
            )
            self._windows = None if self._rows is None else self._training_windows(self._rows, model)
            self._kept_windows = []
            self._reading = reading
        self.train_dataset, self.data_collator = self._windows, self._given_collator or self.span_collator

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
        tell("training data: %s; %d that the method cannot reach, counted in each window", report, lost)
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
        if self.model_init is None:  # else a new model comes
            forget_preparation(self.model)
        self._part_sums, self._num_steps = {}, 0.0  # a run that was stopped may have left some
        labels = self.span_collator.label2id if self.score is span_metrics else None
        check_best_metric(self.args, self.eval_dataset, labels)
        counted = {name: getattr(self.args, name) for name in COUNTED_FIELDS}
        try:
            return super().train(resume_from_checkpoint, *args, **kwargs)
        except Exception as error:
            folder = Path(cast(str, self.args.output_dir), f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}")
            note_incomplete(error, folder)
            raise
        finally:
            vars(self.args).update(counted)  # the next training, as of another trial, counts anew

    def set_initial_training_values(self, args: Any, dataloader: DataLoader) -> Any:
        """As in the library; before it, `min_steps` take the place of epochs that would make fewer steps."""
        changed = None if self._windows is None else self.args.count_in_steps(len(self._windows))
        if changed is not None:
            logger.warning(changed)
        return super().set_initial_training_values(args, dataloader)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """A draft of a model card, see `Trainer.create_model_card`, unless the output folder has a card."""
        if not Path(cast(str, self.args.output_dir), "README.md").exists():
            super().create_model_card(*args, **kwargs)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model; see `Trainer.save_model`.

        A checkpoint begins with it and ends with the file that marks it as complete. An older one of the same name
        loses its mark here.
        """
        if output_dir is not None and _internal_call and self.args.should_save:
            Path(output_dir, TRAINER_STATE_NAME).unlink(missing_ok=True)
        super().save_model(output_dir, _internal_call)

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Scores of rows, or of the evaluation rows of a given name; see `Trainer.evaluate`."""
        dataset = self.eval_dataset if eval_dataset is None else eval_dataset
        if dataset is None:
            raise ValueError("eval_dataset must be rows, here or of the trainer, got None")
        if isinstance(dataset, str):
            dataset = self.eval_dataset[dataset]
        if isinstance(dataset, dict):
            return super().evaluate(dataset, ignore_keys, metric_key_prefix)
        self._decoding = self._config.decoding()
        metrics = super().evaluate(self._evaluation_windows(dataset), ignore_keys, metric_key_prefix)
        # nothing was found, or nothing of a label is there: its score is undefined and not the best
        worst = {"ece": inf} | dict.fromkeys((f"f1_{label}" for label in self.span_collator.label2id), 0.0)
        best = self._best_metric_name.removeprefix(f"{metric_key_prefix}_")
        if self.is_in_train and best in worst:
            metrics.setdefault(self._best_metric_name, worst[best])
        return metrics

    @property
    def _best_metric_name(self) -> str:
        """The metric that chooses the best model, as `evaluate` names it."""
        return f"eval_{str(self.args.metric_for_best_model).removeprefix('eval_')}"

    def hyperparameter_search(
        self,
        hp_space: Callable[[Any], dict[str, float]] | None = None,
        compute_objective: Callable[[dict[str, float]], float] | None = None,
        n_trials: int = 20,
        direction: str | list[str] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Search for the best arguments; see `Trainer.hyperparameter_search`.

        By default trials are judged by `metric_for_best_model` in its own direction. The library would add up all
        metrics, counts of entities among them.

        Args:
            hp_space: As in the library.
            compute_objective: From the metrics of an evaluation to what is optimised; needed where no metric is named.
            n_trials: As in the library.
            direction: `minimize` or `maximize`; None follows `greater_is_better`.
            *args: As in the library.
            **kwargs: The same.
        """
        if compute_objective is None and self.args.metric_for_best_model is None:
            raise ValueError("compute_objective must be given where metric_for_best_model is None, got None")
        objective = compute_objective or itemgetter(self._best_metric_name)
        direction = direction or ("maximize" if self.args.greater_is_better else "minimize")
        return super().hyperparameter_search(hp_space, objective, n_trials, direction, *args, **kwargs)

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
        self._decoding = self._config.decoding(decoding)
        return super().predict(cast(Any, self._evaluation_windows(test_dataset)), ignore_keys, metric_key_prefix)

    def _evaluation_windows(self, rows: Rows) -> EvaluationWindows:
        """Windows of rows; those of the trainer's own evaluation rows are cut once and kept."""
        for windows in self._kept_windows:
            if windows.rows is rows:
                return windows
        windows = EvaluationWindows(rows, self.reader, self.span_collator.label2id)
        if windows.report.examples:
            logger.warning_once(f"evaluation data: {windows.report}; these count as missed")
        own = self.eval_dataset.values() if isinstance(self.eval_dataset, dict) else [self.eval_dataset]
        if any(rows is own_rows for own_rows in own):
            self._kept_windows.append(windows)
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
        loss_only = self.args.prediction_loss_only
        output = super().evaluation_loop(dataloader, description, loss_only, ignore_keys, metric_key_prefix)
        if loss_only:
            return output
        tables, places = cast(np.ndarray, output.predictions), cast(np.ndarray, output.label_ids)
        spans = windows.merged(tables, places, self._config.merge_settings(), self._decoding)
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
            optimizer_class, settings = self.optimizer_cls_and_kwargs or self.get_optimizer_cls_and_kwargs(
                self.args, model
            )
            rate, head_rate = settings.get("lr", self.args.learning_rate), self.args.head_learning_rate
            rates = {True: rate, False: rate if head_rate is None else head_rate}
            decayed = set(self.get_decay_parameter_names(model))
            self.optimizer = optimizer_class(
                parameter_groups(model, rates, decayed, self.args.weight_decay), **settings
            )
        return self.optimizer
