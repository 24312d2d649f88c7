"""Which tool wrote a record of JSON or of a dataset: known by its fields, reported, and read by its own reader."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, NamedTuple

from hf_spanner.data.formats.bigbio import bigbio_rows
from hf_spanner.data.formats.doccano import doccano_rows
from hf_spanner.data.formats.label_studio import min_rows, task_rows
from hf_spanner.data.formats.prodigy import prodigy_rows
from hf_spanner.data.formats.sentences import dygie_rows, spert_rows
from hf_spanner.data.forms import OUR_FORMS
from hf_spanner.data.policy import Reading
from hf_spanner.data.records import record_rows
from hf_spanner.data.schema import Row

NUM_DETECTION_RECORDS = 100
Placed = tuple[str, Mapping[str, Any]]
Rule = Callable[[Mapping[str, Any]], tuple[str, ...] | None]


class JsonForm(NamedTuple):
    """A form of records that is not ours.

    Attributes:
        title: What it is called in reports.
        shown_by: The fields of a record that show it, or None if the record is of another form.
        rows: Its reader.
    """

    title: str
    shown_by: Rule
    rows: Callable[[Iterable[Placed], str, Reading], Iterator[Row]]


def _fields(*fields: str) -> Rule:
    """Shows a form by fields that a record has, if it has none of our forms."""
    return lambda record: fields if _has(record, fields) and not _is_ours(record) else None


def _entity_fields(words: str, *fields: str) -> Rule:
    """Shows a form by the fields of the first entity, of a record that has text or words."""

    def shown_by(record: Mapping[str, Any]) -> tuple[str, ...] | None:
        entities = record.get("entities")
        first = entities[0] if isinstance(entities, list | tuple) and entities else None
        if not isinstance(first, Mapping) or {"start", "end", "label"} <= first.keys():
            return None
        is_shown = _has(first, fields) and _has(record, (words,))
        return tuple(f"entities[0].{field}" for field in fields) if is_shown else None

    return shown_by


def _has(record: Mapping[str, Any], fields: Iterable[str]) -> bool:
    """Whether a record has some fields."""
    return all(record.get(field) is not None for field in fields)


def _is_ours(record: Mapping[str, Any]) -> bool:
    """Whether a record has the fields of one of our forms."""
    return any(_has(record, fields) for fields in OUR_FORMS)


def _first(*rules: Rule) -> Rule:
    """Shows a form by the first of several rules that holds."""
    return lambda record: next((fields for rule in rules if (fields := rule(record))), None)


def _label_list(record: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Shows doccano's form by a list of spans; a list of names is that of classification, and a mapping CLUENER's."""
    for field in ("label", "labels"):
        spans = record.get(field)
        if isinstance(spans, list) and all(isinstance(span, list | tuple) for span in spans):
            return _fields("text", field)(record)
    return None


def _relations(record: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Shows doccano's form with relations where a text has no entity."""
    is_empty = record.get("entities") == [] and isinstance(record.get("Comments"), list)
    return ("text", "entities", "Comments") if is_empty and _has(record, ("text",)) else None


JSON_FORMS: dict[str, JsonForm] = {
    "label-studio": JsonForm(
        "Label Studio's JSON",
        _first(*(_fields("data", field) for field in ("annotations", "completions", "predictions"))),
        task_rows,
    ),
    "label-studio-min": JsonForm("Label Studio's JSON-MIN", _fields("annotation_id"), min_rows),
    "prodigy": JsonForm(
        "Prodigy's JSON lines",
        _first(*(_fields("text", field) for field in ("spans", "answer", "_input_hash"))),
        prodigy_rows,
    ),
    "doccano": JsonForm(
        "doccano's JSON lines",
        _first(_label_list, _entity_fields("text", "start_offset", "end_offset"), _relations),
        doccano_rows,
    ),
    "spert": JsonForm("SpERT's JSON", _entity_fields("tokens", "type", "start", "end"), spert_rows),
    "dygie": JsonForm("DyGIE's JSON lines", _fields("sentences", "ner"), dygie_rows),
    "bigbio": JsonForm(
        "BigBio's records",
        _first(_fields("passages", "entities"), _entity_fields("text", "offsets", "type")),
        bigbio_rows,
    ),
}


def form_rows(records: Iterable[Placed], source: str, reading: Reading, form: str | None = None) -> Iterator[Row]:
    """Rows of records in our forms or in that of a tool, which the first of them show.

    Args:
        records: Each with its place.
        source: Name of the whole.
        reading: Options and report, in which a form that was detected is noted.
        form: A key of `JSON_FORMS`; None detects it.

    Raises:
        ValueError: For malformed records, as the options say.
    """
    if form is not None:
        yield from JSON_FORMS[form].rows(records, source, reading)
        return
    records = iter(records)
    head = list(islice(records, NUM_DETECTION_RECORDS))
    rows = record_rows
    for place, record in head:
        shown = next(((form, fields) for form in JSON_FORMS.values() if (fields := form.shown_by(record))), None)
        if shown is not None:
            found, fields = shown
            reading.report.formats[source] = f"{found.title}, by {', '.join(fields)} in {place}"
            rows = found.rows
            break
    yield from rows(chain(head, records), source, reading)
