"""Kept predictions: each run of the results is there and gives its scores, and new runs take their place beside it."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hf_spanner.analysis.comparison import read_predictions
from hf_spanner.metrics.span_ner.scoring import score_spans

FACTS = {"name": "weibo_full", "method": "bopn", "seed": 1, "split": "test"}
GOLD = [[{"start": 0, "end": 2, "label": "LOC"}], []]


@pytest.fixture
def kept(benchmark_script: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_script("kept_runs")


def scored(score: float) -> list[list[dict[str, Any]]]:
    return [[{"start": 0, "end": 2, "label": "LOC", "score": score}], []]


def test_a_run_is_read_as_it_was_added_with_five_digits_of_its_scores(kept: ModuleType, tmp_path: Path) -> None:
    assert kept.add_run(tmp_path, FACTS, scored(0.12345678), GOLD) == "weibo_full-bopn-seed1"
    assert read_predictions(f"{tmp_path}/weibo.parquet#weibo_full-bopn-seed1") == (scored(0.12346), GOLD)


def test_a_run_takes_the_place_of_its_name_and_leaves_the_others(kept: ModuleType, tmp_path: Path) -> None:
    kept.add_run(tmp_path, FACTS, scored(0.5), GOLD)
    kept.add_run(tmp_path, FACTS | {"split": "dev"}, scored(0.7), GOLD)
    kept.add_run(tmp_path, FACTS, scored(1.0), GOLD)
    names = [f"{tmp_path}/weibo.parquet#weibo_full-bopn-seed1{end}" for end in ("", "-dev")]
    assert kept.kept_runs(["*"], tmp_path) == names
    assert kept.kept_runs(["weibo*dev"], tmp_path) == names[1:]
    assert [read_predictions(name)[0] for name in names] == [scored(1.0), scored(0.7)]


def test_a_line_of_results_takes_the_place_of_its_run_and_leaves_the_others(kept: ModuleType, tmp_path: Path) -> None:
    assert kept.kept_results(tmp_path) == []
    dev = FACTS | {"split": "dev", "overall_f1": 0.5}
    for facts in (FACTS | {"overall_f1": 0.25}, dev, FACTS | {"overall_f1": 0.75}):
        kept.add_result(tmp_path, facts)
    assert kept.kept_results(tmp_path) == [dev, FACTS | {"overall_f1": 0.75}]


def test_a_pattern_that_fits_nothing_is_refused(kept: ModuleType, tmp_path: Path) -> None:
    kept.add_run(tmp_path, FACTS, scored(0.5), GOLD)
    with pytest.raises(ValueError, match=r"gum\* must fit one of the runs weibo_full-bopn-seed1"):
        kept.kept_runs(["weibo*", "gum*"], tmp_path)


def test_every_kept_run_has_a_line_and_every_run_of_a_whole_corpus_is_kept(kept: ModuleType) -> None:
    lines = kept.kept_results()
    assert len({tuple(line) for line in lines}) == 1, "each line has the same fields in the same order"
    sources = {f"{kept.file_of_run(run)}#{run}": line["name"] for line in lines for run in [kept.run_name(line)]}
    assert len(sources) == len(lines)
    missing = sources.keys() - set(kept.kept_runs(["*"]))
    assert set(kept.kept_runs(["*"])) <= sources.keys()
    assert not [source for source in missing if sources[source].endswith("_full") and "-seed42" in source]


@pytest.mark.parametrize(
    "corpus", ["weibo", "quickstart", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gum", "conll2003"))]
)
def test_predictions_give_the_scores_of_the_results(kept: ModuleType, corpus: str) -> None:
    """Scores are kept to five digits, which moves the calibration error by less than 1e-5."""
    lines = {kept.run_name(line): line for line in kept.kept_results()}
    for source in kept.kept_runs([f"{corpus}*"]):
        run = source.partition("#")[2]
        line, scores = lines[run], score_spans(*read_predictions(source))
        for name in ("overall_f1", "overall_precision", "overall_recall", "macro_f1", "overall_ece", "overall_brier"):
            assert scores[name] == pytest.approx(line[name], abs=1e-5), (run, name)
