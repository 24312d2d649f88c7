"""Whole checkpoints are told from broken ones, and the order of rows follows from seed and epoch."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch

from hf_spanner.training.resume import EpochSampler, check_writable, is_complete, last_complete_checkpoint

LENGTHS = [5, 3, 9, 1, 7, 2, 8, 4, 6, 10] * 3


def test_the_order_follows_from_seed_and_epoch_and_draws_nothing() -> None:
    epochs = iter([0, 1, 1, 0])
    sampler = EpochSampler(4, LENGTHS, seed=7, epoch=lambda: next(epochs))
    before = torch.get_rng_state()
    orders = [list(sampler) for _ in range(4)]
    assert torch.get_rng_state().equal(before)
    assert orders[0] == orders[3] != orders[1] == orders[2]
    assert all(sorted(order) == list(range(len(LENGTHS))) for order in orders)
    assert list(EpochSampler(4, LENGTHS, seed=8, epoch=lambda: 0)) != orders[0]


def test_neighbours_are_of_like_length() -> None:
    """In a group of 100 rows lengths fall, so neighbours differ far less than 3.3, the mean difference of two rows."""
    lengths = LENGTHS * 14
    in_order = [lengths[row] for row in EpochSampler(4, lengths, seed=0, epoch=lambda: 0)]
    assert in_order[0] == 10
    assert sum(abs(left - right) for left, right in pairwise(in_order)) / len(lengths) < 0.5


def test_the_last_complete_checkpoint_is_found(tmp_path: Path) -> None:
    for step, text in ((2, "{}"), (10, "{}"), (12, '{"cut'), (14, None), (16, "[" * 100_000)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        if text is not None:
            (folder / "trainer_state.json").write_text(text, encoding="utf-8")
        assert is_complete(folder) == (text == "{}")
    assert last_complete_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
    with pytest.raises(ValueError, match="checkpoint-2 holds no complete checkpoint"):
        last_complete_checkpoint(tmp_path / "checkpoint-2")


def test_what_is_no_checkpoint_is_passed_over(tmp_path: Path) -> None:
    """There are copies under other names, a plain file, and a state that is no text."""
    for name in ("checkpoint-2", "checkpoint-10-old", "checkpoint-10_bak", "checkpoint-11"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "trainer_state.json").write_text("{}", encoding="utf-8")
    (tmp_path / "checkpoint-11" / "trainer_state.json").write_bytes(b'{"a": "\xff"}')
    (tmp_path / "checkpoint-99").touch()
    assert last_complete_checkpoint(tmp_path) == tmp_path / "checkpoint-2"


def test_a_folder_is_tried_before_work_begins(tmp_path: Path) -> None:
    check_writable(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        check_writable(tmp_path / "absent")
