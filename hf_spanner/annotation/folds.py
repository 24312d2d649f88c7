"""Rows in parts, for models that each judge the rows that they were not trained on."""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any


def rows_by_document(rows: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Numbers of the rows of each document, in the order of first rows; a row that names none is one of its own."""
    by_document: dict[tuple[int, Any], list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        name = row.get("document")
        by_document[(number, None) if name is None else (-1, name)].append(number)
    return list(by_document.values())


def document_folds(rows: Sequence[Mapping[str, Any]], num_folds: int, seed: int) -> list[list[int]]:
    """Numbers of the rows of each fold; documents stay whole, a row that names none is one of its own.

    Documents come in random order, then the longer ones first, each to the fold with the fewest rows so far.

    Args:
        rows: Rows, with `document` or without.
        num_folds: How many folds, at least 2.
        seed: Seed of the order.

    Returns:
        For each fold its rows in order; every row is in one fold.

    Raises:
        ValueError: If there are fewer documents than folds, or fewer than two folds.
    """
    documents = rows_by_document(rows)
    if not 2 <= num_folds <= len(documents):
        raise ValueError(f"folds must lie in [2, {len(documents)}], the number of documents, got {num_folds}")
    random.Random(seed).shuffle(documents)
    documents.sort(key=len, reverse=True)
    folds: list[list[int]] = [[] for _ in range(num_folds)]
    for document in documents:
        min(folds, key=len).extend(document)
    return [sorted(fold) for fold in folds]
