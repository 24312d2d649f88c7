"""Predicted and gold spans of rows, as the evaluation of training sees them."""

from collections.abc import Iterable, Mapping
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
    with TemporaryDirectory() as folder:
        args = SpanNERTrainingArguments(
            output_dir=folder,
            eval_strategy="no",
            save_strategy="no",
            load_best_model_at_end=False,
            per_device_eval_batch_size=batch_size,
            dataloader_pin_memory=False,
            report_to="none",
        )
        output = SpanNERTrainer(model=model, args=args, processing_class=tokenizer).predict(rows)
    return output.predictions, output.label_ids
