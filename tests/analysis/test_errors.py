"""Kinds of errors: each kind worked by hand, one-to-one pairs, counts that add up, and seeded examples."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.analysis.errors import KINDS, Error, chosen_examples, context_window, error_counts, span_errors

KEYS = st.sets(
    st.tuples(st.integers(0, 1), st.integers(0, 8), st.integers(1, 4), st.sampled_from("AB")).map(
        lambda key: (key[0], key[1], key[1] + key[2], key[3])
    ),
    max_size=12,
)


@pytest.mark.parametrize(
    ("predicted", "kind"),
    [
        ((0, 2, 5, "B"), "wrong_label"),
        ((0, 1, 5, "A"), "wrong_left"),
        ((0, 2, 4, "A"), "wrong_right"),
        ((0, 3, 6, "A"), "wrong_both"),
        ((0, 3, 4, "A"), "wrong_both"),
        ((0, 1, 5, "B"), "wrong_boundary_and_label"),
    ],
)
def test_kinds_of_a_pair(predicted: tuple, kind: str) -> None:
    gold = (0, 2, 5, "A")
    assert span_errors([predicted], [gold]) == [Error(kind, predicted, gold)]


def test_spans_that_share_no_word_are_no_pair() -> None:
    gold, predicted, elsewhere = (0, 2, 5, "A"), (0, 5, 6, "A"), (1, 2, 5, "A")
    assert span_errors([predicted, elsewhere], [gold]) == [
        Error("missed", None, gold),
        Error("invented", predicted, None),
        Error("invented", elsewhere, None),
    ]


def test_a_correct_span_takes_no_part() -> None:
    """[0, 3) was found, so a prediction that touches nothing else is invented."""
    gold = [(0, 0, 3, "A")]
    assert span_errors([(0, 0, 3, "A")], gold) == []
    assert span_errors([(0, 0, 3, "A"), (0, 0, 2, "A")], gold) == [Error("invented", (0, 0, 2, "A"), None)]


def test_the_larger_overlap_makes_the_pair() -> None:
    """[0, 4) shares 3 of 4 words with [1, 4) and 4 of 6 with [0, 6), so the first is its pair and [0, 6) is missed."""
    near, far, prediction = (0, 1, 4, "A"), (0, 0, 6, "A"), (0, 0, 4, "A")
    assert span_errors([prediction], [far, near]) == [Error("wrong_left", prediction, near), Error("missed", None, far)]


def test_of_equal_overlaps_the_one_of_equal_label_makes_the_pair() -> None:
    """[2, 4) shares 1 of 2 words with [2, 3) and just as much with [3, 4)."""
    prediction, other, same = (0, 2, 4, "A"), (0, 2, 3, "B"), (0, 3, 4, "A")
    assert span_errors([prediction], [other, same]) == [
        Error("wrong_left", prediction, same),
        Error("missed", None, other),
    ]


def test_each_span_is_in_one_pair_at_most() -> None:
    """The second prediction takes what the first has left."""
    first, second = (0, 0, 5, "A"), (0, 0, 4, "A")
    gold, left = (0, 0, 6, "A"), (0, 3, 4, "A")
    assert span_errors([second, first], [gold, left]) == [
        Error("wrong_right", first, gold),
        Error("wrong_left", second, left),
    ]


@given(KEYS, KEYS)
def test_counts_add_up(predicted: set, gold: set) -> None:
    errors = span_errors(predicted, gold)
    assert sorted(error.predicted for error in errors if error.predicted) == sorted(predicted - gold)
    assert sorted(error.gold for error in errors if error.gold) == sorted(gold - predicted)
    counts = error_counts(errors)
    assert list(counts) == list(KINDS)
    assert sum(counts.values()) == len(errors)
    assert len(predicted - gold) == len(errors) - counts["missed"]
    assert len(gold - predicted) == len(errors) - counts["invented"]


@given(KEYS, KEYS)
def test_no_pair_is_overlooked(predicted: set, gold: set) -> None:
    """Greedy: spans that are left without a pair share no word with another that is left."""
    errors = span_errors(predicted, gold)
    left = [error.predicted for error in errors if error.gold is None]
    for guess in left:
        for missed in (error.gold for error in errors if error.predicted is None):
            assert guess[0] != missed[0] or guess[2] <= missed[1] or missed[2] <= guess[1]


@given(KEYS, KEYS)
def test_order_of_the_spans_changes_nothing(predicted: set, gold: set) -> None:
    assert span_errors(sorted(predicted), sorted(gold)) == span_errors(sorted(predicted)[::-1], sorted(gold)[::-1])


def test_examples_are_seeded() -> None:
    errors = span_errors([], [(text, 0, 1, "A") for text in range(50)])
    first = chosen_examples(errors, 5, seed=1)
    assert list(first) == ["missed"]
    assert len(first["missed"]) == 5
    assert first == chosen_examples(errors, 5, seed=1)
    assert first != chosen_examples(errors, 5, seed=2)
    assert chosen_examples(errors, 60, seed=1)["missed"] == errors


def test_context_holds_both_spans_and_ends_with_the_text() -> None:
    error = Error("wrong_both", (0, 5, 7, "A"), (0, 6, 9, "A"))
    assert context_window(error, 30, 3) == (2, 12)
    assert context_window(error, 10, 8) == (0, 10)
    assert context_window(Error("missed", None, (4, 6, 9, "A")), 30, 3) == (3, 12)
    assert Error("missed", None, (4, 6, 9, "A")).text == 4
