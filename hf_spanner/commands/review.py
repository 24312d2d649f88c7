"""Rank the annotations of a corpus that are probably wrong, each with the probability of it; then apply decisions.

hf-spanner review MODEL [MODEL ...] DATA --output FOLDER
hf-spanner review --folds 5 RECIPE.yaml [RECIPE.yaml ...] DATA --output FOLDER
hf-spanner review --apply decisions.jsonl DATA --output corrected.jsonl

DATA must be rows that the models were not trained on; the scores of several models are averaged. With --folds as many
models are trained by each recipe, so that each row is judged by a model that has not seen its document. The folder gets
suspects.jsonl, suspects.csv, review.html to look at, and tasks.json for Label Studio (tasks.jsonl for Prodigy): the
rows with suggestions in place of what is less likely, as pre-annotations. Set `decision` in the lines of suspects.jsonl
to "accept" or "reject", edit `suggested` where another entity is right, and apply the file: the corrected rows are
written, and beside them each change.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from hf_spanner import METHODS, Recipe, SpanNERModel
from hf_spanner.annotation.alternatives import FLOOR, has_alternatives, scored_spans
from hf_spanner.annotation.corrections import (
    Decision,
    corrected_rows,
    read_decisions,
    suspect_record,
    suspect_table,
    with_suggestions,
)
from hf_spanner.annotation.review_page import review_page
from hf_spanner.annotation.suspects import KINDS, Review, reviewed
from hf_spanner.commands.convert import reports_said_once, source_rows
from hf_spanner.commands.judging import predicted_and_gold, saved_pipeline
from hf_spanner.commands.options import (
    add_reader_options,
    add_task_option,
    add_trust_option,
    at_least_one,
    command_parser,
    given_reading,
    rate,
    trust_encoders,
    write_tasks,
)
from hf_spanner.commands.out_of_fold import out_of_fold_predictions
from hf_spanner.core.spans import EntityLists
from hf_spanner.data.policy import ReadReport
from hf_spanner.data.writers import save_rows
from hf_spanner.training.whole_files import write_whole

LOWEST = 0.01  # suspects below it are not written
OVERLAPS = ("flat", "nested", "any")  # from strict to loose


class Judgement(NamedTuple):
    """The rows, what each judge says of them, and by what rules.

    Attributes:
        rows: The rows of the data.
        predictions: For each judge its entities of each row; with alternatives where all judges have them.
        policy: How suggestions may overlap, as the loosest judge has it.
        multi_label: Whether a judge gives a span several labels.
        floor: The least score of alternatives; None without them.
        split_hyphens: Whether a hyphen inside a word was made a word of its own.
    """

    rows: list[Any]
    predictions: list[EntityLists]
    policy: str
    multi_label: bool
    floor: float | None
    split_hyphens: bool


def main(arguments: Sequence[str] | None = None) -> None:
    """Review a corpus, or apply decisions to it."""
    given = parsed_arguments(arguments)
    if given.apply is not None:
        apply_decisions(given)
        return
    models, data = given.sources[:-1], given.sources[-1]
    trust_encoders(given, *([] if given.folds else models))
    given.output.mkdir(parents=True, exist_ok=True)
    judge = predictions_of_folds if given.folds else predictions_of_models
    judged = judge(given, models, data)
    review = reviewed(
        judged.rows,
        judged.predictions,
        policy=judged.policy,
        multi_label=judged.multi_label,
        rate=given.error_rate,
        floor=judged.floor,
    )
    records = [
        suspect_record(suspect, rank, judged.rows[suspect.row]) | {"split_hyphens": judged.split_hyphens}
        for rank, suspect in enumerate(review.suspects, start=1)
        if suspect.probability >= given.lowest
    ]
    write_review(given, judged.rows, review, records)


def parsed_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Options of the command line."""
    parser = command_parser("review", __doc__)
    parser.add_argument("sources", nargs="+", metavar="MODEL ... DATA", help="saved models, or recipes; last the data")
    parser.add_argument("--output", type=Path, required=True, help="folder; with --apply the file of the new rows")
    parser.add_argument("--folds", type=int, help="train this many models by each recipe, out of fold")
    parser.add_argument("--apply", type=Path, metavar="DECISIONS", help="file of decisions to apply")
    parser.add_argument("--lowest", type=rate, default=LOWEST, help=f"least probability to write ({LOWEST})")
    parser.add_argument("--error-rate", type=rate, help="share of entities annotated wrong, if known; estimated if not")
    add_task_option(parser)
    parser.add_argument("--batch-size", type=at_least_one, default=32)
    add_reader_options(parser)
    add_trust_option(parser)
    given = parser.parse_intermixed_args(arguments)
    if given.apply is None and len(given.sources) < 2:
        parser.error("needs at least one model (or, with --folds, one recipe) and the data after it")
    if given.apply is not None and (len(given.sources) > 1 or given.folds):
        parser.error("--apply takes only the data that was reviewed, no models and no --folds")
    return given


def predictions_of_models(given: argparse.Namespace, models: Sequence[str], data: str) -> Judgement:
    """What saved models say."""
    # raw scores: the steps of an isotonic map make unlike scores equal, and a review fits maps of its own
    pipelines = [saved_pipeline(model, raw=True) for model in models]
    configs = [ner.model.config for ner in pipelines]
    rows, split_hyphens = rows_as_split(given, data, [config.split_hyphens for config in configs])
    with_alternatives = all(
        has_alternatives(ner.model.config) and isinstance(ner.model, SpanNERModel) for ner in pipelines
    )
    predictions = []
    for ner in pipelines:
        if with_alternatives:
            predictions.append(scored_spans(ner, rows, given.batch_size))
        else:
            decoding = ner.model.decoding({"threshold": 0.0})
            predictions.append(predicted_and_gold(ner, rows, decoding, given.batch_size)[0])
    return Judgement(rows, predictions, *loosest(configs), FLOOR if with_alternatives else None, split_hyphens)


def predictions_of_folds(given: argparse.Namespace, recipes: Sequence[str], data: str) -> Judgement:
    """What models of recipes say that are trained out of fold."""
    read = [Recipe.from_yaml(path) for path in recipes]
    rows, split_hyphens = rows_as_split(given, data, [recipe.data.options["split_hyphens"] for recipe in read])
    folder = given.output / "folds"
    folder.mkdir(exist_ok=True)
    configs = [METHODS[recipe.method].config_class(**recipe.model) for recipe in read]
    with_alternatives = all(map(has_alternatives, configs))
    predictions = [
        out_of_fold_predictions(
            recipe, rows, given.folds, folder, f"{number}-{Path(path).stem}", alternatives=with_alternatives
        )
        for number, (path, recipe) in enumerate(zip(recipes, read, strict=True), start=1)
    ]
    return Judgement(rows, predictions, *loosest(configs), FLOOR if with_alternatives else None, split_hyphens)


def rows_as_split(given: argparse.Namespace, data: str, hyphens: Sequence[bool]) -> tuple[list[Any], bool]:
    """The rows with hyphens split as all judges do, and whether they do."""
    if len(set(hyphens)) > 1:
        raise ValueError(f"models and recipes must split words alike, got split_hyphens {sorted(set(hyphens))}")
    return detailed_rows(data, given_reading(given) | {"split_hyphens": hyphens[0]}), hyphens[0]


def loosest(configs: Sequence[Any]) -> tuple[str, bool]:
    """The overlap policy that allows most, and whether any allows several labels of a span."""
    policy = max((config.overlap for config in configs), key=OVERLAPS.index)
    return policy, any(config.multi_label for config in configs)


def detailed_rows(data: str, reading: Mapping[str, Any]) -> list[Any]:
    """The rows, with their raw text where the source has it."""
    report = ReadReport()
    with reports_said_once():
        rows = list(source_rows(data, dict(reading), report))
    print(f"read {data}: {report}", file=sys.stderr)
    return rows


def write_review(given: argparse.Namespace, rows: Sequence[Any], review: Review, records: Sequence[Decision]) -> None:
    """Write the ranking, the page and the tasks, and say what was found."""
    folder = given.output
    write_whole(folder / "suspects.jsonl", "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records))
    write_whole(folder / "suspects.csv", suspect_table(records))
    facts = {"Data": f"{Path(given.sources[-1]).name}, {len(rows):,} rows", "Judges": ", ".join(given.sources[:-1])}
    write_whole(folder / "review.html", review_page(records, rows, review.noise, facts))
    write_tasks(suggested_rows(rows, records), folder, given.tasks)
    num_rows = len({record["row"] for record in records})
    expected = sum(record["probability"] for record in records)
    print(f"{len(records):,} suspects in {num_rows:,} of {len(rows):,} rows, about {expected:.0f} of them wrong:")
    for kind, title in KINDS.items():
        if count := sum(record["kind"] == kind for record in records):
            print(f"  {title}: {count:,}")
    print(f"share of entities left out or changed: {review.noise.rate:.1%}; look at {folder / 'review.html'}")


def suggested_rows(rows: Sequence[Any], records: Sequence[Decision]) -> list[Any]:
    """The rows with suspects, each as suggested where that is likelier than not, the most probable first.

    Entities that are suggested have the probability that the annotation is wrong as score.
    """
    ordered = sorted(records, key=lambda record: record["row"])
    by_row = {number: list(members) for number, members in groupby(ordered, key=lambda record: record["row"])}
    by_row = {number: sorted(members, key=lambda record: record["rank"]) for number, members in by_row.items()}
    likely = {number: [one for one in members if one["probability"] > 0.5] for number, members in by_row.items()}
    return [
        {**rows[number], "entities": with_suggestions(rows[number], likely[number])}
        for number, _ in sorted(by_row.items(), key=lambda item: item[1][0]["rank"])
    ]


def apply_decisions(given: argparse.Namespace) -> None:
    """Write the corrected rows, and the log of changes beside them."""
    decisions = read_decisions(given.apply)
    split_hyphens = any(record.get("split_hyphens") for _, record in decisions)  # as the models did
    rows = detailed_rows(given.sources[0], given_reading(given) | {"split_hyphens": split_hyphens})
    corrected, log = corrected_rows(rows, decisions)
    changes = given.output.with_name(f"{given.output.name}.changes.jsonl")
    if changes.exists():
        raise ValueError(f"path {changes} exists; allowed: a new name for --output")
    save_rows(corrected, given.output)
    write_whole(changes, "".join(json.dumps(change, ensure_ascii=False) + "\n" for change in log))
    undecided = sum(record["decision"] is None for _, record in decisions)
    num_rows = len({change["row"] for change in log})
    print(f"{len(log):,} changes in {num_rows:,} rows, {undecided:,} of {len(decisions):,} undecided: {given.output}")
    print(f"each change: {changes}")
