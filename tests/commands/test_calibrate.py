"""The calibration program on a tiny saved model, and evaluation of what it saves."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoConfig, AutoModel, AutoTokenizer, pipeline

from hf_spanner import Recipe, SpanNERPipeline
from hf_spanner.annotation.folds import document_folds
from hf_spanner.calibration.fitting import fitted_platt, rows_fingerprint, scored_predictions
from hf_spanner.commands import calibrate, out_of_fold
from hf_spanner.commands.judging import predicted_and_gold

Run = Callable[..., Path]
OTHER = [{"tokens": ["Mira", "met", "Ana"], "entities": [{"start": 0, "end": 1, "label": "PER"}]}]


@pytest.fixture
def calibrated(program: Callable, saved_model: Path, rows: list, write_jsonl: Callable, tmp_path: Path) -> Run:
    """Calibrates the tiny model on the rows, with the options given, and gives the folder."""

    def run(*options: str) -> Path:
        target = tmp_path / f"calibrated{len(list(tmp_path.glob('calibrated*')))}"
        data = str(write_jsonl("rows.jsonl", rows))
        arguments = [str(saved_model), data, "--output", str(target), "--min-predictions", "5", *options]
        program("calibrate").main(arguments)
        return target

    return run


def evaluated(program: Callable, folder: Path, data: Path, *options: str) -> dict[str, Any]:
    """The scores that the evaluation program writes."""
    target = data.with_suffix(".scores.json")
    program("evaluate").main([str(folder), str(data), "--output", str(target), *options])
    return json.loads(target.read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", ["temperature", "platt", "isotonic"])
def test_the_folder_holds_the_map_and_where_it_is_from(
    kind: str, calibrated: Run, rows: list, capsys: pytest.CaptureFixture
) -> None:
    folder = calibrated("--kind", kind, "--per-label")
    calibration = AutoConfig.from_pretrained(folder).calibration
    assert calibration["kind"] == kind
    assert set(calibration["per_label"]) <= {"LOC", "ORG", "PER"}
    assert calibration["per_label"]
    assert calibration["fitted_on"] == {"name": "rows.jsonl", "num_rows": 5, "fingerprint": rows_fingerprint(rows)}
    assert f"all labels: {json.dumps(calibration['all'], sort_keys=True)}" in capsys.readouterr().out


def test_the_saved_map_acts_in_the_pipeline_and_lowers_the_error(
    calibrated: Run, program: Callable, saved_model: Path, rows: list, tmp_path: Path
) -> None:
    folder = calibrated("--kind", "isotonic")
    texts = [" ".join(row["tokens"]) for row in rows]
    raw, fitted = (pipeline("span-ner", model=str(path))(texts) for path in (saved_model, folder))
    values = set(AutoConfig.from_pretrained(folder).calibration["all"]["probabilities"])
    scores = [entity["score"] for entities in fitted for entity in entities]
    assert [len(entities) for entities in fitted] == [len(entities) for entities in raw]
    assert scores != [entity["score"] for entities in raw for entity in entities]
    assert all(min(values) <= score <= max(values) for score in scores)
    data = tmp_path / "rows.jsonl"
    calibrated_error = evaluated(program, folder, data, "--allow-fitted-rows")["overall_ece"]
    assert calibrated_error < evaluated(program, folder, data, "--raw")["overall_ece"]


def test_calibrated_scores_are_not_judged_on_the_rows_of_the_fit(
    calibrated: Run, program: Callable, saved_model: Path, rows: list, write_jsonl: Callable
) -> None:
    """They are refused in another order and under another name too; raw scores and other rows are free."""
    folder = calibrated("--kind", "platt")
    same, other = write_jsonl("same.jsonl", rows[::-1]), write_jsonl("other.jsonl", OTHER)
    with pytest.raises(ValueError, match=r"data must be other rows .* got the same 5 rows \(rows.jsonl\); give --raw"):
        evaluated(program, folder, same)
    raw = evaluated(program, folder, same, "--raw")
    assert raw == evaluated(program, saved_model, same)
    assert evaluated(program, folder, same, "--allow-fitted-rows")["overall_ece"] != raw["overall_ece"]
    assert evaluated(program, folder, other)["num_predicted"] > 0


def test_promises_are_saved_and_taken_or_refused(
    program: Callable,
    saved_model: Path,
    rows: list,
    write_jsonl: Callable,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:
    """Gold is what the model finds, so all is right: 3 predictions promise 0.5 with delta 0.2; 0.9999 needs 16,094."""
    model, tokenizer = AutoModel.from_pretrained(saved_model), AutoTokenizer.from_pretrained(saved_model)
    predicted, _ = predicted_and_gold(SpanNERPipeline(model=model, tokenizer=tokenizer), rows, {}, 32)
    own_rows = [
        {
            "tokens": row["tokens"],
            "entities": [{name: span[name] for name in ("start", "end", "label")} for span in row_spans],
        }
        for row, row_spans in zip(rows, predicted, strict=True)
    ]
    folder, data, other = tmp_path / "promised", write_jsonl("own.jsonl", own_rows), write_jsonl("other.jsonl", OTHER)
    options = ["--min-predictions", "1", "--precision", "0.9999", "0.5", "--recall", "0.5", "--delta", "0.2"]
    program("calibrate").main([str(saved_model), str(data), "--output", str(folder), *options])
    calibration = AutoConfig.from_pretrained(folder).calibration
    assert calibration["fitted_on"] == {"name": "own.jsonl", "num_rows": 3, "fingerprint": rows_fingerprint(rows)}
    promises = calibration["promises"]
    assert (promises["delta"], promises["decoding"]) == (0.2, {"overlap": "nested"})
    assert [(entry["target"], entry["all"]) for entry in promises["precision"]] == [(0.9999, None), (0.5, 0.0)]
    assert promises["recall"][0]["all"] > 0
    printed = capsys.readouterr().out
    assert " predictions, 3 rows of own.jsonl" in printed
    assert "precision 0.5 with confidence 0.8, thresholds: " in printed
    scores = evaluated(program, folder, other, "--min-recall", "0.5")
    assert scores["decoding"] == {"threshold": promises["recall"][0]["all"], "overlap": "nested"}
    with pytest.raises(ValueError, match="min_precision 0.9 cannot be promised for all labels"):
        evaluated(program, folder, other, "--min-precision", "0.9")
    with pytest.raises(ValueError, match="none can be promised"):
        evaluated(program, folder, other, "--min-precision", "0.5", "--raw")


def test_a_calibrated_model_is_calibrated_anew_from_its_raw_scores(
    calibrated: Run, program: Callable, rows: list, write_jsonl: Callable, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """A saved threshold belonged to other scores, so it is dropped, and the program says so."""
    first = calibrated("--kind", "temperature")
    config = AutoConfig.from_pretrained(first)
    path = first / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"threshold": 0.9}), encoding="utf-8")
    data = write_jsonl("rows.jsonl", rows)
    again = tmp_path / "again"
    options = ["--kind", "temperature", "--min-predictions", "5", "--output", str(again)]
    program("calibrate").main([str(first), str(data), *options])
    saved_config = AutoConfig.from_pretrained(again)
    assert saved_config.calibration == config.calibration
    assert saved_config.threshold == 0
    assert "threshold 0.9 belonged to other scores" in capsys.readouterr().out


def test_texts_to_come_weigh_the_predictions(
    calibrated: Run, rows: list, write_jsonl: Callable, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """Texts that training had hold fewer new surfaces; texts of the held-out rows themselves change nothing."""
    train, texts = str(write_jsonl("train.jsonl", rows[:2])), tmp_path / "texts.txt"
    plain = AutoConfig.from_pretrained(calibrated("--kind", "platt")).calibration
    texts.write_text("".join(" ".join(row["tokens"]) + "\n" for row in rows), encoding="utf-8")
    same = AutoConfig.from_pretrained(calibrated("--texts", str(texts), "--train", train)).calibration
    assert same["fitted_on"] == plain["fitted_on"] | {"name": "rows.jsonl, weighted for texts.txt"}
    assert same["all"] == pytest.approx(plain["all"], rel=1e-3)
    texts.write_text("".join(" ".join(row["tokens"]) + "\n" for row in rows[:2]), encoding="utf-8")
    capsys.readouterr()
    other = AutoConfig.from_pretrained(calibrated("--texts", str(texts), "--train", train)).calibration
    shares = re.findall(r"(new|other label|same label) in training: (\S+)% of .*, (\S+)% on ", capsys.readouterr().out)
    assert [kind for kind, *_ in shares] == ["new", "other label", "same label"]
    assert float(shares[0][1]) > float(shares[0][2])
    assert other["all"] != pytest.approx(plain["all"], rel=1e-3)
    texts.write_text("A\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"texts.txt: predictions must be at least 5, got \d"):
        calibrated("--texts", str(texts), "--train", train)


@pytest.fixture
def recipe(tiny_encoder: Path, tmp_path: Path) -> Path:
    """A recipe of the tiny model's method that trains for some steps."""
    path = tmp_path / "tiny.yaml"
    training = "{max_steps: 30, learning_rate: 1.0e-3, head_learning_rate: 1.0e-2, use_cpu: true, disable_tqdm: true}"
    lines = [
        "method: boundary_smoothing",
        f"encoder: {tiny_encoder}",
        "data: {}",
        "model: {overlap: nested, lstm_layers: 0}",
        f"training: {training}",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_the_map_of_folds_is_that_of_models_that_have_not_seen_the_rows(
    calibrated: Run, recipe: Path, rows: list, tmp_path: Path
) -> None:
    """The predictions of folds lie in the work folder: they are of new models, and the map is their own."""
    plain = AutoConfig.from_pretrained(calibrated("--kind", "platt")).calibration
    folder = calibrated("--folds", "2", "--recipe", str(recipe), "--min-predictions", "1")
    calibration = AutoConfig.from_pretrained(folder).calibration
    name = "rows.jsonl, 2 models out of fold"
    assert calibration["fitted_on"] == {"name": name, "num_rows": 5, "fingerprint": rows_fingerprint(rows)}
    assert calibration["all"] != pytest.approx(plain["all"])
    work = tmp_path / f"{folder.name}-folds"
    answers: list[Any] = [None] * len(rows)
    folds = document_folds(rows, 2, Recipe.from_yaml(recipe).training.seed)
    for fold, path in zip(folds, sorted(work.glob("*.json")), strict=True):
        for place, entities in zip(fold, json.loads(path.read_text(encoding="utf-8"))["predicted"], strict=True):
            answers[place] = entities
    scores, correct, *_ = scored_predictions(answers, [row["entities"] for row in rows])
    expected = fitted_platt(scores, correct, np.ones(len(scores)))
    assert calibration["all"] == pytest.approx(expected)


def test_folds_that_are_done_are_taken_up(
    calibrated: Run, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--folds", "2", "--recipe", str(recipe), "--work", str(tmp_path / "kept"), "--min-predictions", "1"]
    first = AutoConfig.from_pretrained(calibrated(*options)).calibration
    monkeypatch.setattr(out_of_fold, "fold_model", None)
    second = AutoConfig.from_pretrained(calibrated(*options, "--kind", "temperature")).calibration
    assert (first["kind"], second["kind"]) == ("platt", "temperature")


def test_the_temperature_of_a_recipe_is_not_in_the_raw_scores_of_folds(
    calibrated: Run, recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Recipe] = []
    monkeypatch.setattr(calibrate, "out_of_fold_predictions", lambda recipe, rows, *_: given.append(recipe) or [[]] * 5)
    change(recipe, "lstm_layers: 0", "lstm_layers: 0, temperature: 3.0")
    with pytest.raises(ValueError, match="predictions must be at least 5 to fit a map, got 0"):
        calibrated("--folds", "2", "--recipe", str(recipe))
    assert given[0].model == {"overlap": "nested", "lstm_layers": 0, "temperature": 1.0}


def change(recipe: Path, old: str, new: str) -> None:
    """Write another word in place of one in the recipe."""
    recipe.write_text(recipe.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("boundary_smoothing", "bopn", "must be the recipe of .*, boundary_smoothing, got bopn"),
        ("nested", "flat", "must be the recipe of .*, with model.overlap nested, got flat"),
        ("lstm_layers: 0", "lstm_layers: 1", "must be the recipe of .*, with model.lstm_layers 0, got 1"),
    ],
)
def test_a_recipe_of_another_model_is_refused(calibrated: Run, recipe: Path, old: str, new: str, message: str) -> None:
    change(recipe, old, new)
    with pytest.raises(ValueError, match=message):
        calibrated("--folds", "2", "--recipe", str(recipe))


def test_rows_with_other_labels_are_refused(
    program: Callable, saved_model: Path, recipe: Path, write_jsonl: Callable, tmp_path: Path
) -> None:
    data = str(write_jsonl("other.jsonl", OTHER))
    options = ["--output", str(tmp_path / "x"), "--folds", "2", "--recipe", str(recipe)]
    with pytest.raises(ValueError, match=r"must have the labels of .*\['LOC', 'ORG', 'PER'\], got \['PER'\]"):
        program("calibrate").main([str(saved_model), data, *options])


def test_promises_are_tested_by_document(calibrated: Run, rows: list, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten rows are of five documents, so the rows of the tests are of two and have their numbers."""
    for number, row in enumerate(rows):
        row["document"] = f"d{number}"
    monkeypatch.setattr(calibrate, "threshold_promises", lambda *given, **_: tested.extend(given[2:]) or {})
    tested: list[Any] = []
    rows *= 2
    with pytest.raises(ValueError, match="calibration must be a mapping"):
        calibrated("--precision", "0.5")
    documents = {number for side in tested for number in side.documents.tolist()}
    assert len(documents) == 2
    assert documents < set(range(5))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--folds", "2"], "--folds and --recipe need each other"),
        (["--recipe", "r.yaml"], "--folds and --recipe need each other"),
        (["--work", "folder"], "--work needs them"),
        (["--folds", "1", "--recipe", "r"], "--folds must be at least 2"),
        (["--folds", "2", "--recipe", "r", "--work", "no_folder"], "--work another folder than --output"),
        (["--folds", "2", "--recipe", "r", "--texts", "t", "--train", "n"], "--folds goes without --texts"),
        (["--folds", "2", "--recipe", "r", "--recall", ".5"], "--folds goes without --texts, --precision and --recall"),
        (["--delta", "0.5"], "--delta must be below 0.5, got 0.5"),
        (["--texts", "new.txt"], "--texts and --train need each other"),
        (["--train", "train.jsonl"], "--texts and --train need each other"),
        (["--texts", "new.txt", "--train", "train.jsonl", "--recall", ".9"], "promises hold for rows like DATA"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_work(
    program: Callable, options: list[str], message: str, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit):
        program("calibrate").main(["no_model", "no_data", "--output", "no_folder", *options])
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--precision", "1.0", r"must lie in \(0, 1\), got 1.0"),
        ("--recall", "0", r"must lie in \(0, 1\), got 0"),
        ("--delta", "0", r"must lie in \(0, 1\), got 0"),
        ("--batch-size", "0", "must be at least 1, got 0"),
    ],
)
def test_numbers_out_of_range_are_refused_before_work(
    program: Callable, option: str, value: str, message: str, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit):
        program("calibrate").main(["no_model", "no_data", "--output", "no_folder", option, value])
    assert re.search(f"argument {option}: {message}", capsys.readouterr().err)


def test_a_folder_that_holds_something_is_refused(program: Callable, saved_model: Path) -> None:
    """A card or the curves of another model would stay beside the new weights."""
    with pytest.raises(ValueError, match="output must be a new or an empty folder, got"):
        program("calibrate").main([str(saved_model), "no_data", "--output", str(saved_model)])


def test_too_few_predictions_are_refused(
    program: Callable, saved_model: Path, write_jsonl: Callable, tmp_path: Path
) -> None:
    data = write_jsonl("other.jsonl", OTHER)
    with pytest.raises(ValueError, match="predictions must be at least 50 to fit a map, got"):
        program("calibrate").main([str(saved_model), str(data), "--output", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()
