"""Train a recipe (and a token-classification baseline at the same budget), score the test rows, keep the predictions.

    python benchmarks/quality.py recipes/boundary_smoothing/conll2003_minilm.yaml --seeds 1 2 3 --baseline
    python benchmarks/quality.py RECIPE --rows benchmarks/equal_budget.json.gz:conll2003 --seeds 1 --name NAME a.b=c ...

Each run adds one line to `results.jsonl.gz` in the output folder and its predictions to the Parquet file of its corpus
there, by which its name must begin (README.md of the folder says more). `--splits dev test` does both for the
development rows too; then the ECE after the recipe's `calibration`, fitted on them, is told beside that of raw scores.
`--scores-only` keeps no predictions: for a variant that is tried once. All other scores are raw.
"""

import argparse
import gzip
import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from calibration import Rows, error, fitted, mapped
from kept_runs import FOLDER, add_result, add_run
from token_classification import predict_baseline, train_baseline
from transformers import AutoTokenizer, TrainingArguments, set_seed

from hf_spanner import METHODS, Recipe
from hf_spanner.data.schema import label_set
from hf_spanner.methods import trainer_of
from hf_spanner.metrics.span_ner.scoring import score_spans

NUM_DIGITS = 7
NOT_KEPT = ("reliability", "per_label", "brier_split")  # of the scores of a run
SPLITS = {"train": "train", "dev": "validation", "test": "test"}
PRIVATE = ("training.output_dir", "training.disable_tqdm", "data.", "encoder")
SHARED_ARGUMENTS = (
    "learning_rate",
    "num_train_epochs",
    "max_steps",
    "per_device_train_batch_size",
    "warmup_steps",
    "adam_beta1",
    "weight_decay",
    "seed",
    "lr_scheduler_type",
    "train_sampling_strategy",
    "disable_tqdm",
)

Predictor = Callable[[Any], Sequence[Sequence[dict[str, Any]]]]


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe")
    parser.add_argument("overrides", nargs="*", help="settings such as model.smoothing_epsilon=0.2")
    parser.add_argument("--seeds", nargs="+", type=int, default=[42])
    parser.add_argument("--rows", help="FILE.json.gz:KEY, row numbers of each split")
    parser.add_argument("--train-every", type=int, default=1, metavar="N", help="train on every Nth row only")
    parser.add_argument("--name", help="CORPUS_BUDGET, such as gum_full; the recipe's by default")
    parser.add_argument("--baseline", action="store_true", help="also train a token classifier")
    parser.add_argument("--only-baseline", action="store_true")
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=["test"], help="rows to predict")
    parser.add_argument("--scores-only", action="store_true", help="add the line of results alone")
    parser.add_argument("--output", type=Path, default=FOLDER)
    arguments = parser.parse_intermixed_args()
    name = arguments.name or Path(arguments.recipe).stem
    for seed in arguments.seeds:
        recipe = Recipe.from_yaml(arguments.recipe, [*arguments.overrides, f"training.seed={seed}"])
        rows = selected_rows(recipe, arguments.rows)
        rows["train"] = rows["train"].select(range(0, len(rows["train"]), arguments.train_every))
        runs = [] if arguments.only_baseline else [(recipe.method, span_predictor)]
        runs += [("token_classification", baseline_predictor)] if arguments.baseline or arguments.only_baseline else []
        for method, predictor in runs:
            started = time.time()
            set_seed(seed)
            predict = predictor(recipe, rows)
            predicted = {split: predict(rows[split]) for split in arguments.splits}
            facts = {
                "name": name,
                "method": method,
                "seed": seed,
                "rows": {split: len(split_rows) for split, split_rows in rows.items()},
                "minutes": round((time.time() - started) / 60, 1),
                "recipe": Path(arguments.recipe).name,
                "overrides": [text for text in arguments.overrides if not text.startswith(PRIVATE)],
                **environment(),
            }
            judged = {
                split: Rows(list(split_predicted), [list(entities) for entities in rows[split]["entities"]])
                for split, split_predicted in predicted.items()
            }
            for split, split_rows in judged.items():
                split_facts = facts | {"split": split}
                if not arguments.scores_only:
                    add_run(arguments.output, split_facts, *split_rows)
                calibrated = calibrated_error(recipe.calibration, judged.get("dev"), split_rows)
                add_scores(arguments.output, split_facts | {"calibrated_ece": calibrated}, *split_rows)


def selected_rows(recipe: Recipe, selection: str | None) -> dict[str, Any]:
    """Rows of the recipe's splits, only those numbered in the selection where one is given."""
    rows = recipe.data.load()
    if selection is None:
        return rows
    path, _, key = selection.rpartition(":")
    numbers = json.loads(gzip.decompress(Path(path).read_bytes()))[key]
    chosen = {split: numbers.get(SPLITS[split]) for split in rows}
    return {
        split: rows[split].select(chosen[split]) if isinstance(chosen[split], list) else rows[split] for split in rows
    }


def span_predictor(recipe: Recipe, rows: Mapping[str, Any]) -> Predictor:
    """Train the recipe's model, and give what predicts with it."""
    tokenizer = AutoTokenizer.from_pretrained(recipe.encoder_folder)
    model = METHODS[recipe.method].from_encoder(recipe.encoder_folder, labels=label_set(rows["train"]), **recipe.model)
    trainer = trainer_of(recipe.method)(
        model=model,
        args=recipe.training,
        train_dataset=rows["train"],
        eval_dataset=rows["dev"],
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.save_model()
    return lambda judged: trainer.predict(judged).predictions


def baseline_predictor(recipe: Recipe, rows: Mapping[str, Any], head_learning_rate: float | None = None) -> Predictor:
    """Train a token classifier with the recipe's schedule and encoder rate, and give what predicts with it."""
    values = asdict(recipe.training)
    shared = {name: values[name] for name in SHARED_ARGUMENTS}
    arguments = TrainingArguments(
        output_dir=f"{recipe.training.output_dir}-baseline",
        save_strategy="no",
        use_cpu=recipe.training.use_cpu,
        **shared,
    )
    labels = label_set(rows["train"])
    train_rows = rows["train"].to_list()
    model, tokenizer = train_baseline(recipe.encoder_folder, train_rows, labels, arguments, head_learning_rate)
    return lambda judged: predict_baseline(model, tokenizer, judged.to_list())


def calibrated_error(kind: str | None, dev: Rows | None, judged: Rows) -> float | None:
    """ECE after a map of the recipe's kind that is fitted on the dev rows; None where there is none, or for these."""
    if kind is None or dev is None or judged is dev:
        return None
    return rounded(error(mapped(fitted(kind, dev), judged.scored())))


def add_scores(folder: Path, facts: dict[str, Any], predicted: Sequence, gold: Sequence) -> None:
    """Add the line of a run to `results.jsonl.gz`: its facts, and its scores to seven digits."""
    scores = {name: rounded(value) for name, value in score_spans(predicted, gold).items()}
    facts = facts | {name: value for name, value in scores.items() if name not in NOT_KEPT}
    facts["f1_by_label"] = {label: rounded(label_scores["f1"]) for label, label_scores in scores["per_label"].items()}
    add_result(folder, facts)
    shown = ("name", "split", "method", "seed", "overall_f1", "overall_ece", "minutes")
    print({key: round(facts[key], 4) if isinstance(facts[key], float) else facts[key] for key in shown}, flush=True)


def rounded(value: Any) -> Any:
    """A float to as many digits as results keep; anything else as it is."""
    return round(value, NUM_DIGITS) if isinstance(value, float) else value


def environment() -> dict[str, str]:
    """Date, versions and machine, so that a number can be traced."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "versions": ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "datasets")),
        "machine": f"{platform.system()} {platform.machine()}, {torch.get_num_threads()} threads",
    }


if __name__ == "__main__":
    main()
