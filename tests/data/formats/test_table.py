"""The table of formats."""

from pathlib import Path

import pytest

from hf_spanner.data.formats.table import FORMATS, format_of_path


def test_suffixes_show_one_format_each():
    suffixes = [suffix for format in FORMATS.values() for suffix in format.suffixes]
    assert len(suffixes) == len(set(suffixes))


def test_every_format_is_read_or_written():
    assert all(format.is_read or format.write is not None for format in FORMATS.values())
    assert all(format.title for format in FORMATS.values())


@pytest.mark.parametrize(
    ("name", "format"),
    [("a.jsonl.gz", "jsonl"), ("a.json", "jsonl"), ("a.conll", "conll"), ("a.txt", None), ("a", None)],
)
def test_a_path_shows_its_format_by_its_suffix(name, format):
    assert format_of_path(Path(name)) == format
