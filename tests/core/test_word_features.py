"""Shapes and characters of words, worked by hand, and that a word's features are its own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.core.word_features import (
    DIGITS,
    DIGITS_AND_MARKS,
    LOWER,
    MARKS,
    MAX_CHARACTERS,
    MIXED,
    NO_SHAPE,
    NUM_CHARACTERS,
    NUM_SHAPES,
    OTHER,
    TITLE,
    UPPER,
    word_characters,
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


def test_characters_worked_by_hand() -> None:
    """Of ASCII 1 + code point; above it 129 + the remainder by 256: U+00E9 = 233, U+5317 = 83 * 256 + 23."""
    table = word_characters(["Oslo", "", "\u00e9\u5317", "abcdefghijklmnopqrs", "\ud800", "a\0b"])
    assert table.dtype == np.uint16
    assert table[0].tolist() == [80, 116, 109, 112] + [0] * 12
    assert table[1].tolist() == [0] * 16
    assert table[2].tolist() == [129 + 233, 129 + 23] + [0] * 14
    assert bytes((table[3] - 1).tolist()) == b"abcdefghlmnopqrs"  # the first eight and the last eight
    assert table[4].tolist() == [129] + [0] * 15  # U+D800 = 216 * 256
    assert table[5].tolist() == [98, 0, 99] + [0] * 13
    assert word_characters([]).shape == (0, 16)


def test_letters_of_an_alphabet_are_told_apart() -> None:
    for first, last in (("\u0410", "\u044f"), ("\u0391", "\u03c9"), ("\u0e01", "\u0e2e"), ("\u3041", "\u3096")):
        letters = [chr(point) for point in range(ord(first), ord(last) + 1)]
        assert len({row[0] for row in word_characters(letters).tolist()}) == len(letters)


def test_only_the_features_that_are_asked_for_are_made() -> None:
    assert word_features(["Oslo"], "none") == {}
    assert {name: rows.shape for name, rows in word_features(["Oslo", "."], "shapes").items()} == {"word_shapes": (2,)}
    both = word_features(["Oslo", "."], "shapes_and_characters")
    assert {name: rows.shape for name, rows in both.items()} == {"word_shapes": (2,), "word_characters": (2, 16)}
    assert both["word_shapes"].tolist() == [TITLE, MARKS]


@given(st.lists(st.text(), max_size=5))
def test_features_of_a_word_do_not_depend_on_its_neighbours(words: list[str]) -> None:
    together = word_features(words, "shapes_and_characters")
    for place, word in enumerate(words):
        alone = word_features([word], "shapes_and_characters")
        assert all(np.array_equal(together[name][place], alone[name][0]) for name in alone)
        assert 0 < alone["word_shapes"][0] < NUM_SHAPES
        assert alone["word_characters"][0].max(initial=0) < NUM_CHARACTERS
        assert np.count_nonzero(alone["word_characters"]) == min(MAX_CHARACTERS, len(word.replace("\0", ""))) or (
            "\0" in word and len(word) > MAX_CHARACTERS
        )
