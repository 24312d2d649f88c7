"""Spans: overlap, enumeration and packing, compared with plain Python over sets and lists."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.core.spans import (
    PADDING,
    Limits,
    Span,
    legal_gold,
    pack_candidates,
    pack_spans,
    span_iou,
    unpack_spans,
)

BORDERS = st.tuples(st.integers(0, 12), st.integers(1, 6)).map(lambda pair: (pair[0], pair[0] + pair[1]))
SPANS = st.builds(
    lambda border, label, score: Span(*border, label, score),
    BORDERS,
    st.integers(0, 4),
    st.floats(0, 1, width=32),
)


@given(st.lists(BORDERS, min_size=1, max_size=6), st.lists(BORDERS, min_size=1, max_size=6))
def test_iou_is_that_of_the_sets_of_words(first: list, second: list) -> None:
    overlap = span_iou(torch.tensor([first]), torch.tensor([second]))
    assert overlap.dtype == torch.float32
    for row, (start, end) in zip(overlap[0], first, strict=True):
        for value, (other_start, other_end) in zip(row.tolist(), second, strict=True):
            words, others = set(range(start, end)), set(range(other_start, other_end))
            assert value == pytest.approx(len(words & others) / len(words | others))


def test_iou_worked_by_hand() -> None:
    """[1, 4) and [1, 5) share 3 of 4 words; [0, 2) and [1, 5) share 1 of 5."""
    overlap = span_iou(torch.tensor([[[1, 4], [0, 2]]]), torch.tensor([[[1, 5]]]))
    assert overlap.tolist() == [[[0.75], [pytest.approx(0.2)]]]


def test_iou_with_padding_is_zero() -> None:
    overlap = span_iou(torch.tensor([[[0, 3]]]), torch.tensor([[[PADDING, PADDING], [0, 3]]]))
    assert overlap.tolist() == [[[0.0, 1.0]]]


def test_iou_of_unequal_batches_is_an_error() -> None:
    with pytest.raises(ValueError, match="equal size, got 1 and 2"):
        span_iou(torch.zeros(1, 1, 2), torch.zeros(2, 1, 2))


@given(st.lists(st.lists(SPANS, max_size=5), max_size=4))
def test_packing_and_back_changes_nothing(spans: list[list[Span]]) -> None:
    packed = pack_spans(spans)
    assert packed.shape == (len(spans), max(map(len, spans), default=0), 4)
    assert unpack_spans(packed) == spans


@given(st.lists(st.lists(SPANS, max_size=5), min_size=1, max_size=4))
def test_flat_lists_pack_as_lists_of_sentences_do(spans: list[list[Span]]) -> None:
    flat = [span for sentence_spans in spans for span in sentence_spans]
    sentence = torch.tensor([row for row, sentence_spans in enumerate(spans) for _ in sentence_spans], dtype=torch.long)
    columns = [torch.tensor([span[place] for span in flat], dtype=torch.long) for place in range(3)]
    scores = torch.tensor([span.score for span in flat], dtype=torch.float32)
    packed = pack_candidates(sentence, *columns, scores, len(spans))
    assert torch.equal(packed, pack_spans(spans))


def test_padding_rows_are_negative_throughout() -> None:
    packed = pack_spans([[], [Span(0, 1, 0, 0.5)]])
    assert packed[0].tolist() == [[PADDING] * 4]
    assert packed.dtype == torch.float32


def test_gold_is_sorted_unique_and_legal() -> None:
    """Repeats count once, sorted by start, end and label.

    A gold span must not be empty, lie outside, lie on words without tokens, or have an unknown label.
    """
    word_mask = torch.tensor([[True, False, True, True, False]])
    rows = [[2, 4, 1], [0, 1, 2], [2, 4, 0], [0, 1, 2], [1, 3, 0], [2, 5, 0], [0, 3, 1], [3, 9, 0], [2, 2, 0]]
    labels = torch.tensor([[*rows, [0, 1, 3], [0, 1, -1], [3, 2, 0], [-100] * 3]])
    gold = legal_gold(labels, word_mask, 3)
    assert gold.shape == labels.shape
    assert gold[0, :4].tolist() == [[0, 1, 2], [0, 3, 1], [2, 4, 0], [2, 4, 1]]
    assert (gold[0, 4:] == PADDING).all()


def test_gold_of_a_batch_without_any_has_one_row_of_padding() -> None:
    labels, word_mask = torch.zeros(2, 0, 3, dtype=torch.long), torch.ones(2, 4, dtype=torch.bool)
    assert legal_gold(labels, word_mask, 3).tolist() == [[[PADDING] * 3]] * 2


@given(data=st.data())
def test_gold_equals_a_set_sorted(data: st.DataObject) -> None:
    num_words = data.draw(st.integers(1, 6))
    mask = data.draw(st.lists(st.booleans(), min_size=num_words, max_size=num_words))
    number = st.integers(0, num_words + 1)
    rows = data.draw(st.lists(st.tuples(number, number, st.integers(0, 3)), max_size=6))
    labels = torch.tensor([*rows, [PADDING] * 3])[None]
    gold = legal_gold(labels, torch.tensor([mask]), 3)[0].tolist()
    legal = [
        row for row in set(rows) if row[0] < row[1] <= num_words and mask[row[0]] and mask[row[1] - 1] and row[2] < 3
    ]
    assert [tuple(row) for row in gold if row[0] >= 0] == sorted(legal)
    assert gold[len(legal) :] == [[PADDING] * 3] * (len(gold) - len(legal))


def test_limits_count_what_lies_beyond_them() -> None:
    """There are four different spans on three pairs of boundaries, and one span has three words."""
    gold = [(0, 1, 0), (0, 1, 1), (0, 1, 1), (1, 4, 0), (2, 4, 0)]
    assert Limits().num_beyond(gold) == 0
    assert Limits(one_label=True).num_beyond(gold) == 1
    assert Limits(max_length=2).num_beyond(gold) == 1
    assert Limits(max_spans=3).num_beyond(gold) == 1
    assert Limits(one_label=True, max_length=2, max_spans=1).num_beyond(gold) == 3
    assert Limits(one_label=True, max_length=2, max_spans=1).num_beyond([]) == 0
