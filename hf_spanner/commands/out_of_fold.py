"""Predictions for the very rows that models are trained on, each row by a model that has not seen its document."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import set_seed

from hf_spanner import Recipe, SpanNERPipeline
from hf_spanner.annotation.alternatives import scored_spans
from hf_spanner.annotation.folds import document_folds
from hf_spanner.commands.train import tokenizer_and_model
from hf_spanner.core.spans import EntityLists
from hf_spanner.data.predicted import predicted_entities
from hf_spanner.data.schema import Row, label_set
from hf_spanner.methods import trainer_of
from hf_spanner.training.whole_files import write_whole

WITHOUT_EFFECT = (  # beginnings of the names of training arguments that change no weight
    "dataloader_",
    "disable_tqdm",
    "eval_",
    "hub_",
    "log",
    "output_dir",
    "per_device_eval_",
    "project",
    "push_to_hub",
    "report_to",
    "run_name",
    "save_",
    "trackio_",
)
NO_FILES: dict[str, Any] = {"eval_strategy": "no", "save_strategy": "no", "load_best_model_at_end": False}


def out_of_fold_predictions(
    recipe: Recipe, rows: Sequence[Row], num_folds: int, folder: Path, name: str, *, alternatives: bool = False
) -> EntityLists:
    """Entities of all rows, with scores, by one model for each fold that is trained on the others.

    The predictions of a fold that is done are kept in the folder, and taken from there if it is begun again with the
    same rows in the same order, entities, folds and settings.

    Args:
        recipe: How to train; its own data and calibration play no part.
        rows: Rows with all their documents.
        num_folds: How many models.
        folder: Where predictions are kept.
        name: What the files are called.
        alternatives: Give also spans that are not found, as `scored_spans` does, whose floor they then reach down to.

    Returns:
        For each row its entities, overlaps resolved, no threshold; with alternatives neither.

    Raises:
        ValueError: If there are fewer documents than folds.
    """
    answers: EntityLists = [[] for _ in rows]
    labels = label_set(rows)
    folds = document_folds(rows, num_folds, recipe.training.seed)
    key = _run_key(recipe, rows, folds, alternatives)
    for number, fold in enumerate(folds):
        path = folder / f"{name}-{number + 1}-of-{num_folds}.json"
        kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if kept.get("key") != key:
            ner = fold_model(recipe, rows, fold, labels, folder / path.stem)
            chosen = [rows[place] for place in fold]
            batch_size = recipe.training.per_device_eval_batch_size
            predicted = (
                scored_spans(ner, chosen, batch_size)
                if alternatives
                else list(predicted_entities(ner, chosen, batch_size, {"threshold": 0.0}))
            )
            kept = {"key": key, "predicted": predicted}
            write_whole(path, json.dumps(kept))
        for place, entities in zip(fold, kept["predicted"], strict=True):
            answers[place] = entities
    return answers


def _run_key(recipe: Recipe, rows: Sequence[Row], folds: Sequence[Sequence[int]], alternatives: bool) -> str:
    """SHA-256 of what predictions of folds depend on: the rows in their order, the folds and the settings."""
    training = recipe.training.to_dict()
    state = {
        "rows": [[list(row["tokens"]), row.get("document"), row["entities"]] for row in rows],
        "folds": [folds, alternatives],
        "recipe": [recipe.method, recipe.encoder, recipe.init_from, recipe.model, recipe.encoder_options],
        "training": {name: value for name, value in training.items() if not name.startswith(WITHOUT_EFFECT)},
    }
    return hashlib.sha256(json.dumps(state, sort_keys=True, default=str).encode()).hexdigest()


def fold_model(
    recipe: Recipe, rows: Sequence[Row], fold: Sequence[int], labels: Sequence[str], output_dir: Path
) -> SpanNERPipeline:
    """A model that is trained on all rows but those of a fold."""
    inside = set(fold)
    set_seed(recipe.training.seed)
    tokenizer, model = tokenizer_and_model(recipe, labels)
    trainer = trainer_of(recipe.method)(
        model=model,
        args=replace(recipe.training, output_dir=str(output_dir), **NO_FILES),
        train_dataset=[row for number, row in enumerate(rows) if number not in inside],
        processing_class=tokenizer,
    )
    trainer.train()
    return SpanNERPipeline(model=model, tokenizer=tokenizer, device=model.device)
