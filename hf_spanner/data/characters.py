"""Turns character spans into word spans: edges are trimmed and borders checked."""

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from hf_spanner.core.words import split_words, trim_span
from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Problem


class CharEntity(NamedTuple):
    """A labelled span of characters, half-open, checked to lie inside its text."""

    start: int
    end: int
    label: str


class SplitText:
    """A text and its words, for looking up the words under a span of characters.

    Args:
        text: The text.
        split_hyphens: As in `split_words`.
    """

    def __init__(self, text: str, *, split_hyphens: bool) -> None:
        """Split the text."""
        self.text = text
        offsets = split_words(text, split_hyphens=split_hyphens)
        self.starts = [start for start, _ in offsets]
        self.ends = [end for _, end in offsets]

    @property
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
            reading.refuse(place, Problem("misaligned", field, self.text[start:end], allowed))
            return None
        if reading.options.misaligned == "drop":
            reading.report.count("dropped, misaligned", where)
            return None
        reading.report.count("changed, misaligned entity widened to whole words", where)
        return first, last, label
