"""Fit a saved model's scores on held-out data, so that they are probabilities, and save the model with the map.

hf-spanner calibrate MODEL DATA --kind platt --output FOLDER

With --precision .9 .95 (or --recall) the map is fitted on a random half of the documents, and the other half tests
which thresholds can be promised to keep that precision; the pipeline takes them by min_precision=0.95.

With --texts (like those to come, without annotations) and --train (what the model was trained on) each prediction on
DATA counts as often as those texts have predictions like it: of words that training named so, otherwise, or not at all.

DATA must be rows that the model was not trained on; `hf-spanner evaluate` refuses to score the result on exactly these.
With --folds 4 --recipe RECIPE they are its training rows: so many models are trained by the recipe, as MODEL was, and
the map is fitted on the predictions of each for the documents that it has not seen, which are many more than dev rows.
To fit another map on the same predictions, give the same --work.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from hf_spanner import METHODS, Recipe
from hf_spanner.calibration.fitting import (
    MIN_PREDICTIONS,
    ScoredPredictions,
    fit_source,
    fitted_calibration,
    scored_predictions,
)
from hf_spanner.calibration.promises import found_gold, halves, threshold_promises
from hf_spanner.calibration.shift import KINDS, shift_weights, surface_kinds
from hf_spanner.commands.judging import judged_model, predicted_and_gold, training_rows
from hf_spanner.commands.options import (
    add_reader_options,
    add_train_option,
    add_trust_option,
    at_least_one,
    check_new_folder,
    command_parser,
    data_name,
    given_reading,
    rate,
    shared_reading,
    trust_encoders,
)
from hf_spanner.commands.out_of_fold import out_of_fold_predictions
from hf_spanner.commands.predict import input_records, unlabelled_row
from hf_spanner.core.calibration import PARAMETERS, PROMISES
from hf_spanner.core.configuration_span_ner import SpanNERConfig
from hf_spanner.core.pipeline_span_ner import SpanNERPipeline
from hf_spanner.core.spans import EntityLists
from hf_spanner.data.predicted import predicted_entities
from hf_spanner.data.schema import label_set
from hf_spanner.metrics.span_ner.resampling import document_places


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit a calibration on a data file and save the model with it."""
    given = parsed_arguments(arguments)
    trust_encoders(given, given.model)
    check_new_folder(given.output)
    ner, rows = judged_model(given.model, given.data, given_reading(given), raw=True)
    documents = document_places(list(rows["document"]), len(rows))[0]
    is_fitted = halves(documents, given.seed) if given.precision or given.recall else np.ones(len(rows), dtype=bool)
    model = ner.model
    if model.config.threshold:
        print(f"The model's threshold {model.config.threshold} belonged to other scores; it is now 0.")
        model.config.threshold = 0.0
    predicted, gold = held_out_predictions(ner, rows, given)
    predictions = scored_predictions(kept(predicted, is_fitted), kept(gold, is_fitted))
    name, weights = data_name(given.data, given.split), None
    if given.folds:
        name += f", {given.folds} models out of fold"
    if given.texts is not None:
        name += f", weighted for {data_name(given.texts, None)}"
        weights = text_weights(ner, predicted, rows, given)
    calibration = fitted_calibration(
        given.kind,
        predictions,
        # the fingerprint is that of all rows: those that test the promises flatter too
        fitted_on=fit_source(name, rows) | {"num_rows": int(is_fitted.sum())},
        per_label=given.per_label,
        min_predictions=given.min_predictions,
        weights=weights,
    )
    if given.precision or given.recall:
        tested = [kept(column, ~is_fitted) for column in (predicted, gold, documents.tolist())]
        calibration["promises"] = tested_promises(calibration, predictions, tested, model.decoding(), given)
    model.config.calibration = calibration
    model.save_pretrained(given.output)
    ner.tokenizer.save_pretrained(given.output)
    print(report(calibration, len(predictions.scores)))
    print(f"model with this map: {given.output}")


def held_out_predictions(ner: SpanNERPipeline, rows: Any, given: argparse.Namespace) -> tuple[EntityLists, EntityLists]:
    """Predicted entities and gold of the rows: the model's own, or with --folds those of models out of fold."""
    if not given.folds:
        return predicted_and_gold(ner, rows, {}, given.batch_size)
    recipe = Recipe.from_yaml(given.recipe)
    check_recipe(recipe, ner.model.config, rows, given)
    recipe = replace(recipe, model=recipe.model | {"temperature": 1.0})  # raw scores, as the model's
    folder = Path(f"{given.output.resolve()}-folds") if given.work is None else given.work
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(rows)
    predicted = out_of_fold_predictions(recipe, rows, given.folds, folder, Path(given.recipe).stem)
    return predicted, [list(row["entities"]) for row in rows]


def check_recipe(recipe: Recipe, config: SpanNERConfig, rows: Any, given: argparse.Namespace) -> None:
    """That models of the recipe and rows are like the saved one.

    Raises:
        ValueError: If the method, a field that the recipe gives, a setting of inference or the labels differ.
    """
    if recipe.method != config.model_type:
        raise ValueError(
            f"{given.recipe} must be the recipe of {given.model}, {config.model_type}, got {recipe.method}"
        )
    asked = METHODS[recipe.method].config_class(**recipe.model)
    for name in sorted({*recipe.model, *config.decoding_parameters, "split_hyphens"} - {"threshold", "temperature"}):
        own, other = getattr(config, name), getattr(asked, name)
        if own != other:
            raise ValueError(
                f"{given.recipe} must be the recipe of {given.model}, with model.{name} {own}, got {other}"
            )
    labels, own = label_set(rows), sorted(config.label2id or {})
    if labels != own:
        raise ValueError(f"{given.data} must have the labels of {given.model}, {own}, got {labels}")


def tested_promises(
    calibration: Mapping[str, Any],
    laid: ScoredPredictions,
    tested: Sequence[Any],
    decoding: Mapping[str, Any],
    given: argparse.Namespace,
) -> dict[str, Any]:
    """The promises asked for, tested on the predicted entities, gold and documents of other rows."""
    return threshold_promises(
        calibration,
        laid,
        scored_predictions(*tested),
        found_gold(*tested),
        precision=given.precision,
        recall=given.recall,
        delta=given.delta,
        decoding={name: value for name, value in decoding.items() if name != "threshold"},
    )


def text_weights(ner: SpanNERPipeline, predicted: EntityLists, rows: Any, given: argparse.Namespace) -> np.ndarray:
    """Weights of the predictions on held-out rows, by those on the texts to come and by what training named."""
    split = {"split_hyphens": ner.model.config.split_hyphens}
    reading = shared_reading(given) | split
    texts = [unlabelled_row(record, **split) for record in input_records(given.texts, reading, is_shared=True)]
    train = training_rows(given, **split)
    answers = predicted_entities(ner, texts, given.batch_size)
    found = list(tqdm(answers, total=len(texts), unit=" texts"))
    kinds, coming = (
        surface_kinds(spans, [row["tokens"] for row in source], train)
        for spans, source in ((predicted, rows), (found, texts))
    )
    if len(coming) < given.min_predictions:
        raise ValueError(f"{given.texts}: predictions must be at least {given.min_predictions}, got {len(coming)}")
    for place, kind in enumerate(KINDS):
        shares = [f"{np.mean(side == place):.1%}" for side in (kinds, coming)]
        print(f"{kind} in training: {shares[0]} of the predictions on {given.data}, {shares[1]} on {given.texts}")
    return shift_weights(kinds, coming)


def kept(items: Sequence, is_kept: np.ndarray) -> list:
    """The items of the rows that a mask keeps."""
    return [item for item, keep in zip(items, is_kept.tolist(), strict=True) if keep]


def parsed_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Options of the command line."""
    parser = command_parser("calibrate", __doc__)
    parser.add_argument("model", help="folder or Hub name of a saved model")
    parser.add_argument("data", help="held-out rows: file, folder or data set on the Hub, as load_rows takes it")
    parser.add_argument("--output", type=Path, required=True, help="new or empty folder for the calibrated model")
    parser.add_argument("--kind", choices=list(PARAMETERS), default="platt")
    parser.add_argument("--per-label", action="store_true", help="a map for each label that has enough predictions")
    parser.add_argument(
        "--min-predictions", type=at_least_one, default=MIN_PREDICTIONS, help="fewest predictions of a map"
    )
    parser.add_argument(
        "--precision", type=rate, nargs="+", default=[], help="promise thresholds for these, e.g. .9 .95"
    )
    parser.add_argument("--recall", type=rate, nargs="+", default=[], help="the same for recall")
    parser.add_argument("--texts", help="texts like those to come, as hf-spanner predict takes them; needs --train")
    parser.add_argument(
        "--folds", type=at_least_one, help="train this many models on DATA, out of fold; needs --recipe"
    )
    parser.add_argument("--recipe", help="how the model was trained; needs --folds")
    parser.add_argument("--work", type=Path, help="folder that keeps what folds predict, to be taken up (OUTPUT-folds)")
    add_train_option(parser, "which surfaces they name; needs --texts")
    parser.add_argument("--delta", type=rate, default=0.05, help="accepted probability that a promise is broken")
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the halves, one for the map and one for the promises"
    )
    parser.add_argument("--batch-size", type=at_least_one, default=32)
    add_reader_options(parser)
    add_trust_option(parser)
    given = parser.parse_args(arguments)
    check_options(parser, given)
    return given


def check_options(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """End with the usage where options do not go together."""
    if (given.texts is None) != (given.train is None):
        parser.error("--texts and --train need each other")
    if (given.folds is None) != (given.recipe is None) or (given.work and not given.folds):
        parser.error("--folds and --recipe need each other, and --work needs them")
    if given.folds == 1 or given.work == given.output:
        parser.error("--folds must be at least 2, and --work another folder than --output")
    if given.folds and (given.texts is not None or given.precision or given.recall):
        parser.error(
            "--folds goes without --texts, --precision and --recall, which are of one model and its held-out rows"
        )
    if given.delta >= 0.5:
        parser.error(f"--delta must be below 0.5, got {given.delta}")
    if given.texts is not None and (given.precision or given.recall):
        parser.error("--texts goes without --precision and --recall: promises hold for rows like DATA")


def report(calibration: Mapping[str, Any], num_predictions: int) -> str:
    """What was fitted, with a line for each map."""
    fitted_on = calibration["fitted_on"]
    lines = [
        f"{calibration['kind']}, {num_predictions:,} predictions, {fitted_on['num_rows']:,} rows of {fitted_on['name']}"
    ]
    for name, parameters in {"all labels": calibration["all"], **calibration["per_label"]}.items():
        lines.append(f"{name}: {json.dumps(parameters, sort_keys=True)}")
    promises = calibration.get("promises", {})
    for side in PROMISES.values():
        for entry in promises.get(side, []):
            thresholds = json.dumps({"all": entry["all"], **entry["per_label"]})
            lines.append(
                f"{side} {entry['target']} with confidence {1 - promises['delta']:g}, thresholds: {thresholds}"
            )
    return "\n".join(lines)
