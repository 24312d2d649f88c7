"""The curves of a training, drawn from the state that the Trainer saved."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerBase

from hf_spanner import SpanNERModel, SpanNERTrainer, SpanNERTrainingArguments
from hf_spanner.analysis.training_curves import TrainingCurves, training_curves

HISTORY = [
    {"epoch": 1.0, "loss": 3.5, "learning_rate": 0.1, "step": 4},
    {"epoch": 1.0, "eval_loss": 2.5, "eval_f1": 0.25, "eval_ece": 0.125, "step": 4},
    {"epoch": 2, "loss": 1, "step": 8},
    {"epoch": 2.0, "eval_loss": 3.0, "eval_f1": 0.5, "eval_ece": 0.25, "step": 8},
    {"epoch": 2.0, "train_loss": 2.25, "train_runtime": 1.0, "step": 8},
]
CURVES = TrainingCurves(
    loss=[(1.0, 3.5), (2.0, 1.0)],
    eval_loss=[(1.0, 2.5), (2.0, 3.0)],
    eval_f1=[(1.0, 0.25), (2.0, 0.5)],
    eval_ece=[(1.0, 0.125), (2.0, 0.25)],
)


def save_state(folder: Path, history: Any) -> Path:
    """Write a folder with a state of that history."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "trainer_state.json").write_text(json.dumps({"epoch": 2.0, "log_history": history}), encoding="utf-8")
    return folder


def test_logged_values_become_curves_over_epochs(tmp_path: Path) -> None:
    """The mean over the whole training is not a point of the curve."""
    assert training_curves(save_state(tmp_path, HISTORY)) == CURVES


def test_values_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    """Python writes them into JSON as NaN, which no other reader takes."""
    diverged = [*HISTORY, {"epoch": 3.0, "loss": float("nan"), "eval_loss": float("inf")}]
    assert training_curves(save_state(tmp_path, diverged)) == CURVES


def test_the_last_checkpoint_counts_unless_the_folder_has_a_state(tmp_path: Path) -> None:
    """The last one is found by number, not by name; a checkpoint without a state and other folders are passed over."""
    save_state(tmp_path / "checkpoint-9", HISTORY[:1])
    save_state(tmp_path / "checkpoint-10", HISTORY)
    save_state(tmp_path / "checkpoint-best", HISTORY[:1])
    (tmp_path / "checkpoint-11").mkdir()
    assert training_curves(tmp_path) == CURVES
    save_state(tmp_path, HISTORY[:1])
    assert training_curves(tmp_path) == TrainingCurves(loss=[(1.0, 3.5)], eval_loss=[], eval_f1=[], eval_ece=[])


def test_no_state_and_nothing_logged_give_none(tmp_path: Path) -> None:
    """This also holds for a folder that does not exist."""
    assert training_curves(tmp_path) is None
    assert training_curves(tmp_path / "absent") is None
    assert training_curves(save_state(tmp_path, [])) is None
    assert training_curves(save_state(tmp_path, HISTORY[-1:])) is None


def test_they_are_what_the_trainer_logged(
    tiny_model: Callable[..., SpanNERModel],
    tokenizer: PreTrainedTokenizerBase,
    rows: list[dict[str, Any]],
    tmp_path: Path,
) -> None:
    """The state saved at the end has all epochs.

    The checkpoint that is kept is the best one and has only the epochs up to its own.
    """
    args = SpanNERTrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=2, use_cpu=True, report_to="none", disable_tqdm=True
    )
    trainer = SpanNERTrainer(tiny_model(), args, rows, rows, tokenizer, lambda predicted, gold: {"f1": 0.5, "ece": 0.1})
    trainer.train()
    checkpoint_curves = training_curves(tmp_path)
    assert checkpoint_curves is not None
    assert [len(curve) for curve in vars(checkpoint_curves).values()] == [1] * 4
    trainer.save_state()
    curves = training_curves(tmp_path)
    assert curves is not None
    for name, curve in vars(curves).items():
        logged = [(entry["epoch"], entry[name]) for entry in trainer.state.log_history if name in entry]
        assert curve == logged
        assert len(curve) == 2


@pytest.mark.parametrize(
    ("history", "message"),
    [
        (None, r"trainer_state\.json: log_history must be a list of objects, got None"),
        ([1], r"trainer_state\.json: log_history must be a list of objects, got \[1\]"),
        ([{"loss": 1.0}], r"trainer_state\.json: log_history\[0\]\.epoch must be a number, got None"),
        ([{}, {"epoch": 1.0, "loss": "low"}], r"log_history\[1\]\.loss must be a number, got 'low'"),
        ([{"epoch": 1.0, "eval_f1": True}], r"log_history\[0\]\.eval_f1 must be a number, got True"),
    ],
)
def test_a_malformed_field_is_named_with_its_file(tmp_path: Path, history: Any, message: str) -> None:
    """The message also names the place in the list."""
    with pytest.raises(ValueError, match=message):
        training_curves(save_state(tmp_path, history))


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[]"])
def test_a_malformed_file_is_named(tmp_path: Path, content: bytes) -> None:
    """The file holds broken JSON, is not UTF-8, or holds no object."""
    (tmp_path / "trainer_state.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"trainer_state\.json"):
        training_curves(tmp_path)


@pytest.mark.parametrize("text", ['{"cut', "[" * 100_000, '{"log_history": ' + "[" * 100_000])
def test_a_state_that_is_cut_or_nested_without_end_is_an_error_with_its_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "trainer_state.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"trainer_state\.json must be JSON in UTF-8"):
        training_curves(tmp_path)
