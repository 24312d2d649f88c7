"""What a training prints."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_training import Rows, trained
from transformers import PreTrainedTokenizerBase, PrinterCallback, ProgressCallback, TrainerState

from hf_spanner import SpanNERModel, SpanNERTrainer, SpanNERTrainingArguments
from hf_spanner.training.progress import HEADER, ProgressLines, nothing_found

Make = Callable[..., SpanNERModel]


def run(
    model: SpanNERModel, tokenizer: PreTrainedTokenizerBase, rows: Rows, folder: Path, **arguments: Any
) -> SpanNERTrainer:
    settings = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "num_train_epochs": 2, **arguments}
    args = SpanNERTrainingArguments(output_dir=str(folder), **settings)
    data = {"train_dataset": rows, "eval_dataset": rows}
    trainer = SpanNERTrainer(model=model, args=args, processing_class=tokenizer, **data)
    trainer.train()
    return trainer


def silent(model: SpanNERModel) -> SpanNERModel:
    with torch.no_grad():
        model.biaffine.bias[-1] = 100.0
    return model


def test_a_line_for_each_epoch_with_the_numbers_of_the_log(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    trainer = run(tiny_model(), tokenizer, rows, tmp_path)
    header, *lines = capsys.readouterr().out.splitlines()
    logged = [logs for logs in trainer.state.log_history if "eval_f1" in logs]
    losses = [logs["loss"] for logs in trainer.state.log_history if "loss" in logs]
    assert header == HEADER
    assert len(logged) == 2
    for epoch, (line, loss, logs) in enumerate(zip(lines, losses, logged, strict=False), start=1):
        cells = line.split()
        assert cells[:3] == [str(epoch), f"{loss:.4f}", f"{100 * logs['eval_f1']:.2f}"]
        assert cells[5] == (f"{logs['eval_ece']:.4f}" if "eval_ece" in logs else "none")
    assert lines[1].split()[-1] == "0.0"
    assert lines[2].startswith("kept: the model of epoch ")
    trainer.save_state()
    saved = json.loads((tmp_path / "trainer_state.json").read_text(encoding="utf-8"))
    assert saved["log_history"][0]["loss"] == losses[0]


def test_the_library_prints_nothing_of_its_own(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    for disabled in (True, False):
        trainer = trained(tiny_model(), tokenizer, rows, tmp_path, max_steps=1, disable_tqdm=disabled)
        kinds = [type(callback) for callback in trainer.callback_handler.callbacks]
        assert kinds.count(ProgressLines) == 1
        assert not {PrinterCallback, ProgressCallback} & set(kinds)


def test_without_evaluation_the_losses_are_shown(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    trained(tiny_model(), tokenizer, rows, tmp_path, max_steps=2, logging_strategy="steps", logging_steps=1)
    lines = capsys.readouterr().out.splitlines()[1:]
    assert len(lines) == 2
    assert all(line.split()[2:6] == ["none"] * 4 for line in lines)


def test_several_sets_of_rows_have_a_line_each_with_its_name(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    settings = {"use_cpu": True, "report_to": "none", "max_steps": 1, "metric_for_best_model": "mail_f1"}
    args = SpanNERTrainingArguments(output_dir=str(tmp_path), **settings)
    sets = {"news": rows, "mail": rows[:2]}
    SpanNERTrainer(
        model=tiny_model(), args=args, train_dataset=rows, eval_dataset=sets, processing_class=tokenizer
    ).train()
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[1:3]] == ["news", "mail"]


def test_an_evaluation_outside_of_training_prints_nothing(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    settings = {"use_cpu": True, "report_to": "none", "eval_strategy": "no", "load_best_model_at_end": False}
    args = SpanNERTrainingArguments(output_dir=str(tmp_path), disable_tqdm=True, **settings)
    SpanNERTrainer(model=tiny_model(), args=args, processing_class=tokenizer).evaluate(rows)
    assert capsys.readouterr().out == ""


def test_a_run_that_finds_nothing_says_why(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    run(silent(tiny_model(threshold=0.5)), tokenizer, rows, tmp_path, learning_rate=0.0, head_learning_rate=0.0)
    printed = capsys.readouterr().out
    assert printed.splitlines()[2].split()[2:6] == ["0.00", "0.00", "0.00", "none"]
    assert "No entity was found" in printed
    assert "This run took 2 steps of up to 8 sentences." in printed
    assert "Set min_steps to 200 or num_train_epochs to 200, or more." in printed
    assert "The model's threshold is 0.5; a lower one gives out more." in printed


def test_after_many_steps_the_data_is_to_blame_first(tmp_path: Path) -> None:
    args = SpanNERTrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    text = nothing_found(TrainerState(global_step=300, epoch=3.0), args, 0.0)
    assert "num_train_epochs" not in text
    assert "Look at words and labels of the training rows first" in text
    assert "threshold" not in text


def test_epochs_are_counted_also_where_a_training_ends_inside_one(tmp_path: Path) -> None:
    """12 steps are 1.2 epochs of 10, so 200 steps are 20 epochs."""
    args = SpanNERTrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    text = nothing_found(TrainerState(global_step=12, epoch=1.2), args, 0.0)
    assert "num_train_epochs to 20, or more." in text


def test_memory_is_pinned_only_for_an_accelerator(tmp_path: Path) -> None:
    args = SpanNERTrainingArguments(output_dir=str(tmp_path), report_to="none")
    assert args.dataloader_pin_memory == torch.accelerator.is_available()
