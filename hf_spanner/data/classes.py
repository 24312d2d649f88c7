"""Class numbers of tags and labels become names, wherever the names come from."""

from collections.abc import Mapping, Sequence
from typing import Any

TAG_FIELDS: tuple[str, ...] = ("ner_tags", "tags", "labels")


def named_record(
    record: Mapping[str, Any], tag_names: Mapping[str, Sequence[str]], label_names: Sequence[str] | None
) -> dict[str, Any]:
    """The record with names in place of class numbers; a number that no class has stays, to be refused by its reader.

    Args:
        record: Any record.
        tag_names: For each field of tags that may hold numbers, the names of its classes.
        label_names: Names of the classes of the labels of `entities`, or None.
    """
    record = dict(record)
    for field, names in tag_names.items():
        if isinstance(record.get(field), list):
            record[field] = [_name(tag, names) for tag in record[field]]
    if label_names and record.get("entities") is not None:
        record["entities"] = _named_entities(record["entities"], label_names)
    return record


def _named_entities(entities: Any, names: Sequence[str]) -> Any:
    """Entities, as a list of dicts or of [start, end, label], or as a dict of lists, with label names."""
    if isinstance(entities, Mapping):
        labels = entities.get("label")
        return (
            {**entities, "label": [_name(label, names) for label in labels]} if isinstance(labels, list) else entities
        )
    return [_named_entity(entity, names) for entity in entities] if isinstance(entities, list) else entities


def _named_entity(entity: Any, names: Sequence[str]) -> Any:
    """One entity with its label's name; what has no label is given back as it is."""
    if isinstance(entity, Mapping):
        return {**entity, "label": _name(entity["label"], names)} if "label" in entity else entity
    if isinstance(entity, list | tuple) and len(entity) == 3:
        return [*entity[:2], _name(entity[2], names)]
    return entity


def _name(number: Any, names: Sequence[str]) -> Any:
    """Name of a class; what is no number of a class stays."""
    return names[number] if type(number) is int and 0 <= number < len(names) else number
