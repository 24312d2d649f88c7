"""The map that a recipe fits is the one that halves of its dev rows choose."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from hf_spanner import METHODS, Recipe
from hf_spanner.analysis.comparison import read_predictions

ROOT = Path(__file__).parents[2]
RUNS = {"conll2003_minilm": "conll2003_full", "gum_minilm": "gum_full", "weibo_e5": "weibo_full"}


def entity(start: int, end: int) -> dict[str, Any]:
    return {"start": start, "end": end, "label": "PER"}


def test_the_map_is_chosen_by_halves(benchmark_script: Callable[[str], ModuleType]) -> None:
    """Scores of .9 and .5 are right in .5 and .9 of the cases: only steps that pool them come near, no rising curve.

    A temperature keeps the order and .5 as it is, so its error is at least .2 on the half of the scores that are .5;
    fewer than fifty predictions in a half give no map.
    """
    script = benchmark_script("calibration")
    generator = np.random.default_rng(0)
    predicted, gold = [], []
    for row in range(400):
        score, share = ((0.9, 0.5), (0.5, 0.9))[row % 2]
        predicted.append([entity(0, 1) | {"score": score}])
        gold.append([entity(0, 1)] if generator.random() < share else [])
    rows = script.Rows(predicted, gold)
    assert script.best_kind(rows) != "temperature"
    assert script.best_kind(rows.where(np.arange(400) < 80)) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("method", METHODS)
def test_a_small_recipe_has_the_map_that_halves_of_dev_choose(
    benchmark_script: Callable[[str], ModuleType], method: str, name: str
) -> None:
    """The predictions are of the run on all sentences of its corpus."""
    script = benchmark_script("calibration")
    path = ROOT / "recipes" / method / f"{name}.yaml"
    if not path.exists():
        pytest.skip(f"{method} has no recipe {name}")
    kept = ROOT / "benchmarks" / "predictions" / f"{name.partition('_')[0]}.parquet"
    rows = script.Rows(*read_predictions(f"{kept}#{RUNS[name]}-{method}-seed42-dev"))
    assert Recipe.from_yaml(path, ["training.use_cpu=true"]).calibration == script.best_kind(rows, 20)
