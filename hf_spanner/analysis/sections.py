"""The parts of a report: pictures and tables of the numbers, and the words that say how to read them."""

from collections.abc import Mapping, Sequence
from typing import Any

from hf_spanner.analysis.errors import KINDS
from hf_spanner.analysis.html_report import Example, Picture, Section, Table, group_table, values_at
from hf_spanner.analysis.landscape import Landscape
from hf_spanner.analysis.pictures import (
    error_picture,
    group_picture,
    landscape_picture,
    png_bytes,
    reliability_picture,
    threshold_picture,
    training_picture,
)
from hf_spanner.analysis.training_curves import TrainingCurves
from hf_spanner.metrics.span_ner.scoring import score_text

TENTHS = [step / 10 for step in range(10)]
GROUPINGS = {
    "label": ("label", "A span's group is its own label, predicted or gold."),
    "length": ("length (words)", "A span's group is its own length in words, predicted or gold."),
    "depth": (
        "nesting depth (gold spans around)",
        "The depth of a span is the number of longer gold spans that contain it, also for a predicted span; 0 is "
        "inside of none.",
    ),
    "surface": (
        "words in the training rows",
        "Seen: the same words, letter case included, are an entity of any label somewhere in the training rows.",
    ),
}
GROUP_TEXT = (
    "Precision is taken over the predicted spans of a group, recall over its gold spans. Groups with few spans say "
    "little."
)


def calibration_section(scores: Mapping[str, Any], raw: Mapping[str, Any] | None) -> Section:
    """How far scores are probabilities.

    Args:
        scores: As `score_spans` gives them, with the model's own scores.
        raw: The same for the same spans before their calibration; None if there is none.
    """
    sides = {"raw": scores} if raw is None else {"raw": raw, "calibrated": scores}
    names = {name: f"{name} (ECE {score_text(side_scores['overall_ece'], 3)})" for name, side_scores in sides.items()}
    bins = {names[name]: side_scores["reliability"] for name, side_scores in sides.items()}
    png = png_bytes(reliability_picture(bins, "Reliability of scores"))
    text = (
        "Spans are put in ten bins by their score. Where scores are probabilities, the share of right spans in a bin "
        "is its mean score: points lie on the dashed line. Below it the model is over-confident, above it "
        "under-confident. Bars are exact binomial 95 % intervals, spans taken as independent; the lower panel counts "
        "the spans of each bin. ECE is the mean distance from the line, weighted by these counts."
    )
    if raw is None:
        text += " These are raw scores, without a calibration."
    else:
        text += " Raw and calibrated are the same spans before and after the model's calibration."
    rates = {"ECE, bins of equal width": "overall_ece", "ECE, bins of equal size": "overall_ece_mass"}
    rates |= {"largest error of a bin": "overall_mce", "Brier score": "overall_brier"}
    table = [[title, *(score_text(side_scores[key]) for side_scores in sides.values())] for title, key in rates.items()]
    label_rows = [
        [label, *(score_text(side_scores["per_label"][label]["ece"]) for side_scores in sides.values())]
        for label, label_scores in scores["per_label"].items()
        if label_scores["num_predicted"]
    ]
    tables = [
        Table("Calibration errors", ["measure", *sides], table),
        Table("ECE by predicted label", ["label", *sides], label_rows),
        *(_bin_table(name, side_scores["reliability"]) for name, side_scores in sides.items()),
    ]
    picture = Picture("reliability", png, "Precision against score in ten bins, and spans in each bin")
    return Section("Calibration", text, [picture], tables)


def threshold_section(curve: Mapping[str, Any], threshold: float | Mapping[str, float]) -> Section:
    """Precision and recall over thresholds.

    Args:
        curve: As `precision_recall_curve` gives it.
        threshold: The threshold in use, or one for each label, which has no place on one axis.
    """
    number = None if isinstance(threshold, Mapping) else threshold
    figure = threshold_picture(curve, number, "Precision and recall over thresholds")
    text = (
        "A threshold keeps the spans with at least this score; overlaps are resolved before. Recall is against all "
        f"gold spans. Average precision, the area under the lower curve by steps: {curve['average_precision']:.3f}. "
        "Dots on that curve are thresholds."
    )
    if number is None:
        text += " The model has a threshold for each label; here one holds for all."
    rows = [
        [f"{values['threshold']:.1f}", *(f"{100 * values[name]:.1f}" for name in ("precision", "recall", "f1"))]
        for values in values_at(curve, TENTHS)
    ]
    table = Table("Numbers at thresholds", ["threshold", "precision", "recall", "F1"], rows)
    picture = Picture("thresholds", png_bytes(figure), "Precision, recall and F1 by threshold; precision by recall")
    return Section("Thresholds", text, [picture], [table])


def group_section(name: str, groups: Mapping[str, Mapping[str, Any]]) -> Section:
    """F1 by one grouping of `scores_by_group`, with how a span's group is found."""
    axis, text = GROUPINGS[name]
    figure = group_picture(groups, axis, f"F1 by {name}")
    picture = Picture(f"f1_by_{name}", png_bytes(figure), f"Bars of strict F1 by {axis}; the table has the numbers")
    return Section(f"F1 by {name}", f"{text} {GROUP_TEXT}", [picture], [group_table(name, groups)])


def error_section(counts: Mapping[str, int], examples: Mapping[str, Sequence[Example]]) -> Section:
    """Kinds of errors with examples.

    Args:
        counts: By kind, as `error_counts` gives them.
        examples: By kind, those to show.
    """
    title = f"Kinds of errors ({sum(counts.values()):,} in all)"
    figure = error_picture({KINDS[kind]: count for kind, count in counts.items()}, title)
    text = (
        "Each wrong prediction and each gold span not found is one error of one kind. A wrong prediction is paired "
        "with at most one unfound gold span that shares a word with it, the largest overlap first. Missed: gold "
        "without a pair. Invented: a prediction without a pair. Examples are a random choice; the number beside a "
        "label is the score of the prediction."
    )
    titles = {
        kind: f"{KINDS[kind]} ({len(kind_examples)} of {counts[kind]:,})" for kind, kind_examples in examples.items()
    }
    picture = Picture("errors", png_bytes(figure), "Number of errors of each kind")
    return Section(
        "Errors", text, [picture], examples={titles[kind]: kind_examples for kind, kind_examples in examples.items()}
    )


def training_section(curves: TrainingCurves | None) -> Section:
    """Loss and F1 over the epochs; without curves a sentence that says so."""
    if curves is None:
        text = "The model's folder has no trainer_state.json with losses or scores, neither has a checkpoint in it."
        return Section("Training", text)
    text = (
        "Loss of training and development rows, and F1 of the development rows, over the epochs. Development loss may "
        "rise while F1 goes on rising: the model grows too sure of its errors but makes fewer. So the best epoch is "
        "chosen by F1. Training loss is measured with dropout."
    )
    picture = Picture(
        "training", png_bytes(training_picture(curves, "Loss and F1 over training")), "Loss and F1 by epoch"
    )
    return Section("Training", text, [picture])


def offset_section(scores: Mapping[str, Mapping[str, Any]]) -> Section:
    """What each offset label of BOPN is worth, from the scores of `offset_label_scores`."""
    text = (
        "Each row takes the entities that the cells of one offset label point at as the whole answer, before votes are "
        "counted and overlaps resolved. Label 0 marks the entity itself, -1S a span that starts one word before it, 2E "
        "one that ends two words after it. Gold counts the entities that have such a cell in their sentence."
    )
    return Section("Offset labels", text, tables=[group_table("offset label", scores)])


def landscape_section(landscapes: Mapping[str, Landscape]) -> Section:
    """Loss around the weights.

    Args:
        landscapes: By name of the model, one or two.
    """
    text = (
        "All weights are moved along one random direction, in which each weight tensor has its own norm, so that at a "
        "distance of 1 every tensor has moved by as much as it is long; 0 is the model as it was trained. Each model "
        "has its own loss, so compare shapes, not heights."
    )
    picture = Picture(
        "landscape",
        png_bytes(landscape_picture(landscapes, "Around the trained weights")),
        "Loss and F1 by distance from the trained weights",
    )
    return Section("Loss landscape", text, [picture])


def _bin_table(name: str, bins: Sequence[Mapping[str, Any]]) -> Table:
    """Reliability bins that hold spans."""
    rows = [
        [
            f"{score_bin['low']:.1f} to {score_bin['high']:.1f}",
            f"{score_bin['count']:,}",
            f"{score_bin['confidence']:.3f}",
            f"{score_bin['precision']:.3f}",
        ]
        for score_bin in bins
        if score_bin["count"]
    ]
    return Table(f"Bins of {name} scores", ["score", "spans", "mean score", "precision"], rows)
