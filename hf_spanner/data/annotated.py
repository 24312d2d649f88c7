"""Rows that are given in memory, in the form that training reads, whatever form of annotation they come in."""

from collections.abc import Mapping
from typing import Any, cast

from datasets import Dataset, IterableDataset, LargeList, List, Value

from hf_spanner.data.classes import TAG_FIELDS
from hf_spanner.data.readers import load_rows
from hf_spanner.data.schema import FEATURES

OTHER_FIELDS = {*TAG_FIELDS, "tokenized_text", "ner", "text"}  # of forms other than tokens with entities


def annotated_rows(rows: Any) -> Any:
    """Rows as they are if they have words and entities in the form of training, else as `load_rows` reads them.

    Args:
        rows: A dataset, or any rows; those of another form are read once.

    Raises:
        ValueError: For rows without annotation or in no known form, as in `load_rows`.
    """
    if isinstance(rows, IterableDataset):
        return load_rows(rows)
    if isinstance(rows, Dataset):
        features = {name: rows.features.get(name) for name in FEATURES}
        is_plain = not OTHER_FIELDS & set(rows.column_names) and _label_type(features["entities"]) == Value("string")
        return rows if is_plain else load_rows(rows)
    rows = list(rows)
    return rows if all(map(_is_plain, rows)) else load_rows(rows)


def _is_plain(row: Mapping[str, Any]) -> bool:
    """Whether a row has words, entities as dicts, and no other field that a form of record has."""
    entities = row.get("entities")
    is_plain = "tokens" in row and isinstance(entities, list) and not OTHER_FIELDS & row.keys()
    return is_plain and all(isinstance(entity, Mapping) and "label" in entity for entity in cast(list, entities))


def _label_type(entities: Any) -> Any:
    """Feature of the labels of a dataset's entities, given as a list of dicts; None for other entities."""
    inner = entities.feature if isinstance(entities, List | LargeList) else None
    return inner.get("label") if isinstance(inner, Mapping) else None
