"""The paper's optimisation recipe as defaults, and the floor of the loss in the log."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hf_spanner.methods.boundary_smoothing.loss_boundary_smoothing import legal_spans, smoothed_targets
from hf_spanner.methods.boundary_smoothing.trainer_boundary_smoothing import (
    BoundarySmoothingTrainingArguments,
    width_quantile,
)

# Ten words, one entity (1, 3), epsilon 0.2, D 1: the gold cell is (0.8, 0.2), four ring cells are (0.05, 0.95) each.
FULL_RING = -0.8 * math.log(0.8) - 0.2 * math.log(0.2) - 4 * (0.05 * math.log(0.05) + 0.95 * math.log(0.95))
TEN_WORDS = {"tokens": ["a"] * 10, "entities": [{"start": 1, "end": 3, "label": "PER"}]}
ONE_WORD = {"tokens": ["a"], "entities": [{"start": 0, "end": 1, "label": "PER"}]}  # all mass returns: entropy 0


Make = Callable[..., Any]


def test_defaults_are_the_recipe_of_the_paper(tmp_path: Path) -> None:
    """Section 4.1: 50 epochs, batch 48, two learning rates, warm-up over 20 % of the steps, clipping at 5."""
    args = BoundarySmoothingTrainingArguments(output_dir=str(tmp_path))
    assert (args.num_train_epochs, args.per_device_train_batch_size, args.max_grad_norm) == (50, 48, 5.0)
    assert (args.learning_rate, args.head_learning_rate) == (2e-5, 2e-3)
    assert (args.warmup_steps, args.lr_scheduler_type, args.weight_decay) == (0.2, "linear", 0.01)
    assert "adamw" in args.optim
    assert args.load_best_model_at_end
    assert args.metric_for_best_model == "f1"


def test_target_entropy_of_each_sentence_by_hand(tiny_model: Make, trainer_for: Make) -> None:
    model = tiny_model(smoothing_epsilon=0.2).train()
    batch = trainer_for(model, [TEN_WORDS]).span_collator([ONE_WORD, TEN_WORDS, {**TEN_WORDS, "entities": []}])
    parts = model(**batch).loss_parts
    assert list(parts) == ["target_entropy"]
    assert parts["target_entropy"].tolist() == pytest.approx([0.0, FULL_RING, 0.0], abs=1e-5)
    assert pytest.approx(1.294463, abs=1e-6) == FULL_RING


def test_loss_reaches_the_target_entropy_where_the_model_equals_the_targets(
    tiny_model: Make, trainer_for: Make
) -> None:
    """Cross entropy is entropy plus divergence."""
    model = tiny_model(smoothing_epsilon=0.2).train()
    batch = trainer_for(model, [TEN_WORDS]).span_collator([TEN_WORDS])
    output = model(**batch)
    is_legal = legal_spans(output.word_mask)
    targets = smoothed_targets(batch["labels"], is_legal, epsilon=0.2, distance=1, num_labels=3)
    output.logits = targets.clamp(min=1e-12).log()
    losses, parts = model.compute_loss(output, batch["labels"])
    assert losses.item() == pytest.approx(FULL_RING, abs=1e-5)
    assert parts["target_entropy"].item() == pytest.approx(FULL_RING, abs=1e-5)


@pytest.mark.parametrize("accumulated", [1, 2])
def test_target_entropy_is_logged_as_a_mean_over_the_steps_of_the_loss(
    tiny_model: Make, trainer_for: Make, accumulated: int
) -> None:
    """The first of two steps has two sentences (mean H / 2), the last has one (H): once an epoch 3 H / 4 is logged."""
    rows = [TEN_WORDS, ONE_WORD, TEN_WORDS]
    trainer = trainer_for(
        tiny_model(smoothing_epsilon=0.2),
        rows,
        per_device_train_batch_size=2 // accumulated,
        gradient_accumulation_steps=accumulated,
    )
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "target_entropy" in entry]
    assert len(logged) == 1
    assert logged[0]["target_entropy"] == pytest.approx(0.75 * FULL_RING, abs=1e-5)
    assert logged[0]["loss"] > logged[0]["target_entropy"]


def test_hard_targets_have_no_floor(tiny_model: Make, trainer_for: Make) -> None:
    trainer = trainer_for(tiny_model(smoothing_epsilon=0.0), [TEN_WORDS])
    trainer.train()
    assert [entry["target_entropy"] for entry in trainer.state.log_history if "loss" in entry] == [0.0]


def row_of(*lengths: int) -> dict[str, Any]:
    entities = [{"start": 0, "end": length, "label": "PER"} for length in lengths]
    return {"tokens": ["a"] * max(lengths, default=1), "entities": entities}


def test_quantile_of_widths_by_hand() -> None:
    """Lengths 1 to 40 have widths 0 to 39: 39 of 40 (.975) do not exceed 38, half do not exceed 19; never below 1."""
    rows = [row_of(*range(1, 21)), row_of(*range(21, 41)), row_of()]
    assert width_quantile(rows) == 38
    assert (width_quantile(rows, 0.5), width_quantile(rows, 1.0)) == (19, 39)
    assert width_quantile(iter([row_of(1, 1)])) == 1


def test_a_quantile_of_nothing_or_of_no_share_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one entity, got none"):
        width_quantile([row_of()])
    for share in (0.0, 1.5):
        with pytest.raises(ValueError, match=f"share must lie in \\(0, 1\\], got {share}"):
            width_quantile([row_of(2)], share)
