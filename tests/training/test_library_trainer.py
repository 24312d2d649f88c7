"""The private names of the libraries that are used are still there, and do what they are used for."""

import inspect
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from accelerate import Accelerator
from torch import nn
from torch.utils.data import SequentialSampler
from transformers import PreTrainedTokenizerBase, Trainer

from hf_spanner import SpanNERModel
from hf_spanner.training.library_trainer import LibraryTrainer, forget_preparation
from hf_spanner.training.resume import EpochSampler
from hf_spanner.training.trainer import SpanNERTrainer, SpanNERTrainingArguments

Make = Callable[..., SpanNERModel]


def test_one_process_uses_one_device(
    tiny_model: Make,
    tokenizer: PreTrainedTokenizerBase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The library would split each batch over the devices here."""
    args = SpanNERTrainingArguments(
        output_dir=str(tmp_path), use_cpu=True, eval_strategy="no", load_best_model_at_end=False
    )
    args._n_gpu = 2
    with caplog.at_level(logging.WARNING):
        trainer = SpanNERTrainer(model=tiny_model(), args=args, processing_class=tokenizer)
    assert trainer.args.n_gpu == 1
    assert "2 devices are there and this process uses one" in caplog.text


def test_the_library_still_calls_what_is_overridden() -> None:
    """A name that the library gives up would be overridden without effect."""
    source = inspect.getsource(Trainer)
    for name in ("_save_rng_state", "_get_train_sampler", "_get_eval_sampler"):
        assert name in vars(LibraryTrainer)
        assert f"self.{name}" in source


def test_the_mark_of_a_checkpoint_waits_for_all_processes(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = SpanNERTrainingArguments(
        output_dir=str(tmp_path), use_cpu=True, eval_strategy="no", load_best_model_at_end=False
    )
    trainer = SpanNERTrainer(model=tiny_model(), args=args, processing_class=tokenizer)
    seen = []
    waited = trainer.accelerator.wait_for_everyone
    monkeypatch.setattr(
        trainer.accelerator,
        "wait_for_everyone",
        lambda: (seen.append({path.name for path in tmp_path.rglob("*.*")}), waited()),
    )
    trainer.create_optimizer_and_scheduler(num_training_steps=1)
    trainer._save_checkpoint(trainer.model, None)
    ((*files,),) = seen
    assert "rng_state.pth" in files
    assert "trainer_state.json" not in files
    assert (tmp_path / "checkpoint-0" / "trainer_state.json").exists()


def test_rows_are_ordered_by_epoch_to_train_and_kept_in_order_to_evaluate(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: list, tmp_path: Path
) -> None:
    args = SpanNERTrainingArguments(
        output_dir=str(tmp_path), use_cpu=True, eval_strategy="no", load_best_model_at_end=False
    )
    trainer = SpanNERTrainer(model=tiny_model(), args=args, processing_class=tokenizer, train_dataset=rows)
    loaders = (trainer.get_train_dataloader(), trainer.get_eval_dataloader(trainer.train_dataset))
    assert [type(loader.batch_sampler.sampler) for loader in loaders] == [EpochSampler, SequentialSampler]


def test_a_model_is_prepared_anew() -> None:
    accelerator, model = Accelerator(cpu=True), nn.Linear(1, 1)
    accelerator.prepare(model)
    assert vars(model)["_is_accelerate_prepared"]
    forget_preparation(model)
    assert "_is_accelerate_prepared" not in vars(model)
