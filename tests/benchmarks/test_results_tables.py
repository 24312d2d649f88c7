"""The tables of results are never stale, and are made of the lines that they show."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def tables(benchmark_script: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_script("results_tables")


def run(**facts: Any) -> dict[str, Any]:
    facts = {"name": "gum_equal", "method": "bopn", "seed": 1, "recipe": "gum_minilm.yaml", "overrides": []} | facts
    scores = {
        "overall_precision": 0.5,
        "overall_recall": 0.25,
        "overall_f1": 1 / 3,
        "overall_ece": 0.05,
        "calibrated_ece": None,
    }
    return {"split": "test", "rows": {"train": 1000}, "minutes": 2.4} | scores | facts


def test_no_page_is_stale(tables: ModuleType) -> None:
    """If this fails, run: python benchmarks/results_tables.py."""
    stale = [page for page in tables.PAGES if tables.with_tables(page.read_text(encoding="utf-8")) != page.read_text()]
    assert not stale


def test_every_table_is_shown_somewhere(tables: ModuleType) -> None:
    shown = {match[2] for page in tables.PAGES for match in tables.TABLE.finditer(page.read_text(encoding="utf-8"))}
    assert {name.partition(" ")[0] for name in shown} >= set(tables.MAKERS) - {"speed"}


def test_seeds_of_a_run_share_a_row_of_means(tables: ModuleType) -> None:
    """The mean of F1 33.3 and 66.7 is 50.0, and the mean of ECE .05 and .15 is .1."""
    runs = [run(), run(seed=2, overall_f1=2 / 3, overall_ece=0.15)]
    runs.append(run(method="locate_and_label", calibrated_ece=0.0314))
    lines = tables.runs_table(runs, with_method=True).splitlines()
    assert lines[2:] == [
        "| `gum_equal` | bopn | 1,000 | 4 | 1, 2 | 50.0 | 25.0 | 50.0 (33.3 66.7) | .100 (.050 .150) | - | 2 |",
        "| `gum_equal` | locate_and_label | 1,000 | 4 | 1 | 50.0 | 25.0 | 33.3 | .050 | .031 | 2 |",
    ]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"name": "gum_full"}, True),
        ({"name": "gum_full", "overrides": ["model.max_offset=2", "training.use_cpu=true"]}, True),
        ({"name": "gum_full", "overrides": ["model.max_offset=0"]}, False),
        ({"name": "gum_full", "overrides": ["training.num_train_epochs=3"]}, False),
        ({"name": "gum_full_beta0.9", "overrides": ["training.adam_beta1=0.9"]}, False),
        ({"name": "gum_equal"}, False),
        ({"name": "gum_125"}, False),
        ({"name": "gum_full", "recipe": "weibo_e5.yaml"}, False),
    ],
)
def test_a_recipe_shows_only_runs_of_all_its_sentences_without_changes(
    tables: ModuleType, facts: dict[str, Any], expected: bool
) -> None:
    recipe = tables.read(tables.ROOT / "recipes" / "bopn" / "gum_minilm.yaml")
    assert tables.is_of_recipe(run(**facts), "gum_minilm.yaml", recipe) is expected


def test_an_unknown_table_is_refused(tables: ModuleType) -> None:
    with pytest.raises(ValueError, match="table must be one of choice, corpus, .* got 'nothing here'"):
        tables.with_tables("<!-- table: nothing here -->\n<!-- end of table -->\n")
