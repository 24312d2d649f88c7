"""The table of words: its counts by hand, and the promise of its page."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "words.md"


@pytest.fixture
def words_script(benchmark_script: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_script("words")


def row(text: str, *entities: tuple[int, int]) -> dict[str, Any]:
    return {"tokens": text.split(), "entities": [{"start": start, "end": end} for start, end in entities]}


def test_text_as_written_has_no_blank_where_people_write_none(words_script: ModuleType) -> None:
    words = ["He", "(", "Bo", ")", "did", "n't", ",", "5", "\u5317", "\u4eac", "."]
    text, offsets = words_script.joined_text(words, as_written=True)
    assert text == "He (Bo) didn't, 5\u5317\u4eac."
    assert [text[start:end] for start, end in offsets] == words
    assert words_script.joined_text(words, as_written=False)[0] == " ".join(words)


def test_counts_by_hand(words_script: ModuleType) -> None:
    """No rule cuts `U.S`, one cuts `end.Start`, and one joins the two dots that the corpus parts."""
    rows = [row("U.S end.Start . .", (0, 1), (1, 2), (3, 4)), row("Bo .", (0, 1))]
    counts = words_script.agreement(rows, split_hyphens=False, as_written=True)
    assert (counts.borders, counts.found_borders) == (8, 7)
    assert (counts.words, counts.same_words) == (6, 3)
    assert counts.kinds == {"cuts `<letter>.`": 1, "cuts `.<letter>`": 1, "joins `..`": 1}
    assert counts.examples["joins `..`"] == "d.Start.."


def test_words_that_agree_have_no_disagreement(words_script: ModuleType) -> None:
    assert list(words_script.disagreements("a1", [(0, 2)], [(0, 2)])) == []
    assert [kind for kind, _ in words_script.disagreements("a1", [(0, 2)], [(0, 1), (1, 2)])] == [
        "cuts `<letter><digit>`"
    ]


def test_every_corpus_keeps_its_borders() -> None:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|") and "%" in line]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    shares = {name: float(share.rstrip("%")) for name, share, *_ in cells}
    assert len(shares) == 22
    assert {"conll2003", "gum", "litbank", "wnut17"} < shares.keys()
    assert min(shares.values()) >= 99.98
