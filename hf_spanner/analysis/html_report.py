"""The folder of an analysis: a report that needs nothing beside it, the pictures, and all numbers."""

import base64
import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined

from hf_spanner.analysis.entity_view import EntityView
from hf_spanner.analysis.errors import Error, context_window
from hf_spanner.metrics.span_ner.matching import SpanKey
from hf_spanner.training.whole_files import write_whole

TEMPLATE = Path(__file__).with_name("report_template.html")
REACH = 12  # words of context on either side


class Picture(NamedTuple):
    """A PNG picture; `name` is its file without ending, `description` tells readers who cannot see it what it shows."""

    name: str
    png: bytes
    description: str


class Table(NamedTuple):
    """A table whose first column is text; `title` is the text to press to open it."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


class Mark(NamedTuple):
    """Spans in their words; `side` says whose they are, such as `gold` or `predicted`."""

    side: str
    view: EntityView


class Example(NamedTuple):
    """An error in context: where it stands, and one line for each span."""

    place: str
    marks: Sequence[Mark]


@dataclass
class Section:
    """A part of the report.

    Args:
        heading: Its title.
        text: What is shown and how to read it.
        pictures: Pictures, in order.
        tables: Tables below them.
        examples: By kind of error, examples below these.
    """

    heading: str
    text: str
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    examples: Mapping[str, Sequence[Example]] | None = None


def write_report(
    folder: str | Path,
    *,
    title: str,
    facts: Mapping[str, str],
    sections: Sequence[Section],
    scores: Mapping[str, Any],
) -> Path:
    """Write `report.html`, each picture as PNG and `scores.json`.

    The report holds its pictures and styles, has no script and asks for nothing over a network. What comes from data
    is escaped.

    Args:
        folder: The folder to write to; it is made if missing.
        title: Title of the report.
        facts: Lines at its top, by name.
        sections: The parts, in order.
        scores: All numbers, as plain values.

    Returns:
        The report.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for section in sections:
        for picture in section.pictures:
            (folder / f"{picture.name}.png").write_bytes(picture.png)
    write_whole(folder / "scores.json", json.dumps(scores, indent=2, allow_nan=False) + "\n")
    report = folder / "report.html"
    write_whole(report, rendered_page(title, facts, sections))
    return report


def rendered_page(title: str, facts: Mapping[str, str], sections: Sequence[Section]) -> str:
    """The HTML of a page that holds all that it shows; what comes from data is escaped."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["embedded"] = lambda png: base64.b64encode(png).decode()
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(title=title, facts=facts, sections=sections)


def group_table(title: str, groups: Mapping[str, Mapping[str, Any]]) -> Table:
    """Scores of `group_scores` as a table."""
    header = [title, "precision", "recall", "F1", "gold", "predicted", "right"]
    rows = [
        [
            name,
            *(f"{100 * scores[rate]:.1f}" for rate in ("precision", "recall", "f1")),
            *(f"{scores[count]:,}" for count in ("num_gold", "num_predicted", "num_correct")),
        ]
        for name, scores in groups.items()
    ]
    return Table(f"All numbers by {title}", header, rows)


def values_at(curve: Mapping[str, Sequence[float]], thresholds: Sequence[float]) -> list[dict[str, float]]:
    """Precision, recall and F1 at given thresholds; a threshold above all scores keeps no prediction and is left out.

    Args:
        curve: As `precision_recall_curve` gives it.
        thresholds: In any order.

    Returns:
        threshold, precision, recall and f1 of each.
    """
    rising = curve["thresholds"][::-1]
    values = []
    for threshold in thresholds:
        place = len(rising) - 1 - bisect_left(rising, threshold)  # where the lowest kept score stands
        if place >= 0:
            values.append(
                {"threshold": threshold, **{name: curve[name][place] for name in ("precision", "recall", "f1")}}
            )
    return values


def error_example(
    error: Error,
    words: Sequence[str],
    place: str,
    labels: Sequence[str],
    predicted_scores: Mapping[SpanKey, float],
) -> Example:
    """An error with its words: a line for gold, one for the prediction, both with the same words around.

    Args:
        error: The error.
        words: Words of its text.
        place: What names the text.
        labels: All labels, in an order that gives each its colour.
        predicted_scores: Score of each predicted span.

    Returns:
        The example.
    """
    first, last_end = context_window(error, len(words), REACH)
    before, after = ["…"] if first else [], ["…"] if last_end < len(words) else []
    shown = [*before, *words[first:last_end], *after]
    shift = first - len(before)
    marks = []
    for side, key in (("gold", error.gold), ("predicted", error.predicted)):
        if key is None:
            continue
        _, start, end, label = key
        entity = {"start": start - shift, "end": end - shift, "label": label}
        if side == "predicted":
            entity["score"] = predicted_scores[key]
        marks.append(Mark(side, EntityView(shown, [entity], labels=labels)))
    return Example(place, marks)
