"""The comparison program on a tiny saved model and on saved predictions."""

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median_high
from typing import Any

import pytest
from datasets import Dataset
from transformers import AutoModel, AutoTokenizer

from hf_spanner import SpanNERPipeline
from hf_spanner.calibration.fitting import rows_fingerprint
from hf_spanner.commands.judging import predicted_and_gold
from hf_spanner.core.spans import EntityLists
from hf_spanner.metrics.span_ner.resampling import paired_bootstrap
from hf_spanner.metrics.span_ner.scoring import score_spans


@pytest.fixture
def threshold(saved_model: Path, rows: list) -> float:
    """A threshold that some predictions reach and others do not."""
    predicted, _ = predictions(saved_model, rows)
    return median_high(span["score"] for spans in predicted for span in spans)


@pytest.fixture
def other_model(saved_model: Path, threshold: float, tmp_path: Path) -> Path:
    """The same model with a higher threshold."""
    return changed_model(saved_model, tmp_path / "other", threshold=threshold)


def changed_model(saved_model: Path, folder: Path, **fields: Any) -> Path:
    AutoModel.from_pretrained(saved_model, **fields).save_pretrained(folder)
    AutoTokenizer.from_pretrained(saved_model).save_pretrained(folder)
    return folder


def predictions(folder: Path, rows: list) -> tuple[EntityLists, EntityLists]:
    return predicted_and_gold(
        SpanNERPipeline(model=AutoModel.from_pretrained(folder), tokenizer=AutoTokenizer.from_pretrained(folder)),
        rows,
        {},
        8,
    )


@pytest.fixture
def save_predictions(tmp_path: Path) -> Callable[[str, EntityLists, EntityLists], str]:
    """Keeps predictions as `benchmarks/quality.py` does, except for the rounding of scores."""

    def save(run: str, predicted: EntityLists, gold: EntityLists) -> str:
        sides = enumerate(zip(predicted, gold, strict=True))
        path = tmp_path / f"{run}.parquet"
        Dataset.from_list(
            [
                {"run": run, "row": row, "predicted": row_predicted, "gold": row_gold}
                for row, (row_predicted, row_gold) in sides
            ]
        ).to_parquet(path)
        return f"{path}#{run}"

    return save


def test_two_models_are_compared_on_the_same_rows(
    program: Callable,
    saved_model: Path,
    other_model: Path,
    rows: list,
    write_jsonl: Callable,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:
    named = [row | {"document": f"d{place // 2}"} for place, row in enumerate(rows)]
    target, data = tmp_path / "comparison.json", write_jsonl("rows.jsonl", named)
    options = ["--num-resamples", "50", "--num-examples", "1", "--output", str(target)]
    program("compare").main([str(saved_model), str(other_model), str(data), *options])
    result = json.loads(target.read_text(encoding="utf-8"))
    first, gold = predictions(saved_model, rows)
    second, _ = predictions(other_model, rows)
    assert result["names"] == {"first": saved_model.name, "second": "other"}
    assert result["first"] == score_spans(first, gold)
    assert result["second"] == score_spans(second, gold)
    assert 0 < result["second"]["num_predicted"] < result["first"]["num_predicted"]
    documents = [row["document"] for row in named]
    assert result["paired"] == paired_bootstrap(first, second, gold, documents=documents, num_resamples=50)
    assert [len(examples) for examples in result["examples"].values()] == [
        int(result["agreement"][side][f"only_{model}"] > 0)
        for side in ("gold", "wrong")
        for model in ("first", "second")
    ]
    printed = capsys.readouterr().out
    assert f"50 resamples of {len(set(documents))} documents. p is two-sided" in printed
    assert "Wrong, by A only, the surest first:\n- " in printed


def test_saved_predictions_give_the_numbers_of_their_models(
    program: Callable,
    saved_model: Path,
    other_model: Path,
    rows: list,
    write_jsonl: Callable,
    save_predictions: Callable,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:
    """Without data there are no texts and no examples; all the rest is the same."""
    compare, data = program("compare"), str(write_jsonl("rows.jsonl", rows))
    files = [
        save_predictions(name, *predictions(folder, rows)) for name, folder in (("a", saved_model), ("b", other_model))
    ]
    results = {}
    for name, sides in (
        ("models", [str(saved_model), str(other_model), data]),
        ("files", [*files, data]),
        ("mixed", [files[0], str(other_model), data]),
        ("no data", files),
    ):
        target = tmp_path / "comparison.json"
        compare.main([*sides, "--num-resamples", "20", "--output", str(target)])
        results[name] = json.loads(target.read_text(encoding="utf-8"))
        del results[name]["names"]
    assert results["files"] == results["mixed"] == results["models"]
    assert {**results["no data"], "examples": results["models"]["examples"]} == results["models"]
    printed = capsys.readouterr().out
    assert printed.count(f"{len(rows)} rows name no document and count as one each") == 4
    assert printed.count("the surest first") == 3 * 4


def test_decoding_parameters_reach_the_sides_that_have_them(
    program: Callable,
    saved_model: Path,
    threshold: float,
    rows: list,
    write_jsonl: Callable,
    save_predictions: Callable,
    tmp_path: Path,
) -> None:
    compare, target = program("compare"), tmp_path / "comparison.json"
    data = str(write_jsonl("rows.jsonl", rows))
    file = save_predictions("a", *predictions(saved_model, rows))
    compare.main([file, str(saved_model), data, "--threshold", str(threshold), "--output", str(target)])
    result = json.loads(target.read_text(encoding="utf-8"))
    assert result["first"]["num_predicted"] > result["second"]["num_predicted"] > 0
    with pytest.raises(ValueError, match="threshold must be a decoding parameter of one of"):
        compare.main([file, file, data, "--threshold", "0.6"])
    with pytest.raises(ValueError, match="num_steps must be a decoding parameter of one of"):
        compare.main([file, str(saved_model), data, "--num-steps", "5"])


def test_sides_of_other_rows_are_refused(
    program: Callable, saved_model: Path, rows: list, write_jsonl: Callable, save_predictions: Callable
) -> None:
    compare = program("compare")
    predicted, gold = predictions(saved_model, rows)
    whole, part = save_predictions("a", predicted, gold), save_predictions("b", predicted[1:], gold[1:])
    with pytest.raises(ValueError, match=r"b\.parquet#b: must hold the same rows as the other side"):
        compare.main([whole, part])
    turned = str(write_jsonl("rows.jsonl", rows[::-1]))
    with pytest.raises(ValueError, match=r"a\.parquet#a: row \d+ must have the same gold entities"):
        compare.main([whole, str(saved_model), turned])


def test_models_that_split_words_differently_are_refused(
    program: Callable, saved_model: Path, write_jsonl: Callable, tmp_path: Path
) -> None:
    text = "Ann met a well-known man."
    data = str(write_jsonl("rows.jsonl", [{"text": text, "entities": [{"start": 0, "end": 3, "label": "PER"}]}]))
    other = changed_model(saved_model, tmp_path / "other", split_hyphens=True)
    with pytest.raises(ValueError, match="must read the same words"):
        program("compare").main([str(saved_model), str(other), data])


def test_rows_of_the_fit_are_refused(
    program: Callable, saved_model: Path, rows: list, write_jsonl: Callable, tmp_path: Path
) -> None:
    calibration = {
        "kind": "temperature",
        "all": {"temperature": 2.0},
        "per_label": {},
        "fitted_on": {"name": "rows", "num_rows": len(rows), "fingerprint": rows_fingerprint(rows)},
    }
    fitted = str(changed_model(saved_model, tmp_path / "fitted", calibration=calibration))
    sides = [str(saved_model), fitted, str(write_jsonl("rows.jsonl", rows))]
    target = tmp_path / "comparison.json"
    with pytest.raises(ValueError, match="other rows than those that the calibration was fitted on"):
        program("compare").main(sides)
    results = {}
    for option in ("--raw", "--allow-fitted-rows"):
        program("compare").main([*sides, option, "--num-resamples", "0", "--output", str(target)])
        results[option] = json.loads(target.read_text(encoding="utf-8"))
    assert results["--raw"]["first"] == results["--raw"]["second"]
    assert (
        results["--allow-fitted-rows"]["first"]["overall_ece"]
        != results["--allow-fitted-rows"]["second"]["overall_ece"]
    )


def test_a_model_needs_data(program: Callable, saved_model: Path, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        program("compare").main([str(saved_model), str(saved_model)])
    assert "data is needed where a model predicts" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.parquet#a", "a.parquet#b", "--raw"], "raw have no effect on predictions that were kept"),
        (["a.parquet#a", "a.parquet#b", "--split", "test"], "split have no effect on predictions that were kept"),
        (["a.parquet", "b"], "a.parquet needs the name of a run: a.parquet#RUN"),
    ],
)
def test_options_without_effect_are_refused(
    program: Callable, arguments: list[str], message: str, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit):
        program("compare").main(arguments)
    assert message in capsys.readouterr().err


def test_sides_of_one_name_are_told_apart(
    program: Callable, saved_model: Path, rows: list, write_jsonl: Callable, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    sides = [changed_model(saved_model, Path(place) / "checkpoint-5", threshold=0.1) for place in "xy"]
    write_jsonl("rows.jsonl", rows)
    program("compare").main([*map(str, sides), "rows.jsonl", "--num-resamples", "0", "--output", "c.json"])
    names = json.loads(Path("c.json").read_text(encoding="utf-8"))["names"]
    assert names == {"first": "x/checkpoint-5", "second": "y/checkpoint-5"}


@pytest.mark.parametrize("options", [["--output", "no_such_folder/x.json"], ["--batch-size", "0"]], ids=" ".join)
def test_impossible_options_are_refused_before_work(
    program: Callable, options: list[str], capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit):
        program("compare").main(["a", "b", "data", *options])
    assert f"argument {options[0]}: must be" in capsys.readouterr().err
