"""Where a record has both its text and its words: what the offsets of its entities count, words or characters."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from hf_spanner.data.characters import SplitText
from hf_spanner.data.forms import stated_entities
from hf_spanner.data.schema import words_problem

Unit = Literal["words", "characters", "unclear"]
Span = tuple[int, int]


def has_text_and_words(record: Mapping[str, Any]) -> bool:
    """Whether the offsets of a record's entities may count words or characters."""
    values = [record.get(field) for field in ("text", "tokens", "entities")]
    return isinstance(values[0], str) and isinstance(values[1], list | tuple) and values[2] is not None


def unit_of(records: Iterable[Mapping[str, Any]]) -> Unit:
    """The unit in which fewer entities of some records do not fit; unclear where all fit in both and differ.

    An entity fits as words if it lies within them, and as characters if it begins and ends at their borders in the
    text; a surface that it states must be the one that it then has.

    Args:
        records: Records, of which those with both text and words are looked at.
    """
    misfits_of_words = misfits_of_characters = differing = 0
    for record in records:
        if not has_text_and_words(record) or words_problem(list(record["tokens"])) is not None:
            continue
        words, text = list(record["tokens"]), record["text"]
        offsets = offsets_of_words(text, words)
        split = None if offsets is None else SplitText(text, offsets)
        for entity in stated_entities(record, "entities") or ():
            if entity.fields is None:
                continue
            start, end, _, surface = entity.fields
            as_words = _span_of_words(start, end, surface, words)
            as_characters = None if split is None else _span_of_characters(start, end, surface, split)
            misfits_of_words += as_words is None
            misfits_of_characters += as_characters is None
            differing += None not in (as_words, as_characters) and as_words != as_characters
    if misfits_of_characters < misfits_of_words:
        return "characters"
    is_unclear = misfits_of_characters == misfits_of_words == 0 < differing
    return "unclear" if is_unclear else "words"


def offsets_of_words(text: str, words: Sequence[str]) -> list[Span] | None:
    """Half-open character offsets of words that stand in a text in their order; None if more than blanks part them."""
    offsets, position = [], 0
    for word in words:
        start = text.find(word, position)
        if start < 0 or text[position:start].strip():
            return None
        position = start + len(word)
        offsets.append((start, position))
    return None if text[position:].strip() else offsets


def is_surface_of(surface: object, words: Sequence[str]) -> bool:
    """Whether a stated surface is that of some words; it may have other blanks between them."""
    return isinstance(surface, str) and "".join(surface.split()) == "".join("".join(words).split())


def _span_of_words(start: object, end: object, surface: object, words: Sequence[str]) -> Span | None:
    """The span that offsets are if they count words, None if they cannot."""
    if not (type(start) is int and type(end) is int and 0 <= start < end <= len(words)):
        return None
    return (start, end) if surface is None or is_surface_of(surface, words[start:end]) else None


def _span_of_characters(start: object, end: object, surface: object, split: SplitText) -> Span | None:
    """The span in words that offsets are if they count characters, None if they cannot."""
    if not (type(start) is int and type(end) is int and 0 <= start < end <= len(split.text)):
        return None
    first, last = split.words_under(start, end)
    if first >= last or split.starts[first] != start or split.ends[last - 1] != end:
        return None
    return (first, last) if surface is None or surface == split.text[start:end] else None
