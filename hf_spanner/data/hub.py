"""Datasets (in memory, as parquet or from the Hub) as records: class numbers become names."""

from collections.abc import Iterator, Mapping
from typing import Any

from datasets import ClassLabel, Dataset, IterableDataset, LargeList, List

from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Problem


def dataset_records(
    dataset: Dataset | IterableDataset, source: str, reading: Reading
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Records of a dataset, each with its place, with the names of its classes instead of their numbers.

    Args:
        dataset: With `tokens` and `ner_tags` or `entities`, or another form of `record_rows`.
        source: Name for messages.
        reading: Options and report.

    Yields:
        "source, row n (from 0)" and the record.

    Raises:
        ValueError: For a number that is no class, unless such records are dropped.
    """
    features = dataset.features or {}
    tag_names = _class_names(features.get("ner_tags"))
    label_names = _label_names(features.get("entities"))
    for index, record in enumerate(dataset.with_format(None)):
        place = f"{source}, row {index} (from 0)"
        record = dict(record)
        if tag_names and record.get("ner_tags") is not None:
            record["ner_tags"] = [_name(tag, tag_names) for tag in record["ner_tags"]]
            unknown = [tag for tag in record["ner_tags"] if not isinstance(tag, str)]
            if unknown:
                reading.refuse_row(place, Problem("class", "ner_tags", unknown[0], f"0 to {len(tag_names) - 1}"))
                continue
        if label_names and record.get("entities") is not None:
            record["entities"] = _named_entities(record["entities"], label_names)
        yield place, record


def _named_entities(entities: Any, names: list[str]) -> Any:
    """Entities, as a list of dicts or a dict of lists, with label names; a number without a name stays."""
    if isinstance(entities, Mapping):
        return {**entities, "label": [_name(label, names) for label in entities["label"]]}
    return [{**entity, "label": _name(entity["label"], names)} for entity in entities]


def _name(number: Any, names: list[str]) -> Any:
    """Name of a class; what is no number of a class stays."""
    return names[number] if type(number) is int and 0 <= number < len(names) else number


def _class_names(feature: Any) -> list[str] | None:
    """Class names of a list of class labels; None for any other feature."""
    inner = feature.feature if isinstance(feature, List | LargeList) else None
    return inner.names if isinstance(inner, ClassLabel) else None


def _label_names(feature: Any) -> list[str] | None:
    """Class names of the labels of entities, given as a list of dicts or a dict of lists; None for other labels."""
    if isinstance(feature, Mapping):
        return _class_names(feature.get("label"))
    inner = feature.feature if isinstance(feature, List | LargeList) else None
    label = inner.get("label") if isinstance(inner, Mapping) else None
    return label.names if isinstance(label, ClassLabel) else None
