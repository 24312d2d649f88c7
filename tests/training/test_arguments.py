"""Training arguments: what would break span training is refused, and which of two models is better."""

from pathlib import Path
from typing import Any

import pytest

from hf_spanner import METHODS, SpanNERTrainingArguments
from hf_spanner.methods import training_arguments_of


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("label_smoothing_factor", 0.1),
        ("head_learning_rate", -1e-3),
        ("min_steps", -1),
        ("dataloader_drop_last", True),
        ("eval_do_concat_batches", False),
    ],
)
def test_arguments_that_would_break_span_training_are_refused(tmp_path: Path, field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        SpanNERTrainingArguments(output_dir=str(tmp_path), **{field: value})


def test_span_columns_are_kept_even_if_asked_otherwise(tmp_path: Path) -> None:
    assert SpanNERTrainingArguments(output_dir=str(tmp_path), remove_unused_columns=True).remove_unused_columns is False


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("metric", "is_greater_better"),
    [("f1", True), ("loss", False), ("eval_loss", False), ("ece", False), ("eval_dev_ece", False), ("niece", True)],
)
def test_which_value_is_better_follows_from_the_name(
    method: str, metric: str, is_greater_better: bool, tmp_path: Path
) -> None:
    arguments = training_arguments_of(method)
    assert arguments(output_dir=str(tmp_path), metric_for_best_model=metric).greater_is_better is is_greater_better
    assert arguments(output_dir=str(tmp_path)).greater_is_better is True


def test_what_is_given_is_kept(tmp_path: Path) -> None:
    for given in (True, False):
        args = SpanNERTrainingArguments(output_dir=str(tmp_path), metric_for_best_model="ece", greater_is_better=given)
        assert args.greater_is_better is given


@pytest.mark.parametrize(
    ("windows", "given", "max_steps", "every"),
    [
        (100, {}, 300, 30),  # 10 epochs of 7 steps are 70
        (464, {}, 300, 30),  # of 29: 290
        (465, {}, -1, None),  # of 30, the last batch with one window: 300
        (100, {"min_steps": 301}, 310, 31),  # ten parts of 31
        (100, {"num_train_epochs": 2.5, "min_steps": 100}, 102, 34),  # three parts
        (100, {"gradient_accumulation_steps": 2, "min_steps": 41}, 50, 5),  # 10 epochs of 4
        (100, {"gradient_accumulation_steps": 2, "min_steps": 40}, -1, None),
        (100, {"max_steps": 5}, 5, None),
        (100, {"min_steps": 0}, -1, None),
    ],
)
def test_few_sentences_are_counted_in_steps(
    tmp_path: Path, windows: int, given: dict[str, Any], max_steps: int, every: int | None
) -> None:
    """Where the epochs make fewer steps than asked for, as many parts of equal length take their place."""
    settings = {"num_train_epochs": 10, "per_device_train_batch_size": 16, "min_steps": 300} | given
    args = SpanNERTrainingArguments(output_dir=str(tmp_path), use_cpu=True, logging_strategy="no", **settings)
    changed = args.count_in_steps(windows)
    assert args.max_steps == max_steps
    assert (changed is not None) is (every is not None)
    assert args.logging_strategy == "no"
    if every is None:
        assert args.eval_strategy == args.save_strategy == "epoch"
    else:
        assert args.eval_strategy == args.save_strategy == "steps"
        assert args.eval_steps == args.save_steps == every
        assert f"training takes {max_steps}" in str(changed)
        assert args.count_in_steps(windows) is None
