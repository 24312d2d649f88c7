"""Rows, short trainings of tiny models, and what tests ask of a trained model."""

from pathlib import Path
from typing import Any

import torch
from method_facts import facts_of
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from hf_spanner import SpanNERModel, SpanNERTrainer, SpanNERTrainingArguments
from hf_spanner.core.spans import named_span
from hf_spanner.methods import trainer_of, training_arguments_of
from hf_spanner.metrics.span_ner.scoring import score_spans

Rows = list[dict[str, Any]]
QUIET = {"report_to": "none", "use_cpu": True, "disable_tqdm": True, "logging_strategy": "no"}


def row(words: str, *spans: tuple[int, int, str]) -> dict[str, Any]:
    """A row with its words, which are joined by blanks here, and its gold spans."""
    entities = [{"start": start, "end": end, "label": label} for start, end, label in spans]
    return {"tokens": words.split(), "entities": entities}


def without_dropout(model: SpanNERModel) -> SpanNERModel:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        elif isinstance(module, nn.LSTM):
            module.dropout = 0.0
    return model


def with_loud_shapes(model: SpanNERModel) -> SpanNERModel:
    """Give the vectors of the words' shapes random weights, with which they change every score."""
    torch.manual_seed(3)
    nn.init.normal_(model.word_encoder.shapes.weight)
    return model


def trained(
    model: SpanNERModel, tokenizer: PreTrainedTokenizerBase, rows: Rows, folder: Path, **arguments: Any
) -> SpanNERTrainer:
    """A trainer of the method that has taken its steps, without evaluation."""
    name = model.config.model_type
    trainer_arguments = {key: arguments.pop(key, None) for key in ("resume", "callbacks", "compute_loss_func")}
    settings = {"save_strategy": "no", **QUIET, "warmup_steps": 0, "save_total_limit": None}
    settings |= {**facts_of(name).short_training, **arguments}
    args = training_arguments_of(name)(
        output_dir=str(folder), eval_strategy="no", load_best_model_at_end=False, **settings
    )
    resume = trainer_arguments.pop("resume")
    trainer = trainer_of(name)(
        model=model, args=args, train_dataset=rows, processing_class=tokenizer, **trainer_arguments
    )
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def largest_difference(first: SpanNERModel, second: SpanNERModel) -> float:
    """The largest difference of a weight or a buffer."""
    left, right = first.state_dict(), second.state_dict()
    assert left.keys() == right.keys()
    return max((left[name] - right[name]).abs().max().item() for name in left)


def assert_all_gradients_are_finite(model: SpanNERModel) -> None:
    """A gradient that is missing, rather than zero, would stop training on several processes."""
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def f1(model: SpanNERModel, batch: dict[str, Tensor], rows: Rows) -> float:
    """Strict F1 of a model in training mode on the rows of a batch."""
    with torch.no_grad():
        decoded = model.eval().decode(model(**batch))
    model.train()
    predicted = [[named_span(span, model.config.id2label) for span in spans] for spans in decoded]
    return score_spans(predicted, [sentence["entities"] for sentence in rows])["overall_f1"]


TRAINER_ARGUMENTS = ("train_dataset", "eval_dataset", "compute_metrics", "model_init")


def trainer_for(
    model: SpanNERModel | None, tokenizer: PreTrainedTokenizerBase, folder: Path, **arguments: Any
) -> SpanNERTrainer:
    trainer_arguments = {name: arguments.pop(name) for name in TRAINER_ARGUMENTS if name in arguments}
    settings = {"report_to": "none", "use_cpu": True, "disable_tqdm": True, "num_train_epochs": 1, **arguments}
    if "eval_dataset" not in trainer_arguments:
        settings = {"eval_strategy": "no", "save_strategy": "no", "load_best_model_at_end": False, **settings}
    args = SpanNERTrainingArguments(output_dir=str(folder), **settings)
    return SpanNERTrainer(model=model, args=args, processing_class=tokenizer, **trainer_arguments)


def judged_trainer(
    model: SpanNERModel, tokenizer: PreTrainedTokenizerBase, folder: Path, rows: Rows, metrics: Any, **arguments: Any
) -> SpanNERTrainer:
    """A trainer for three short epochs, each judged by the metrics that a function of predictions and gold makes up."""
    return trainer_for(
        model,
        tokenizer,
        folder,
        train_dataset=rows,
        eval_dataset=rows,
        compute_metrics=metrics,
        num_train_epochs=3,
        per_device_train_batch_size=5,
        **arguments,
    )


def long_row(length: int = 60) -> dict[str, Any]:
    words = ["Ana", "met", "Bo", "in", "Oslo"] * (length // 5)
    entities = [{"start": 5 * i, "end": 5 * i + 1, "label": "PER"} for i in range(length // 5)]
    return {"tokens": words, "entities": entities}


def biased(model: SpanNERModel) -> SpanNERModel:
    """Make every span likely to be of some type, as in a model before training."""
    with torch.no_grad():
        model.biaffine.bias[:-1] += 5.0
    return model
