"""The table of formats: what each is called, the suffixes that show it, and how it is read and written."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from hf_spanner.data.brat import brat_rows
from hf_spanner.data.columns import column_rows
from hf_spanner.data.formats.docbin import docbin_rows, write_docbin
from hf_spanner.data.formats.doccano import write_doccano
from hf_spanner.data.formats.json_forms import JSON_FORMS, form_rows
from hf_spanner.data.formats.label_studio import write_tasks
from hf_spanner.data.formats.prodigy import write_prodigy
from hf_spanner.data.formats.rows import write_jsonl
from hf_spanner.data.formats.sentences import write_gliner
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


JSON_WRITERS: dict[str, Writer] = {
    "label-studio": write_tasks,
    "prodigy": write_prodigy,
    "doccano": write_doccano,
}
FORMATS: dict[str, DataFormat] = {
    "conll": DataFormat(
        "CoNLL columns",
        (".conll", ".bio", ".iob", ".iob2", ".tsv", ".conllu", ".conllup"),
        column_rows,
    ),
    "jsonl": DataFormat("JSON lines", (".jsonl", ".json"), _json_rows, write_jsonl),
    "brat": DataFormat("BRAT pairs", (".ann",), brat_rows),
    "parquet": DataFormat(PARQUET, (".parquet",)),
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
