"""The analysis program on a tiny saved model."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModel, AutoTokenizer

from hf_spanner import SpanNERPipeline
from hf_spanner.analysis import sections
from hf_spanner.commands.judging import predicted_and_gold
from hf_spanner.core.spans import EntityLists
from hf_spanner.metrics.span_ner.scoring import score_spans

Run = Callable[..., dict[str, Any]]
PICTURES = {"reliability", "thresholds", "f1_by_label", "f1_by_length", "f1_by_depth", "errors"}


@pytest.fixture
def analyzed(
    program: Callable,
    saved_model: Path,
    rows: list,
    write_jsonl: Callable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """Analyses a model on the rows, with the options given, into `tmp_path / "out"`, and gives the numbers.

    The figures are made, but drawn only where that is asked for, since drawing takes most of the time.
    """

    def run(*options: str, model: Path = saved_model, is_drawn: bool = False) -> dict[str, Any]:
        target = tmp_path / "out"
        data = str(write_jsonl("rows.jsonl", rows))
        with monkeypatch.context() as patch:
            if not is_drawn:
                patch.setattr(sections, "png_bytes", lambda figure: b"not drawn")
            program("analyze").main([str(model), data, "--output", str(target), *options])
        return json.loads((target / "scores.json").read_text(encoding="utf-8"))

    return run


@pytest.fixture
def calibrated_model(saved_model: Path, tmp_path: Path) -> Path:
    """The tiny model with a calibration for all labels and another for LOC."""
    folder = tmp_path / "calibrated"
    calibration = {
        "kind": "platt",
        "all": {"slope": 0.5, "intercept": -0.2},
        "per_label": {"LOC": {"slope": 0.25, "intercept": 0.4}},
        "fitted_on": {"name": "dev.jsonl", "num_rows": 3, "fingerprint": "ab"},
    }
    AutoModel.from_pretrained(saved_model, calibration=calibration).save_pretrained(folder)
    AutoTokenizer.from_pretrained(saved_model).save_pretrained(folder)
    return folder


def own_spans(folder: Path, rows: list[dict[str, Any]], **config: Any) -> tuple[EntityLists, EntityLists]:
    """The model's own predictions, and the gold spans."""
    model = AutoModel.from_pretrained(folder, **config)
    return predicted_and_gold(
        SpanNERPipeline(model=model, tokenizer=AutoTokenizer.from_pretrained(folder)), rows, {}, 32
    )


def own_scores(folder: Path, rows: list[dict[str, Any]], **config: Any) -> dict[str, Any]:
    """Scores of the model's own predictions."""
    return score_spans(*own_spans(folder, rows, **config))


def shared(scores: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """The scores whose names `expected` has too."""
    return {name: scores[name] for name in expected}


def test_the_folder_and_its_numbers(
    analyzed: Run, saved_model: Path, rows: list, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    numbers = analyzed(is_drawn=True)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"report.html", "scores.json", *(f"{name}.png" for name in PICTURES)}
    assert f"Written: {tmp_path / 'out' / 'report.html'}" in capsys.readouterr().out
    expected = own_scores(saved_model, rows)
    assert expected["num_predicted"] > 10
    assert shared(numbers["scores"], expected) == expected
    assert numbers["scores"]["intervals"]["num_documents"] == 5
    assert numbers["raw_scores"] is None
    assert numbers["decoding"] == {"threshold": 0.0, "overlap": "nested"}
    assert (numbers["training_curves"], numbers["landscapes"]) == (None, {})


def test_errors_and_groups_add_up(analyzed: Run) -> None:
    numbers = analyzed()
    errors, scores = numbers["errors"], numbers["scores"]
    num_wrong, num_missed = (scores[name] - scores["num_correct"] for name in ("num_predicted", "num_gold"))
    assert sum(errors.values()) - errors["missed"] == num_wrong
    assert sum(errors.values()) - errors["invented"] == num_missed
    for groups in numbers["groups"].values():
        assert sum(group["num_gold"] for group in groups.values()) == scores["num_gold"]
        assert sum(group["num_predicted"] for group in groups.values()) == scores["num_predicted"]
    last = numbers["curve"][0]
    assert (last["threshold"], last["f1"]) == (0.0, pytest.approx(scores["overall_f1"]))


def test_before_and_after_calibration_from_one_pass(
    analyzed: Run, calibrated_model: Path, rows: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit they are what the model itself gives, with raw scores for the same spans."""
    expected, raw = own_scores(calibrated_model, rows), own_scores(calibrated_model, rows, calibration=None)
    calls = []
    original = type(AutoModel.from_pretrained(calibrated_model)).forward

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(f"{original.__module__}.SpanNERModel.forward", counted)
    numbers = analyzed(model=calibrated_model)
    assert len(calls) == 1
    assert shared(numbers["scores"], expected) == expected
    assert shared(numbers["raw_scores"], raw) == raw
    assert expected["overall_ece"] != raw["overall_ece"]
    report = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "platt, fitted on 3 rows of dev.jsonl" in report


def test_the_threshold_acts_on_calibrated_scores(analyzed: Run, calibrated_model: Path, rows: list) -> None:
    spans, _ = own_spans(calibrated_model, rows, overlap="any")
    calibrated = sorted({span["score"] for row_spans in spans for span in row_spans})
    middle = calibrated[len(calibrated) // 2]  # a score equal to the threshold stays
    numbers = analyzed("--threshold", str(middle), "--overlap", "any", model=calibrated_model)
    expected = own_scores(calibrated_model, rows, threshold=middle, overlap="any")
    assert 0 < expected["num_predicted"] < sum(map(len, spans))
    assert shared(numbers["scores"], expected) == expected
    assert numbers["raw_scores"]["num_predicted"] == expected["num_predicted"]
    assert numbers["decoding"] == {"threshold": middle, "overlap": "any"}


def test_raw_leaves_the_calibration_out(analyzed: Run, calibrated_model: Path, rows: list) -> None:
    numbers = analyzed("--raw", model=calibrated_model)
    expected = own_scores(calibrated_model, rows, calibration=None)
    assert shared(numbers["scores"], expected) == expected
    assert numbers["raw_scores"] is None


def test_a_temperature_counts_as_a_calibration(analyzed: Run, saved_model: Path, rows: list, tmp_path: Path) -> None:
    folder = tmp_path / "warm"
    AutoModel.from_pretrained(saved_model, temperature=3.0).save_pretrained(folder)
    AutoTokenizer.from_pretrained(saved_model).save_pretrained(folder)
    numbers, expected = analyzed(model=folder), own_scores(folder, rows)
    assert shared(numbers["scores"], expected) == expected
    assert numbers["raw_scores"]["overall_ece"] == own_scores(saved_model, rows)["overall_ece"]


def test_rows_of_the_fit_are_refused(
    program: Callable, saved_model: Path, rows: list, write_jsonl: Callable, tmp_path: Path
) -> None:
    data, folder = write_jsonl("rows.jsonl", rows), tmp_path / "fitted"
    program("calibrate").main([str(saved_model), str(data), "--output", str(folder), "--min-predictions", "5"])
    again = [str(folder), str(data), "--output", str(tmp_path / "again")]
    with pytest.raises(ValueError, match=r"data must be other rows than those that the calibration was fitted on"):
        program("analyze").main(again)
    assert not (tmp_path / "again").exists()
    program("analyze").main([*again, "--allow-fitted-rows"])
    assert (tmp_path / "again" / "report.html").exists()


def test_training_rows_tell_seen_from_unseen(analyzed: Run, rows: list, write_jsonl: Callable, tmp_path: Path) -> None:
    train = write_jsonl("train.jsonl", rows[-1:])  # Oslo alone, which three rows name
    numbers = analyzed("--train", str(train))
    assert numbers["groups"]["surface"]["seen"]["num_gold"] == 3
    assert (tmp_path / "out" / "f1_by_surface.png").exists()


def test_training_curves_of_the_models_folder(analyzed: Run, calibrated_model: Path, tmp_path: Path) -> None:
    state = {"log_history": [{"epoch": 1.0, "loss": 2.0}, {"epoch": 1.0, "eval_loss": 1.5, "eval_f1": 0.5}]}
    checkpoint = calibrated_model / "checkpoint-7"
    checkpoint.mkdir()
    (checkpoint / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    numbers = analyzed(model=calibrated_model)
    assert numbers["training_curves"] == {
        "loss": [[1.0, 2.0]],
        "eval_loss": [[1.0, 1.5]],
        "eval_f1": [[1.0, 0.5]],
        "eval_ece": [],
    }
    assert (tmp_path / "out" / "training.png").exists()


def test_landscapes_of_two_models(analyzed: Run, calibrated_model: Path, saved_model: Path, tmp_path: Path) -> None:
    options = ["--landscape", "--second-model", str(calibrated_model), "--points", "3", "--threshold", "0.9"]
    numbers = analyzed(*options, "--train", str(tmp_path / "rows.jsonl"))
    assert [name.split("/")[-1] for name in numbers["landscapes"]] == [saved_model.name, "calibrated"]
    for landscape in numbers["landscapes"].values():
        assert landscape["distances"] == [-1.0, 0.0, 1.0]
        assert set(landscape["losses"]) == {"data", "train"}
    assert (tmp_path / "out" / "landscape.png").exists()


def test_landscapes_of_two_models_of_one_name_are_both_kept(analyzed: Run, saved_model: Path, tmp_path: Path) -> None:
    folders = [tmp_path / place / "runs" / "best" for place in "ab"]
    for folder in folders:
        shutil.copytree(saved_model, folder)
    options = ["--landscape", "--second-model", str(folders[1]), "--points", "3"]
    numbers = analyzed(*options, model=folders[0])
    assert list(numbers["landscapes"]) == ["runs/best", "runs/best (second model)"]


def test_the_size_of_a_batch_is_checked(analyzed: Run, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        analyzed("--batch-size", "0")
    assert "argument --batch-size: must be at least 1, got 0" in capsys.readouterr().err


def test_a_second_model_needs_a_landscape(analyzed: Run, saved_model: Path) -> None:
    with pytest.raises(ValueError, match="second_model needs --landscape"):
        analyzed("--second-model", str(saved_model))


def test_a_second_model_must_read_the_same_words(analyzed: Run, saved_model: Path, tmp_path: Path) -> None:
    AutoModel.from_pretrained(saved_model, split_hyphens=True).save_pretrained(tmp_path / "other")
    with pytest.raises(ValueError, match="both models must read the same words"):
        analyzed("--landscape", "--second-model", str(tmp_path / "other"))


def test_training_rows_may_be_a_split_of_a_folder(
    analyzed: Run, rows: list, write_jsonl: Callable, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("train", "test"):
        write_jsonl(f"folder/{name}.jsonl", rows[:2])
    numbers = analyzed("--train", str(tmp_path / "folder"), "--train-split", "train")
    assert set(numbers["groups"]["surface"]) == {"seen", "unseen"}


def test_a_folder_with_files_is_not_overwritten(analyzed: Run, tmp_path: Path) -> None:
    kept = tmp_path / "out" / "scores.json"
    kept.parent.mkdir()
    kept.write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match="output must be a new or an empty folder"):
        analyzed()
    assert kept.read_text(encoding="utf-8") == "mine"


def test_examples_are_as_many_as_asked_and_seeded(analyzed: Run, tmp_path: Path) -> None:
    def examples(*options: str) -> list[str]:
        analyzed(*options)
        text = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
        for path in (tmp_path / "out").iterdir():
            path.unlink()
        return text.split('<div class="example">')[1:]

    example = examples("--num-examples", "1", "--example-seed", "1")
    assert example != examples("--num-examples", "1", "--example-seed", "2")
    assert examples("--num-examples", "0") == []
