"""The training program on tiny data."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from datasets import Dataset
from huggingface_hub import ModelCard
from transformers import AutoModel, AutoTokenizer, pipeline

from hf_spanner import Recipe, SpanNERModel
from hf_spanner.metrics.span_ner.scoring import score_spans

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "recipes"
METHODS_WITH_STARTER = sorted(path.parent.name for path in (ROOT / "hf_spanner" / "methods").glob("*/starter.yaml"))


@pytest.fixture
def recipe_file(tiny_encoder: Path, rows: list[dict[str, Any]], write_jsonl: Callable, tmp_path: Path) -> Path:
    """A recipe that trains on the shared tiny rows, on the CPU, and puts its model in `tmp_path/model`."""
    data = str(write_jsonl("rows.jsonl", rows))
    values = {
        "method": "boundary_smoothing",
        "encoder": str(tiny_encoder),
        "data": {"train": data, "dev": data, "test": data},
        "model": {"affine_size": 8, "width_embedding_size": 4, "max_width": 8, "lstm_layers": 0, "overlap": "nested"},
        "training": {
            "output_dir": str(tmp_path / "model"),
            "num_train_epochs": 1,
            "per_device_train_batch_size": 2,
            "use_cpu": True,
            "disable_tqdm": True,
        },
    }
    path = tmp_path / "tiny.yaml"
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def test_trains_tests_saves_and_documents(
    program: Callable, recipe_file: Path, rows: list, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    program("train").main([str(recipe_file), "training.seed=7"])
    printed = capsys.readouterr().out
    folder = tmp_path / "model"
    scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    assert scores["num_gold"] == 10
    assert scores["seed"] == 7
    assert scores["minutes"] > 0
    assert f"strict F1 {100 * scores['overall_f1']:.2f}" in printed
    assert f"ECE {scores['overall_ece']:.4f}" in printed
    assert f'pipeline("span-ner", model="{folder}")' in printed
    assert "entities that the method cannot reach: 0 of 10 in train, 0 of 10 in dev, 0 of 10 in test" in printed
    assert "test: 5 of 5 sentences are also in train" in printed
    metrics = ModelCard.load(folder / "README.md").data.eval_results
    assert {metric.metric_type: metric.metric_value for metric in metrics}["f1"] == scores["overall_f1"]
    assert isinstance(pipeline("span-ner", model=str(folder))("Ana met Bo in Oslo ."), list)


def test_uploads_once_with_scores_and_its_own_card(
    program: Callable, recipe_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library's hub, with a place of our own at the end of it."""
    uploads = []

    class Hub:
        def create_repo(self, *_: Any, **__: Any) -> Any:
            return SimpleNamespace(repo_id="me/model")

        def upload_folder(self, *, folder_path: str, **_: Any) -> None:
            card = Path(folder_path, "README.md").read_text(encoding="utf-8")
            uploads.append((card, sorted(path.name for path in Path(folder_path).iterdir())))

    monkeypatch.setattr(transformers.trainer, "hf_api", Hub)
    program("train").main([str(recipe_file), "training.push_to_hub=true", "training.hub_strategy=end"])
    ((card, names),) = uploads
    assert card == (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert "## Scores" in card
    assert {"model.safetensors", "scores.json", "trainer_state.json"} <= set(names)


def test_too_few_dev_predictions_leave_scores_raw(
    program: Callable, recipe_file: Path, rows: list, saved_model: Path, write_jsonl: Callable, tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:  # fmt: skip
    """A finished training is tested and documented all the same."""
    folder, dev = tmp_path / "model", write_jsonl("dev.jsonl", rows[:2])
    training = f"training={{output_dir: {folder}, learning_rate: 0.0, num_train_epochs: 1, use_cpu: true}}"
    settings = [f"data.dev={dev}", f"init_from={saved_model}", "calibration=platt", training]
    program("train").main([str(recipe_file), *settings])
    assert "predictions on data.dev, 50 are needed" in capsys.readouterr().err
    assert AutoModel.from_pretrained(folder).config.calibration is None
    assert {"scores.json", "README.md", "trainer_state.json"} <= {path.name for path in folder.iterdir()}


def test_fits_the_calibration_of_the_recipe_on_dev_rows(
    program: Callable, recipe_file: Path, rows: list, saved_model: Path, write_jsonl: Callable, tmp_path: Path
) -> None:
    """The map is saved, test scores are its probabilities, and the model's own threshold acts on these."""
    dev = [{**row, "tokens": [*row["tokens"], *"!" * place]} for place in range(1, 13) for row in rows]
    settings = [
        f"data.dev={write_jsonl('dev.jsonl', dev)}",
        f"init_from={saved_model}",
        "model={threshold: 0.001}",
        "calibration=isotonic",
        "training={output_dir: %s, learning_rate: 0.0, head_learning_rate: 0.0, num_train_epochs: 1, use_cpu: true}"
        % (tmp_path / "model"),
    ]
    program("train").main([str(recipe_file), *settings])
    folder = tmp_path / "model"
    config = AutoModel.from_pretrained(folder).config
    fitted_on = config.calibration["fitted_on"]
    assert [config.calibration["kind"], fitted_on["num_rows"], config.threshold] == ["isotonic", 60, 0.001]
    answers = pipeline("span-ner", model=str(folder))([row["tokens"] for row in rows], pretokenized=True)
    probabilities = config.calibration["all"]["probabilities"]
    scores = [entity["score"] for entities in answers for entity in entities]
    assert scores
    assert all(max(0.001, min(probabilities)) <= score <= max(probabilities) for score in scores)
    written = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    assert written["num_predicted"] == len(scores)
    assert "map to probabilities (isotonic) fitted on 60 rows of validation." in (folder / "README.md").read_text(
        "utf-8"
    )


def test_what_belonged_to_the_scores_of_a_saved_model_does_not_come_along(
    program: Callable, recipe_file: Path, saved_model: Path, tmp_path: Path
) -> None:
    """A map would otherwise be used on other scores than its own, and thresholds could name labels that are gone."""
    model = AutoModel.from_pretrained(saved_model, temperature=3.0, threshold={"LOC": 0.1, "ORG": 0.2, "PER": 0.3})
    folder = tmp_path / "tempered"
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(saved_model).save_pretrained(folder)
    _, new = program("train").tokenizer_and_model(Recipe.from_yaml(recipe_file, [f"init_from={folder}"]), ["EVENT"])
    assert (new.config.temperature, new.config.threshold) == (1.0, 0.0)


def test_words_must_be_split_as_the_saved_model_splits_them(
    program: Callable, recipe_file: Path, saved_model: Path
) -> None:
    recipe = Recipe.from_yaml(recipe_file, [f"init_from={saved_model}", "model.split_hyphens=true"])
    with pytest.raises(ValueError, match="model.split_hyphens must be False, as the model of init_from reads words"):
        program("train").tokenizer_and_model(recipe, ["LOC"])


def test_options_of_the_encoder_reach_model_and_tokenizer(
    program: Callable, recipe_file: Path, saved_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a new model and for one that goes on from a saved model."""
    seen: list[Any] = []
    load = AutoTokenizer.from_pretrained
    monkeypatch.setattr(
        AutoTokenizer, "from_pretrained", lambda source, **given: seen.append(given["revision"]) or load(source)
    )
    options = "encoder_options={dtype: bfloat16, revision: v1, attn_implementation: eager}"
    for settings in ([options], [options, f"init_from={saved_model}"]):
        _, model = program("train").tokenizer_and_model(Recipe.from_yaml(recipe_file, settings), ["LOC"])
        assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
        assert model.config.encoder_config._attn_implementation == "eager"
    assert seen == ["v1", "v1"]


def test_calibration_on_the_test_rows_is_refused_before_training(program: Callable, recipe_file: Path) -> None:
    with pytest.raises(ValueError, match="calibration must be left out where data.dev and data.test are the same rows"):
        program("train").main([str(recipe_file), "calibration=platt"])


def test_goes_on_from_a_saved_model_to_other_labels(program: Callable, recipe_file: Path, saved_model: Path) -> None:
    recipe = Recipe.from_yaml(
        recipe_file, [f"init_from={saved_model}", "model={smoothing_epsilon: 0.3, threshold: 0.5}"]
    )
    _, model = program("train").tokenizer_and_model(recipe, ["EVENT", "WORK"])
    saved = AutoModel.from_pretrained(saved_model)
    assert model.config.id2label == {0: "EVENT", 1: "WORK"}
    assert model.config.label2id == {"EVENT": 0, "WORK": 1}
    assert model.config.smoothing_epsilon == 0.3
    assert model.config.threshold == 0.5
    assert model.config.overlap == "nested"
    assert model.biaffine.bias.shape == (3,)
    assert model.start_layer.weight.equal(saved.start_layer.weight)


def test_the_calibration_of_a_saved_model_is_not_handed_on(
    program: Callable, recipe_file: Path, saved_model: Path, tmp_path: Path
) -> None:
    source = {"name": "dev", "num_rows": 1, "fingerprint": "ab"}
    parameters = {"temperature": 2.0}
    calibration = {"kind": "temperature", "all": parameters, "per_label": {"PER": parameters}, "fitted_on": source}
    model = AutoModel.from_pretrained(saved_model, calibration=calibration)
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(saved_model).save_pretrained(tmp_path)
    assert AutoModel.from_pretrained(tmp_path).config.calibration == calibration
    recipe = Recipe.from_yaml(recipe_file, [f"init_from={tmp_path}"])
    _, model = program("train").tokenizer_and_model(recipe, ["EVENT"])
    assert model.config.calibration is None


def test_a_saved_model_refuses_settings_out_of_range(program: Callable, recipe_file: Path, saved_model: Path) -> None:
    recipe = Recipe.from_yaml(recipe_file, [f"init_from={saved_model}", "model={smoothing_epsilon: 0.7}"])
    with pytest.raises(ValueError, match=r"smoothing_epsilon must be .* got 0\.7"):
        program("train").tokenizer_and_model(recipe, ["EVENT"])


def test_settings_alone_run_the_quickstart(program: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = program("train").read_recipe(["training.seed=7", "training.use_cpu=true"])
    assert recipe.training.seed == 7
    assert {name: len(rows) for name, rows in recipe.data.load().items()} == {"train": 2000, "dev": 400, "test": 600}


def test_own_data_wins_over_the_quickstarts(program: Callable) -> None:
    recipe = program("train").read_recipe(["data.test=mine.jsonl", "training.use_cpu=true"])
    assert recipe.data.test == "mine.jsonl"
    assert recipe.data.dev == "package:hf_spanner/quickstart/dev.jsonl.gz"


@pytest.mark.parametrize("method", METHODS_WITH_STARTER)
def test_a_starter_trains_on_own_files_as_it_is(
    method: str,
    program: Callable,
    tiny_encoder: Path,
    rows: list,
    write_jsonl: Callable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    for split in ("train", "dev", "test"):
        write_jsonl(f"{split}.jsonl", rows)
    program("train").main(["--starter", method])
    text = capsys.readouterr().out
    Path("my.yaml").write_text(text, encoding="utf-8")
    assert "$" not in text
    assert all(len(line) <= 120 for line in text.splitlines())
    smaller = ["num_encoder_layers=1", "lstm_layers=0"]
    quick = ["num_train_epochs=1", "min_steps=2", "use_cpu=true", "disable_tqdm=true"]
    program("train").main(
        ["my.yaml", f"encoder={tiny_encoder}", *(f"model.{s}" for s in smaller), *(f"training.{s}" for s in quick)]
    )
    assert isinstance(pipeline("span-ner", model=f"outputs/my_{method}")("Ana met Bo in Oslo ."), list)


def test_a_starter_takes_no_recipe_beside_it(program: Callable, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        program("train").main(["--starter", "bopn", "my.yaml"])
    assert "--starter takes no recipe and no settings, got my.yaml" in capsys.readouterr().err


def test_agreement_of_the_splitter_counts_words_and_entity_borders(program: Callable) -> None:
    """Both words of the first row come out; of the second only "go", since "don't" is cut in two: 3 of 4.

    The borders of an entity on "don't" are still borders of words: 2 of 2 entities.
    """
    rows = [
        {"tokens": ["do", "n't"], "entities": [{"start": 1, "end": 2, "label": "X"}]},
        {"tokens": ["don't", "go"], "entities": [{"start": 0, "end": 1, "label": "X"}]},
    ]
    assert program("train").splitter_agreement(rows, split_hyphens=False) == (3 / 4, 1.0)
    assert program("train").splitter_agreement([], split_hyphens=False) == (1.0, 1.0)


def test_agreement_misses_entities_on_what_is_no_word_of_a_text(program: Callable) -> None:
    """A zero-width space is a blank in raw text, so 1 of 2 words and none of the entities come out."""
    rows = [{"tokens": ["a", "\u200b"], "entities": [{"start": 1, "end": 2, "label": "X"}]}]
    assert program("train").splitter_agreement(rows, split_hyphens=False) == (1 / 2, 0.0)


def test_agreement_follows_the_hyphen_setting(program: Callable) -> None:
    rows = [{"tokens": ["well", "-", "known"], "entities": []}, {"tokens": ["well-known"], "entities": []}]
    assert program("train").splitter_agreement(rows, split_hyphens=False) == (1.0, 1.0)
    assert program("train").splitter_agreement(rows, split_hyphens=True) == (3 / 4, 1.0)


def test_unreachable_entities_are_those_of_the_method(
    program: Callable, tiny_model: Callable[..., SpanNERModel]
) -> None:
    spans = [(0, 1, "LOC"), (0, 1, "ORG"), (0, 2, "PER"), (1, 2, "EVENT")]
    rows = [{"entities": [{"start": start, "end": end, "label": label} for start, end, label in spans]}]
    assert program("train").unreachable_entities(rows, tiny_model()) == (1, 3)


def test_a_sentence_is_shown_with_nested_brackets(program: Callable) -> None:
    words = ["the", "Bank", "of", "Oslo", "opened"]
    entities = [
        {"start": 0, "end": 4, "label": "ORG", "score": 0.876},
        {"start": 3, "end": 4, "label": "LOC", "score": 0.5},
    ]
    shown = program("train").rendered_sentence(words, entities)
    assert shown == "[the Bank of [Oslo](LOC 0.50)](ORG 0.88) opened"


def test_summary_shows_three_sentences_that_have_entities(program: Callable) -> None:
    rows = Dataset.from_list([{"tokens": [f"w{place}", "x"]} for place in range(9)])
    pair = [{"start": 0, "end": 1, "label": "A", "score": 1.0}, {"start": 1, "end": 2, "label": "B", "score": 0.25}]
    predicted = [pair if place % 2 else [] for place in range(9)]
    scores = score_spans(predicted, [pair] * 9)
    lines = program("train").summary(rows, predicted, scores, 1.25, Path("somewhere/model")).splitlines()
    assert lines[1:4] == [f"[w{place}](A 1.00) [x](B 0.25)" for place in (1, 3, 5)]
    assert lines[7].startswith("| A ")
    # 8 of 18 are found, all right, half with score 1 and half with .25: F1 16 / 26, ECE .75 / 2
    assert "strict F1 61.54, precision 100.00, recall 44.44, ECE 0.3750; trained in 1.2 minutes" in "".join(lines)


def test_summary_of_an_empty_answer_shows_no_sentence_and_no_calibration_error(program: Callable) -> None:
    rows = Dataset.from_list([{"tokens": ["w", "x"]}])
    scores = score_spans([[]], [[{"start": 0, "end": 1, "label": "A"}]])
    text = program("train").summary(rows, [[]], scores, 1.25, Path("model"))
    assert "w x" not in text
    assert "strict F1 0.00, precision 0.00, recall 0.00, ECE none" in text


@pytest.mark.slow
def test_two_processes_train_write_once_and_end(recipe_file: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [*command, str(RECIPES / "train.py"), str(recipe_file)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("strict F1") == 1
    assert run.stdout.count("entities that the method cannot reach") == 1
    scores = json.loads((tmp_path / "model" / "scores.json").read_text(encoding="utf-8"))
    assert scores["num_gold"] == 10
    assert "destroy_process_group" not in run.stderr
