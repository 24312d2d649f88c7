"""The table of formats: what each is called, the suffixes that show it, and how it is read and written."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from hf_spanner.data.brat import brat_rows
from hf_spanner.data.columns import column_rows
from hf_spanner.data.formats.cas import cas_rows
from hf_spanner.data.formats.conllu import PLUS, conllu_rows
from hf_spanner.data.formats.docbin import docbin_rows, write_docbin
from hf_spanner.data.formats.doccano import write_doccano
from hf_spanner.data.formats.documents import write_brat, write_columns, write_parquet
from hf_spanner.data.formats.json_forms import JSON_FORMS, form_rows
from hf_spanner.data.formats.label_studio import write_tasks
from hf_spanner.data.formats.prodigy import write_prodigy
from hf_spanner.data.formats.pubtator import pubtator_rows, write_pubtator
from hf_spanner.data.formats.rows import write_jsonl
from hf_spanner.data.formats.sentences import write_gliner
from hf_spanner.data.formats.webanno import HEAD, webanno_rows
from hf_spanner.data.formats.writing import Writing
from hf_spanner.data.jsonl import json_records
from hf_spanner.data.lines import text_lines
from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Row

Reader = Callable[[Path, Reading], Iterator[Row]]
Writer = Callable[[Iterable[Row], Path, Writing], None]


PARQUET = "Parquet"


class DataFormat(NamedTuple):
    """A format of files.

    Attributes:
        title: What it is called in reports and in the help.
        suffixes: Suffixes that show it, without `.gz`.
        read: Its reader; None if it is only written.
        write: Its writer; None if it is only read.
    """

    title: str
    suffixes: tuple[str, ...] = ()
    read: Reader | None = None
    write: Writer | None = None

    @property
    def is_read(self) -> bool:
        """Whether files of this format can be read; those of Parquet are, as datasets."""
        return self.read is not None or self.title == PARQUET


def _json_rows(path: Path, reading: Reading, form: str | None = None) -> Iterator[Row]:
    """Rows of JSON lines or of a JSON array, in our forms or in that of a tool."""
    return form_rows(json_records(text_lines(path), str(path), reading), str(path), reading, form)


def _column_rows(path: Path, reading: Reading) -> Iterator[Row]:
    """Rows of columns, or of WebAnno TSV and CoNLL-U Plus, which their first line shows."""
    first = next((line for _, line in text_lines(path)), "")
    for head, name in ((HEAD, "webanno"), (PLUS, "conllu")):
        if first.startswith(head):
            reading.report.formats[str(path)] = f"{FORMATS[name].title}, by {first[:40]!r} in line 1"
            return (webanno_rows if name == "webanno" else conllu_rows)(path, reading)
    return column_rows(path, reading)


JSON_WRITERS: dict[str, Writer] = {
    "label-studio": write_tasks,
    "prodigy": write_prodigy,
    "doccano": write_doccano,
}
FORMATS: dict[str, DataFormat] = {
    "conll": DataFormat(
        "CoNLL columns",
        (".conll", ".bio", ".iob", ".iob2", ".tsv", ".conllu", ".conllup"),
        _column_rows,
        write_columns,
    ),
    "jsonl": DataFormat("JSON lines", (".jsonl", ".json"), _json_rows, write_jsonl),
    "brat": DataFormat("BRAT pairs", (".ann",), brat_rows, write_brat),
    "parquet": DataFormat(PARQUET, (".parquet",), write=write_parquet),
    "pubtator": DataFormat("PubTator", (".pubtator",), pubtator_rows, write_pubtator),
    "webanno": DataFormat("WebAnno TSV 3", (), webanno_rows),
    "conllu": DataFormat("CoNLL-U Plus", (), conllu_rows),
    "cas": DataFormat("UIMA CAS", (".xmi",), cas_rows),
    "spacy": DataFormat("spaCy's DocBin", (".spacy",), docbin_rows, write_docbin),
    "gliner": DataFormat("GLiNER's JSON", (), _json_rows, write_gliner),
    **{
        name: DataFormat(form.title, (), partial(_json_rows, form=name), JSON_WRITERS.get(name))
        for name, form in JSON_FORMS.items()
    },
}


SUFFIX_FORMATS = {suffix: name for name, format in FORMATS.items() for suffix in format.suffixes}


def format_of_path(path: Path) -> str | None:
    """Format that a path shows by its suffix, or by its BRAT partner."""
    if path.is_dir():
        return "brat" if next(path.rglob("*.ann"), None) else None
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if suffix == ".txt" and path.with_suffix(".ann").exists():
        return "brat"
    return SUFFIX_FORMATS.get(suffix)
