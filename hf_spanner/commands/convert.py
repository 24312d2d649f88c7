"""Read annotated texts in one format and write them in another; what was found, dropped and changed is said.

hf-spanner convert export.json rows.jsonl
hf-spanner convert predictions.jsonl tasks.json --to label-studio
hf-spanner convert nested.jsonl train.conll --unwritable drop

A format is known by its suffix, and in JSON by the fields of the records. The raw text, documents and scores are kept
where the other format can hold them. Written for Label Studio, the labelling interface of the project is printed, too.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hf_spanner.commands.options import add_reader_options, command_parser, given_reading, output_file
from hf_spanner.data.formats.label_studio import labeling_interface
from hf_spanner.data.formats.table import FORMATS, format_of_path
from hf_spanner.data.policy import ReadReport, logger
from hf_spanner.data.readers import load_rows, read_rows
from hf_spanner.data.schema import Row
from hf_spanner.data.writers import save_rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Convert one source and print both reports."""
    given = parsed_arguments(arguments)
    read, written = ReadReport(), ReadReport()
    labels: set[str] = set()
    with reports_said_once():
        rows = source_rows(given.source, given_reading(given) | {"split_hyphens": given.split_hyphens}, read)
        save_rows(
            seen_labels(rows, labels),
            given.output,
            format=given.to,
            on_error=given.unwritable,
            scheme=given.tags,
            report=written,
        )
    name = given.to or format_of_path(given.output)
    print(f"read {given.source}: {read}", file=sys.stderr)
    print(f"wrote {given.output} as {FORMATS[name].title if name else name}: {written}", file=sys.stderr)
    if name == "label-studio":
        print(labeling_interface(sorted(labels)))


@contextmanager
def reports_said_once() -> Iterator[None]:
    """Keep readers and writers from logging the reports that the command prints."""
    level = logger.level
    logger.setLevel("ERROR")
    try:
        yield
    finally:
        logger.setLevel(level)


def parsed_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Options of the command line."""
    parser = command_parser("convert", __doc__)
    writable = [name for name, format in FORMATS.items() if format.write is not None]
    parser.add_argument("source", metavar="in", help="file, folder or data set on the Hub, as load_rows takes it")
    parser.add_argument("output", metavar="out", type=output_file, help="file or folder to write; it must not exist")
    parser.add_argument(
        "--to", choices=writable, metavar="FORMAT", help=f"{', '.join(writable)}; by suffix if left out"
    )
    parser.add_argument(
        "--unwritable",
        choices=("error", "drop"),
        default="error",
        help="what the format cannot hold, such as nested entities in columns: drop it and count it",
    )
    parser.add_argument("--tags", default="IOB2", metavar="SCHEME", help="tag scheme of columns")
    add_reader_options(parser, "--from")
    parser.add_argument(
        "--split-hyphens", action="store_true", help="of raw text make hyphens words, as some models do"
    )
    return parser.parse_args(arguments)


def source_rows(source: str, reading: dict, report: ReadReport) -> Iterable[Row]:
    """Rows of a source, with all details where it is one file or a folder of BRAT pairs."""
    path = Path(source)
    is_one = path.is_file() or format_of_path(path) is not None
    if is_one and not {"split", "subset"} & reading.keys():
        return read_rows(path, **reading, details=True, report=report)
    return load_rows(source, **reading, report=report)  # type: ignore[return-value]


def seen_labels(rows: Iterable[Row], labels: set[str]) -> Iterator[Row]:
    """The same rows; their labels are added to the set."""
    for row in rows:
        labels.update(entity["label"] for entity in row["entities"])
        yield row
