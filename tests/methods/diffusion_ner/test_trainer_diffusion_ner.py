"""The paper's optimisation recipe as defaults, frozen epochs, the noise of a step, and the log."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase, TrainerCallback

from hf_spanner import SpanNERModel, SpanNERTrainingArguments
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


def encoder_of(model: SpanNERModel) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.word_encoder.encoder.named_parameters()}


class Watch(TrainerCallback):
    """Notes after each step whether the encoder has moved, and the norm of the gradients before they are clipped."""

    def __init__(self, model: SpanNERModel) -> None:
        self.model, self.last, self.has_moved = model, encoder_of(model), []
        self.norms: list[float] = []

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        self.norms.append(torch.stack([gradient.norm() for gradient in gradients]).norm().item())

    def on_step_end(self, *_: Any, **__: Any) -> None:
        now = encoder_of(self.model)
        self.has_moved.append(any(not torch.equal(value, self.last[name]) for name, value in now.items()))
        self.last = now


@pytest.mark.parametrize(
    ("length", "num_frozen"),
    [
        ({"num_train_epochs": 2, "freeze_encoder_epochs": 1}, 3),
        ({"num_train_epochs": 2, "freeze_encoder_epochs": 0.5}, 2),
        ({"max_steps": 5, "freeze_encoder_epochs": 1}, 3),
        ({"max_steps": 2, "freeze_encoder_epochs": 0}, 0),
        ({"max_steps": 4, "freeze_encoder_epochs": 1, "gradient_accumulation_steps": 2}, 2),
    ],
)
def test_the_encoder_is_frozen_for_its_epochs_and_learns_after_them(
    model: SpanNERModel, trainer_for: MakeTrainer, rows: list, length: dict[str, float], num_frozen: int
) -> None:
    """Five rows in twos are three steps an epoch, or two steps of two batches; half an epoch is two of three steps."""
    trainer = trainer_for(
        model, rows, per_device_train_batch_size=2, warmup_steps=0, learning_rate=1e-3, logging_steps=1,
        logging_strategy="steps", **length,
    )  # fmt: skip
    watch = Watch(model)
    trainer.add_callback(watch)
    head = {name: value.clone() for name, value in model.denoiser.named_parameters()}
    trainer.train()
    assert watch.has_moved == [False] * num_frozen + [True] * (len(watch.has_moved) - num_frozen)
    assert any(not torch.equal(value, head[name]) for name, value in model.denoiser.named_parameters())


def test_a_frozen_encoder_counts_neither_in_the_clipped_norm_nor_in_the_means_of_the_optimiser(
    tiny_model: Make, trainer_for: MakeTrainer, rows: list
) -> None:
    """The norm of a frozen step is that of the head's gradients in the same step without freezing."""
    norms = []
    for frozen in (0, 1):
        model = tiny_model("diffusion_ner", encoder_dropout=0.0)
        trainer = trainer_for(
            model, rows, per_device_train_batch_size=5, warmup_steps=0, max_steps=2, freeze_encoder_epochs=frozen
        )
        step = trainer.training_step
        watch = Watch(model)
        trainer.add_callback(watch)
        of_head: list[float] = []

        def training_step(*args: Any, model: Any = model, step: Any = step, of_head: list = of_head) -> Any:
            loss = step(*args)
            named = model.named_parameters()
            gradients = [p.grad for name, p in named if not name.startswith("word_encoder.encoder.")]
            of_head.append(torch.stack([gradient.norm() for gradient in gradients]).norm().item())
            return loss

        trainer.training_step = training_step
        trainer.train()
        norms.append((watch.norms[0], of_head[0]))
        moments = [
            id(parameter) in map(id, trainer.optimizer.state) for parameter in model.word_encoder.encoder.parameters()
        ]
        assert any(moments)  # the second step is free in both
        steps = {int(trainer.optimizer.state[p]["step"]) for p in model.parameters() if p in trainer.optimizer.state}
        assert steps == ({2} if frozen == 0 else {1, 2})
    (free_norm, free_head), (frozen_norm, frozen_head) = norms
    assert frozen_norm == pytest.approx(frozen_head) == pytest.approx(free_head)
    assert free_norm > frozen_norm


@pytest.mark.parametrize(
    ("length", "trained"), [({}, "1 epochs"), ({"num_train_epochs": 3}, "3 epochs"), ({"max_steps": 5}, "1.667 epochs")]
)
def test_an_encoder_that_would_never_learn_is_refused_before_training(
    model: SpanNERModel, trainer_for: MakeTrainer, rows: list, length: dict[str, float], trained: str
) -> None:
    """The default of five frozen epochs is of the paper's hundred."""
    arguments = {"per_device_train_batch_size": 2, "freeze_encoder_epochs": 5.0, **length}
    before = encoder_of(model)
    with pytest.raises(ValueError, match=f"freeze_encoder_epochs must be below the {trained} that are trained"):
        trainer_for(model, rows, **arguments).train()
    assert all(torch.equal(value, before[name]) for name, value in encoder_of(model).items())


def test_a_loop_of_ones_own_draws_new_noise_after_a_training(
    model: SpanNERModel, trainer_for: MakeTrainer, rows: list
) -> None:
    trainer = trainer_for(model, rows)
    trainer.train()
    assert model.training_seed is None
    batch = trainer.span_collator(rows)
    first, second = (model.train()(**batch).path[:, 0] for _ in range(2))
    assert not torch.equal(first, second)


def test_arguments_of_other_methods_are_refused(
    model: SpanNERModel, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    args = SpanNERTrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    with pytest.raises(ValueError, match="must be DiffusionNERTrainingArguments, got SpanNERTrainingArguments"):
        DiffusionNERTrainer(model=model, args=args, processing_class=tokenizer)


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
    model = tiny_model("diffusion_ner", repeat_targets=repeat_targets)
    trainer = trainer_for(model, rows)
    trainer.train()
    logged = next(entry for entry in trainer.state.log_history if "matched_share" in entry)
    assert logged["matched_share"] == pytest.approx(0.8 if repeat_targets else 1 / 6)
    assert 0 <= logged["iou_noisy"] <= 1
    assert 0 <= logged["iou_denoised"] <= 1
    assert logged["loss"] == pytest.approx(logged["boundary_loss"] + logged["type_loss"], rel=1e-4)
