"""Algorithm 1 by hand and against a slow twin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.core.spans import Span
from hf_spanner.methods.locate_and_label.soft_nms_locate_and_label import after_soft_nms, soft_nms


def test_a_worse_span_decays_by_hand() -> None:
    """A (0, 4) .99 and B (0, 3) .60: IoU .75 >= .6, so B becomes .6 x .9 = .54, above delta .5."""
    taken = soft_nms(np.array([[0, 4], [0, 3]]), np.array([0.99, 0.60]), iou=0.6, decay=0.9, threshold=0.5)
    assert taken == pytest.approx([0.99, 0.54])


def test_a_span_that_decays_below_the_threshold_is_dropped() -> None:
    """.55 x .9 = .495 lies below .5."""
    taken = soft_nms(np.array([[0, 4], [0, 3]]), np.array([0.99, 0.55]), iou=0.6, decay=0.9, threshold=0.5)
    assert taken == pytest.approx([0.99, -1.0])


def test_a_small_overlap_does_not_decay() -> None:
    """(0, 4) and (0, 2) have IoU .5, which is below .6."""
    taken = soft_nms(np.array([[0, 4], [0, 2]]), np.array([0.99, 0.55]), iou=0.6, decay=0.9, threshold=0.5)
    assert taken == pytest.approx([0.99, 0.55])


def test_each_better_span_decays_once() -> None:
    """Of (0, 10), (0, 9) and (0, 8) the last overlaps both by at least .8, so it has .9 x .5 x .5 = .225."""
    spans, scores = np.array([[0, 10], [0, 9], [0, 8]]), np.array([0.99, 0.98, 0.9])
    assert soft_nms(spans, scores, iou=0.8, decay=0.5, threshold=0.1) == pytest.approx([0.99, 0.49, 0.225])


def test_labels_of_one_span_stay_or_go_together_with_their_scores() -> None:
    """(0, 9) decays to .8 times .7 for its likeliest label, below .6, so its other label goes with it."""
    spans = [Span(0, 9, 1, 0.6), Span(0, 10, 0, 0.7), Span(0, 10, 1, 0.9), Span(0, 9, 0, 0.7)]
    decoding = {"overlap": "any", "nms_iou": 0.7, "nms_decay": 0.8, "nms_threshold": 0.6}
    kept = after_soft_nms(spans, decoding, {0: "A", 1: "B"})
    assert sorted(kept) == [Span(0, 10, 0, 0.7), Span(0, 10, 1, 0.9)]
    assert len(after_soft_nms(spans, decoding | {"nms_threshold": 0.5}, {0: "A", 1: "B"})) == 4


def test_no_spans() -> None:
    assert len(soft_nms(np.zeros((0, 2), dtype=int), np.zeros(0), iou=0.5, decay=0.5, threshold=0.5)) == 0


def literal_soft_nms(spans: np.ndarray, scores: np.ndarray, iou: float, decay: float, threshold: float) -> list[float]:
    """Algorithm 1 with a list that is sorted again after each item."""
    items = enumerate(zip(scores.tolist(), spans.tolist(), strict=True))
    left = [[score, start, end, place] for place, (score, (start, end)) in items]
    taken = [-1.0] * len(left)
    while left:
        left.sort(key=lambda item: (-item[0], item[1] - item[2], item[1], item[3]))
        score, start, end, place = left.pop(0)
        if score > threshold:
            taken[place] = score
        else:
            continue
        for item in left:
            words, others = set(range(start, end)), set(range(item[1], item[2]))
            if words & others and len(words & others) >= iou * len(words | others):
                item[0] *= decay
    return taken


ITEMS = st.tuples(st.integers(0, 12), st.integers(1, 8), st.floats(0.01, 1.0))


@given(
    st.lists(ITEMS, max_size=12, unique_by=lambda item: item[:2]),
    st.sampled_from([0.5, 0.6, 0.75, 1.0]),
    st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    st.sampled_from([0.0, 0.3, 0.5]),
)
def test_equals_the_literal_algorithm(
    items: list[tuple[int, int, float]], iou: float, decay: float, threshold: float
) -> None:
    spans = np.array([[start, start + length] for start, length, _ in items], dtype=int).reshape(-1, 2)
    scores = np.array([score for *_, score in items])
    expected = literal_soft_nms(spans, scores, iou, decay, threshold)
    assert soft_nms(spans, scores, iou=iou, decay=decay, threshold=threshold).tolist() == pytest.approx(expected)
