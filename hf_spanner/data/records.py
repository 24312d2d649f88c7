"""Turns records (of JSON lines or of a dataset) into rows. The fields of a record say which form it has."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from hf_spanner.data.characters import CharEntity, SplitText
from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Entity, Problem, Row, entity_problem, words_problem
from hf_spanner.data.tagged import scheme_of_stream, spans_of_tags

PlacedRecord = tuple[str, Mapping[str, Any]]

FORMS = "tokens with entities or ner_tags, tokenized_text with ner, or text with entities"
ENTITY_FORMS = "{start, end, label} or [start, end, label]"


def record_rows(records: Iterable[PlacedRecord], source: str, reading: Reading) -> Iterator[Row]:
    """Rows of records, read one by one.

    Four forms, looked for in this order:
      * `tokens` with `entities`: {start, end, label} or [start, end, label] in words, end exclusive;
      * `tokens` with `ner_tags`: one tag (a string) per word;
      * `tokenized_text` with `ner`: [start, end, label] in words, end inclusive (GLiNER);
      * `text` with `entities`: as in the first form, but in characters; an entity may hold its surface as `text`, which
        is checked.
    `id` and `document` are kept; other fields are not read.

    Args:
        records: Each with its place, for messages.
        source: Name of the whole, for the report.
        reading: Options and report.

    Yields:
        Rows in order.

    Raises:
        ValueError: For malformed values, as the options say.
    """
    for place, record, scheme in _with_scheme(records, source, reading):
        row = _row(record, place, scheme, reading)
        if row is not None:
            yield row


def _with_scheme(
    records: Iterable[PlacedRecord], source: str, reading: Reading
) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Place, record and tag scheme, which is detected from the first tagged record on."""
    records = iter(records)
    for place, record in records:
        if _is_tagged(record):
            tagged = chain([(place, record)], records)
            scheme, tagged = scheme_of_stream(tagged, lambda placed: _string_tags(placed[1]), source, reading)
            yield from ((*placed, scheme) for placed in tagged)
            return
        yield place, record, reading.options.scheme


def _row(record: Mapping[str, Any], place: str, scheme: str, reading: Reading) -> Row | None:
    """The row of one record, or None if it cannot be read and such records are dropped."""
    names: dict[str, str | None] = {}
    for field in ("id", "document"):
        value = record.get(field)
        if value is not None and type(value) not in (str, int):
            reading.refuse_row(place, Problem("type", field, value, "a string or an integer"))
            return None
        names[field] = None if value is None else str(value)
    if record.get("tokens") is not None:
        read = _tagged_row(record, place, scheme, reading) if _is_tagged(record) else _word_row(record, place, reading)
    elif record.get("tokenized_text") is not None:
        read = _word_row(record, place, reading, words_field="tokenized_text", entities_field="ner", inclusive=True)
    else:
        read = _text_row(record, place, reading)
    if read is None:
        return None
    words, entities = read
    return {"id": names["id"], "document": names["document"], "tokens": words, "entities": entities}


def _word_row(
    record: Mapping[str, Any],
    place: str,
    reading: Reading,
    *,
    words_field: str = "tokens",
    entities_field: str = "entities",
    inclusive: bool = False,
) -> tuple[list[str], list[Entity]] | None:
    """Words and entities of a record with word spans."""
    words = record[words_field]
    problem = words_problem(words, field=words_field)
    if problem is not None:
        reading.refuse_row(place, problem)
        return None
    items = _entity_items(record, entities_field, place, reading)
    if items is None:
        return None
    spans = []
    for field, (start, end, label, _) in items:
        end = end + 1 if inclusive and type(end) is int else end
        problem = entity_problem(start, end, label, length=len(words), unit="words", field=field)
        if problem is None:
            spans.append((start, end, reading.clean_label(label, place)))
        else:
            reading.refuse(place, problem)
    return words, reading.unique_entities(spans, place)


def _tagged_row(
    record: Mapping[str, Any], place: str, scheme: str, reading: Reading
) -> tuple[list[str], list[Entity]] | None:
    """Words and entities of a record with one tag per word."""
    words, tags = record["tokens"], record["ner_tags"]
    problem = words_problem(words)
    if problem is None and not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
        problem = Problem("type", "ner_tags", tags, "a list of strings, or a ClassLabel of a dataset")
    if problem is None and len(tags) != len(words):
        problem = Problem("length", "ner_tags", tags, f"{len(words)} tags, one per word")
    if problem is not None:
        reading.refuse_row(place, problem)
        return None
    spans = spans_of_tags(tags, lambda index: f"{place}, ner_tags[{index}]", scheme, reading)
    return None if spans is None else (words, reading.unique_entities(spans, place))


def _text_row(record: Mapping[str, Any], place: str, reading: Reading) -> tuple[list[str], list[Entity]] | None:
    """Words and entities of a record with character spans."""
    text = record.get("text")
    if not isinstance(text, str):
        given = sorted(record) if text is None else text
        reading.refuse_row(place, Problem("type", "fields" if text is None else "text", given, FORMS))
        return None
    items = _entity_items(record, "entities", place, reading)
    if items is None:
        return None
    split = SplitText(text, split_hyphens=reading.options.split_hyphens)
    spans = []
    for field, (start, end, label, surface) in items:
        problem = entity_problem(start, end, label, length=len(text), unit="characters", field=field)
        if problem is None and surface is not None and surface != text[start:end]:
            problem = Problem("surface", f"{field}.text", surface, f"{text[start:end]!r}, as the text has it")
        if problem is not None:
            reading.refuse(place, problem)
            continue
        entity = CharEntity(start, end, reading.clean_label(label, place))
        span = split.word_span(entity, field, place, reading)
        if span is not None:
            spans.append(span)
    return split.words, reading.unique_entities(spans, place)


def _entity_items(
    record: Mapping[str, Any], field: str, place: str, reading: Reading
) -> list[tuple[str, tuple[Any, Any, Any, Any]]] | None:
    """Name and (start, end, label, surface) of each entity of a record, values unchecked; None if there is no list."""
    entities = record.get(field)
    if isinstance(entities, dict):  # a Sequence of a dataset is read back as a list per key
        keys = ["start", "end", "label"] + ["text"] * (entities.get("text") is not None)
        columns = [entities[key] for key in keys if isinstance(entities.get(key), list)]
        if len(columns) == len(keys) and len({len(column) for column in columns}) == 1:
            entities = [dict(zip(keys, item, strict=True)) for item in zip(*columns, strict=True)]
    if not isinstance(entities, list):
        reading.refuse_row(place, Problem("type", field, entities, f"a list of {ENTITY_FORMS}"))
        return None
    items = []
    for index, entity in enumerate(entities):
        name = f"{field}[{index}]"
        if isinstance(entity, list) and len(entity) == 3:
            items.append((name, (*entity, None)))
        elif isinstance(entity, dict):
            items.append((name, (entity.get("start"), entity.get("end"), entity.get("label"), entity.get("text"))))
        else:
            reading.refuse(place, Problem("type", name, entity, ENTITY_FORMS))
    return items


def _is_tagged(record: Mapping[str, Any]) -> bool:
    """Whether the entities of a record are given as tags."""
    return record.get("ner_tags") is not None and record.get("entities") is None


def _string_tags(record: Mapping[str, Any]) -> list[str]:
    """Those tags of a record that are strings, for detection."""
    tags = record.get("ner_tags")
    return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
