"""BigBio's records of the data sets of biomedicine: passages with entities, and other records with such entities."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Problem, Row
from hf_spanner.data.texts import AnnotatedText, TextEntity, text_rows

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
        for name, kind in OTHER_FIELDS.items():
            for item in record.get(name) or ():
                reading.report.count(f"skipped, {kind}", f"{place}: {item}")
        names = [record.get("document_id"), record.get("id")]
        document = next((str(name) for name in names if name is not None), None)
        stated = [
            _entity(entity, f"entities[{index}]", place)
            for index, entity in enumerate(entities)
            if _is_entity(entity, f"entities[{index}]", place, reading)
        ]
        yield from text_rows(AnnotatedText(place, text, stated, document=document, parts=parts), reading)


def _passages(passages: Any) -> tuple[str | None, list[int]]:
    """The text of a document, each passage at its offsets, and where they begin; no text if they are malformed."""
    pieces = []
    for passage in passages if isinstance(passages, list) else ():
        texts, offsets = passage.get("text"), passage.get("offsets")
        if not (isinstance(texts, list) and isinstance(offsets, list) and len(texts) == len(offsets)):
            return None, []
        pieces += [(start, end, piece) for piece, (start, end) in zip(texts, offsets, strict=True)]
    text, parts = "", []
    for start, end, piece in sorted(pieces):
        if start < len(text) or end - start != len(piece):
            return None, []
        text += " " * (start - len(text)) + piece
        parts.append(start)
    return text, parts


def _is_entity(entity: Any, name: str, place: str, reading: Reading) -> bool:
    """Whether an entity has offsets and a type; one that has not is refused."""
    offsets = entity.get("offsets") if isinstance(entity, Mapping) else None
    is_fine = isinstance(offsets, list) and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in offsets)
    if not is_fine:
        reading.refuse(place, Problem("type", name, entity, "{offsets: [[start, end], ...], type, text}"))
    return is_fine


def _entity(entity: Mapping[str, Any], name: str, place: str) -> TextEntity:
    """An entity, which may have several pieces."""
    surfaces = entity.get("text")
    surface = " ".join(map(str, surfaces)) if isinstance(surfaces, list) else surfaces
    return TextEntity(place, name, [tuple(pair) for pair in entity["offsets"]], entity.get("type"), surface or None)
