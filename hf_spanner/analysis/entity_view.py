"""Entities drawn in their text: a line under each, nested ones under one another, deeper in colour for higher scores.

In a notebook `EntityView(text, ner(text))` as the last line of a cell shows the picture; the report and the demo draw
with it, too.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import chain, pairwise, takewhile
from typing import Any, NamedTuple

import numpy as np

from hf_spanner.core.overlap import resolve_overlaps
from hf_spanner.core.spans import Span
from hf_spanner.core.words import split_words, surface_offsets

# Okabe and Ito's colours without the light ones; each is read on white and on black
COLOURS = ((0, 114, 178), (213, 94, 0), (0, 158, 115), (230, 159, 0), (204, 121, 167), (86, 180, 233), (138, 130, 0))
PALEST = 0.3  # opacity of a line at score 0; at score 1 it is 1
LINE, GAP = 3, 2  # pixels of a line and between two
NO_SCORE = 1.0  # an entity without a score, such as gold, is drawn as a sure one


class DrawnEntity(NamedTuple):
    """An entity in characters of the text; `row` counts lines from the text downwards, from 0."""

    start: int
    end: int
    label: str
    score: float | None
    row: int


class EntityView:
    """A text with its entities, to be looked at.

    Args:
        text: The text, or its words, which are then joined by blanks.
        entities: As a pipeline gives them (`entity_group`; `start` and `end` count characters), or as rows of data have
            them (`label`; `start` and `end` count characters of a text, words of a list of words). `score` may be
            missing.
        labels: All labels, so that each has the same colour in every view; those of the entities if left out. With
            more labels than colours these repeat, so the name is always shown.

    Attributes:
        text: The text.
        entities: What is drawn, by start, then longer first.

    Raises:
        ValueError: If an entity lies outside of the text.
    """

    def __init__(
        self,
        text: str | Sequence[str],
        entities: Iterable[Mapping[str, Any]],
        *,
        labels: Iterable[str] | None = None,
    ) -> None:
        self.text = text if isinstance(text, str) else " ".join(text)
        self.offsets = split_words(text) if isinstance(text, str) else surface_offsets(text)
        spans = [self._span(entity, has_words=not isinstance(text, str)) for entity in entities]
        self.entities = with_rows(spans, len(self.text))
        names = sorted({entity.label for entity in self.entities}) if labels is None else labels
        self.colours = label_colours([*dict.fromkeys([*names, *(entity.label for entity in self.entities)])])

    def _span(self, entity: Mapping[str, Any], *, has_words: bool) -> tuple[int, int, str, float | None]:
        """Start and end in characters, label and score of an entity in either form."""
        is_answer = "entity_group" in entity
        label, start, end = entity["entity_group" if is_answer else "label"], entity["start"], entity["end"]
        counts_words = has_words and not is_answer
        length = len(self.offsets) if counts_words else len(self.text)
        if not 0 <= start <= end <= length or (counts_words and start == end):
            unit = "words" if counts_words else "characters"
            raise ValueError(f"entities must lie within the {length} {unit} of the text, got {dict(entity)}")
        if counts_words:
            start, end = self.offsets[start][0], self.offsets[end - 1][1]
        return start, end, label, entity.get("score")

    def to_html(self) -> str:
        """A piece of HTML that needs nothing beside it: no script, style sheet or network.

        Text keeps its colour and ground, so it can be read on light and dark pages. Lines of text may break anywhere,
        and the text's own direction decides on which side it begins. What comes from the text is escaped.
        """
        num_rows = max((entity.row + 1 for entity in self.entities), default=0)
        height = num_rows * (LINE + GAP)
        # half of a line's height lies above its text, so the lowest lines of the last one would reach below the piece
        room = f"line-height:calc(1.7em + {height}px);padding-bottom:{height // 2}px"
        style = f"{room};white-space:pre-wrap;overflow-wrap:anywhere;text-align:start"
        return f'<div dir="auto" style="{style}">{"".join(self._pieces())}</div>'

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return self.to_html()

    def _pieces(self) -> Iterator[str]:
        """The text with the tags between its pieces; a tag that would cross another is closed and opened again."""
        sides = chain.from_iterable((entity.start, entity.end) for entity in self.entities)
        borders = sorted({0, len(self.text), *sides})
        coming = sorted(self.entities, key=lambda entity: -entity.start)
        is_open: list[DrawnEntity] = []
        for border, following in zip(borders, [*borders[1:], len(self.text)], strict=True):
            begun = []
            while coming and coming[-1].start == border:
                begun.append(coming.pop())
            inside = [entity for entity in [*is_open, *begun] if entity.end > border]
            inside.sort(key=lambda entity: -entity.row)
            num_kept = sum(takewhile(bool, (old is new for old, new in zip(is_open, inside, strict=False))))
            for entity in reversed(is_open[num_kept:]):
                yield (self._name(entity) if entity.end == border else "") + "</span>"
            for entity in begun:
                if entity.end == border:
                    yield self._opening(entity) + self._name(entity) + "</span>"
            yield from map(self._opening, inside[num_kept:])
            is_open = inside
            yield readable(self.text[border:following])

    def _opening(self, entity: DrawnEntity) -> str:
        """The tag that draws the line under an entity; a line further down is that of one further out."""
        score = "" if entity.score is None else f" {entity.score:.3f}"
        return (
            f'<span title="{readable(entity.label)}{score}" style="padding-bottom:{entity.row * (LINE + GAP)}px;'
            f'border-bottom:{LINE}px solid {self._colour(entity, PALEST, 1.0)}">'
        )

    def _name(self, entity: DrawnEntity) -> str:
        """Label and score after the words of an entity, which are not copied with the text."""
        score = "" if entity.score is None else f" {entity.score:.2f}"
        style = (
            f"background:{self._colour(entity, 0.1, 0.3)};border-radius:3px;padding:1px 3px;margin:0 2px;"
            "font-size:.72em;font-weight:600;white-space:nowrap;user-select:none"
        )
        return f'<bdi style="{style}"> {readable(entity.label)}{score}</bdi>'

    def _colour(self, entity: DrawnEntity, palest: float, deepest: float) -> str:
        """The colour of an entity's label, more opaque for a higher score."""
        score = min(max(score_of(entity), 0.0), 1.0)
        red, green, blue = COLOURS[self.colours[entity.label]]
        return f"rgba({red},{green},{blue},{palest + (deepest - palest) * score:.2f})"

    def to_displacy(self) -> dict[str, Any]:
        """The data that displaCy draws with `manual=True`, in both of its styles.

        Returns:
            `text`; for style "span" `tokens` and `spans`, which are all entities that have characters; for style "ent"
            `ents`, those of the best scores that share no character, since displaCy repeats the text of others;
            `title`, None.
        """
        whole = [entity for entity in self.entities if self.text[entity.start : entity.end].strip()]
        borders = {border for span in [*self.offsets, *whole] for border in span[:2]}
        tokens = [(start, end) for start, end in pairwise(sorted(borders)) if self.text[start:end].strip()]
        starts, ends = [start for start, _ in tokens], [end for _, end in tokens]
        names = dict(enumerate(self.colours))
        index = {label: place for place, label in names.items()}
        candidates = [Span(entity.start, entity.end, index[entity.label], score_of(entity)) for entity in whole]
        return {
            "text": self.text,
            "title": None,
            "ents": [
                {"start": span.start, "end": span.end, "label": names[span.label]}
                for span in resolve_overlaps(candidates, policy="flat", id2label=names)
            ],
            "tokens": [self.text[start:end] for start, end in tokens],
            "spans": [
                {
                    "start": entity.start,
                    "end": entity.end,
                    "start_token": bisect_left(starts, entity.start),
                    "end_token": bisect_right(ends, entity.end),
                    "label": entity.label,
                }
                for entity in whole
            ],
        }


def with_rows(spans: Iterable[tuple[int, int, str, float | None]], length: int) -> list[DrawnEntity]:
    """Entities with the row of their line: shorter ones nearer to the text, and none on the row of one it meets.

    Args:
        spans: Start, end, label and score of each.
        length: Characters of the text.

    Returns:
        Entities by start, then longer first, then label.
    """
    num_taken = np.zeros(length, dtype=np.int64)  # rows that are taken under each character
    drawn = []
    for start, end, label, score in sorted(spans, key=lambda span: (span[1] - span[0], span[0], span[2])):
        row = int(num_taken[start:end].max(initial=0))
        num_taken[start:end] = row + 1
        drawn.append(DrawnEntity(start, end, label, score, row))
    return sorted(drawn, key=lambda entity: (entity.start, -entity.end, entity.label))


def score_of(entity: DrawnEntity) -> float:
    """The score of an entity, or that of a sure one where it has none."""
    return NO_SCORE if entity.score is None else entity.score


def readable(text: str) -> str:
    """A text escaped for HTML; halves of surrogate pairs, which no file can hold, become the sign of a lost one."""
    return escape(text.encode("utf-8", "replace").decode("utf-8"))


def label_colours(labels: Sequence[str]) -> dict[str, int]:
    """Number of the colour of each label; with more labels than colours these repeat, so the name is always shown."""
    return {label: place % len(COLOURS) for place, label in enumerate(labels)}
