"""The forms that a record may have, and those of annotation tools, which are known by their fields and named."""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from hf_spanner.data.schema import Problem

FORMS = "tokens with entities, ner_tags, tags or labels; tokenized_text with ner; or text with entities"
ENTITY_FORMS = "{start, end, label} or [start, end, label]"
OUR_FORMS = (
    ("tokens", "entities"),
    ("tokens", "ner_tags"),
    ("tokens", "tags"),
    ("tokens", "labels"),
    ("tokenized_text", "ner"),
    ("text", "entities"),
)
# By the fields of a record; the first that fits is named, so the ones with more fields come first.
TOOL_FORMS: tuple[tuple[str, frozenset[str]], ...] = (
    ("Label Studio's JSON-MIN", frozenset({"text", "label", "annotation_id"})),
    ("Label Studio's JSON", frozenset({"data", "annotations"})),
    ("Label Studio's JSON", frozenset({"data", "completions"})),
    ("Prodigy's JSON lines", frozenset({"text", "spans"})),
    ("DyGIE's JSON", frozenset({"sentences", "ner"})),
    ("BigBio's records", frozenset({"passages", "entities"})),
    ("BioC's JSON", frozenset({"passages"})),
    ("doccano's or CLUENER's JSON lines", frozenset({"text", "label"})),
    ("doccano's JSON lines", frozenset({"text", "labels"})),
)
# By the fields of an entity.
TOOL_ENTITIES: tuple[tuple[str, frozenset[str]], ...] = (
    (
        "doccano's, with start_offset and end_offset in place of start and end",
        frozenset({"start_offset", "end_offset"}),
    ),
    ("BigBio's, with offsets in place of start and end and type in place of label", frozenset({"offsets", "type"})),
    ("Label Studio's, with labels in place of label", frozenset({"start", "end", "labels"})),
    ("SpERT's, with type in place of label", frozenset({"start", "end", "type"})),
    ("spaCy's, with label_ in place of label", frozenset({"start", "end", "label_"})),
)


class StatedEntity(NamedTuple):
    """An entity as a record states it, values unchecked; `fields` are None where it is of another form."""

    name: str
    stated: object
    fields: tuple[Any, Any, Any, Any] | None  # start, end, label, surface


def stated_entities(record: Mapping[str, Any], field: str) -> list[StatedEntity] | None:
    """The entities of a record as it states them, None if the field holds no list of them."""
    entities: Any = record.get(field)
    if isinstance(entities, Mapping):  # a Sequence of a dataset is read back as a list per key
        keys = ["start", "end", "label"] + ["text"] * (entities.get("text") is not None)
        columns = [entities[key] for key in keys if isinstance(entities.get(key), list)]
        if len(columns) == len(keys) and len({len(column) for column in columns}) == 1:
            entities = [dict(zip(keys, item, strict=True)) for item in zip(*columns, strict=True)]
    if not isinstance(entities, list | tuple):
        return None
    stated = []
    for index, entity in enumerate(cast(list[Any], entities)):
        fields = None
        if isinstance(entity, list | tuple) and len(entity) == 3:
            fields = (entity[0], entity[1], entity[2], None)
        elif isinstance(entity, Mapping) and _tool_of_entity(entity) is None:
            fields = (entity.get("start"), entity.get("end"), entity.get("label"), entity.get("text"))
        stated.append(StatedEntity(f"{field}[{index}]", entity, fields))
    return stated


def form_problem(record: Mapping[str, Any]) -> Problem:
    """What is wrong with a record that has none of our forms: the fields that it has, and the form that is nearest."""
    given = {field for field, value in record.items() if value is not None}
    tool = next((name for name, fields in TOOL_FORMS if fields <= given), None)
    if tool is not None:
        nearest = f"this has the fields of {tool}, whose spans must be written as entities"
    else:
        form = max(OUR_FORMS, key=lambda fields: sum(field in given for field in fields))
        missing = [field for field in form if field not in given]
        nearest = f"the nearest is {' with '.join(form)}, without {' and '.join(missing)} here"
    return Problem("form", "fields", sorted(given), f"{FORMS}; {nearest}")


def entity_form_problem(field: str, entity: object) -> Problem:
    """What is wrong with an entity of another form: what it is, and the tool that writes it so."""
    tool = _tool_of_entity(entity) if isinstance(entity, Mapping) else None
    return Problem("type", field, entity, ENTITY_FORMS + (f"; the fields are {tool}" if tool else ""))


def _tool_of_entity(entity: Mapping[str, Any]) -> str | None:
    """The tool whose fields an entity has in place of ours, None if it has ours or unknown ones."""
    if {"start", "end", "label"} <= entity.keys():
        return None
    return next((name for name, fields in TOOL_ENTITIES if fields <= entity.keys()), None)
