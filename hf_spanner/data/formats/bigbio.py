"""BigBio's records of the data sets of biomedicine: passages with entities, and other records with such entities."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Problem, Row, words_problem
from hf_spanner.data.texts import LONGEST, AnnotatedText, TextEntity, text_rows

OTHER_FIELDS = {"relations": "relation", "events": "event", "coreferences": "coreference"}


def bigbio_rows(records: Iterable[tuple[str, Mapping[str, Any]]], source: str, reading: Reading) -> Iterator[Row]:
    """Rows of the passages of BigBio's documents; an entity that runs over passages joins them.

    Args:
        records: Documents, each with its place.
        source: Name of the whole.
        reading: Options and report; relations, events and coreference are counted.

    Raises:
        ValueError: For malformed documents and entities, as the options say.
    """
    for place, record in records:
        text, parts = record.get("text"), None
        if record.get("passages") is not None:
            text, parts = _passages(record["passages"])
        entities = record.get("entities")
        if text is None or not isinstance(text, str) or not isinstance(entities, list):
            reading.refuse_row(
                place, Problem("form", "fields", sorted(record), "passages with text and offsets, entities")
            )
            continue
        reading.count_skipped(record, OTHER_FIELDS, place)
        document = record.get("id") if record.get("document_id") is None else record["document_id"]
        stated = list(_entities(entities, place, reading))
        yield from text_rows(AnnotatedText(place, text, stated, document=document, parts=parts), reading)


def _passages(passages: Any) -> tuple[str | None, list[int]]:
    """The text of a document, each passage at its offsets, and where they begin; no text if they are malformed."""
    pieces = []
    for passage in passages if isinstance(passages, list) else [None]:
        stated: Mapping[str, Any] = passage if isinstance(passage, Mapping) else {}
        texts: Any = stated.get("text")
        offsets: Any = stated.get("offsets")
        if words_problem(texts) or not _are_offsets(offsets) or len(texts) != len(offsets):
            return None, []
        pieces += [(start, end, piece) for piece, (start, end) in zip(texts, offsets, strict=True)]
    text, parts = "", []
    for start, end, piece in sorted(pieces):
        if start < len(text) or end - start != len(piece) or end > LONGEST:
            return None, []
        text += " " * (start - len(text)) + piece
        parts.append(start)
    return text, parts


def _are_offsets(value: Any) -> bool:
    """Whether a value is a list of pairs of integers."""
    pairs = value if isinstance(value, list) else [None]
    return all(isinstance(pair, list | tuple) and [*map(type, pair)] == [int, int] for pair in pairs)


def _entities(entities: list[Any], place: str, reading: Reading) -> Iterator[TextEntity]:
    """The entities, which may have several pieces."""
    for index, entity in enumerate(entities):
        name = f"entities[{index}]"
        if not isinstance(entity, Mapping) or not _are_offsets(entity.get("offsets")):
            reading.refuse(place, Problem("type", name, entity, "{offsets: [[start, end], ...], type, text}"))
            continue
        surface = entity.get("text")
        surface = " ".join(map(str, surface)) if isinstance(surface, list) else surface
        yield TextEntity(place, name, [tuple(pair) for pair in entity["offsets"]], entity.get("type"), surface or None)
