"""How words are written, for encoders that lower-case their input and so cannot tell "Apple" from "apple"."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np

WordFeatures = Literal["none", "shapes"]

# The shapes; 0 stands for no word. "Oslo", "A" and "It's" are titles, "NATO" and "3D" upper, "oslo" and "12th" lower,
# "iPhone" and "McDonald" mixed, "1996" digits, "1,996" digits and marks, "." marks, and what remains is other: letters
# without case, as in Chinese.
NO_SHAPE, LOWER, TITLE, UPPER, MIXED, DIGITS, DIGITS_AND_MARKS, MARKS, OTHER = range(9)
NUM_SHAPES = 9


def word_features(words: Sequence[str], kind: WordFeatures) -> dict[str, np.ndarray]:
    """Features of the words by the name of the model's input.

    Args:
        words: N words.
        kind: What the model reads, its `word_features`.

    Returns:
        `word_shapes` (N,) uint8 if it is read.
    """
    if kind == "none":
        return {}
    return {"word_shapes": np.array([word_shape(word) for word in words], dtype=np.uint8)}


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
