"""How one surface is annotated elsewhere in a corpus: each occurrence against all others."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

MIN_ELSEWHERE = 3  # fewer other occurrences say nothing about this one
MAX_WORDS = 8  # longer surfaces hardly ever occur twice
Surface = tuple[str, ...]


class Occurrence(NamedTuple):
    """A place where a surface stands that is annotated somewhere.

    Attributes:
        row: Number of the row.
        start: First word.
        end: One after the last.
        label: What it is annotated as; None for nothing.
        usual: What it is annotated as most often elsewhere; None for nothing.
        num_usual: How often elsewhere.
        num_elsewhere: How often it occurs elsewhere.
    """

    row: int
    start: int
    end: int
    label: str | None
    usual: str | None
    num_usual: int
    num_elsewhere: int

    @property
    def share(self) -> float:
        """Share of the other occurrences that are annotated in the usual way, (k + 1/2) / (n + 1)."""
        return (self.num_usual + 0.5) / (self.num_elsewhere + 1)


def occurrences(rows: Sequence[Mapping[str, Any]]) -> list[Occurrence]:
    """Each place of a surface that is annotated somewhere, with what it is elsewhere.

    A place is annotated with the label of an entity of exactly these words, the first by name if there are several. It
    is annotated as nothing if no entity shares a word with it; a part of a longer entity is no place. Surfaces count
    as written, letter case included, up to 8 words. Of equally frequent ways the first by name is the usual one, and
    nothing comes last.

    Args:
        rows: Rows with `tokens` and `entities`.

    Returns:
        Places with at least 3 others of the same surface, by row, start and end. Time: the words of all rows times the
        longest surface.
    """
    known: set[Surface] = set()
    for row in rows:
        known.update(tuple(row["tokens"][entity["start"] : entity["end"]]) for entity in row["entities"])
    known = {surface for surface in known if len(surface) <= MAX_WORDS}
    places = [
        (number, *place) for number, row in enumerate(rows) for place in _places(row["tokens"], row["entities"], known)
    ]
    counts: dict[Surface, Counter[str | None]] = defaultdict(Counter)
    for _, _, _, surface, label in places:
        counts[surface][label] += 1
    found = []
    for number, start, end, surface, label in places:
        elsewhere = counts[surface].total() - 1
        if elsewhere < MIN_ELSEWHERE:
            continue
        usual, num_usual = _usual(counts[surface], label)
        found.append(Occurrence(number, start, end, label, usual, num_usual, elsewhere))
    return found


def _places(
    words: Sequence[str], entities: Sequence[Mapping[str, Any]], known: set[Surface]
) -> Iterator[tuple[int, int, Surface, str | None]]:
    """Start, end, surface and label of the places of known surfaces in one row."""
    labels: dict[tuple[int, int], str] = {}
    covered = [False] * len(words)
    for entity in entities:
        start, end, label = entity["start"], entity["end"], entity["label"]
        labels[start, end] = min(label, labels.get((start, end), label))
        covered[start:end] = [True] * (end - start)
    longest = max(map(len, known), default=0)
    for start in range(len(words)):
        for end in range(start + 1, min(start + longest, len(words)) + 1):
            surface = tuple(words[start:end])
            if surface not in known:
                continue
            label = labels.get((start, end))
            if label is not None or not any(covered[start:end]):
                yield start, end, surface, label


def _usual(counts: Mapping[str | None, int], own: str | None) -> tuple[str | None, int]:
    """What a surface is annotated as most often without one occurrence of `own`, and how often."""
    others = {label: number - (label == own) for label, number in counts.items()}
    label = min(others, key=lambda label: (-others[label], label is None, label or ""))
    return label, others[label]
