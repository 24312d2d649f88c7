"""`kill -9` while training, while a checkpoint is written and while predicting: the end is as if nothing had been."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("killed_processes.py")
SENTENCE = "Ana met Bo in Oslo and then they walked all the way to Lake Tarn before it rained . "
TEXTS = [(SENTENCE[place % 5 :] * (place % 7))[: 3 * place].strip() for place in range(100)]


def outcome(run_python: Callable[..., str], folder: Path, work: str, method: str, *moments: str) -> dict:
    return json.loads(run_python(PROGRAM, work, folder, method, *moments).splitlines()[-1])


def assert_as_if_nothing_had_been(outcomes: dict, *moments: str) -> None:
    assert list(outcomes) == list(moments)
    for moment, work in outcomes.items():
        assert -9 in work["codes"], (moment, work)
        assert (work["last"], work["differences"]) == (0, []), (moment, work)


def num_kills(outcomes: dict) -> int:
    return sum(work["codes"].count(-9) for work in outcomes.values())


@pytest.mark.slow
def test_killed_while_training(
    saved_by_method: Callable, run_python: Callable, method: str, record_property: Callable
) -> None:
    """Kills come between checkpoints, in each part of one, as an older one is removed, in the last save, at random."""
    moments = ("step", "weights", "optimizer", "state", "rotation", "final_save", "random")
    outcomes = outcome(run_python, saved_by_method(method), "train", method, *moments)
    record_property("kills", num_kills(outcomes))
    assert_as_if_nothing_had_been(outcomes, *moments)


@pytest.mark.slow
def test_killed_while_predicting(
    saved_by_method: Callable, run_python: Callable, method: str, record_property: Callable
) -> None:
    """It is killed between chunks, inside a line, and at random; the file is equal to the byte, scores included."""
    folder = saved_by_method(method)
    (folder / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    moments = ("between", "line", "random")
    outcomes = outcome(run_python, folder, "predict", method, *moments)
    record_property("kills", num_kills(outcomes))
    assert_as_if_nothing_had_been(outcomes, *moments)
    lines = (folder / "whole" / "entities.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["text"] for line in lines] == TEXTS
    assert any(json.loads(line)["entities"] for line in lines)
