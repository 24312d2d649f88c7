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
