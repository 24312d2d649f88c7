"""The paper's optimisation recipe as defaults, frozen epochs, the noise of a step, and the log."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import SchedulerType

from hf_spanner import SpanNERModel
from hf_spanner.methods.diffusion_ner.trainer_diffusion_ner import DiffusionNERTrainer, DiffusionNERTrainingArguments

Make = Callable[..., SpanNERModel]
MakeTrainer = Callable[..., DiffusionNERTrainer]


@pytest.fixture
def model(tiny_model: Make) -> SpanNERModel:
    return tiny_model("diffusion_ner")


def test_defaults_are_the_recipe_of_the_paper(tmp_path: Path) -> None:
    """Section 5.3: peak 2e-5, batch 8, linear warm-up and decay; Appendix C: 5 epochs with a fixed encoder."""
    args = DiffusionNERTrainingArguments(output_dir=str(tmp_path))
    assert (args.learning_rate, args.head_learning_rate, args.per_device_train_batch_size) == (2e-5, None, 8)
    assert (args.num_train_epochs, args.freeze_encoder_epochs, args.max_grad_norm) == (100, 5.0, 1.0)
    assert (args.warmup_steps, args.lr_scheduler_type, args.weight_decay) == (0.1, "linear", 0.01)
    assert "adamw" in args.optim


def test_negative_epochs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="freeze_encoder_epochs must be at least 0, got -1"):
        DiffusionNERTrainingArguments(output_dir=str(tmp_path), freeze_encoder_epochs=-1)


@pytest.mark.parametrize("warmup", [0, 0.5])
def test_encoder_rate_is_zero_in_the_frozen_epochs_and_plain_after_them(
    model: SpanNERModel, trainer_for: MakeTrainer, rows: list, warmup: float
) -> None:
    """It is 0 for six of twelve steps, half of the one epoch, and then it is the head's."""
    trainer = trainer_for(model, rows, freeze_encoder_epochs=0.5, learning_rate=1e-3, warmup_steps=warmup)
    trainer.create_optimizer_and_scheduler(12)
    encoder_ids = {id(parameter) for parameter in trainer.model.word_encoder.encoder.parameters()}
    rates: dict[bool, list[set[float]]] = {True: [], False: []}
    for _ in range(12):
        for is_encoder, rates_of_kind in rates.items():
            rates_of_kind.append(
                {
                    group["lr"]
                    for group in trainer.optimizer.param_groups
                    if (id(group["params"][0]) in encoder_ids) == is_encoder
                }
            )
        trainer.optimizer.step()
        trainer.lr_scheduler.step()
    assert rates[True][:6] == [{0.0}] * 6
    assert rates[True][6:] == rates[False][6:]
    assert max(rate for rates_of_step in rates[False][:6] for rate in rates_of_step) == pytest.approx(
        1e-3 if warmup == 0 else 1e-3 * 5 / 6
    )


def test_frozen_encoder_keeps_its_weights_while_the_head_learns(
    tiny_model: Make, trainer_for: MakeTrainer, rows: list
) -> None:
    changed = {}
    for frozen in (0, 1, 0.5):
        model = tiny_model("diffusion_ner")
        before = {name: value.clone() for name, value in model.named_parameters()}
        arguments = {"per_device_train_batch_size": 2, "warmup_steps": 0, "learning_rate": 1e-3}
        trainer_for(model, rows, freeze_encoder_epochs=frozen, **arguments).train()
        moved = {name for name, value in model.named_parameters() if not torch.equal(value, before[name])}
        changed[frozen] = any(name.startswith("word_encoder.encoder") for name in moved)
        assert any(name.startswith("denoiser") for name in moved)
    assert changed == {0: True, 1: False, 0.5: True}


def test_a_schedule_that_is_no_function_of_the_step_cannot_be_frozen(
    model: SpanNERModel, trainer_for: MakeTrainer, rows: list
) -> None:
    trainer = trainer_for(model, rows)
    trainer.args.lr_scheduler_type = SchedulerType.REDUCE_ON_PLATEAU
    with pytest.raises(ValueError, match="freeze_encoder_epochs needs a schedule"):
        trainer.create_optimizer_and_scheduler(4)


def test_noise_follows_from_the_seed_and_the_step(tiny_model: Make, trainer_for: MakeTrainer, rows: list) -> None:
    seen = []
    for seed in (1, 1, 2):
        trainer = trainer_for(tiny_model("diffusion_ner"), rows, seed=seed)
        batch = trainer.span_collator(rows)
        step_paths = []
        for step in (0, 7):
            trainer.state.global_step = step
            torch.randn(1)  # what else is drawn does not matter
            output = trainer.compute_loss(trainer.model.train(), batch, return_outputs=True)[1]
            step_paths.append(output.path[:, 0])
        assert not torch.equal(*step_paths)
        seen.append(step_paths)
    assert torch.equal(seen[0][0], seen[1][0])
    assert torch.equal(seen[0][1], seen[1][1])
    assert not torch.equal(seen[0][0], seen[2][0])


@pytest.mark.parametrize("repeat_targets", [False, True])
def test_training_logs_the_share_of_matched_spans(
    tiny_model: Make, trainer_for: MakeTrainer, rows: list, repeat_targets: bool
) -> None:
    """Five rows have 3, 3, 0, 3 and 1 gold spans and 12 noisy ones each: 10 / 60 are matched, or all 12 of 4 rows."""
    trainer = trainer_for(tiny_model("diffusion_ner", repeat_targets=repeat_targets), rows)
    trainer.train()
    logged = next(entry for entry in trainer.state.log_history if "matched_share" in entry)
    assert logged["matched_share"] == pytest.approx(0.8 if repeat_targets else 1 / 6)
    assert 0 <= logged["iou_noisy"] <= 1
    assert 0 <= logged["iou_denoised"] <= 1
    assert logged["loss"] == pytest.approx(logged["boundary_loss"] + logged["type_loss"], rel=1e-4)
