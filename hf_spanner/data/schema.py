"""The data set row: its columns, its checks and its label names."""

import logging
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NotRequired, TypedDict

from datasets import Features, List, Value

logger = logging.getLogger(__name__)

FEATURES = Features(
    {
        "id": Value("string"),
        "document": Value("string"),
        "tokens": List(Value("string")),
        "entities": List({"start": Value("int32"), "end": Value("int32"), "label": Value("string")}),
    }
)


class Entity(TypedDict):
    """A labelled span of words, half-open; of a prediction with its score, where a reading keeps details."""

    start: int
    end: int
    label: str
    score: NotRequired[float]


class Row(TypedDict):
    """One sentence. Rows of one document stand together in their order; None means that the document is unknown.

    A reading that keeps details adds the raw text, if the source has it, and the character offsets of the words in it.
    """

    tokens: list[str]
    entities: list[Entity]
    id: NotRequired[str | None]
    document: NotRequired[str | None]
    text: NotRequired[str]
    offsets: NotRequired[list[tuple[int, int]]]


class Problem(NamedTuple):
    """What is wrong with one value: a countable reason, the field, what it holds and what it may hold."""

    reason: str
    field: str
    value: object
    allowed: str

    def __str__(self) -> str:
        """One line for a message; a long value is cut."""
        value = repr(self.value)
        value = value if len(value) <= 80 else value[:80] + "..."
        return f"{self.field} is {value} ({self.reason}); allowed: {self.allowed}"


def entity_problem(start: object, end: object, label: object, *, length: int, unit: str, field: str) -> Problem | None:
    """First thing wrong with an entity, or None.

    Args:
        start: First position, in words or characters.
        end: Position after the last.
        label: Entity type.
        length: Number of positions of the text.
        unit: "words" or "characters", for the message.
        field: Name of the entity in its row, for the message.
    """
    for name, value in (("start", start), ("end", end)):
        if type(value) is not int:
            return Problem("type", f"{field}.{name}", value, "an integer")
    if not isinstance(label, str) or not label.strip():
        return Problem("label", f"{field}.label", label, "a string that is not blank")
    assert isinstance(start, int)
    assert isinstance(end, int)
    if start < 0 or end > length:
        return Problem("range", f"{field}.(start, end)", (start, end), f"0 <= start < end <= {length} {unit}")
    if end <= start:
        return Problem("empty", f"{field}.(start, end)", (start, end), f"start < end, end exclusive, in {unit}")
    return None


def words_problem(words: object, *, field: str = "tokens") -> Problem | None:
    """First thing wrong with a list of words, or None.

    An empty list is a sentence without words and allowed. So is an empty word: it keeps its place, so that the offsets
    after it stay true, and gives the model nothing to read.
    """
    if not isinstance(words, list):
        return Problem("type", field, words, "a list of strings")
    for index, word in enumerate(words):
        if not isinstance(word, str):
            return Problem("type", f"{field}[{index}]", word, "a string")
    return None


def span_key(entity: Mapping[str, Any]) -> tuple[int, int, str]:
    """Start, end and label."""
    return entity["start"], entity["end"], entity["label"]


def label_set(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Entity types of some rows, sorted; names that look like slips are logged.

    Args:
        rows: Rows, read once.

    Returns:
        The names, in the order in which a model numbers them.

    Raises:
        ValueError: If no row has an entity; for a label with blanks at its edges, which no row of a reader has.
    """
    labels = {entity["label"] for row in rows for entity in row["entities"]}
    if not labels:
        raise ValueError("labels are those of the rows' entities, and no row has one: there is nothing to learn")
    blank_edges = sorted(label for label in labels if label != label.strip())
    if blank_edges:
        raise ValueError(f"labels must have no blanks at their edges, got {blank_edges}; load_rows removes them")
    names = sorted(labels)
    for group in similar_labels(names):
        logger.warning("labels that differ only in letter case, separators or normal form, kept apart: %s", group)
    return names


def similar_labels(labels: Iterable[str]) -> list[list[str]]:
    """Groups of labels that differ only in letter case, in "-", "_" or blanks between their parts, or in normal form.

    Normal forms are those of Unicode: one letter may be a single character (NFC) or a letter and a mark (NFD).
    """
    groups: dict[str, list[str]] = {}
    for label in sorted({label.strip() for label in labels}):
        parts = re.sub(r"[-_\s]", "_", unicodedata.normalize("NFC", label.casefold()))
        groups.setdefault(parts, []).append(label)
    return [group for group in groups.values() if len(group) > 1]


def one_line(text: str) -> str:
    """A text with its line ends and other characters that show nothing as escapes, for a table or a list."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def sorted_entities(spans: Iterable[Sequence[Any]]) -> list[Entity]:
    """Spans (start, end, label) as entities by start, then longer, then label; equal ones once."""
    ordered = sorted({tuple(span) for span in spans}, key=lambda span: (span[0], -span[1], span[2]))
    return [{"start": start, "end": end, "label": label} for start, end, label in ordered]
