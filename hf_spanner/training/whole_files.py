"""Text files that are either there as a whole or not there at all."""

from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a UTF-8 text under another name of the same folder and rename it, so that a failure leaves what was there.

    Raises:
        OSError: If the folder cannot be written or the disk is full.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
