"""Turns records (of JSON lines or of a dataset) into rows. The fields of a record say which form it has."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from hf_spanner.data.characters import CharEntity, SplitText, with_normal_form
from hf_spanner.data.classes import TAG_FIELDS, named_record
from hf_spanner.data.details import add_record_details
from hf_spanner.data.forms import ENTITY_FORMS, entity_form_problem, form_problem, stated_entities
from hf_spanner.data.offsets import Unit, has_text_and_words, is_surface_of, offsets_of_words, unit_of
from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Entity, Problem, Row, entity_problem, words_problem
from hf_spanner.data.tagged import NUM_DETECTION_SENTENCES, scheme_of_stream, spans_of_tags
from hf_spanner.data.tags import is_tag
from hf_spanner.data.texts import words_of

PlacedRecord = tuple[str, Mapping[str, Any]]
Item = tuple[str, tuple[Any, Any, Any, Any]]  # name of an entity, and its start, end, label and surface

WORDS_FIELDS = {"tokens": "entities", "tokenized_text": "ner"}  # each with the field of its spans
CLEAR_OFFSETS = (
    "offsets that fit words alone or characters alone; leave out text or tokens, or state each surface as text"
)


def record_rows(records: Iterable[PlacedRecord], source: str, reading: Reading) -> Iterator[Row]:
    """Rows of records, read one by one.

    Four forms:
      * `tokens` with `entities`: {start, end, label} or [start, end, label] in words, end exclusive;
      * `tokens` with `ner_tags`, or else `tags` or `labels`: one tag per word, a name or the number of a class;
      * `tokenized_text` with `ner`: [start, end, label] in words, end inclusive (GLiNER);
      * `text` with `entities`: as in the first form, but in characters.
    An entity may state its surface as `text`, which is checked. What a record says twice must agree. Where it has both
    `text` and `tokens`, its offsets count what those of the first 1,000 such records fit. `id` and `document` are kept;
    other fields are not read.

    Args:
        records: Each with its place, for messages.
        source: Name of the whole, for the report.
        reading: Options and report.

    Yields:
        Rows in order.

    Raises:
        ValueError: For malformed values, and for two fields that contradict each other, as the options say.
    """
    names = reading.options.class_names
    if names is not None:
        tag_names = dict.fromkeys(TAG_FIELDS, names)
        records = ((place, named_record(record, tag_names, names)) for place, record in records)
    for place, record, unit, scheme in _with_scheme(_with_unit(records, reading), source, reading):
        row = _row(record, place, unit, scheme, reading)
        if row is not None:
            yield row


def _with_unit(records: Iterable[PlacedRecord], reading: Reading) -> Iterator[tuple[str, Mapping[str, Any], Unit]]:
    """Place, record and what its offsets count, which is detected from the first record with text and words on."""
    records = iter(records)
    for place, record in records:
        if has_text_and_words(record):
            head = [(place, record), *islice(records, NUM_DETECTION_SENTENCES - 1)]
            unit = unit_of(record for _, record in head)
            for placed in chain(head, records):
                yield (*placed, unit)
            return
        yield place, record, "words"


def _with_scheme(
    records: Iterable[tuple[str, Mapping[str, Any], Unit]], source: str, reading: Reading
) -> Iterator[tuple[str, Mapping[str, Any], Unit, str]]:
    """The same with the tag scheme, which is detected from the first tagged record on."""
    records = iter(records)
    for place, record, unit in records:
        if tag_fields(record):
            tagged: Iterable[tuple[str, Mapping[str, Any], Unit]] = chain([(place, record, unit)], records)
            scheme, tagged = scheme_of_stream(tagged, lambda placed: _string_tags(placed[1]), source, reading)
            for placed in tagged:
                yield (*placed, scheme)
            return
        yield place, record, unit, reading.options.scheme


def _row(record: Mapping[str, Any], place: str, unit: Unit, scheme: str, reading: Reading) -> Row | None:
    """The row of one record, or None if it cannot be read and such records are dropped."""
    names: dict[str, str | None] = {}
    for field in ("id", "document"):
        value = record.get(field)
        value = record.get(f"{field}_id") if value is None else value  # SpanMarker calls it document_id
        if value is not None and type(value) not in (str, int):
            reading.refuse_row(place, Problem("type", field, value, "a string or an integer"))
            return None
        names[field] = None if value is None else str(value)
    words_fields = [field for field in WORDS_FIELDS if record.get(field) is not None]
    if words_fields:
        read = _word_row(record, words_fields, place, unit, scheme, reading)
    else:
        read = _text_row(record, place, reading)
    if read is None:
        return None
    words, entities = read
    row: Row = {"id": names["id"], "document": names["document"], "tokens": words, "entities": entities}
    if reading.options.details:
        add_record_details(row, record, unit, place, reading)
    return row


def _word_row(
    record: Mapping[str, Any], words_fields: list[str], place: str, unit: Unit, scheme: str, reading: Reading
) -> tuple[list[str], list[Entity]] | None:
    """Words and entities of a record that gives its words; all fields that give entities must give the same."""
    words = [list(record[field]) if isinstance(record[field], tuple) else record[field] for field in words_fields]
    problems = [words_problem(given, field=field) for field, given in zip(words_fields, words, strict=True)]
    problem = next((problem for problem in problems if problem is not None), None)
    if problem is None and words[0] != words[-1]:
        problem = Problem("two truths", "tokenized_text", words[-1], f"the words of tokens, {words[0]}, or one of both")
    if problem is not None:
        reading.refuse_row(place, problem)
        return None
    reading.count_empty_words(words[0], place)
    truths: dict[str, list[Entity] | None] = {}
    for field in words_fields:
        spans_field = WORDS_FIELDS[field]
        if record.get(spans_field) is not None:
            truths[spans_field] = _span_truth(record, spans_field, words[0], place, unit, reading)
    for field in tag_fields(record):
        truths[field] = _tag_truth(record, field, words[0], place, scheme, reading)
    if not truths:
        reading.refuse_row(place, form_problem(record))
    if not truths or None in truths.values():
        return None
    (first, entities), *others = truths.items()
    for field, other in others:
        if other != entities:
            allowed = f"what {first} says, {entities}, or one of both left out"
            reading.refuse_row(place, Problem("two truths", field, other, allowed))
            return None
    assert entities is not None
    return words[0], entities


def _span_truth(
    record: Mapping[str, Any], field: str, words: list[str], place: str, unit: Unit, reading: Reading
) -> list[Entity] | None:
    """The entities of a record with words that gives spans, None if the record cannot be read."""
    items = _entity_items(record, field, place, reading)
    if items is None:
        return None
    if field == "entities" and has_text_and_words(record) and items:
        if unit == "unclear":
            reading.refuse_row(place, Problem("two truths", field, record[field], CLEAR_OFFSETS))
            return None
        if unit == "characters":
            return _character_truth(record["text"], items, words, place, reading)
    spans = []
    for name, (start, end, label, surface) in items:
        end = end + 1 if field == "ner" and type(end) is int else end
        problem = entity_problem(start, end, label, length=len(words), unit="words", field=name)
        if problem is None and surface is not None and not is_surface_of(surface, words[start:end]):
            own = " ".join(words[start:end])
            problem = Problem("surface", f"{name}.text", surface, f"{own!r}, as the words have it")
            problem = with_normal_form(problem, own, [(0, len(own))], surface)
        if problem is None:
            spans.append((start, end, reading.clean_label(label, place)))
        else:
            reading.refuse(place, problem)
    return reading.unique_entities(spans, place)


def _character_truth(
    text: str, items: list[Item], words: list[str], place: str, reading: Reading
) -> list[Entity] | None:
    """The entities of a record whose offsets count the characters of its text, None if its words are not the text's."""
    offsets = offsets_of_words(text, words)
    if offsets is None:
        reading.refuse_row(place, Problem("two truths", "tokens", words, f"the words of the text {text!r} in order"))
        return None
    reading.report.count("offsets that count characters, beside tokens", place)
    return _character_entities(SplitText(text, offsets), items, place, reading)


def _tag_truth(
    record: Mapping[str, Any], field: str, words: list[str], place: str, scheme: str, reading: Reading
) -> list[Entity] | None:
    """The entities of a record with one tag per word, None if the record cannot be read."""
    tags = record[field]
    problem = None
    if not (isinstance(tags, list | tuple) and all(isinstance(tag, str) for tag in tags)):
        problem = Problem(
            "type", field, tags, "a list of strings, a ClassLabel of a dataset, or numbers of class_names"
        )
    elif len(tags) != len(words):
        problem = Problem("length", field, tags, f"{len(words)} tags, one per word")
    if problem is not None:
        reading.refuse_row(place, problem)
        return None
    spans = spans_of_tags(tags, lambda index: f"{place}, {field}[{index}]", scheme, reading)
    return None if spans is None else reading.unique_entities(spans, place)


def _text_row(record: Mapping[str, Any], place: str, reading: Reading) -> tuple[list[str], list[Entity]] | None:
    """Words and entities of a record with character spans."""
    text = record.get("text")
    problem = None
    if text is None or record.get("entities") is None:
        problem = form_problem(record)
    elif not isinstance(text, str):
        problem = Problem("type", "text", text, "a string")
    elif record.get("ner_tags") is not None:
        problem = Problem("two truths", "ner_tags", record["ner_tags"], "tags beside the tokens that they belong to")
    if problem is not None:
        reading.refuse_row(place, problem)
        return None
    assert isinstance(text, str)
    items = _entity_items(record, "entities", place, reading)
    if items is None:
        return None
    split = SplitText(text, words_of(text, reading.options))
    return split.words, _character_entities(split, items, place, reading)


def _character_entities(split: SplitText, items: list[Item], place: str, reading: Reading) -> list[Entity]:
    """Entities in words, from offsets in characters."""
    spans = []
    for name, (start, end, label, surface) in items:
        problem = entity_problem(start, end, label, length=len(split.text), unit="characters", field=name)
        if problem is None and surface is not None and surface != split.text[start:end]:
            problem = Problem("surface", f"{name}.text", surface, f"{split.text[start:end]!r}, as the text has it")
        if problem is not None:
            reading.refuse(place, with_normal_form(problem, split.text, [(start, end)], surface))
            continue
        span = split.word_span(CharEntity(start, end, reading.clean_label(label, place)), name, place, reading)
        if span is not None:
            spans.append(span)
    return reading.unique_entities(spans, place)


def _entity_items(record: Mapping[str, Any], field: str, place: str, reading: Reading) -> list[Item] | None:
    """Name and (start, end, label, surface) of each entity of a record, values unchecked; None if there is no list."""
    entities = stated_entities(record, field)
    if entities is None:
        reading.refuse_row(place, Problem("type", field, record.get(field), f"a list of {ENTITY_FORMS}"))
        return None
    items = []
    for name, stated, fields in entities:
        if fields is None:
            reading.refuse(place, entity_form_problem(name, stated))
        else:
            items.append((name, fields))
    return items


def tag_fields(record: Mapping[str, Any]) -> list[str]:
    """The fields that hold the tags of a record's words.

    `tags` and `labels` may hold something else, such as parts of speech or topics: they count where `ner_tags` is not
    given, and beside spans only if they look like tags.
    """
    words = next((record[field] for field in WORDS_FIELDS if record.get(field) is not None), None)
    if words is None:
        return []
    if record.get("ner_tags") is not None:
        return ["ner_tags"]
    has_spans = any(record.get(field) is not None for field in WORDS_FIELDS.values())
    given = [field for field in ("tags", "labels") if record.get(field) is not None]
    return [field for field in given if not has_spans or _look_like_tags(record[field], words)]


def _look_like_tags(values: object, words: object) -> bool:
    """Whether some values are as many as the words, and all of them tags of some scheme."""
    if not (isinstance(values, list | tuple) and isinstance(words, list | tuple) and len(values) == len(words)):
        return False
    return all(isinstance(value, str) and is_tag(value) for value in values)


def _string_tags(record: Mapping[str, Any]) -> list[str]:
    """Those tags of a record that are strings, for detection."""
    tags = next((record[field] for field in tag_fields(record)), ())
    return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list | tuple) else []
