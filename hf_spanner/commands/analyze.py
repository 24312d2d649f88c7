"""Analyse a saved model on a data file: one folder with report.html, its pictures and scores.json.

hf-spanner analyze MODEL DATA --output FOLDER --train TRAIN --landscape

The report shows whether scores are probabilities, before and after the model's calibration; precision and recall over
thresholds; F1 by label, length, nesting depth and, with --train, seen or unseen surface; the kinds of errors with
examples; for BOPN what each offset label is worth alone; the training curves, where the model's folder has them; and,
with --landscape, the loss around the weights.
It needs matplotlib, which the extra `plots` brings.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any, cast

import torch
from datasets import Dataset
from tqdm import tqdm
from transformers import AutoModel, AutoTokenizer

from hf_spanner.analysis.errors import Error, chosen_examples, error_counts, span_errors
from hf_spanner.analysis.groups import scores_by_group
from hf_spanner.analysis.html_report import Example, Section, error_example, values_at, write_report
from hf_spanner.analysis.landscape import Landscape, loss_landscape
from hf_spanner.analysis.offset_labels import offset_label_scores
from hf_spanner.analysis.sections import (
    GROUPINGS,
    calibration_section,
    error_section,
    group_section,
    landscape_section,
    offset_section,
    threshold_section,
    training_section,
)
from hf_spanner.analysis.training_curves import TrainingCurves, training_curves
from hf_spanner.calibration.fitting import refuse_fitted_rows
from hf_spanner.commands.judging import judged_model, predicted_and_gold, saved_config, training_rows
from hf_spanner.commands.options import (
    add_decoding_options,
    add_judging_options,
    add_reader_options,
    add_train_option,
    add_trust_option,
    at_least_one,
    at_least_zero,
    check_new_folder,
    command_parser,
    given_decoding,
    given_reading,
    trust_encoders,
)
from hf_spanner.core.calibration import calibrated_spans, lowest_score
from hf_spanner.core.spans import EntityLists, Span
from hf_spanner.methods.bopn import BOPNModel
from hf_spanner.metrics.span_ner.curves import precision_recall_curve
from hf_spanner.metrics.span_ner.matching import SpanKey, matched_spans
from hf_spanner.metrics.span_ner.resampling import num_documents
from hf_spanner.metrics.span_ner.scoring import score_spans, score_text
from hf_spanner.training.model_card import shareable

NUM_RESAMPLES = 1_000
HUNDREDTHS = [step / 100 for step in range(101)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Analyse a saved model on a data file."""
    given = parsed_arguments(arguments)
    trust_encoders(given, given.model, given.second_model)
    check_new_folder(given.output)
    curves = training_curves(given.model)
    config = saved_config(given.model, raw=given.raw)
    if given.second_model is not None and saved_config(given.second_model).split_hyphens != config.split_hyphens:
        raise ValueError("both models must read the same words, but only one of them splits words at hyphens")
    calibration, settings = config.calibration, config.merge_settings()
    decoding = dict(config.decoding(given_decoding(given)))
    ner, rows = judged_model(given.model, given.data, given_reading(given), raw=True)
    if not given.allow_fitted_rows:
        refuse_fitted_rows(calibration, cast(Any, rows))
    train = None if given.train is None else training_rows(given, config.split_hyphens)
    # raw scores of all spans that the overlaps leave
    raw_spans, gold = predicted_and_gold(ner, rows, {**decoding, "threshold": 0.0}, given.batch_size)
    landscapes = model_landscapes(given, rows, train, ner.device) if given.landscape else {}
    numbers, errors, predicted_scores = analysis(rows, train, raw_spans, gold, settings, decoding["threshold"])
    if isinstance(ner.model, BOPNModel):
        numbers["offset_labels"] = offset_label_scores(ner, rows, given.batch_size)
    numbers["training_curves"] = None if curves is None else asdict(curves)
    numbers["landscapes"] = {name: asdict(landscape) for name, landscape in landscapes.items()}
    labels = sorted({*cast(dict[str, int], config.label2id), *numbers["groups"]["label"]})
    examples = shown_examples(errors, predicted_scores, rows, labels, given)
    sections = report_sections(numbers, decoding["threshold"], examples, curves, landscapes)
    about = {"model": shareable(given.model), "data": shareable(given.data), "split": given.split, "decoding": decoding}
    numbers["curve"] = values_at(numbers["curve"], HUNDREDTHS)  # a point for each prediction would be unreadable
    report = write_report(
        given.output,
        title=f"{config.model_type} on {about['data']}",
        facts=facts(about, numbers, calibration, rows),
        sections=sections,
        scores=about | numbers,
    )
    print(f"Written: {report}")


def parsed_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Options of the command line; decoding parameters are among them only if they were given."""
    parser = command_parser("analyze", __doc__)
    parser.add_argument("model", help="folder or Hub name of a saved model")
    parser.add_argument("data", help="file, folder or data set on the Hub, as load_rows takes it")
    parser.add_argument("--output", type=Path, required=True, help="new or empty folder for the report")
    add_train_option(parser, "which surfaces were seen, and a landscape's split")
    parser.add_argument("--batch-size", type=at_least_one, default=32)
    parser.add_argument("--num-examples", type=at_least_zero, default=5, help="most examples of each kind of error")
    parser.add_argument("--example-seed", type=int, default=0, help="seed of their random choice")
    add_judging_options(parser)
    add_reader_options(parser)
    add_trust_option(parser)
    parser.add_argument(
        "--landscape",
        action="store_true",
        help="also show the loss around the weights; it costs an evaluation for each point",
    )
    parser.add_argument("--second-model", help="another model for the picture of the landscape")
    parser.add_argument("--points", type=odd_number, default=51, help="points of the landscape, an odd number")
    add_decoding_options(parser)
    given = parser.parse_args(arguments)
    if given.second_model is not None and not given.landscape:
        raise ValueError(f"second_model needs --landscape, got {given.second_model} without it")
    return given


def odd_number(text: str) -> int:
    """An odd integer of at least 3, as the type of an option."""
    value = int(text)
    if value < 3 or value % 2 == 0:
        raise argparse.ArgumentTypeError(f"must be odd and at least 3, got {text}")
    return value


def calibrated(spans: EntityLists, settings: Mapping[str, Any]) -> EntityLists:
    """The same spans in the same order with calibrated scores; raw scores are those that the model itself would map."""
    indices = {label: index for index, label in settings["id2label"].items()}
    scored = []
    for entities in spans:
        raw_spans = [
            Span(entity["start"], entity["end"], indices[entity["label"]], entity["score"]) for entity in entities
        ]
        mapped_spans = calibrated_spans(raw_spans, settings["calibration"], settings["id2label"])
        scored.append([entity | {"score": span.score} for entity, span in zip(entities, mapped_spans, strict=True)])
    return scored


def analysis(
    rows: Dataset,
    train: Any,
    raw_spans: EntityLists,
    gold: EntityLists,
    settings: Mapping[str, Any],
    threshold: float | Mapping[str, float],
) -> tuple[dict[str, Any], list[Error], dict[SpanKey, float]]:
    """All numbers by name, the errors, and the predicted spans with their scores.

    Args:
        rows: The rows of the spans.
        train: Training rows, if known.
        raw_spans: Raw scores of all spans that the overlaps leave.
        gold: Gold spans.
        settings: The model's `merge_settings`.
        threshold: The threshold on calibrated scores.
    """
    spans = calibrated(raw_spans, settings)
    is_kept = [
        [entity["score"] >= lowest_score(threshold, entity["label"]) for entity in entities] for entities in spans
    ]
    predicted, before = (
        [list(compress(entities, flags)) for entities, flags in zip(side, is_kept, strict=True)]
        for side in (spans, raw_spans)
    )
    documents = list(rows["document"])
    num_resamples = NUM_RESAMPLES if num_documents(documents) > 1 else 0
    all_scores, gold_keys = matched_spans(spans, gold)
    predicted_scores, _ = matched_spans(predicted, gold)
    errors = span_errors(predicted_scores, gold_keys)
    numbers = {
        "scores": score_spans(predicted, gold, documents=documents, num_resamples=num_resamples),
        "raw_scores": None if settings["calibration"] is None else score_spans(before, gold),
        "curve": precision_recall_curve(
            list(all_scores.values()), [key in gold_keys for key in all_scores], len(gold_keys)
        ),
        "groups": scores_by_group(predicted_scores, gold_keys, rows["tokens"], train),
        "errors": error_counts(errors),
    }
    return numbers, errors, predicted_scores


def model_landscapes(
    given: argparse.Namespace, rows: Dataset, train: Any, device: torch.device
) -> dict[str, Landscape]:
    """Landscapes of one or two models with their own settings of inference, over the rows and the training rows."""
    splits: dict[str, Any] = {"data": rows} | ({} if train is None else {"train": train})
    landscapes = {}
    for name in filter(None, (given.model, given.second_model)):
        print(f"Loss landscape of {name}: {given.points} points, {' and '.join(splits)}")
        shown = str(shareable(name))
        landscapes[f"{shown} (second model)" if shown in landscapes else shown] = loss_landscape(
            AutoModel.from_pretrained(name).to(device),
            AutoTokenizer.from_pretrained(name),
            splits,
            points=given.points,
            batch_size=given.batch_size,
        )
    return landscapes


def shown_examples(
    errors: Sequence[Error],
    predicted_scores: Mapping[SpanKey, float],
    rows: Dataset,
    labels: Sequence[str],
    given: argparse.Namespace,
) -> dict[str, list[Example]]:
    """Chosen errors of each kind in their words, each row by its id or else by its number, counted from 1."""
    places = [name or f"row {number}" for number, name in enumerate(rows["id"], start=1)]
    return {
        kind: [
            error_example(error, rows[error.text]["tokens"], places[error.text], labels, predicted_scores)
            for error in kind_errors
        ]
        for kind, kind_errors in chosen_examples(errors, given.num_examples, given.example_seed).items()
    }


def report_sections(
    numbers: Mapping[str, Any],
    threshold: float | Mapping[str, float],
    examples: Mapping[str, Sequence[Example]],
    curves: TrainingCurves | None,
    landscapes: Mapping[str, Landscape],
) -> list[Section]:
    """The parts of the report, in order."""
    parts: list[Callable[[], Section]] = [
        lambda: calibration_section(numbers["scores"], numbers["raw_scores"]),
        lambda: threshold_section(numbers["curve"], threshold),
        *(partial(group_section, name, numbers["groups"][name]) for name in GROUPINGS if name in numbers["groups"]),
        lambda: error_section(numbers["errors"], examples),
        *([lambda: offset_section(numbers["offset_labels"])] if "offset_labels" in numbers else []),
        lambda: training_section(curves),
        *([lambda: landscape_section(landscapes)] if landscapes else []),
    ]
    return [part() for part in tqdm(parts, desc="pictures")]


def facts(
    about: Mapping[str, Any], numbers: Mapping[str, Any], calibration: Mapping[str, Any] | None, rows: Dataset
) -> dict[str, str]:
    """What stands at the top of the report."""
    scores, raw = numbers["scores"], numbers["raw_scores"]
    intervals = scores.get("intervals", {})

    def percent(name: str) -> str:
        value = f"{100 * scores[name]:.2f} %"
        if name not in intervals:
            return value
        low, high = (100 * intervals[name][end] for end in ("low", "high"))
        return f"{value} (95 % interval {low:.2f} to {high:.2f})"

    how = f"bootstrap over {intervals['num_documents']:,} documents" if intervals else "none: there is one document"
    if num_unknown := sum(name is None for name in rows["document"]):
        how += f"; {num_unknown:,} rows name no document and count as one each, so intervals may be too narrow"
    lines = {
        "Model": str(about["model"]),
        "Data": f"{about['data']}{'' if about['split'] is None else ', ' + about['split']}, {len(rows):,} rows",
        "Spans": f"{scores['num_gold']:,} gold, {scores['num_predicted']:,} predicted, {scores['num_correct']:,} right",
        "Strict F1": percent("overall_f1"),
        "Precision": percent("overall_precision"),
        "Recall": percent("overall_recall"),
        "ECE": score_text(scores["overall_ece"]) + ("" if raw is None else f", raw {score_text(raw['overall_ece'])}"),
        "Intervals": how,
        "Inference": ", ".join(f"{name} {value}" for name, value in about["decoding"].items()),
    }
    if calibration is not None:
        fitted_on = calibration["fitted_on"]
        lines["Calibration"] = f"{calibration['kind']}, fitted on {fitted_on['num_rows']:,} rows of {fitted_on['name']}"
    return lines
