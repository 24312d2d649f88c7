"""The paper's optimisation recipe as defaults, and what is logged beside the loss."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hf_spanner.methods.locate_and_label.trainer_locate_and_label import (
    COUNTS,
    LOSSES,
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


def test_parts_are_one_number_a_sentence(trainer: LocateAndLabelTrainer, rows: list[dict[str, Any]]) -> None:
    parts = trainer.model(**trainer.span_collator(rows)).loss_parts
    assert list(parts) == [*LOSSES, *COUNTS]
    assert all(values.shape == (len(rows),) for values in parts.values())
    assert (parts["positives"] >= parts["proposals"]).all()
    assert parts["positives"][2] == 0  # it rained all the way


def test_counts_are_logged_as_shares(trainer: LocateAndLabelTrainer) -> None:
    means = dict.fromkeys(LOSSES, 0.5) | {"positives": 4.0, "proposals": 3.0, "exact": 1.5}
    logged = trainer.logged_parts(means)
    assert logged == dict.fromkeys(LOSSES, 0.5) | {"filter_recall": 0.75, "exact_moves": 0.5}
    none = {"positives": 0.0, "proposals": 0.0, "exact": 0.0}
    assert trainer.logged_parts(means | none) == dict.fromkeys(LOSSES, 0.5)


def test_nothing_is_logged_of_a_head_that_does_not_exist(trainer: LocateAndLabelTrainer) -> None:
    means = dict.fromkeys(LOSSES, 0.5) | {"positives": 4.0, "proposals": 3.0, "exact": 1.5}
    trainer.model.config.use_filter = False
    trainer.model.config.use_regressor = False
    assert set(trainer.logged_parts(means)) == {"classification_loss", "exact_moves"}


def test_training_logs_losses_and_shares(trainer: LocateAndLabelTrainer) -> None:
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert set(LOSSES) <= set(logged[0])
    assert 0 <= logged[0]["filter_recall"] <= 1
