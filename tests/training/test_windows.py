"""Rows cut into windows: nothing is lost in silence, and context comes from the same document only."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from hf_spanner.core import prediction
from hf_spanner.core.features import Window, WordTokenizer, plan_windows
from hf_spanner.core.prediction import TextReader, merge_windows, window_owners
from hf_spanner.methods.boundary_smoothing import BoundarySmoothingConfig
from hf_spanner.training.windows import EvaluationWindows, WindowReport, window_rows

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


def spans_of(window: dict[str, Any]) -> list[tuple[int, int, str]]:
    """The entities of a window, in its words."""
    return [(entity["start"], entity["end"], entity["label"]) for entity in window["entities"]]


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


def test_an_entity_belongs_to_every_window_that_holds_it(cut: Cut) -> None:
    """Ten words lie in windows of six that share two: words 0 to 5 and 4 to 9; (3, 5) fits into the first alone."""
    gold = [(0, 1, "PER"), (3, 5, "PER"), (4, 5, "PER"), (4, 6, "LOC"), (5, 6, "PER"), (5, 7, "LOC"), (9, 10, "ORG")]
    windows, report = cut([row(10, *gold)], 6, 2)
    assert list(zip(column(windows, "first_word"), column(windows, "num_words"), strict=True)) == [(0, 6), (4, 6)]
    assert column(windows, "num_windows") == [2, 2]
    assert list(map(spans_of, windows)) == [
        [(0, 1, "PER"), (3, 5, "PER"), (4, 5, "PER"), (4, 6, "LOC"), (5, 6, "PER")],
        [(0, 1, "PER"), (0, 2, "LOC"), (1, 2, "PER"), (1, 3, "LOC"), (5, 6, "ORG")],
    ]
    assert report.examples == {}


def test_no_window_shows_an_entity_and_calls_it_none(cut: Cut) -> None:
    """Sixty words with an entity at each third, in windows of twenty that share ten: all 33 that are seen are taught.

    The windows begin at words 0, 10, 20, 30 and 40, and hold 7, 6, 7, 7 and 6 multiples of three.
    """
    windows, _ = cut([row(60, *((place, place + 1, "PER") for place in range(0, 60, 3)))], 20, 10)
    assert [len(window["entities"]) for window in windows] == [7, 6, 7, 7, 6]


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


PLANS = st.integers(2, 12).flatmap(lambda size: st.tuples(st.just(size), st.integers(1, size - 1)))


@given(st.lists(st.sampled_from(["a", "aa a", "abcd", " "]), min_size=1, max_size=30), PLANS, st.data())
def test_a_window_has_exactly_the_entities_that_lie_whole_in_it(
    cut: Cut, words: list[str], plan: tuple[int, int], data: st.DataObject
) -> None:
    """Each window is searched for each entity; words have one token, several or none.

    What lies in no window is counted once, and these are the very entities that the window owning their midpoint, which
    alone may give them out, does not hold.
    """
    place = st.integers(0, len(words) - 1)
    drawn = data.draw(st.sets(st.tuples(place, place), max_size=8))
    gold = [(min(a, b), max(a, b) + 1, "PER") for a, b in sorted(drawn)]
    gold = sorted({(start, end, label) for start, end, label in gold if words[start] != " " != words[end - 1]})
    entities = [{"start": start, "end": end, "label": label} for start, end, label in gold]
    windows, report = cut([{"tokens": words, "entities": entities}], *plan)
    for window in windows:
        first, last = window["first_word"], window["first_word"] + window["num_words"]
        assert window["tokens"] == words[first:last]
        inside = [(start - first, end - first, label) for start, end, label in gold if first <= start and end <= last]
        assert spans_of(window) == inside
    assert {place for window in windows for place in places_of(window)} == set(range(len(words)))
    lost = [span for span in gold if not any(span[0] in p and span[1] - 1 in p for p in map(places_of, windows))]
    assert report.longer_than_overlap == len(lost)
    assert all(end - start > 1 for start, end, _ in lost)
    starts, ends = (np.array([span[side] for span in gold], dtype=int) for side in (0, 1))
    owners = window_owners([Window(w["first_word"], w["num_words"]) for w in windows], starts, ends)
    held = [
        place for place, owner in enumerate(owners) if set(range(*gold[place][:2])) <= set(places_of(windows[owner]))
    ]
    assert [gold[place] for place in held] == [span for span in gold if span not in lost]


def places_of(window: dict[str, Any]) -> range:
    """The words of the row that a window holds."""
    return range(window["first_word"], window["first_word"] + window["num_words"])


class CountedWindows(list[Window]):
    """Windows of a text that count how often one of them is looked at."""

    num_looks = 0

    def __iter__(self) -> Iterator[Window]:
        for window in super().__iter__():
            self.num_looks += 1
            yield window

    def __getitem__(self, place: Any) -> Any:
        self.num_looks += 1
        return super().__getitem__(place)


@pytest.mark.parametrize("num_words", [300, 3000])
def test_the_work_on_a_long_row_grows_with_its_windows_not_with_their_square(
    tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch, num_words: int
) -> None:
    """Each window is looked at a few times in all, however many windows and entities the row has."""
    counted = []

    def plan(*sizes: Any) -> CountedWindows:
        counted.append(CountedWindows(plan_windows(*sizes)))
        return counted[-1]

    monkeypatch.setattr(prediction, "plan_windows", plan)
    config = settings_of(20, 10)
    rows = [row(num_words, *((place, place + 1, "PER") for place in range(num_words)))]
    window_rows(rows, TextReader(tokenizer, config), config.label2id)
    (windows,) = counted
    assert len(windows) >= num_words // 10 - 2
    assert windows.num_looks <= 10 * len(windows)
    windows.num_looks = 0
    tables = [np.array([(0, 1, 2, 0.5)], dtype=np.float32)] * len(windows)
    merged = merge_windows(tables, windows, config.merge_settings(), config.decoding())
    assert [span[:3] for span in merged] == [(0, 1, 2)]  # the first word of each other belongs to the window before
    assert windows.num_looks <= 10 * len(windows)


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


def test_rows_with_tags_are_cut_and_evaluated_as_those_with_entities(tokenizer: PreTrainedTokenizerBase) -> None:
    config = settings_of()
    tagged = [
        {"tokens": ["a", "a", "a"], "ner_tags": ["B-PER", "I-PER", "O"]},
        {"tokens": ["a"], "ner_tags": ["B-LOC"]},
    ]
    plain = [row(3, (0, 2, "PER")), row(1, (0, 1, "LOC"))]
    cut_tagged, cut_plain = (
        EvaluationWindows(rows, TextReader(tokenizer, config), config.label2id) for rows in (tagged, plain)
    )
    assert list(cut_tagged) == list(cut_plain)
    assert cut_tagged.gold == cut_plain.gold == [source_row["entities"] for source_row in plain]
    with pytest.raises(ValueError, match=r"^rows, row 0 \(from 0\): ner_tags is .*two truths"):
        window_rows([tagged[0] | {"entities": []}], TextReader(tokenizer, config), config.label2id)
