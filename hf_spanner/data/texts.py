"""From an annotated text to rows: offsets are checked against the surfaces, and words come from the text."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from hf_spanner.core.words import split_words
from hf_spanner.data.characters import CharEntity, SplitText, with_normal_form
from hf_spanner.data.policy import Reading, ReadOptions
from hf_spanner.data.schema import Problem, Row, entity_problem

NO_BLANKS = re.compile(r"[^ \t\r\n]+")
LINE = re.compile(r"[^\n]+")
LAST_OF_PLANE_0 = "\uffff"  # characters after it are two units of UTF-16
LONGEST = 10_000_000  # characters that a text is filled up to with blanks at most

Offsets = Sequence[tuple[int, int]]


class TextEntity(NamedTuple):
    """An entity as a file states it, values unchecked.

    Attributes:
        place: File and line, for messages.
        field: Name of the entity in its record, for messages.
        fragments: Half-open character offsets of its pieces.
        label: Its type.
        surface: The surface that is stated for it, or None; blanks may differ from those of the text.
        score: Its score, if it is a prediction; what is no number is none.
    """

    place: str
    field: str
    fragments: Sequence[tuple[Any, Any]]
    label: Any
    surface: Any = None
    score: Any = None


class AnnotatedText(NamedTuple):
    """A text with its entities.

    Attributes:
        place: File and line, for messages.
        text: The text.
        entities: Its entities.
        id: Name of the row that it becomes.
        document: Name of its document.
        words: Half-open character offsets of its words, where the file says them.
        parts: Where the parts begin that become rows, such as sentences; None makes one row of the text.
    """

    place: str
    text: str
    entities: Sequence[TextEntity]
    id: Any = None
    document: Any = None
    words: Offsets | None = None
    parts: Sequence[int] | None = None


def words_of(text: str, options: ReadOptions) -> list[tuple[int, int]]:
    """Half-open character offsets of the words of a raw text, as the options say."""
    if options.words == "blanks":
        return [match.span() for match in NO_BLANKS.finditer(text)]
    return split_words(text, split_hyphens=options.split_hyphens)


def lines_of(text: str) -> list[int]:
    """Where the lines of a text begin, as parts."""
    return [match.start() for match in LINE.finditer(text)]


def text_rows(annotated: AnnotatedText, reading: Reading) -> Iterator[Row]:
    """Rows of an annotated text: its parts, joined where an entity runs over a border.

    Fragments of an entity that only blanks part are one span. Other discontinuous entities follow `discontinuous`.

    Raises:
        ValueError: For offsets outside the text, a surface that differs from it, a discontinuous or misaligned entity,
            as the options say.
    """
    text = annotated.text
    split = SplitText(text, words_of(text, reading.options) if annotated.words is None else annotated.words)
    spans: list[tuple[int, int, str]] = []
    scores: dict[tuple[int, int, str], float] = {}
    for entity in _in_code_points(annotated, reading):
        problem = _problem(entity, text)
        if problem is not None:
            reading.refuse(entity.place, with_normal_form(problem, text, entity.fragments, entity.surface))
            continue
        label = reading.clean_label(entity.label, entity.place)
        for start, end in _continuous(entity, text, reading):
            span = split.word_span(CharEntity(start, end, label), entity.field, entity.place, reading)
            if span is not None:
                spans.append(span)
                if isinstance(entity.score, int | float):
                    scores.setdefault(span, entity.score)
    spans.sort()
    whole = (0, len(split.starts))
    for border in [whole] if annotated.parts is None else _row_borders(split, spans, annotated, reading):
        yield _row(annotated, split, border, spans, scores, reading)


def _row(
    annotated: AnnotatedText,
    split: SplitText,
    border: tuple[int, int],
    spans: Sequence[tuple[int, int, str]],
    scores: Mapping[tuple[int, int, str], float],
    reading: Reading,
) -> Row:
    """The row of the words between two borders, of the sorted spans, with its piece of the text if details are kept."""
    first, last = border
    own = spans[bisect_left(spans, (first,)) : bisect_left(spans, (last,))]
    inside = [(start - first, end - first, label) for start, end, label in own]
    entities = reading.unique_entities(inside, annotated.place)
    name, document = (None if name is None else str(name) for name in (annotated.id, annotated.document))
    row: Row = {"id": name, "document": document, "tokens": split.words[first:last], "entities": entities}
    if reading.options.details:
        is_part = annotated.parts is not None
        begin = split.starts[first] if is_part else 0
        end = split.ends[last - 1] if is_part else len(split.text)
        row["text"] = split.text[begin:end]
        words = zip(split.starts[first:last], split.ends[first:last], strict=True)
        row["offsets"] = [(start - begin, stop - begin) for start, stop in words]
        for entity in entities:
            score = scores.get((entity["start"] + first, entity["end"] + first, entity["label"]))
            if score is not None:
                entity["score"] = score
    return row


def _problem(entity: TextEntity, text: str) -> Problem | None:
    """First thing wrong with the offsets of an entity; its surface may have other blanks than the text."""
    if not entity.fragments:
        return Problem("empty", entity.field, entity.fragments, "at least one piece")
    for start, end in entity.fragments:
        problem = entity_problem(start, end, entity.label, length=len(text), unit="characters", field=entity.field)
        if problem is not None:
            return problem
    if entity.surface is None:
        return None
    own = _surface(entity.fragments, text)
    if not isinstance(entity.surface, str) or own.split() != entity.surface.split():
        hint = "; the offsets may count a Windows line break as one character" if "\r\n" in text else ""
        return Problem("surface", "surface", entity.surface, f"{own!r}, as the text has it{hint}")
    return None


def _surface(fragments: Offsets, text: str) -> str:
    """The pieces of an entity, with blanks between them."""
    return " ".join(text[start:end] for start, end in fragments)


def _in_code_points(annotated: AnnotatedText, reading: Reading) -> Sequence[TextEntity]:
    """The entities with offsets that count characters.

    Tools that run in a browser or on Java count units of UTF-16, in which an emoji is two. Where the text has such
    characters, the surfaces that are stated for its entities show which of both it is.
    """
    text, entities = annotated.text, annotated.entities
    if max(text, default="") <= LAST_OF_PLANE_0 or all(entity.surface is None for entity in entities):
        return entities
    places = {}
    unit = 0
    for place, character in enumerate(text):
        places[repr(unit)] = place
        unit += 1 + (character > LAST_OF_PLANE_0)
    places[repr(unit)] = len(text)
    others = [
        entity._replace(
            fragments=[(places.get(repr(start), -1), places.get(repr(end), -1)) for start, end in entity.fragments]
        )
        for entity in entities
    ]
    misfits, other_misfits = (
        sum(entity.surface is not None and _problem(entity, text) is not None for entity in some)
        for some in (entities, others)
    )
    if misfits <= other_misfits:
        return entities
    reading.report.count("changed, offsets in units of UTF-16 to characters", annotated.place)
    return others


def _continuous(entity: TextEntity, text: str, reading: Reading) -> list[tuple[int, int]]:
    """The spans that an entity becomes under the policy for discontinuous ones."""
    merged: list[tuple[int, int]] = []
    fragments = sorted(entity.fragments)
    surface = _surface(fragments, text) if entity.surface is None else entity.surface
    if any(later < end for (_, end), (later, _) in pairwise(fragments)):
        reading.report.count("changed, overlapping fragments joined", f"{entity.place}: {surface!r}")
    for start, end in fragments:
        if merged and not text[merged[-1][1] : start].strip():
            start, earlier_end = merged.pop()
            end = max(earlier_end, end)  # fragments may overlap
        merged.append((start, end))
    return chosen_pieces(merged, entity.field, entity.place, surface, reading)


def chosen_pieces(
    pieces: list[tuple[int, int]], field: str, place: str, surface: object, reading: Reading
) -> list[tuple[int, int]]:
    """What becomes of an entity in pieces, in characters or words, under the policy for discontinuous ones.

    Raises:
        ValueError: For more than one piece, if the policy and `on_error` are "error".
    """
    if len(pieces) == 1:
        return pieces
    policy = reading.options.discontinuous
    allowed = 'one piece; discontinuous="split", "cover", "first" or "drop" accepts the file'
    if policy == "error":
        reading.refuse(place, Problem("discontinuous", field, pieces, allowed))
        return []
    verb = "dropped, discontinuous" if policy == "drop" else f"changed, discontinuous ({policy})"
    reading.report.count(verb, f"{place}: {surface!r}")
    cover = (pieces[0][0], max(end for _, end in pieces))
    return {"split": pieces, "cover": [cover], "first": pieces[:1], "drop": []}[policy]


def _row_borders(
    split: SplitText, spans: Sequence[tuple[int, int, str]], annotated: AnnotatedText, reading: Reading
) -> Iterator[tuple[int, int]]:
    """Word borders of the rows of a text: its parts, joined where an entity runs over a border, which is counted."""
    joined = {index for start, end, _ in spans for index in range(start + 1, end)}
    begins = sorted(annotated.parts or ())
    first = next_part = 0
    for index, start in enumerate(split.starts):
        is_border = False
        while next_part < len(begins) and begins[next_part] <= start:
            is_border, next_part = True, next_part + 1
        if not is_border or first == index:
            continue
        if index in joined:
            reading.report.count("changed, parts joined that an entity runs over", annotated.place)
        else:
            yield first, index
            first = index
    if split.starts:
        yield first, len(split.starts)
