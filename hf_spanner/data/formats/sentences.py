"""Formats of research code whose records hold words: GLiNER, SpERT and DyGIE."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hf_spanner.data.formats.writing import Writing, open_output
from hf_spanner.data.policy import Reading
from hf_spanner.data.records import record_rows
from hf_spanner.data.schema import Problem, Row

Placed = tuple[str, Mapping[str, Any]]
DYGIE_OTHERS = {"relations": "relation", "events": "event", "clusters": "coreference cluster"}


def spert_rows(records: Iterable[Placed], source: str, reading: Reading) -> Iterator[Row]:
    """Rows of SpERT's sentences, whose entities have a `type`; relations are counted.

    Args:
        records: Sentences, each with its place.
        source: Name of the whole.
        reading: Options and report.
    """
    return record_rows(_spert_records(records, reading), source, reading)


def _spert_records(records: Iterable[Placed], reading: Reading) -> Iterator[Placed]:
    """SpERT's sentences as records with `tokens` and `entities`."""
    for place, record in records:
        reading.count_skipped(record, {"relations": "relation"}, place)
        entities = record.get("entities")
        if isinstance(entities, list):
            entities = [
                {**entity, "label": entity["type"]} if isinstance(entity, Mapping) and "type" in entity else entity
                for entity in entities
            ]
        yield place, {"id": record.get("orig_id", record.get("id")), **record, "entities": entities}


def dygie_rows(records: Iterable[Placed], source: str, reading: Reading) -> Iterator[Row]:
    """Rows of the sentences of DyGIE's documents, whose offsets count the words of the document, end inclusive.

    Args:
        records: Documents, each with its place.
        source: Name of the whole.
        reading: Options and report; relations, events and coreference are counted.
    """
    return record_rows(_dygie_records(records, reading), source, reading)


def _dygie_records(records: Iterable[Placed], reading: Reading) -> Iterator[Placed]:
    """DyGIE's sentences as records with `tokens` and `entities`."""
    for place, record in records:
        sentences: Any = record.get("sentences")
        ner: Any = record.get("ner")
        if not (_is_list_of_lists(sentences) and _is_list_of_lists(ner) and len(sentences) == len(ner)):
            shown = {name: record.get(name) for name in ("sentences", "ner")}
            reading.refuse_row(
                place, Problem("form", "fields", shown, "a list of words and a list of spans a sentence")
            )
            continue
        for name, kind in DYGIE_OTHERS.items():
            items = record.get(name) or []
            for part in items if isinstance(items, list) and name != "clusters" else [items]:
                reading.count_skipped({name: part}, {name: kind}, place)
        first = 0
        for number, (words, spans) in enumerate(zip(sentences, ner, strict=True)):
            entities = [_moved(span, first) for span in spans]
            sentence = {"document": record.get("doc_key"), "tokens": words, "entities": entities}
            yield f"{place}, sentence {number} (from 0)", sentence
            first += len(words)


def _is_list_of_lists(value: object) -> bool:
    """Whether a value is a list that holds only lists."""
    return isinstance(value, list) and all(isinstance(item, list) for item in value)


def _moved(span: Any, first: int) -> Any:
    """A span of a document as one of a sentence that begins with word `first`; what is no span stays."""
    is_span = isinstance(span, list) and len(span) == 3 and type(span[0]) is int and type(span[1]) is int
    return [span[0] - first, span[1] - first + 1, span[2]] if is_span else span


def write_gliner(rows: Iterable[Row], path: Path, writing: Writing) -> None:
    """Write GLiNER's training data: an array of `tokenized_text` with `ner`, [start, end, label], end inclusive."""
    with open_output(path) as file:
        file.write("[")
        for number, row in enumerate(writing.counted(rows)):
            ner: Sequence[Any] = [[item["start"], item["end"] - 1, item["label"]] for item in row["entities"]]
            record: dict[str, Any] = {"tokenized_text": row["tokens"], "ner": ner}
            record |= {name: row.get(name) for name in ("id", "document") if row.get(name) is not None}
            file.write((",\n" if number else "\n") + json.dumps(record, ensure_ascii=False))
        file.write("\n]\n")
