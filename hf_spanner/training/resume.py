"""What exact resume needs: which checkpoints are whole, and an order of rows that follows from the epoch."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shutil import disk_usage
from tempfile import TemporaryFile

import torch
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_pt_utils import LengthGroupedSampler
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.utils import logging

logger = logging.get_logger(__name__)


class EpochSampler(LengthGroupedSampler):
    """Rows grouped by length, in an order that follows from the seed and the number of the epoch.

    The library draws it from the global generator: a run resumed inside a later epoch would see other rows again or not
    at all, and several processes, whose generators differ once they have drawn different numbers, would not share one
    order.

    Args:
        batch_size: Rows that are grouped.
        lengths: Length of each row.
        seed: Seed of the run.
        epoch: Gives the number of the epoch that begins.
    """

    def __init__(self, batch_size: int, lengths: Sequence[int], seed: int, epoch: Callable[[], int]) -> None:
        super().__init__(batch_size, lengths=list(lengths))
        self.seed, self.epoch = seed, epoch

    def __iter__(self) -> Iterator[int]:
        """Indices of the rows for the epoch that begins."""
        self.generator = torch.Generator().manual_seed((self.seed << 31) + self.epoch())
        return super().__iter__()


def check_writable(folder: str | Path) -> None:
    """Raise an OSError if no file can be written to the folder: now and not after an epoch of work."""
    with TemporaryFile(dir=folder):
        pass


def last_complete_checkpoint(folder: str | Path) -> Path:
    """The checkpoint of the highest step that was written to its end.

    Raises:
        ValueError: If there is none.
    """
    paths = Path(folder).glob(f"{PREFIX_CHECKPOINT_DIR}-*")
    steps = {step: path for path in paths if (step := checkpoint_step(path)) is not None}
    for _, path in sorted(steps.items(), reverse=True):
        if is_complete(path):
            return path
        logger.warning("%s was not written to its end and is passed over", path)
    raise ValueError(f"{folder} holds no complete checkpoint to go on from")


def checkpoint_step(checkpoint: Path) -> int | None:
    """N of a path `checkpoint-N`; None if N is no number."""
    text = checkpoint.name.removeprefix(f"{PREFIX_CHECKPOINT_DIR}-")
    return int(text) if text.isdecimal() else None


def is_complete(checkpoint: Path) -> bool:
    """Whether the file that is written last is there and whole."""
    try:
        json.loads((checkpoint / TRAINER_STATE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # absent, unreadable, cut off, no text or nested without end
        return False
    return True


def note_incomplete(error: Exception, checkpoint: Path) -> None:
    """Add to an error that a checkpoint was left incomplete, where that is so."""
    if checkpoint.is_dir() and not is_complete(checkpoint):
        free = disk_usage(checkpoint).free
        error.add_note(f"{checkpoint} is incomplete, {free:,} bytes free on its disk; earlier ones are untouched")
