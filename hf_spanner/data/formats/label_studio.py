"""Label Studio: tasks with their annotations (JSON), a record for each annotation (JSON-MIN), and pre-annotations."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import cycle
from pathlib import Path
from typing import Any

from hf_spanner.data.formats.annotators import PREDICTIONS, Annotation, chosen_entities
from hf_spanner.data.formats.writing import Writing, entities_in_text, open_output, row_name, row_text
from hf_spanner.data.offsets import offsets_of_words
from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Problem, Row, words_problem
from hf_spanner.data.texts import AnnotatedText, TextEntity, text_rows

LABEL_TYPES = ("labels", "hypertextlabels", "paragraphlabels")
TAG, OBJECT = "label", "text"  # names of the tags in Label Studio's template for named entities
COLORS = ("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080", "#9a6324", "#808000", "#f032e6", "#000075")
MIN_FIELDS = ("annotation_id", "annotator", "created_at", "id", "lead_time", "updated_at")
Records = Iterable[tuple[str, Mapping[str, Any]]]
Task = tuple[Mapping[str, Any], Any, Sequence[Annotation], str]  # fields, id, annotations, place


def task_rows(records: Records, source: str, reading: Reading) -> Iterator[Row]:
    """Rows of tasks in Label Studio's JSON; tasks without annotation are dropped and counted.

    Args:
        records: Tasks, each with its place.
        source: Name of the whole.
        reading: Options, of which `annotator` and `layer` matter here, and report.

    Raises:
        ValueError: For malformed tasks and differing annotations, as the options say.
    """
    yield from _rows(_tasks(records, reading), reading)


def _tasks(records: Records, reading: Reading) -> Iterator[Task]:
    """The tasks that have annotations."""
    for place, task in records:
        place = f"{place}, task {task.get('id')}" if task.get("id") is not None else place
        data = task.get("data")
        if not isinstance(data, Mapping):
            reading.refuse_row(place, Problem("form", "data", data, "the fields of a task, such as text"))
            continue
        annotations = list(_annotations(task, place, reading))
        if not annotations:
            reading.report.count("dropped, task without annotation", place)
            reading.report.num_dropped_rows += 1
            continue
        yield data, task.get("id"), annotations, place


def min_rows(records: Records, source: str, reading: Reading) -> Iterator[Row]:
    """Rows of Label Studio's JSON-MIN, where each record is one annotation; those of one task have the same id.

    Args:
        records: Annotations, each with its place.
        source: Name of the whole.
        reading: Options, of which `annotator` and `layer` matter here, and report.

    Raises:
        ValueError: For malformed records and differing annotations, as the options say.
    """
    yield from _rows(_min_tasks(records, reading), reading)


def _min_tasks(records: Records, reading: Reading) -> Iterator[Task]:
    """Tasks with the annotations that have their id."""
    tasks: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for place, record in records:
        tasks.setdefault(str(record.get("id", place)), []).append((place, record))
    for versions in tasks.values():
        place, first = versions[0]
        place = f"{place}, task {first.get('id')}"
        annotations = []
        for other_place, record in versions:
            entities = []
            for name, value in record.items():
                if _is_label_list(value):
                    items = [{"type": "labels", "from_name": name, "value": item} for item in value]
                    entities += _entities(items, name, other_place, reading)
            annotations.append(Annotation([str(record.get("annotator"))], entities))
        data = {name: value for name, value in first.items() if name not in MIN_FIELDS}
        yield data, first.get("id"), annotations, place


def _is_label_list(value: object) -> bool:
    """Whether a field of a JSON-MIN record holds labelled spans."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping) and "labels" in value[0]


def _annotations(task: Mapping[str, Any], place: str, reading: Reading) -> Iterator[Annotation]:
    """The annotations of a task that were not cancelled, or its predictions where the options ask for them."""
    field = "completions" if "completions" in task else "annotations"
    field = "predictions" if reading.options.annotator == PREDICTIONS else field
    annotations: Any = task.get(field) or ()
    for index, annotation in enumerate(annotations if isinstance(annotations, list | tuple) else [annotations]):
        name = f"{field}[{index}]"
        result = annotation.get("result") if isinstance(annotation, Mapping) else None
        if not isinstance(result, list):
            hint = "; a snapshot of the project holds predictions as a whole" if type(annotation) is int else ""
            reading.refuse(place, Problem("form", name, annotation, f"an annotation with its result{hint}"))
        elif annotation.get("was_cancelled"):
            reading.report.count("skipped, cancelled annotation", f"{place}: {name}")
        else:
            who = annotation.get("completed_by")
            names = [who.get("email"), who.get("id")] if isinstance(who, Mapping) else [who]
            names += ["ground_truth"] if annotation.get("ground_truth") else []
            names += [annotation.get("model_version")]
            known = [str(name) for name in names if name is not None]
            yield Annotation(known or [name], _entities(result, f"{name}.result", place, reading))


def _entities(result: Sequence[Any], field: str, place: str, reading: Reading) -> list[TextEntity]:
    """The labelled spans of a result; its other items, such as relations, are counted."""
    entities = []
    for index, item in enumerate(result):
        name = f"{field}[{index}]"
        value = item.get("value") if isinstance(item, Mapping) else None
        kind = item.get("type") if isinstance(item, Mapping) else None
        if kind not in LABEL_TYPES or not isinstance(value, Mapping):
            reading.report.count(f"skipped, {kind or 'unknown item'} of Label Studio", f"{place}: {name}")
            continue
        layer = reading.options.layer
        if layer not in (None, item.get("from_name")):
            reading.report.count(f"skipped, layer {item.get('from_name')}", f"{place}: {name}")
            continue
        if type(value.get("start")) is str:
            allowed = "offsets in a plain text; spans of hypertext and of paragraphs are none"
            reading.refuse(place, Problem("type", f"{name}.value.start", value["start"], allowed))
            continue
        fragments = [(value.get("start"), value.get("end"))]
        labels = value.get(kind)
        for label in labels if isinstance(labels, list) and labels else [labels]:
            entities.append(TextEntity(place, f"{name}.value", fragments, label, value.get("text"), item.get("score")))
    return entities


def _rows(tasks: Iterable[Task], reading: Reading) -> Iterator[Row]:
    """Rows of tasks; which of its texts is a task's own is told by its entities, or those of a task it waits for."""
    known = ""
    kept: list[dict[str, AnnotatedText]] = []
    for data, task_id, annotations, place in tasks:
        entities = chosen_entities(annotations, place, reading)
        if entities is None:
            continue
        texts = {name: text for name, text in data.items() if isinstance(text, str) and name not in ("id", "document")}
        if not texts:
            reading.refuse_row(place, Problem("form", "data", sorted(data), "a text among the fields of a task"))
            continue
        names = [name for name, text in texts.items() if all(_fits(_as_in(text, entity), text) for entity in entities)]
        names = names or list(texts)
        if not known and entities and len(names) == 1:
            known = names[0]
        words: Any = data.get("tokens")
        own_id = task_id if data.get("id") is None else data["id"]
        annotated = AnnotatedText(place, "", entities, own_id, data.get("document"))
        kept.append({name: _with_text(annotated, texts[name], words) for name in names})
        if known or len(kept) == len(names) == 1:
            yield from _kept_rows(kept, known, reading)
            kept = []
    yield from _kept_rows(kept, known, reading)


def _with_text(task: AnnotatedText, text: str, words: Any) -> AnnotatedText:
    """A task with its text."""
    words = None if words_problem(words) else offsets_of_words(text, words)
    return task._replace(text=text, entities=[_as_in(text, entity) for entity in task.entities], words=words)


def _kept_rows(kept: list[dict[str, AnnotatedText]], known: str, reading: Reading) -> Iterator[Row]:
    """Rows of tasks, each given with every text that may be its own."""
    for choices in kept:
        name = next((name for name in (known, OBJECT) if name in choices), min(choices))
        if len(choices) > 1 and name not in (known, OBJECT):
            allowed = f"one text, a field {OBJECT}, or entities that show which it is"
            reading.refuse_row(choices[name].place, Problem("several texts", "data", sorted(choices), allowed))
        else:
            yield from text_rows(choices[name], reading)


def _as_in(text: str, entity: TextEntity) -> TextEntity:
    """An entity, without the escapes that the tool gives line ends if its surface as stated is not in the text."""
    if "\\n" not in str(entity.surface) or _fits(entity, text):
        return entity
    return entity._replace(surface=entity.surface.replace("\\n", "\n"))


def _fits(entity: TextEntity, text: str) -> bool:
    """Whether an entity may be one of a text; for a task with several texts."""
    return not isinstance(entity.surface, str) or "".join(entity.surface.split()) in "".join(text.split())


def write_tasks(rows: Iterable[Row], path: Path, writing: Writing) -> None:
    """Write tasks whose pre-annotations are the entities of rows, for import into a project of Label Studio.

    A task keeps the words, the id and the document of its row as fields of its data. Scores of entities are written
    where rows have them; the score of a prediction is the lowest of them, so that tasks can be sorted by it.
    """
    with open_output(path) as file:
        file.write("[")
        for number, row in enumerate(writing.counted(rows, text=True, scores=True)):
            file.write(",\n" if number else "\n")
            file.write(json.dumps(_task(row, number, writing), ensure_ascii=False))
        file.write("\n]\n")


def _task(row: Row, number: int, writing: Writing) -> dict[str, Any]:
    """One task with its prediction."""
    text, offsets = row_text(row)
    result = []
    for index, entity in enumerate(entities_in_text(row, text, offsets, row_name(row, number), writing)):
        value = {"start": entity.start, "end": entity.end, "text": entity.text, "labels": [entity.label]}
        item = {"id": f"{number}-{index}", "from_name": TAG, "to_name": OBJECT, "type": "labels", "value": value}
        result.append(item if entity.score is None else item | {"score": entity.score})
    scores = [item["score"] for item in result if "score" in item]
    data = {"text": text, "tokens": row["tokens"]}
    data |= {name: row.get(name) for name in ("id", "document") if row.get(name) is not None}
    prediction = {"model_version": "hf_spanner", "result": result} | ({"score": min(scores)} if scores else {})
    return {"data": data, "predictions": [prediction]}


def labeling_interface(labels: Iterable[str]) -> str:
    """The labelling interface of a project that takes the tasks of `write_tasks`, as XML."""
    pairs = zip(labels, cycle(COLORS), strict=False)
    lines = [f'    <Label value="{escape(label)}" background="{color}"/>' for label, color in pairs]
    head, end = f'<View>\n  <Labels name="{TAG}" toName="{OBJECT}">', f'  </Labels>\n  <Text name="{OBJECT}" '
    return "\n".join([head, *lines, f'{end}value="$text" granularity="word"/>', "</View>"])
