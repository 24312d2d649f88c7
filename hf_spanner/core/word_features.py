"""Features of the words themselves: their shapes and their characters, for encoders that do not see them."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np

WordFeatures = Literal["none", "shapes", "shapes_and_characters"]

# How a word is written; 0 stands for no word. "Oslo", "A" and "It's" are titles, "NATO" and "3D" upper, "oslo" and
# "12th" lower, "iPhone" and "McDonald" mixed, "1996" digits, "1,996" digits and marks, "." marks, and what remains is
# other: letters without case, as in Chinese.
NO_SHAPE, LOWER, TITLE, UPPER, MIXED, DIGITS, DIGITS_AND_MARKS, MARKS, OTHER = range(9)
NUM_SHAPES = 9

MAX_CHARACTERS = 16  # characters read of a word: of a longer word the first eight and the last eight
NUM_ASCII = 128
NUM_OTHERS = 256  # code points above ASCII within such a distance of each other are told apart, as in most alphabets
NUM_CHARACTERS = 1 + NUM_ASCII + NUM_OTHERS  # 0 stands for no character


def word_features(words: Sequence[str], kind: WordFeatures) -> dict[str, np.ndarray]:
    """Features of the words by the name of the model's input.

    Args:
        words: N words.
        kind: What the model reads, its `word_features`.

    Returns:
        `word_shapes` (N,) uint8 and `word_characters` (N, 16) uint16, as far as they are read; 0 is for padding.
    """
    if kind == "none":
        return {}
    shapes = {"word_shapes": np.array([word_shape(word) for word in words], dtype=np.uint8)}
    return shapes if kind == "shapes" else shapes | {"word_characters": word_characters(words)}


@lru_cache(maxsize=2**16)
def word_shape(word: str) -> int:
    """The number of the word's shape; the empty word is marks."""
    if word[:1].isupper() and not any(letter.isupper() for letter in word[1:]):
        return TITLE
    if word.islower():
        return LOWER
    if word.isupper():
        return UPPER
    if any(letter.isupper() or letter.islower() for letter in word):
        return MIXED
    if word.isdecimal():
        return DIGITS
    if any(letter.isalpha() for letter in word):
        return OTHER
    return DIGITS_AND_MARKS if any(letter.isdecimal() for letter in word) else MARKS


def word_characters(words: Sequence[str]) -> np.ndarray:
    """(N, 16) uint16 numbers of the characters of each word, in order, then 0.

    A code point below 128 has its own number, another one its remainder by 256, so the letters of one alphabet are told
    apart whatever it is, without a vocabulary; ideographs share numbers.
    """
    half = MAX_CHARACTERS // 2
    kept = [word if len(word) <= MAX_CHARACTERS else word[:half] + word[-half:] for word in words]
    points = np.array(kept, dtype=f"<U{MAX_CHARACTERS}").view(np.uint32).reshape(len(words), MAX_CHARACTERS)
    others = 1 + NUM_ASCII + points % NUM_OTHERS
    return np.where(points < NUM_ASCII, np.where(points > 0, 1 + points, 0), others).astype(np.uint16)
