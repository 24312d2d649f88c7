"""What the speed and memory benchmarks share: command line, rows, encoder and the model under test."""

import argparse
import json
import platform
from collections.abc import Collection, Mapping, Sequence, Sized
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import set_seed
from transformers.utils import logging

from hf_spanner import METHODS, Recipe, SpanNERModel, load_rows
from hf_spanner.data.schema import label_set
from hf_spanner.methods import training_arguments_of
from hf_spanner.training.recipe import RecipeData, plain_yaml

SEED = 42


def command_line(description: str, methods: Collection[str] = tuple(METHODS)) -> argparse.ArgumentParser:
    """The options that the benchmarks of speed and memory take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--encoder", required=True, help="Hub name, folder, or package:<import name>/<folder>")
    parser.add_argument("--data", required=True, help="file of rows, such as a test split in JSONL")
    parser.add_argument("--method", required=True, choices=methods)
    parser.add_argument("--config", nargs="*", default=[], metavar="KEY=VALUE", help="fields of the configuration")
    parser.add_argument("--rows", type=int, help="take only the first rows")
    parser.add_argument("--repeats", type=int, default=3, help="rounds; the median round counts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    return parser


def selected_rows(arguments: argparse.Namespace) -> Dataset:
    """Rows of `--data`, the first `--rows` where given; sets the number of threads and the seed on the way."""
    torch.set_num_threads(arguments.threads)
    logging.set_verbosity_error()
    set_seed(SEED)
    rows = load_rows(arguments.data)
    return rows if arguments.rows is None else rows.select(range(min(arguments.rows, len(rows))))


def recipe_of(arguments: argparse.Namespace, training: Mapping[str, Any]) -> Recipe:
    """The recipe that the command line describes; nothing is saved or evaluated on the way.

    Args:
        arguments: `encoder`, `data`, `method` and `config`.
        training: Training arguments by name, `output_dir` among them.
    """
    quiet = dict.fromkeys(("save_strategy", "eval_strategy", "logging_strategy"), "no")
    return Recipe(
        method=arguments.method,
        encoder=arguments.encoder,
        data=RecipeData(train=arguments.data),
        model=parsed_fields(arguments.config),
        training=training_arguments_of(arguments.method)(
            **quiet,
            load_best_model_at_end=False,
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            seed=SEED,
            **training,
        ),
    )


def parsed_fields(items: Sequence[str]) -> dict[str, Any]:
    """Fields of a configuration from KEY=VALUE, the values in YAML."""
    return {name: plain_yaml(value, name) for name, _, value in (item.partition("=") for item in items)}


def new_model(recipe: Recipe, rows: Dataset, **fields: Any) -> SpanNERModel:
    """Model of the recipe with a random head for the labels of the rows; `fields` win over the recipe's."""
    model = METHODS[recipe.method]
    return model.from_encoder(recipe.encoder_folder, labels=label_set(rows), **{**recipe.model, **fields})


def circumstances(arguments: argparse.Namespace, rows: Sized) -> dict[str, Any]:
    """What a number has to be read with: date, versions, machine and settings."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {name: version(name) for name in ("torch", "transformers", "tokenizers", "numpy")},
        "machine": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "threads": torch.get_num_threads(),
        "encoder": arguments.encoder,
        "data": f"{Path(arguments.data).name}, {len(rows)} rows",
        "method": arguments.method,
        "config": arguments.config,
        "repeats": arguments.repeats,
    }


def publish(facts: Mapping[str, Any], path: Path | None) -> None:
    """Print the circumstances below the table, and write all facts as JSON where a path is given."""
    shown = ("date", "versions", "machine", "threads", "encoder", "data", "method", "config", "repeats", "notes")
    for name in shown:
        print(f"{name}: {facts[name]}")
    if path is not None:
        path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
