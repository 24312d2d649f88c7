"""What a training prints: a line for each evaluation, which model is kept, and why nothing was found."""

import time
from collections.abc import Mapping
from math import ceil
from typing import Any

from tqdm import tqdm
from transformers import (
    PrinterCallback,
    ProgressCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from hf_spanner.metrics.span_ner.scoring import score_text

# Runs on 125, 250, 500 and 1,000 sentences of GUM that took 189 to 192 steps reached F1 52 to 58 (docs/results.md).
USUAL_STEPS = 200
HEADER = "epoch      loss   dev F1        P        R      ECE   minutes left"


class ProgressLines(TrainerCallback):
    """Prints a line for each evaluation in training, or for each logged loss where nothing is evaluated.

    A terminal also shows the steps in a bar, unless `disable_tqdm` is set. Only the main process prints. All numbers
    still go to the log history and to what `report_to` names.
    """

    def __init__(self) -> None:
        self.loss: float | None = None
        self.metrics: Mapping[str, float] = {}
        self.bar: tqdm | None = None
        self.started = 0.0
        self.first_step = 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begin the table and the bar."""
        if not state.is_world_process_zero:
            return
        self.loss, self.metrics = None, {}
        self.started, self.first_step = time.monotonic(), state.global_step
        hidden = True if args.disable_tqdm else None  # None shows it on a terminal only
        self.bar = tqdm(total=state.max_steps, initial=state.global_step, unit=" steps", leave=False, disable=hidden)
        self.show(HEADER)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Move the bar."""
        if self.bar is not None:
            self.bar.update(state.global_step - self.bar.n)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Keep the loss for the next line."""
        if self.bar is not None and logs is not None and "loss" in logs:
            self.loss = logs["loss"]
            if args.eval_strategy == "no":
                self.show(self.line(state, {}))

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Show the line of an evaluation during training; outside of it the caller has the numbers."""
        if self.bar is not None and metrics is not None:
            prefix = next(name for name in metrics if name.endswith("_runtime")).removesuffix("runtime")
            self.metrics = {name.removeprefix(prefix): value for name, value in metrics.items()}
            name = prefix.removeprefix("eval").strip("_")  # the name of one of several sets of rows
            self.show(self.line(state, self.metrics) + (f"   {name}" if name else ""))

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ) -> None:
        """End the bar, and say which model is kept and, where nothing was found, why."""
        if self.bar is None:
            return
        self.bar.close()
        self.bar = None
        if args.load_best_model_at_end and state.best_global_step:
            epoch = state.best_global_step / steps_an_epoch(state)
            print(f"kept: the model of epoch {epoch:.4g}, the best by {args.metric_for_best_model}")
        if self.metrics.get("num_predicted") == 0:
            print(nothing_found(state, args, model.config.threshold))

    def line(self, state: TrainerState, metrics: Mapping[str, float]) -> str:
        """One line of the table."""
        done = state.global_step - self.first_step
        minutes = (time.monotonic() - self.started) / 60 * (state.max_steps - state.global_step) / max(done, 1)
        rates = [metrics.get(name) for name in ("f1", "precision", "recall")]
        shown = [score_text(None if rate is None else 100 * rate, 2) for rate in rates]
        numbers = [score_text(self.loss), *shown, score_text(metrics.get("ece"))]
        cells = [f"{number:>{width}}" for number, width in zip(numbers, (9, 8, 8, 8, 8), strict=True)]
        return " ".join([f"{state.epoch or 0:5.4g}", *cells, f"{minutes:14.1f}"])

    def show(self, text: str) -> None:
        """Print a line above the bar, at once, also into a file."""
        with tqdm.external_write_mode():
            print(text, flush=True)


def nothing_found(state: TrainerState, args: TrainingArguments, threshold: float | Mapping[str, float]) -> str:
    """Why a training found no entity, as far as its length and settings tell, and what to change.

    Args:
        state: State at the end of the training.
        args: Its arguments.
        threshold: The model's threshold.
    """
    size = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
    lines = [
        "No entity was found, so there is no calibration error either.",
        f"This run took {state.global_step} steps of up to {size} sentences. With steps of 16, runs on 125 to 1,000 "
        f"sentences took about {USUAL_STEPS} to find half of the entities.",
    ]
    if state.global_step < USUAL_STEPS:
        epochs = ceil(USUAL_STEPS / steps_an_epoch(state))
        lines.append(f"Set min_steps to {USUAL_STEPS} or num_train_epochs to {epochs}, or more.")
    else:
        lines.append("Look at words and labels of the training rows first, then try other learning rates.")
    if threshold:
        lines.append(f"The model's threshold is {threshold}; a lower one gives out more.")
    return "\n".join(lines)


def steps_an_epoch(state: TrainerState) -> int:
    """Steps of one epoch, at the end of a training, which may have ended inside an epoch."""
    return round(state.global_step / (state.epoch or 1))


def replace_progress(trainer: Trainer) -> None:
    """Put `ProgressLines` in the place of the library's bar or printed dicts; a notebook keeps the library's table."""
    removed = [trainer.pop_callback(callback) for callback in (ProgressCallback, PrinterCallback)]
    if any(removed):
        trainer.add_callback(ProgressLines)
