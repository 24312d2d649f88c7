"""Spans: overlap, enumeration and packing against plain Python over sets and lists."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.core.spans import PADDING, Span, enumerate_spans, pack_candidates, pack_spans, span_iou, unpack_spans

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


@given(st.integers(0, 9), st.integers(1, 11))
def test_enumeration_is_every_span_once_in_order(num_words: int, max_length: int) -> None:
    expected = [
        [start, end]
        for start in range(num_words)
        for end in range(start + 1, num_words + 1)
        if end - start <= max_length
    ]
    assert enumerate_spans(num_words, max_length).tolist() == expected


@given(st.lists(st.lists(SPANS, max_size=5), max_size=4))
def test_packing_and_back_changes_nothing(spans: list[list[Span]]) -> None:
    packed = pack_spans(spans)
    assert packed.shape == (len(spans), max(map(len, spans), default=0), 4)
    assert unpack_spans(packed) == spans


@given(st.lists(st.lists(SPANS, max_size=5), min_size=1, max_size=4))
def test_flat_lists_pack_as_lists_of_sentences_do(spans: list[list[Span]]) -> None:
    flat = [span for of_sentence in spans for span in of_sentence]
    sentence = torch.tensor([row for row, of_sentence in enumerate(spans) for _ in of_sentence], dtype=torch.long)
    columns = [torch.tensor([span[place] for span in flat], dtype=torch.long) for place in range(3)]
    scores = torch.tensor([span.score for span in flat], dtype=torch.float32)
    packed = pack_candidates(sentence, *columns, scores, len(spans))
    assert torch.equal(packed, pack_spans(spans))


def test_padding_rows_are_negative_throughout() -> None:
    packed = pack_spans([[], [Span(0, 1, 0, 0.5)]])
    assert packed[0].tolist() == [[PADDING] * 4]
    assert packed.dtype == torch.float32
