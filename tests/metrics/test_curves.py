"""Precision and recall over thresholds, by hand and by a brute-force twin."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.metrics.span_ner.curves import precision_recall_curve

scores = st.one_of(st.floats(0, 1), st.integers(0, 10).map(lambda k: k / 10))


def test_curve_by_hand():
    """1 of 2 kept at .9 is right, 2 of 3 at .7, and 3 of 5 at .2; of four gold spans one is never predicted."""
    curve = precision_recall_curve([0.9, 0.2, 0.7, 0.9, 0.2], [True, False, True, False, True], 4)
    assert curve["thresholds"] == [0.9, 0.7, 0.2]
    assert curve["precision"] == [1 / 2, 2 / 3, 3 / 5]
    assert curve["recall"] == [0.25, 0.5, 0.75]
    assert curve["f1"] == [2 / 6, 4 / 7, 6 / 9]
    assert curve["average_precision"] == pytest.approx((1 / 2 + 2 / 3 + 3 / 5) / 4)


def test_perfect_order_reaches_the_recall_of_all_predictions_and_no_more():
    assert precision_recall_curve([0.9, 0.8, 0.1], [1, 1, 0], 2)["average_precision"] == 1.0
    assert precision_recall_curve([0.9, 0.8, 0.1], [1, 1, 0], 4)["average_precision"] == 0.5


@given(st.lists(st.tuples(scores, st.booleans()), max_size=14), st.integers(0, 5), st.randoms(use_true_random=False))
def test_curve_agrees_with_counting_at_every_score(pairs, num_missed, rng):
    num_gold = sum(flag for _, flag in pairs) + num_missed
    points = []
    for threshold in sorted({score for score, _ in pairs}, reverse=True):
        kept = [flag for score, flag in pairs if score >= threshold]
        recall = sum(kept) / num_gold if num_gold else 1.0
        points.append((threshold, sum(kept) / len(kept), recall, 2 * sum(kept) / (len(kept) + num_gold)))
    shuffled = rng.sample(pairs, len(pairs))
    curve = precision_recall_curve([s for s, _ in shuffled], [c for _, c in shuffled], num_gold, zero_division=1.0)
    columns = [curve[name] for name in ("thresholds", "precision", "recall", "f1")]
    assert columns == [pytest.approx(list(column)) for column in zip(*points, strict=True)] or columns == [[]] * 4
    assert len(columns[0]) == len(points)
    area = sum((after[2] - before[2]) * after[1] for before, after in itertools.pairwise([(0, 0, 0), *points]))
    assert curve["average_precision"] == pytest.approx(area if num_gold else 1.0)


def test_without_predictions_there_is_no_point():
    curve = precision_recall_curve([], [], 3)
    assert curve == {"thresholds": [], "precision": [], "recall": [], "f1": [], "average_precision": 0.0}


def test_output_is_plain_python():
    curve = precision_recall_curve([0.5, 0.25], [True, False], 1)
    assert json.loads(json.dumps(curve)) == curve
    assert "np." not in repr(curve)


def test_fewer_gold_spans_than_correct_predictions_are_refused():
    with pytest.raises(ValueError, match="num_gold must be at least the 2 correct predictions, got 1"):
        precision_recall_curve([0.5, 0.5], [1, 1], 1)
