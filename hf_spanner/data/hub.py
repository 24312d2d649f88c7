"""Datasets (in memory, as parquet or from the Hub) as records: class numbers become names."""

from collections.abc import Iterator, Mapping
from typing import Any

from datasets import ClassLabel, Dataset, IterableDataset, LargeList, List

from hf_spanner.data.classes import TAG_FIELDS, named_record
from hf_spanner.data.policy import Reading
from hf_spanner.data.records import tag_fields
from hf_spanner.data.schema import Problem
from hf_spanner.data.tags import is_tag


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
        ValueError: For a number that is no class, unless such records are dropped; for class names given as an option
            that differ from those of the dataset.
    """
    features = dataset.features or {}
    tag_names = {field: names for field in TAG_FIELDS if (names := _class_names(features.get(field)))}
    label_names = _label_names(features.get("entities"))
    for names in (*tag_names.values(), label_names):
        if names is not None and reading.options.class_names not in (None, tuple(names)):
            raise ValueError(
                f"class_names must be left out for {source}, whose own names are {names}, "
                f"got {list(reading.options.class_names or ())}"
            )
    for index, plain in enumerate(dataset.with_format(None)):
        place = f"{source}, row {index} (from 0)"
        record = named_record(plain, tag_names, label_names)
        unknown = [
            (field, tag, len(names))
            for field, names in tag_names.items()
            for tag in record.get(field) or ()
            if not isinstance(tag, str)
            and (field in tag_fields(record) or (record.get("ner_tags") is None and all(map(is_tag, names))))
        ]
        if unknown:
            field, tag, num_names = unknown[0]
            reading.refuse_row(place, Problem("class", field, tag, f"0 to {num_names - 1}"))
            continue
        yield place, record


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
