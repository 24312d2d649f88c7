"""The paper's optimisation recipe as defaults, and what is logged beside the loss."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hf_spanner.methods.locate_and_label.trainer_locate_and_label import (
    LocateAndLabelTrainer,
    LocateAndLabelTrainingArguments,
)


@pytest.fixture
def trainer(
    tiny_model: Callable[..., Any], trainer_for: Callable[..., Any], rows: list[dict[str, Any]]
) -> LocateAndLabelTrainer:
    return trainer_for(tiny_model("locate_and_label"), rows)


def test_defaults_are_the_recipe_of_the_paper(tmp_path: Path) -> None:
    """Section 3.3 and Table 6 for ACE 2005: 35 epochs, batches of 8, 3e-5 for all parameters, linear decay."""
    args = LocateAndLabelTrainingArguments(output_dir=str(tmp_path))
    assert (args.num_train_epochs, args.per_device_train_batch_size) == (35, 8)
    assert (args.learning_rate, args.head_learning_rate) == (3e-5, 3e-5)
    assert (args.warmup_steps, args.lr_scheduler_type, args.max_grad_norm, args.weight_decay) == (
        0.05,
        "linear",
        1,
        0.01,
    )


def test_nothing_is_logged_of_a_head_that_does_not_exist(
    tiny_model: Callable[..., Any], trainer_for: Callable[..., Any], rows: list[dict[str, Any]]
) -> None:
    trainer = trainer_for(tiny_model("locate_and_label", use_filter=False, use_regressor=False), rows)
    trainer.train()
    logged = next(entry for entry in trainer.state.log_history if "loss" in entry)
    assert "classification_loss" in logged
    assert not {"filter_loss", "regression_loss", "overlap_loss", "filter_recall"} & logged.keys()


def test_training_logs_losses_and_shares(trainer: LocateAndLabelTrainer) -> None:
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    losses = {f"{head}_loss" for head in ("filter", "regression", "overlap", "classification")}
    assert losses <= set(logged[0])
    assert 0 <= logged[0]["filter_recall"] <= 1
