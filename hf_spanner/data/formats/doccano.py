"""doccano's JSON lines: spans as `label` lists, or as `entities` with relations."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hf_spanner.data.formats.writing import Writing, entities_in_text, open_output, row_name, row_text
from hf_spanner.data.offsets import offsets_of_words
from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Problem, Row, words_problem
from hf_spanner.data.texts import AnnotatedText, TextEntity, text_rows

LABEL_FIELDS = ("label", "labels", "entities")
OTHER_FIELDS = {"relations": "relation", "Comments": "comment", "comments": "comment"}
ENTITY = "[start, end, label] or {start_offset, end_offset, label}"


def doccano_rows(records: Iterable[tuple[str, Mapping[str, Any]]], source: str, reading: Reading) -> Iterator[Row]:
    """Rows of doccano's records; relations and comments are counted.

    Args:
        records: Each with its place.
        source: Name of the whole.
        reading: Options and report.

    Raises:
        ValueError: For malformed records and entities, as the options say.
    """
    for place, record in records:
        field = next((name for name in LABEL_FIELDS if record.get(name) is not None), None)
        text = record.get("text")
        if not isinstance(text, str):
            reading.refuse_row(place, Problem("type", "text", text, "a string"))
            continue
        if field is None or not isinstance(record[field], list):
            allowed = "a list as label, labels or entities"
            reading.refuse_row(place, Problem("form", "fields", sorted(record), allowed))
            continue
        reading.count_skipped(record, OTHER_FIELDS, place)
        words: Any = record.get("tokens")
        row_id = record.get("id") if record.get("row_id") is None else record["row_id"]
        annotated = AnnotatedText(
            place,
            text,
            list(_entities(record[field], field, place, reading)),
            id=row_id,
            document=record.get("document"),
            words=None if words_problem(words) else offsets_of_words(text, words),
        )
        yield from text_rows(annotated, reading)


def _entities(items: Iterable[Any], field: str, place: str, reading: Reading) -> Iterator[TextEntity]:
    """The entities of a record in both of their forms."""
    for index, item in enumerate(items):
        name = f"{field}[{index}]"
        if isinstance(item, list) and len(item) == 3:
            yield TextEntity(place, name, [(item[0], item[1])], item[2])
        elif isinstance(item, Mapping) and {"start_offset", "end_offset", "label"} <= item.keys():
            yield TextEntity(place, name, [(item["start_offset"], item["end_offset"])], item["label"])
        else:
            reading.refuse(place, Problem("type", name, item, ENTITY))


def write_doccano(rows: Iterable[Row], path: Path, writing: Writing) -> None:
    """Write records with `label` lists, for import into a project for sequence labelling.

    The words and the document of a row are fields of their own, which doccano keeps as metadata and exports again; the
    row's id is `row_id`, since doccano numbers its texts itself. All records have all fields, without which doccano
    cannot store them.
    """
    with open_output(path) as file:
        for number, row in enumerate(writing.counted(rows, text=True)):
            text, offsets = row_text(row)
            entities = entities_in_text(row, text, offsets, row_name(row, number), writing)
            label = [[entity.start, entity.end, entity.label] for entity in entities]
            names = {"row_id": row.get("id"), "document": row.get("document")}
            record = {"text": text, "label": label, "tokens": row["tokens"], **names}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
