"""Predicted and gold spans of rows, as the evaluation of training sees them."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from transformers import PreTrainedTokenizerBase

from hf_spanner.core.modeling_span_ner import SpanNERModel
from hf_spanner.training.trainer import SpanNERTrainer, SpanNERTrainingArguments

Spans = list[list[dict[str, Any]]]


def predictions_of_words(
    model: SpanNERModel, tokenizer: PreTrainedTokenizerBase, rows: Iterable[Mapping[str, Any]], batch_size: int
) -> tuple[Spans, Spans]:
    """Predicted and gold spans in words, windows and context included.

    Args:
        model: The model; its configuration says how spans are decoded and calibrated.
        tokenizer: Its tokenizer.
        rows: Rows with `tokens` and `entities`.
        batch_size: Windows run through the model at once.

    Returns:
        For each row its predicted entities (start, end, label, score), and the same for gold without scores.
    """
    with evaluating_trainer(model, tokenizer, batch_size) as trainer:
        output = trainer.predict(rows)
    return output.predictions, output.label_ids


@contextmanager
def evaluating_trainer(
    model: SpanNERModel, tokenizer: PreTrainedTokenizerBase, batch_size: int, *, disable_tqdm: bool | None = None
) -> Iterator[SpanNERTrainer]:
    """A Trainer that only evaluates; its folder goes with it. Making it seeds the global generators.

    Args:
        model: The model, moved to the Trainer's device.
        tokenizer: Its tokenizer.
        batch_size: Windows run through the model at once.
        disable_tqdm: As in `TrainingArguments`.
    """
    with TemporaryDirectory() as folder:
        args = SpanNERTrainingArguments(
            output_dir=folder,
            eval_strategy="no",
            save_strategy="no",
            load_best_model_at_end=False,
            per_device_eval_batch_size=batch_size,
            dataloader_pin_memory=False,
            report_to="none",
            disable_tqdm=disable_tqdm,
        )
        yield SpanNERTrainer(model=model, args=args, processing_class=tokenizer)
