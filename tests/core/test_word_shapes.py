"""Shapes of words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.core.word_shapes import (
    DIGITS,
    DIGITS_AND_MARKS,
    LOWER,
    MARKS,
    MIXED,
    NO_SHAPE,
    NUM_SHAPES,
    OTHER,
    TITLE,
    UPPER,
    word_features,
    word_shape,
)

SHAPES = {
    LOWER: ["oslo", "x", "12th", "'s", "don't", "\u00e9t\u00e9", "\u0431\u0430\u043d\u043a"],
    TITLE: ["Oslo", "A", "J.", "It's", "\u00c9mile", "B2", "\u041c\u043e\u0441\u043a\u0432\u0430"],
    UPPER: ["NATO", "3D", "U.S.", "A4-B", "\u0421\u0428\u0410"],
    MIXED: ["iPhone", "McDonald", "O'Neill", "eBay's"],
    DIGITS: ["1996", "7", "\u0663"],
    DIGITS_AND_MARKS: ["1,996", "3:1", "1996-08-22", "50%"],
    MARKS: ["", ".", "--", "\u200b", "\u20ac", "\ud800"],
    OTHER: ["\u5317\u4eac", "\u0645\u062f\u064a\u0646\u0629", "\u6708 3"],
}


@pytest.mark.parametrize(("shape", "word"), [(shape, word) for shape, words in SHAPES.items() for word in words])
def test_shapes_of_words(shape: int, word: str) -> None:
    assert word_shape(word) == shape
    assert NO_SHAPE < shape < NUM_SHAPES


def test_only_the_features_that_are_asked_for_are_made() -> None:
    assert word_features(["Oslo"], "none") == {}
    made = word_features(["Oslo", ".", "it"], "shapes")
    assert made.keys() == {"word_shapes"}
    assert made["word_shapes"].tolist() == [TITLE, MARKS, LOWER]
    assert word_features([], "shapes")["word_shapes"].shape == (0,)


@given(st.text())
def test_every_word_has_a_shape(word: str) -> None:
    assert NO_SHAPE < word_shape(word) < NUM_SHAPES
