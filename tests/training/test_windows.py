"""Rows cut into windows: nothing is lost in silence, and context comes from the same document only."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from hf_spanner.core.features import WordTokenizer
from hf_spanner.core.prediction import TextReader
from hf_spanner.methods.boundary_smoothing import BoundarySmoothingConfig
from hf_spanner.training.windows import WindowReport, window_rows

LABELS = {0: "LOC", 1: "ORG", 2: "PER"}


def settings_of(
    window_size: int = 510, window_overlap: int = 127, context_sentences: int = 0
) -> BoundarySmoothingConfig:
    return BoundarySmoothingConfig(
        id2label=LABELS,
        label2id={label: index for index, label in LABELS.items()},
        window_size=window_size,
        window_overlap=window_overlap,
        context_sentences=context_sentences,
    )


Cut = Callable[..., tuple[list[dict[str, Any]], WindowReport]]


@pytest.fixture
def cut(tokenizer: PreTrainedTokenizerBase) -> Cut:
    """Cuts rows into windows: `cut(rows, window_size, window_overlap, context_sentences)`.

    The letter `a` is one token, so tokens of `a` words count themselves.
    """

    def rows_cut(rows: list[dict[str, Any]], *sizes: int, **fields: int) -> tuple[list[dict[str, Any]], WindowReport]:
        config = settings_of(*sizes, **fields)
        return window_rows(rows, TextReader(tokenizer, config), config.label2id)

    return rows_cut


def column(windows: list[dict[str, Any]], name: str) -> list[Any]:
    return [window[name] for window in windows]


def row(num_words: int, *entities: tuple[int, int, str], **fields: Any) -> dict[str, Any]:
    entity_dicts = [{"start": start, "end": end, "label": label} for start, end, label in entities]
    return {"tokens": ["a"] * num_words, "entities": entity_dicts, **fields}


def test_a_row_that_fits_is_one_window_with_all_its_entities(cut: Cut) -> None:
    rows = [row(5, (0, 5, "ORG"), (1, 2, "PER")), row(0), row(2)]
    windows, report = cut(rows)
    assert column(windows, "tokens") == [source_row["tokens"] for source_row in rows]
    assert column(windows, "entities") == [source_row["entities"] for source_row in rows]
    assert column(windows, "row") == [0, 1, 2]
    assert column(windows, "length") == [5, 0, 2]
    assert column(windows, "num_windows") == [1, 1, 1]
    assert (report.rows, report.windows, report.entities, report.examples) == (3, 3, 2, {})
    assert str(report) == "3 rows in 3 windows, 2 entities"


def test_an_entity_goes_to_the_window_that_owns_its_midpoint(cut: Cut) -> None:
    """Ten words lie in windows of six that share two: words 0 to 5 and 4 to 9, with the border at word 5."""
    gold = [(0, 1, "PER"), (4, 5, "PER"), (4, 6, "LOC"), (5, 6, "PER"), (9, 10, "ORG")]
    windows, report = cut([row(10, *gold)], 6, 2)
    assert list(zip(column(windows, "first_word"), column(windows, "num_words"), strict=True)) == [(0, 6), (4, 6)]
    assert column(windows, "num_windows") == [2, 2]
    placed = [
        [(entity["start"], entity["end"], entity["label"]) for entity in entities]
        for entities in column(windows, "entities")
    ]
    assert placed == [[(0, 1, "PER"), (4, 5, "PER"), (4, 6, "LOC")], [(1, 2, "PER"), (5, 6, "ORG")]]
    assert report.examples == {}


def test_what_no_window_can_hold_is_counted_with_an_example(cut: Cut) -> None:
    long = row(10, (2, 8, "ORG"), (2, 9, "ORG"), (0, 1, "DATE"))
    blank = {"tokens": ["Ana", " "], "entities": [{"start": 0, "end": 2, "label": "PER"}]}
    windows, report = cut([long, blank], 6, 2)
    assert (report.longer_than_overlap, report.unknown_label, report.without_tokens) == (2, 1, 1)
    assert report.examples["longer_than_overlap"] == "'a a a a a a' (ORG)"
    assert not any(column(windows, "entities"))
    assert "2 longer than overlap, e.g. 'a a a a a a' (ORG)" in str(report)
    assert "1 unknown label, e.g. 'a' (DATE)" in str(report)
    assert "1 without tokens, e.g. 'Ana  ' (PER)" in str(report)


@pytest.mark.parametrize(("start", "end"), [(0, 4), (2, 2), (-1, 1)])
def test_an_entity_outside_its_row_is_refused(cut: Cut, start: int, end: int) -> None:
    with pytest.raises(ValueError, match="outside its row of 3 words"):
        cut([row(3, (start, end, "PER"))])


@given(st.data())
def test_every_entity_is_in_one_window_or_counted(cut: Cut, data: st.DataObject) -> None:
    """Windows cover all words too; an entity no longer than half the overlap is never lost."""
    num_words = data.draw(st.integers(1, 40))
    size = data.draw(st.integers(2, 12))
    overlap = data.draw(st.integers(1, size - 1))
    place = st.integers(0, num_words - 1)
    spans = data.draw(st.sets(st.tuples(place, place), max_size=8))
    gold = [(min(a, b), max(a, b) + 1, "PER") for a, b in sorted(spans) if a <= b]
    windows, report = cut([row(num_words, *gold)], size, overlap)
    placed, covered = [], set()
    for window in windows:
        first = window["first_word"]
        assert window["num_words"] == len(window["tokens"]) == window["length"] <= size
        covered |= set(range(first, first + window["num_words"]))
        for entity in window["entities"]:
            assert 0 <= entity["start"] < entity["end"] <= window["num_words"]
            placed.append((first + entity["start"], first + entity["end"], entity["label"]))
    assert covered == set(range(num_words))
    assert len(set(placed)) == len(placed)
    lost = set(gold) - set(placed)
    assert set(placed) <= set(gold)
    assert len(lost) == report.longer_than_overlap
    assert all(end - start > overlap for start, end, _ in lost)


def context_of(cut: Cut, rows: list[dict[str, Any]], place: int, **fields: int) -> tuple[list, list]:
    windows, _ = cut(rows, **fields)
    return column(windows, "left_context")[place], column(windows, "right_context")[place]


def test_context_comes_from_the_same_document_in_reading_order(cut: Cut, tokenizer: PreTrainedTokenizerBase) -> None:
    texts = [["a"], ["b", "b"], ["c"], ["the"], ["fill"]]
    documents = ["x", "y", "y", "y", "z"]
    rows = [{"tokens": t, "entities": [], "document": d} for t, d in zip(texts, documents, strict=True)]
    ids = [text.ids for text in WordTokenizer(tokenizer, 127)(texts)]
    left, right = context_of(cut, rows, 2, context_sentences=2)
    assert (left, right) == (ids[1], ids[3])
    left, right = context_of(cut, rows, 1, context_sentences=1)
    assert (left, right) == ([], ids[2])
    left, right = context_of(cut, rows, 1, context_sentences=2)
    assert (left, right) == ([], ids[2] + ids[3])
    assert context_of(cut, rows, 2, context_sentences=0) == ([], [])


def test_rows_of_no_document_have_no_context(cut: Cut) -> None:
    rows = [row(2), row(2), row(2, document=None)]
    assert context_of(cut, rows, 1, context_sentences=2) == ([], [])


@pytest.mark.parametrize(
    ("lengths", "num_left", "num_right"),
    [
        ((9, 4, 9), 3, 3),  # six tokens of room, half on each side
        ((1, 4, 9), 1, 5),  # what one side leaves, the other takes
        ((9, 4, 2), 4, 2),
        ((2, 4, 2), 2, 2),
        ((9, 10, 9), 0, 0),
    ],
)
def test_context_fills_the_window_and_no_more(
    cut: Cut, lengths: tuple[int, ...], num_left: int, num_right: int
) -> None:
    texts = [["b"] * lengths[0], ["a"] * lengths[1], ["c"] * lengths[2]]
    rows = [{"tokens": text, "entities": [], "document": "x"} for text in texts]
    left, right = context_of(cut, rows, 1, window_size=10, window_overlap=2, context_sentences=1)
    assert (len(left), len(right)) == (num_left, num_right)


def test_context_keeps_the_nearest_tokens(cut: Cut, tokenizer: PreTrainedTokenizerBase) -> None:
    texts = [["b", "c", "the"], ["a"] * 2, ["fill", "word", "c"]]
    rows = [{"tokens": text, "entities": [], "document": "x"} for text in texts]
    ids = [text.ids for text in WordTokenizer(tokenizer, 127)(texts)]
    left, right = context_of(cut, rows, 1, window_size=4, window_overlap=2, context_sentences=1)
    assert (left, right) == (ids[0][-1:], ids[2][:1])


def test_rows_of_several_windows_have_no_context(cut: Cut) -> None:
    rows = [row(3, document="x"), row(10, document="x"), row(3, document="x")]
    windows, _ = cut(rows, 6, 2, 1)
    for window in windows:
        assert bool(window["left_context"] or window["right_context"]) == (window["num_windows"] == 1)
