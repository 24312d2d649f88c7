"""Predicted and gold spans of rows, as the evaluation of training sees them."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from datasets import Dataset
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerBase

from hf_spanner.calibration.fitting import refuse_fitted_rows
from hf_spanner.core.modeling_span_ner import SpanNERModel
from hf_spanner.data.readers import load_rows
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


def judged_model(
    source: str, data: str, *, split: str | None, raw: bool, allow_fitted_rows: bool
) -> tuple[Any, PreTrainedTokenizerBase, Dataset]:
    """A saved model, its tokenizer, and the rows that it is judged on, split at hyphens as the model reads them.

    Args:
        source: Folder or Hub name of the model.
        data: File, folder or data set on the Hub, as `load_rows` takes it.
        split: Split of a folder or of the Hub.
        raw: Leave the model's calibration and temperature out.
        allow_fitted_rows: Take also the rows that the calibration was fitted on.

    Raises:
        ValueError: If these are the rows of the fit and not allowed.
    """
    tokenizer = AutoTokenizer.from_pretrained(source)
    model = AutoModel.from_pretrained(source, **({"calibration": None, "temperature": 1.0} if raw else {}))
    rows: Any = load_rows(data, split=split, split_hyphens=model.config.split_hyphens)  # as a collection of rows
    if not allow_fitted_rows:
        refuse_fitted_rows(model.config.calibration, rows)
    return model, tokenizer, rows


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
