"""Suspects as lines that people decide on, and the corpus that their decisions make."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hf_spanner.annotation.suspects import KINDS, Suspect
from hf_spanner.data.lines import text_lines
from hf_spanner.data.schema import Problem, entity_problem, sorted_entities, span_key

DECISIONS = ("accept", "reject", None)
COLUMNS = ("rank", "probability", "kind", "row", "id", "document", "annotated", "suggested", "score", "elsewhere")
REACH = 12  # words of context on either side
Decision = dict[str, Any]


def suspect_record(suspect: Suspect, rank: int, row: Mapping[str, Any]) -> Decision:
    """A suspect as a line of JSON, undecided.

    Args:
        suspect: The suspect.
        rank: Its rank, from 1.
        row: Its row.

    Returns:
        `rank`, `probability`, `kind`, `row` (number from 0), `id` and `document`, `annotated` and `suggested` ({start,
        end, label, text} in words, or None), `score`, `elsewhere` (in words, or None), `tokens`, and `decision`, None.
    """
    place = suspect.elsewhere
    usual = None if place is None else f"{place.usual or 'nothing'} in {place.num_usual} of {place.num_elsewhere}"
    return {
        "rank": rank,
        "probability": round(suspect.probability, 4),
        "kind": suspect.kind,
        "row": suspect.row,
        "id": row.get("id"),
        "document": row.get("document"),
        "annotated": _entity(suspect.annotated, row["tokens"]),
        "suggested": _entity(suspect.suggested, row["tokens"]),
        "score": round(suspect.score, 4),
        "elsewhere": usual,
        "tokens": list(row["tokens"]),
        "decision": None,
    }


def suspect_table(records: Iterable[Decision]) -> str:
    """The records as CSV, entities as their words and label, with the words around them."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow([*COLUMNS, "context"])
    for record in records:
        shown = {name: _shown(record[name]) for name in ("annotated", "suggested")}
        spans = [record[name] for name in ("annotated", "suggested") if record[name] is not None]
        first, end = min(span["start"] for span in spans), max(span["end"] for span in spans)
        context = " ".join(record["tokens"][max(0, first - REACH) : end + REACH])
        writer.writerow([*((record | shown)[name] for name in COLUMNS), context])
    return table.getvalue()


def with_suggestions(row: Mapping[str, Any], records: Iterable[Decision]) -> list[dict[str, Any]]:
    """The entities of a row as some records suggest them, with the probability that the annotation is wrong as score.

    A record whose annotated entity is gone by an earlier one changes nothing.
    """
    scores: dict[tuple[int, int, str], float | None] = {span_key(entity): None for entity in row["entities"]}
    for record in records:
        annotated, suggested = record["annotated"], record["suggested"]
        if annotated is not None and scores.pop(span_key(annotated), 0.0) is not None:
            continue
        if suggested is not None:
            scores[span_key(suggested)] = record["probability"]
    return [
        {**entity} if (score := scores[span_key(entity)]) is None else {**entity, "score": score}
        for entity in sorted_entities(scores)
    ]


def read_decisions(path: str | Path) -> list[tuple[str, Decision]]:
    """Lines of decisions, each with its place in the file.

    Raises:
        ValueError: If a line is no decision; the message names file, line, field, value and what is allowed.
    """
    decisions = []
    for number, line in text_lines(Path(path)):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{place}: is no JSON: {error}") from None
        if (problem := _decision_problem(record)) is not None:
            raise ValueError(f"{place}: {problem}")
        decisions.append((place, record))
    return decisions


def corrected_rows(
    rows: Sequence[Mapping[str, Any]], decisions: Iterable[tuple[str, Decision]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows with what was accepted, and a log of every change.

    Accepting takes the annotated entity away and puts the suggested one in, which may have been edited. Rejected and
    undecided records change nothing.

    Args:
        rows: The rows that were reviewed.
        decisions: Records with their places, as `read_decisions` gives them.

    Returns:
        The rows, and for each change `place`, `row`, `id`, `kind`, `probability`, `before` and `after`.

    Raises:
        ValueError: If a record is not of these rows: another text, no such row, an annotated entity that is not there
            (or was changed by another line), a suggested one that is there already or outside of the text.
    """
    entities = {}
    log = []
    for place, record in decisions:
        if record["decision"] != "accept":
            continue
        if (problem := _record_problem(record, rows)) is not None:
            raise ValueError(f"{place}: {problem}")
        row = rows[record["row"]]
        keys = entities.setdefault(record["row"], {span_key(entity) for entity in row["entities"]})
        before, after = record["annotated"], record["suggested"]
        if before is not None and span_key(before) not in keys:
            problem = Problem("entity", "annotated", span_key(before), f"one of the row's entities {sorted(keys)}")
            raise ValueError(f"{place}: {problem}")
        keys -= set() if before is None else {span_key(before)}
        if after is not None and span_key(after) in keys:
            problem = Problem("repeated", "suggested", span_key(after), "an entity that the row has not yet")
            raise ValueError(f"{place}: {problem}")
        keys |= set() if after is None else {span_key(after)}
        change = {name: record.get(name) for name in ("row", "id", "kind", "probability")}
        words = row["tokens"]
        spans = [None if entity is None else _entity(span_key(entity), words) for entity in (before, after)]
        log.append({"place": place, **change, "before": spans[0], "after": spans[1]})
    corrected = [
        {**row, "entities": sorted_entities(entities[number])} if number in entities else {**row}
        for number, row in enumerate(rows)
    ]
    return corrected, log


def _entity(span: tuple[int, int, str] | None, words: Sequence[str]) -> dict[str, Any] | None:
    """A span as an entity with its words."""
    if span is None:
        return None
    start, end, label = span
    return {"start": start, "end": end, "label": label, "text": " ".join(words[start:end])}


def _shown(entity: Mapping[str, Any] | None) -> str:
    """An entity in a cell of a table."""
    return "" if entity is None else f"{entity['text']} [{entity['label']}]"


def _decision_problem(record: object) -> Problem | None:
    """What is wrong with a record by itself, or None."""
    if not isinstance(record, dict):
        return Problem("type", "line", record, "a record as hf-spanner review writes it")
    for name in ("row", "kind", "annotated", "suggested", "tokens", "decision"):
        if name not in record:
            return Problem("missing", name, None, "a record as hf-spanner review writes it")
    if record["decision"] not in DECISIONS:
        return Problem("decision", "decision", record["decision"], "accept, reject or null")
    if record["kind"] not in KINDS:
        return Problem("kind", "kind", record["kind"], ", ".join(KINDS))
    if record["annotated"] is None and record["suggested"] is None:
        return Problem("missing", "suggested", None, "an entity, where none is annotated")
    for name in ("annotated", "suggested"):
        entity = record[name]
        if entity is not None and not (isinstance(entity, dict) and {"start", "end", "label"} <= entity.keys()):
            return Problem("form", name, entity, "null, or {start, end, label}")
    return None


def _record_problem(record: Decision, rows: Sequence[Mapping[str, Any]]) -> Problem | None:
    """What does not fit the rows, or None."""
    number = record["row"]
    if type(number) is not int or not 0 <= number < len(rows):
        return Problem("range", "row", number, f"0 to {len(rows) - 1}, the rows that were reviewed")
    words = list(rows[number]["tokens"])
    if record["tokens"] != words:
        return Problem("text", "tokens", record["tokens"], f"those of row {number}, {words[:8]}")
    for name in ("annotated", "suggested"):
        entity = record[name]
        if entity is None:
            continue
        problem = entity_problem(
            entity["start"], entity["end"], entity["label"], length=len(words), unit="words", field=name
        )
        if problem is not None:
            return problem
    return None
