"""Recipes are read strictly: unknown keys, tags, paths and numbers written as text are errors that say what to do."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub.constants import HF_HOME

from hf_spanner import METHODS
from hf_spanner.methods.boundary_smoothing.trainer_boundary_smoothing import BoundarySmoothingTrainingArguments
from hf_spanner.training.recipe import Recipe

Write = Callable[[str], Path]
GOOD = """
method: boundary_smoothing
encoder: some/encoder
paper: {f1: 93.65, where: "Table 2"}
data:
  train: data/train.txt
  dev: data/dev.txt
  test: data/test.txt
  scheme: IOB1
model:
  smoothing_epsilon: 0.2
training:
  learning_rate: 1.0e-5
  num_train_epochs: 3
  use_cpu: true
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(text: str) -> Path:
        path = tmp_path / "recipe.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return to_file


def test_a_recipe_becomes_its_parts(write: Write) -> None:
    recipe = Recipe.from_yaml(write(GOOD))
    assert (recipe.method, recipe.encoder, recipe.encoder_folder) == ("boundary_smoothing", *["some/encoder"] * 2)
    assert recipe.model == {"smoothing_epsilon": 0.2}
    assert recipe.paper == {"f1": 93.65, "where": "Table 2"}
    assert (recipe.data.train, recipe.data.dev, recipe.data.test) == ("data/train.txt", "data/dev.txt", "data/test.txt")
    assert recipe.data.options == {"scheme": "IOB1", "split_hyphens": False}
    assert type(recipe.training) is BoundarySmoothingTrainingArguments
    assert (recipe.training.learning_rate, recipe.training.num_train_epochs) == (1e-5, 3)
    assert recipe.training.head_learning_rate == 2e-3
    assert recipe.training.output_dir == "outputs/boundary_smoothing/recipe"
    assert (recipe.init_from, recipe.resume) == (None, False)


def test_options_of_the_encoder_are_read_as_strictly(write: Write) -> None:
    options = "encoder_options: {revision: v1, dtype: bfloat16, attn_implementation: eager, local_files_only: true}\n"
    recipe = Recipe.from_yaml(write(GOOD + options), ["encoder_options.revision=v2"])
    assert recipe.encoder_options == {
        "revision": "v2",
        "dtype": "bfloat16",
        "attn_implementation": "eager",
        "local_files_only": True,
    }
    assert Recipe.from_yaml(write(GOOD)).encoder_options == {}
    for wrong, message in (
        ("{revison: v1}", "unknown key encoder_options.revison; the nearest known key is encoder_options.revision"),
        ("{dtype: int8}", "dtype must be auto or one of float32, bfloat16, float16, got 'int8'"),
        ("main", "encoder_options must hold keys and values, got 'main'"),
    ):
        with pytest.raises(ValueError, match=message):
            Recipe.from_yaml(write(GOOD + f"encoder_options: {wrong}\n"))


def test_a_checkpoint_to_go_on_from_is_not_set_where_it_has_no_effect(write: Write) -> None:
    with pytest.raises(ValueError, match="training.resume_from_checkpoint has no effect; write resume: true"):
        Recipe.from_yaml(write(GOOD), ["training.resume_from_checkpoint=true"])


def test_overrides_win_over_the_file(write: Write) -> None:
    overrides = [
        "training.seed=7",
        "model.smoothing_epsilon=0.3",
        "encoder=other",
        "resume=true",
        "data.train=../own.txt",
        "training.output_dir=a=b",
    ]
    recipe = Recipe.from_yaml(write(GOOD), overrides)
    assert (recipe.training.seed, recipe.model["smoothing_epsilon"], recipe.encoder) == (7, 0.3, "other")
    assert recipe.resume is True
    assert recipe.data.train == "../own.txt"
    assert recipe.training.output_dir == "a=b"


def test_overrides_may_fill_an_empty_section(write: Write) -> None:
    text = GOOD.replace("model:\n  smoothing_epsilon: 0.2", "model:")
    assert Recipe.from_yaml(write(text), ["model.max_width=9"]).model == {"max_width": 9}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.seed", "training.seed=7, got 'training.seed'"),
        ("encoder.name=x", "encoder is a value"),
        ("calibration=plat", "calibration must be one of temperature, platt, isotonic, got 'plat'"),
        ("training.sed=7", "unknown key training.sed; the nearest known key is training.seed"),
        ("training=5", "recipe.yaml with training=5: training must hold keys and values, got 5"),
        ("model=false", "model must hold keys and values, got False"),
        ("model={max_width: 9, max_width: 8}", "line 1: found duplicate key .max_width."),
        ("training.seed=[7", r"training.seed=\[7 is not plain YAML, line 1: expected"),
        ("base=other.yaml", "unknown key base"),
    ],
)
def test_wrong_overrides_are_refused(write: Write, override: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe.from_yaml(write(GOOD), [override])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("encoder:", "encodr:", "unknown key encodr; the nearest known key is encoder"),
        ("  train:", "  trian:", "unknown key data.trian; the nearest known key is data.train"),
        ("smoothing_epsilon", "smoothing_epsilom", "unknown key model.smoothing_epsilom; .* model.smoothing_epsilon"),
        ("num_train_epochs", "epochs", "unknown key training.epochs"),
        ("encoder: some/encoder\n", "", "encoder is missing"),
        ("method: boundary_smoothing\n", "", "method is missing"),
        ("method: boundary_smoothing", "method: ../../x", f"method must be one of {', '.join(METHODS)}, got '../../x'"),
        ("method: boundary_smoothing", "method: [a]", "method must be one of"),
        ("data/train.txt", "../../secret.txt", "data.train must be a path without '..', got '../../secret.txt'"),
        ("data/train.txt", "a/../../b.txt", "data.train must be a path without"),
        ("data:\n", "data: 3\nrest:\n", "data must hold keys and values, got 3"),
        ('paper: {f1: 93.65, where: "Table 2"}', "paper: x", "paper must hold keys and values"),
        ("use_cpu: true", "learning_rate: 1.0e-4", r"line 15: found duplicate key .learning_rate."),
        ("model:", "training: {seed: 3}\nmodel:", "found duplicate key .training."),
        ("use_cpu: true", "label_smoothing_factor: 0.1", "label_smoothing_factor must be 0"),
    ],
)
def test_wrong_recipes_are_refused_by_name(write: Write, old: str, new: str, message: str) -> None:
    """Cases S-01 and S-02 are among them: a method outside the table, and a data path out of the folder."""
    assert old in GOOD
    with pytest.raises(ValueError, match=message) as error:
        Recipe.from_yaml(write(GOOD.replace(old, new)))
    assert "recipe.yaml" in str(error.value) or "label_smoothing" in message


def test_a_map_and_a_temperature_set_by_hand_exclude_each_other(write: Write) -> None:
    path = write(GOOD)
    with pytest.raises(ValueError, match="model.temperature must be 1 with calibration platt.* got 1.5"):
        Recipe.from_yaml(path, ["calibration=platt", "model.temperature=1.5"])
    assert Recipe.from_yaml(path, ["calibration=platt", "model.temperature=1"]).calibration == "platt"
    assert Recipe.from_yaml(path, ["model.temperature=1.5"]).model["temperature"] == 1.5


def test_a_merged_key_may_be_set_again(write: Write) -> None:
    text = GOOD.replace("model:", "model:\n  <<: {smoothing_epsilon: 0.1}")
    assert Recipe.from_yaml(write(text)).model == {"smoothing_epsilon": 0.2}


def test_numbers_and_words_are_read_as_they_look(write: Write) -> None:
    """YAML 1.1 takes 1e-5 for a text, and the word no for false."""
    text = (
        GOOD.replace("1.0e-5", "1e-5") + "  eval_strategy: no\n  save_strategy: no\n  load_best_model_at_end: false\n"
    )
    training = Recipe.from_yaml(write(text), ["training.weight_decay=1e-3"]).training
    assert (training.learning_rate, training.weight_decay, training.eval_strategy) == (1e-5, 1e-3, "no")


def test_text_that_only_looks_like_a_number_is_left_alone(write: Write) -> None:
    text = GOOD + "  run_name: 3e_run\n  output_dir: 2026-some-name\n"
    assert Recipe.from_yaml(write(text)).training.run_name == "3e_run"


@pytest.mark.parametrize("text", ["output_dir: !!python/object/apply:os.getcwd []\n", "a: [1\n", "- a\n- b\n", ""])
def test_tags_broken_yaml_and_other_shapes_are_refused(write: Write, text: str) -> None:
    """This is case S-01: nothing of the file is run."""
    with pytest.raises(ValueError, match=r"recipe\.yaml (is not plain YAML|must hold keys and values)"):
        Recipe.from_yaml(write(text))


@pytest.mark.parametrize("text", ["a: " + "[" * 2_000, "- " * 2_000])
def test_yaml_nested_without_end_is_refused_with_its_file(write: Write, text: str) -> None:
    with pytest.raises(ValueError, match=r"recipe\.yaml is not plain YAML that can be read: it is nested too deeply"):
        Recipe.from_yaml(write(text))


def test_a_recipe_in_another_encoding_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_bytes(GOOD.encode() + "# Malm\u00f6".encode("latin-1"))
    with pytest.raises(ValueError, match=r"recipe\.yaml, line \d+: byte 7 is .*allowed: UTF-8 text"):
        Recipe.from_yaml(path)


def test_a_recipe_lies_over_its_base_and_the_base_of_that(write: Write, tmp_path: Path) -> None:
    """Data, model and training keep what the upper file leaves out, and overrides win over all."""
    write(GOOD)
    (tmp_path / "middle.yaml").write_text("base: recipe.yaml\nencoder: other\nmodel: {max_width: 9}\ndata:\n")
    top = "base: middle.yaml\nmodel: {smoothing_epsilon: 0.3}\ntraining: {seed: 3, num_train_epochs: 5}\n"
    (tmp_path / "top.yaml").write_text(top + "calibration: platt\npaper: null\n")
    recipe = Recipe.from_yaml(tmp_path / "top.yaml", ["training.seed=8"])
    assert (recipe.method, recipe.encoder, recipe.calibration) == ("boundary_smoothing", "other", "platt")
    assert recipe.model == {"smoothing_epsilon": 0.3, "max_width": 9}
    assert recipe.paper is None
    assert (recipe.data.train, recipe.data.options["scheme"]) == ("data/train.txt", "IOB1")
    assert (recipe.training.seed, recipe.training.num_train_epochs, recipe.training.learning_rate) == (8, 5, 1e-5)
    assert recipe.training.output_dir == "outputs/boundary_smoothing/top"


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("absent.yaml", "recipe.yaml: base must be the name of a recipe in the same folder, got 'absent.yaml'"),
        ("../recipe.yaml", "recipe.yaml: base must be the name of a recipe in the same folder"),
        ("[recipe.yaml]", "recipe.yaml: base must be the name of a recipe in the same folder"),
        ("recipe.yaml", "recipe.yaml: base must not lead back to a recipe that it is the base of, got 'recipe.yaml'"),
        ("circle.yaml", "circle.yaml: base must not lead back to a recipe that it is the base of, got 'recipe.yaml'"),
        ("twice.yaml", "twice.yaml is not plain YAML, line 2: found duplicate key .a."),
        ("up.yaml", "up.yaml: data.train must be a path without"),
        ("list.yaml", "list.yaml must hold keys and values, got list"),
        ("section.yaml", "section.yaml: model must hold keys and values, got 3"),
        ("key.yaml", "unknown key model.smoothing_epsilom"),
    ],
)
def test_bases_are_read_as_strictly(write: Write, tmp_path: Path, base: str, message: str) -> None:
    bases = {
        "circle": "base: recipe.yaml\n",
        "twice": "a: 1\na: 2\n",
        "up": "data: {train: ../x}\n",
        "list": "- a\n",
        "section": "model: 3\n",
        "key": "model: {smoothing_epsilom: 0.1}\n",
    }
    for name, text in bases.items():
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        Recipe.from_yaml(write(f"base: {base}\n{GOOD}"))


def test_output_may_go_under_the_hugging_face_home(write: Write) -> None:
    recipe = Recipe.from_yaml(write(GOOD), ["training.output_dir=$HF_HOME/hf_spanner/x"])
    assert recipe.training.output_dir == f"{HF_HOME}/hf_spanner/x"


def test_encoder_inside_a_package_is_looked_up(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "carrier_of_encoders" / "model"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise RuntimeError('looked up, never run')")
    monkeypatch.syspath_prepend(str(tmp_path))
    recipe = Recipe.from_yaml(write(GOOD), ["encoder=package:carrier_of_encoders/model"])
    assert recipe.encoder_folder == str(folder)
    assert "carrier_of_encoders" not in sys.modules
    for absent in ("other", "..", "model/../..", str(tmp_path)):
        with pytest.raises(ValueError, match=f"carrier_of_encoders has no file or folder '{absent}'"):
            _ = Recipe.from_yaml(write(GOOD), [f"encoder=package:carrier_of_encoders/{absent}"]).encoder_folder
    with pytest.raises(ValueError, match="no_such_package, which is not installed"):
        _ = Recipe.from_yaml(write(GOOD), ["encoder=package:no_such_package/model"]).encoder_folder


def test_data_inside_a_package_is_looked_up(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "carrier_of_rows"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "rows.conll").write_text("Oslo I-LOC\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    splits = [f"data.{split}=package:carrier_of_rows/rows.conll" for split in ("train", "dev", "test")]
    rows = Recipe.from_yaml(write(GOOD), splits).data.load()
    assert [list(split_rows["tokens"]) for split_rows in rows.values()] == [[["Oslo"]]] * 3


def test_rows_are_read_from_files(write: Write, tmp_path: Path) -> None:
    overrides = ["data.format=conll"]
    for name, word in (("train", "Ana"), ("dev", "Bo"), ("test", "Oslo")):
        path = tmp_path / f"{name}.txt"
        path.write_text(f"{word} I-PER\nruns O\n\n", encoding="utf-8")
        overrides.append(f"data.{name}={path}")
    rows = Recipe.from_yaml(write(GOOD), overrides).data.load()
    assert [rows[name][0]["tokens"] for name in ("train", "dev", "test")] == [
        ["Ana", "runs"],
        ["Bo", "runs"],
        ["Oslo", "runs"],
    ]
    assert [dict(entity) for entity in rows["dev"][0]["entities"]] == [{"start": 0, "end": 1, "label": "PER"}]


def test_a_split_without_a_source_is_named(write: Write) -> None:
    recipe = Recipe.from_yaml(write(GOOD.replace("  train: data/train.txt\n", "")))
    with pytest.raises(ValueError, match="data.train must name a file, or data.source"):
        recipe.data.load()
