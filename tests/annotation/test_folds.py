"""Rows in parts, documents whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.annotation.folds import document_folds

DOCUMENTS = st.lists(st.one_of(st.none(), st.sampled_from("abcdef")), min_size=2, max_size=40)


@given(DOCUMENTS, st.integers(2, 5), st.integers(0, 3))
def test_every_row_once_and_documents_whole(names: list[str | None], num_folds: int, seed: int) -> None:
    rows = [{"document": name} for name in names]
    num_documents = names.count(None) + len(set(names) - {None})
    if num_folds > num_documents:
        with pytest.raises(ValueError, match=rf"\[2, {num_documents}\], the number of documents, got {num_folds}"):
            document_folds(rows, num_folds, seed)
        return
    folds = document_folds(rows, num_folds, seed)
    assert sorted(number for fold in folds for number in fold) == list(range(len(rows)))
    assert all(folds)
    for name in set(names) - {None}:
        assert sum(any(names[number] == name for number in fold) for fold in folds) == 1


def test_folds_are_about_equal_and_the_seed_decides() -> None:
    rows = [{"document": f"d{number // 5}"} for number in range(100)]
    folds = document_folds(rows, 4, 0)
    assert [len(fold) for fold in folds] == [25] * 4
    assert document_folds(rows, 4, 0) == folds != document_folds(rows, 4, 1)


def test_rows_without_documents_count_alone() -> None:
    assert sorted(map(len, document_folds([{}] * 7, 2, 0))) == [3, 4]
    with pytest.raises(ValueError, match="folds must lie in"):
        document_folds([{}] * 7, 1, 0)
