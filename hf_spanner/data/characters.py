"""Turns character spans into word spans: edges are trimmed and borders checked."""

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

from hf_spanner.core.words import trim_span
from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Problem

NormalForm = Literal["NFC", "NFD"]


class CharEntity(NamedTuple):
    """A labelled span of characters, half-open, checked to lie inside its text."""

    start: int
    end: int
    label: str


class SplitText:
    """A text and its words, for looking up the words under a span of characters.

    Args:
        text: The text.
        offsets: Half-open character offsets of its words, in order, as `split_words` or `offsets_of_words` gives them.
    """

    def __init__(self, text: str, offsets: Sequence[tuple[int, int]]) -> None:
        """Keep the text and the borders of its words."""
        self.text = text
        self.starts = [start for start, _ in offsets]
        self.ends = [end for _, end in offsets]

    @cached_property
    def words(self) -> list[str]:
        """The words, as they stand in the text."""
        return [self.text[start:end] for start, end in zip(self.starts, self.ends, strict=True)]

    def words_under(self, start: int, end: int) -> tuple[int, int]:
        """The half-open range of the words that share a character with a span, empty where it covers none."""
        return bisect_right(self.ends, start), bisect_left(self.starts, end)

    def word_span(self, entity: CharEntity, field: str, place: str, reading: Reading) -> tuple[int, int, str] | None:
        """The entity in words, or None if it was dropped; what is trimmed, widened or dropped is counted.

        Args:
            entity: The entity in characters.
            field: Name of the entity in its row, for the message.
            place: File and line, for the message.
            reading: Options and report.

        Returns:
            (start, end, label) in words, half-open.

        Raises:
            ValueError: If the span is blank, or cuts a word and `misaligned` is "error".
        """
        start, end, label = entity
        first, last = self.words_under(start, end)
        if first < last and (self.starts[first], self.ends[last - 1]) == (start, end):
            return first, last, label
        where = f"{place}: {field} ({start}, {end}) {self.text[start:end]!r}"
        trimmed = trim_span(self.text, start, end)
        if trimmed != (start, end):
            start, end = trimmed
            if start == end:
                reading.refuse(place, Problem("empty", field, self.text[entity.start : entity.end], "not only blanks"))
                return None
            reading.report.count("changed, blanks at the edges of an entity trimmed", where)
        first, last = self.words_under(start, end)
        if first >= last:
            reading.refuse(place, Problem("no word", field, self.text[start:end], "a span that covers a word"))
            return None
        if self.starts[first] >= start and self.ends[last - 1] <= end:
            return first, last, label
        if reading.options.misaligned == "error":
            cover = self.text[self.starts[first] : self.ends[last - 1]]
            allowed = f'whole words such as {cover!r}; misaligned="widen" or "drop" accepts the file'
            if "-" in cover and not reading.options.split_hyphens:
                allowed += ", and split_hyphens=True makes hyphens words, as some models do"
            reading.refuse(place, Problem("misaligned", field, self.text[start:end], allowed))
            return None
        if reading.options.misaligned == "drop":
            reading.report.count("dropped, misaligned", where)
            return None
        reading.report.count("changed, misaligned entity widened to whole words", where)
        return first, last, label


def with_normal_form(problem: Problem, text: str, fragments: Sequence[tuple[int, int]], surface: object) -> Problem:
    """A problem of offsets or of a surface, with Unicode's normal forms named where they are why.

    Args:
        problem: What is wrong with an entity.
        text: The text.
        fragments: Half-open character offsets of the entity.
        surface: The surface that is stated for it, or None.
    """
    if not isinstance(surface, str) or problem.reason not in ("range", "surface"):
        return problem
    own = " ".join(text[start:end] for start, end in fragments)
    if unicodedata.normalize("NFC", own).split() == unicodedata.normalize("NFC", surface).split():
        return problem._replace(allowed=f"{problem.allowed}; they differ only in Unicode's normal form (NFC or NFD)")
    forms: tuple[NormalForm, ...] = ("NFC", "NFD")
    for form in forms:
        other = _normal_text(form, text)
        pieces = " ".join(other[start:end] for start, end in fragments)
        if other != text and pieces.split() == unicodedata.normalize(form, surface).split():
            hint = f"the offsets count the text in Unicode's normal form {form}, which it does not have"
            return problem._replace(allowed=f"{problem.allowed}; {hint}")
    return problem


@lru_cache(maxsize=4)
def _normal_text(form: NormalForm, text: str) -> str:
    """A text in a normal form; kept, since all entities of a text ask for it."""
    return unicodedata.normalize(form, text)
