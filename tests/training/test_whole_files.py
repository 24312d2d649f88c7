"""A file is written as a whole or left as it was."""

from pathlib import Path

import pytest

from hf_spanner.training.whole_files import write_whole


def test_a_text_is_written_over_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "card.md"
    write_whole(path, "a longer text\n")
    write_whole(path, "Zo\u00eb\n")
    assert path.read_bytes() == "Zo\u00eb\n".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_older_text_and_nothing_else(tmp_path: Path) -> None:
    """Half of a character pair cannot be encoded, after other characters were."""
    path = tmp_path / "card.md"
    write_whole(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "new \ud800")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(NotADirectoryError):
        write_whole(path / "inner.md", "new")
