"""Budgets, rows and recipes of the pass over many corpora."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from datasets import Dataset

from hf_spanner import METHODS


@pytest.fixture
def corpora(benchmark_script: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_script("corpora")


def entity(start: int, end: int) -> dict[str, Any]:
    return {"start": start, "end": end, "label": "PER"}


def test_rows_are_evenly_spaced_and_all_are_kept_where_there_are_fewer(corpora: ModuleType) -> None:
    """Rows 0, 10/4 = 2.5, 5 and 7.5 of ten, rounded down."""
    rows = Dataset.from_dict({"row": range(10)})
    assert corpora.evenly(rows, 4)["row"] == [0, 2, 5, 7]
    assert corpora.evenly(rows, 10)["row"] == corpora.evenly(rows, 11)["row"] == list(range(10))


def test_a_token_classifier_learns_the_outermost_entities(corpora: ModuleType) -> None:
    """(0, 4) holds (1, 2) and crosses (3, 6); (4, 5) touches it, and lies inside the one that was left out."""
    entities = [entity(0, 4), entity(1, 2), entity(3, 6), entity(4, 5), entity(8, 9)]
    assert corpora.outermost(entities) == [entity(0, 4), entity(4, 5), entity(8, 9)]


@pytest.mark.parametrize("method", [*METHODS, "token_classification"])
def test_every_corpus_has_a_recipe_of_the_same_steps(corpora: ModuleType, method: str, tmp_path: Path) -> None:
    for name, facts in (corpora.CORPORA | corpora.SMALL).items():
        recipe = corpora.recipe_of(name, method, 7, tmp_path)
        assert recipe.training.max_steps == 7
        assert recipe.model["overlap"] == ("nested" if facts.is_nested else "flat")
        assert recipe.data.test == f"data/{name}/test.jsonl"
        assert facts.encoder == "minilm" or recipe.model["word_features"] == "none"


def test_what_is_kept_is_named_once_and_short(corpora: ModuleType) -> None:
    lines = corpora.kept_lines()
    keys = [tuple(line[name] for name in corpora.KEY) for line in lines]
    assert len(keys) == len(set(keys))
    assert {line["corpus"] for line in lines} <= set(corpora.CORPORA | corpora.SMALL)
    assert all(len(json.dumps(line)) < 300 for line in lines)


def test_the_picture_is_not_stale(benchmark_script: Callable[[str], ModuleType]) -> None:
    """If this fails, run: python benchmarks/corpora_tables.py."""
    tables = benchmark_script("corpora_tables")
    assert tables.PICTURE.read_text(encoding="utf-8") == tables.picture()
    assert tables.PICTURE.stat().st_size < 60_000
    assert all(tables.MIN_RATE < line["rate"] < tables.MAX_RATE for line in tables.equal_budget().values())


def test_a_cell_shows_f1_and_the_error_before_and_after(benchmark_script: Callable[[str], ModuleType]) -> None:
    tables = benchmark_script("corpora_tables")
    line = {"f1": 0.7806, "ece": 0.1251, "map": "platt", "calibrated": 0.0312}
    assert tables.cell(line, 0.7806) == "**78.1**; .125 > .031"
    assert tables.cell(line | {"map": None, "calibrated": None}, 0.8) == "78.1; .125"
    assert tables.cell(line | {"f1": 0.0, "ece": None, "map": None}, 0.8) == "0.0; -"
    assert tables.cell(None, None) == "-"


def test_means_are_over_the_corpora_that_all_methods_have(benchmark_script: Callable[[str], ModuleType]) -> None:
    """Two flat corpora with F1 .8 and .6 have a mean of 70.0; a third that one method lacks is left out."""
    tables = benchmark_script("corpora_tables")
    line = {"ece": 0.1, "map": "platt", "calibrated": 0.02, "minutes": 1.0, "rate": 100.0}
    f1 = {"conll2003": 0.8, "wnut17": 0.6, "weibo": 0.1}
    runs = {(corpus, method): line | {"f1": value} for corpus, value in f1.items() for method in tables.COLUMNS}
    del runs["weibo", "bopn"]
    shared = tables.shared_corpora(runs)
    assert shared == ["conll2003", "wnut17"]
    rows = tables.summary(runs, "flat", shared)
    assert [row[2] for row in rows] == ["70.0", ".100 > .020", "1.0", "100"]
    assert tables.summary(runs, "nested", []) == []


def test_a_mean_over_the_smallest_corpora_is_of_methods_that_have_all(
    benchmark_script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One method has F1 .5 and .6 on two corpora, another lacks the second; the other split is not shown."""
    tables = benchmark_script("corpora_tables")
    line = {"train": 100, "steps": 150, "split": "dev", "ece": 0.1, "map": None, "calibrated": None}
    kept = [
        line | {"corpus": "crossner_ai", "method": "bopn", "f1": 0.5},
        line | {"corpus": "crossner_music", "method": "bopn", "f1": 0.6},
        line | {"corpus": "crossner_ai", "method": "diffusion_ner", "f1": 0.4},
        line | {"corpus": "crossner_ai", "method": "bopn", "f1": 0.9, "split": "test"},
        line | {"corpus": "gum", "method": "bopn", "f1": 0.9},
    ]
    monkeypatch.setattr(tables, "kept_lines", lambda: kept)
    header, *rows = tables.smallest_table("dev")
    assert header[3:] == [name for name, _ in tables.COLUMNS.values()]
    assert rows == [
        ["crossner_ai", "100", "150", "-", "-", "50.0; .100", "40.0; .100", "-"],
        ["crossner_music", "100", "150", "-", "-", "60.0; .100", "-", "-"],
        ["mean F1", "", "150", "-", "-", "55.0", "-", "-"],
    ]
