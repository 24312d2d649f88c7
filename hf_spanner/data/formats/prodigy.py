"""Prodigy's JSON lines: texts with their tokens, spans and the annotator's answer."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from hf_spanner.data.formats.annotators import Annotation, chosen_entities
from hf_spanner.data.formats.writing import Writing, entities_in_text, open_output, row_name, row_text
from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Problem, Row
from hf_spanner.data.texts import AnnotatedText, TextEntity, text_rows

ACCEPT = "accept"
Placed = tuple[str, Mapping[str, Any]]


def prodigy_rows(records: Iterable[Placed], source: str, reading: Reading) -> Iterator[Row]:
    """Rows of the accepted tasks; those that were rejected or ignored are dropped and counted.

    Tasks of several annotators are known by their `_input_hash`, and read at once.

    Args:
        records: Tasks, each with its place.
        source: Name of the whole.
        reading: Options, of which `annotator` matters here, and report.

    Raises:
        ValueError: For malformed tasks and differing annotations, as the options say.
    """
    texts: dict[Any, list[Placed]] = {}
    for place, task in records:
        answer = task.get("answer")
        if not isinstance(task.get("text"), str):
            reading.refuse_row(place, Problem("type", "text", task.get("text"), "a string"))
        elif not isinstance(task.get("spans") or [], list):
            reading.refuse_row(place, Problem("type", "spans", task["spans"], "a list"))
        elif answer not in (ACCEPT, None):
            reading.report.count(f"dropped, task with the answer {answer}", place)
            reading.report.num_dropped_rows += 1
        else:
            if answer is None:
                reading.report.count("kept, task without an answer", place)
            key = place if task.get("_input_hash") is None else (str(task["_input_hash"]), task["text"])
            texts.setdefault(key, []).append((place, task))
    for tasks in texts.values():
        yield from _rows(tasks, reading)


def _rows(tasks: Sequence[Placed], reading: Reading) -> Iterator[Row]:
    """The row of a text that one or more people annotated."""
    annotations = []
    for place, task in tasks:
        names = [task.get("_annotator_id"), task.get("_session_id")]
        names = [str(name) for name in names if name is not None] or [place]
        annotations.append(Annotation(names, list(_entities(task, place, reading))))
    place, first = tasks[0]
    entities = chosen_entities(annotations, place, reading)
    if entities is None:
        return
    meta = first.get("meta") if isinstance(first.get("meta"), Mapping) else {}
    names = {name: first.get(name, cast(Mapping, meta).get(name)) for name in ("id", "document")}
    yield from text_rows(
        AnnotatedText(place, first["text"], entities, words=_words(first, place, reading), **names), reading
    )


def _entities(task: Mapping[str, Any], place: str, reading: Reading) -> Iterator[TextEntity]:
    """The spans of a task; its relations are counted."""
    reading.count_skipped(task, {"relations": "relation"}, place)
    for index, span in enumerate(task.get("spans") or ()):
        name = f"spans[{index}]"
        if not isinstance(span, Mapping):
            reading.refuse(place, Problem("type", name, span, "{start, end, label}"))
            continue
        pieces = [(span.get("start"), span.get("end"))]
        yield TextEntity(place, name, pieces, span.get("label"), span.get("text"), span.get("score"))


def _words(task: Mapping[str, Any], place: str, reading: Reading) -> list[tuple[int, int]] | None:
    """The offsets of a task's tokens but for blank ones, which are counted; None if they are not those of its text."""
    tokens, text, words = task.get("tokens"), task["text"], []
    if not isinstance(tokens, list) or not tokens:
        return None
    last = 0
    for index, token in enumerate(tokens):
        start, end = (token.get("start"), token.get("end")) if isinstance(token, Mapping) else (None, None)
        is_in_text = type(start) is int and type(end) is int and last <= start <= end <= len(text)
        if not is_in_text or text[start:end] != token.get("text"):
            problem = Problem("tokens", f"tokens[{index}]", token, "text, start and end as the text has them")
            reading.refuse(place, problem)
            return None
        last = cast(int, end)
        if text[start:end].strip():
            words.append((start, end))
        else:
            reading.report.count("left out, token of white space", f"{place}: tokens[{index}]")
    return words


def write_prodigy(rows: Iterable[Row], path: Path, writing: Writing) -> None:
    """Write tasks with the words of rows as tokens, for `ner.manual` and `spans.manual`; id and document are metadata.

    Tasks get no answer, since nobody has given one.
    """
    with open_output(path) as file:
        for number, row in enumerate(writing.counted(rows, text=True, scores=True)):
            text, offsets = row_text(row)
            tokens = [
                {"text": text[start:end], "start": start, "end": end, "id": index, "ws": text[end : end + 1] == " "}
                for index, (start, end) in enumerate(offsets)
            ]
            spans = []
            for entity in entities_in_text(row, text, offsets, row_name(row, number), writing):
                span: dict[str, Any] = {"start": entity.start, "end": entity.end, "label": entity.label}
                span |= {"token_start": entity.words[0], "token_end": entity.words[1] - 1, "text": entity.text}
                spans.append(span if entity.score is None else span | {"score": entity.score})
            meta = {name: row.get(name) for name in ("id", "document") if row.get(name) is not None}
            task = {"text": text, "tokens": tokens, "spans": spans} | ({"meta": meta} if meta else {})
            file.write(json.dumps(task, ensure_ascii=False) + "\n")
