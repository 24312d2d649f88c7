"""Write the entities of texts as JSON lines, streaming: files or standard input in, a line for each text out, in order.

hf-spanner predict MODEL texts.txt more.jsonl.gz --output entities.jsonl
hf-spanner predict MODEL --format text < texts.txt > entities.jsonl
hf-spanner predict MODEL FOLDER --output ENTITIES --engine ray --workers 8

Each line of a `.txt` file is a text; each line of a `.jsonl` file, or item of a JSON array, a record with `text` or
`tokens` (words). Of any other source that `hf-spanner evaluate` reads the words are taken, and not the entities. The
output has the record with its `entities` (characters for `text`, words for `tokens`, half-open), so it can be read as
data again. `--engine ray` reads a folder of `.parquet`, `.jsonl` or `.txt` and writes one, over a cluster or the cores
of this machine; records that cannot be read are counted and kept in the folder `wrong` of the output.
"""

import argparse
import codecs
import json
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from io import TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, cast

from tqdm import tqdm
from transformers import pipeline

from hf_spanner.commands.options import (
    add_decoding_options,
    add_reader_options,
    add_trust_option,
    at_least_one,
    command_parser,
    given_decoding,
    given_reading,
    output_file,
    trust_encoders,
)
from hf_spanner.core.pipeline_span_ner import buffers
from hf_spanner.core.words import split_words
from hf_spanner.data.answers import Record, answered_records, record_problem
from hf_spanner.data.formats.table import SUFFIX_FORMATS as ROW_SUFFIXES
from hf_spanner.data.jsonl import json_records
from hf_spanner.data.lines import decoded, text_lines
from hf_spanner.data.offsets import offsets_of_words
from hf_spanner.data.policy import Reading, ReadOptions, ReadReport
from hf_spanner.data.readers import load_rows
from hf_spanner.integrations.ray_data import predict_folder

SUFFIX_FORMATS = {".txt": "text", ".jsonl": "jsonl", ".json": "jsonl"}
CHUNK = 1024  # records in memory at once, sorted by length inside the pipeline


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the entities of all texts."""
    given = parsed_arguments(arguments)
    trust_encoders(given, given.model)
    if given.engine == "ray":
        predict_with_ray(given)
        return
    task: Any = "span-ner"  # the library's type hints know only its own tasks
    ner: Any = pipeline(task, model=given.model, batch_size=given.batch_size, **given_decoding(given))
    reading = given_reading(given) | {"split_hyphens": ner.model.config.split_hyphens}
    records = chain.from_iterable(input_records(source, reading) for source in given.files or ["-"])
    reach, skipped, num_done = ner.model.config.context_sentences, [], 0
    if given.resume and given.output.exists():
        skipped, records, num_done = remaining_records(records, given.output, reach)
    chunks = buffers(records, CHUNK, reach, skipped)
    first = list(islice(chunks, 1))  # an input that cannot be read leaves no output
    with open_output(given.output) as file, tqdm(unit=" texts", initial=num_done, file=sys.stderr) as progress:
        for before, chunk, after in chain(first, chunks):
            answered = answered_records(ner, [*before, *chunk, *after])
            for record in answered[len(before) : len(before) + len(chunk)]:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
            flush(file)
            progress.update(len(chunk))


def parsed_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Options of the command line; decoding parameters are among them only if they were given."""
    parser = command_parser("predict", __doc__)
    parser.add_argument("model", help="folder or Hub name of a saved model")
    parser.add_argument(
        "files", nargs="*", help=".txt or .jsonl, plain or .gz, or other data; - or nothing is standard input"
    )
    parser.add_argument("--output", help="file to write, or folder of --engine; standard output if left out")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on after the lines that the output file holds; give the same model and options, nothing checks them",
    )
    parser.add_argument("--batch-size", type=at_least_one, default=32)
    parser.add_argument("--engine", choices=("ray",), help="predict a folder by Ray Data, over several processes")
    parser.add_argument("--workers", type=at_least_one, help="processes of the engine")
    parser.add_argument("--threads", type=at_least_one, help="CPUs of each")
    parser.add_argument("--gpus", type=float, help="accelerators of each")
    add_decoding_options(parser)
    add_reader_options(parser)
    add_trust_option(parser)
    given = parser.parse_intermixed_args(arguments)
    if given.resume and given.output is None:
        parser.error("--resume needs --output")
    if given.engine == "ray":
        if len(given.files) != 1 or given.output is None:
            parser.error("--engine ray takes one file or folder, and --output")
        if unused := sorted(given_reading(given)):
            parser.error(f"--engine ray has no choices of the reader, got {', '.join(unused)}")
        return given
    if unused := [f"--{name}" for name in ("workers", "threads", "gpus") if vars(given)[name] is not None]:
        parser.error(f"{', '.join(unused)} only go with --engine")
    given.output = None if given.output is None else checked_output(parser, given)
    return given


def checked_output(parser: argparse.ArgumentParser, given: argparse.Namespace) -> Path:
    """The file to write, which exists only to go on with it, and is none to read."""
    try:
        output = output_file(given.output)
    except argparse.ArgumentTypeError as error:
        parser.error(f"argument --output: {error}")
    if output.exists() and not given.resume:
        parser.error(f"--output {output} exists; give another name, or --resume to go on with it")
    if output.exists() and any(Path(name).exists() and output.samefile(name) for name in given.files):
        parser.error(f"--output {output} is a file to read")
    return output


def predict_with_ray(given: argparse.Namespace) -> None:
    """Write the entities of a folder by Ray Data and say how much there was."""
    counts = predict_folder(
        given.model,
        given.files[0],
        given.output,
        num_workers=given.workers or 1,
        threads_per_worker=given.threads or 1,
        gpus_per_worker=given.gpus or 0,
        resume=given.resume,
        trust_remote_code=given.trust_remote_code,
        batch_size=given.batch_size,
        **given_decoding(given),
    )
    wrong = f"; {counts.wrong:,} cannot be read and are in {given.output}/wrong" if counts.wrong else ""
    print(f"{counts.records:,} records with {counts.entities:,} entities in {given.output}{wrong}")


def input_records(source: str, reading: Mapping[str, Any], *, is_shared: bool = False) -> Iterator[Record]:
    """Records of a file, of standard input ("-") or of any other source of rows; texts and JSON lines one by one.

    Args:
        source: As on the command line.
        reading: Choices of the reader by name; the format may be "text", which it is for standard input.
        is_shared: Another source may be what some choices are for.

    Raises:
        ValueError: If the format is not known, an unshared choice has no meaning for it, or a record is malformed; the
            message names file, line and field.
    """
    path = Path(source)
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    format = reading.get("format") or ("text" if source == "-" else SUFFIX_FORMATS.get(suffix))
    if format not in ("text", "jsonl"):
        if format is None and path.is_file() and suffix not in ROW_SUFFIXES:
            raise ValueError(
                f"{source}: the suffix is none of {', '.join(SUFFIX_FORMATS | ROW_SUFFIXES)}; give --format"
            )
        yield from row_records(source, reading)
        return
    unused = sorted(reading.keys() - {"format", "split_hyphens"})
    if unused and not is_shared:
        raise ValueError(f"{source}: {', '.join(unused)} must be left out for {format}, which has no such choice")
    name = "standard input" if source == "-" else source
    lines = standard_lines(sys.stdin.buffer) if source == "-" else text_lines(path)
    if format == "text":
        yield from ({"text": line} for _, line in lines)
        return
    for place, record in json_records(lines, name, Reading(ReadOptions(), ReadReport())):
        if (problem := record_problem(record)) is not None:
            raise ValueError(f"{place}: {problem}")
        yield record


def unlabelled_row(record: Mapping[str, Any], *, split_hyphens: bool) -> dict[str, Any]:
    """A record with its words; a text without them is split as the model splits it. The text is kept."""
    row = {name: record[name] for name in ("id", "document") if record.get(name) is not None}
    if record.get("text") is None:
        return {**row, "tokens": list(record["tokens"])}
    text, words = record["text"], record.get("tokens")
    offsets = split_words(text, split_hyphens=split_hyphens) if words is None else offsets_of_words(text, words) or []
    return {**row, "tokens": [text[start:end] for start, end in offsets], "text": text, "offsets": offsets}


def row_records(source: str, reading: Mapping[str, Any]) -> Iterator[Record]:
    """The words of rows, and what is known of them beside their entities.

    Raises:
        ValueError: If it is standard input, or the data cannot be read.
    """
    if source == "-":
        raise ValueError(f"format of standard input must be text or jsonl, got {reading['format']!r}")
    for row in cast(Iterable[Mapping[str, Any]], load_rows(source, **reading)):
        yield {name: value for name, value in row.items() if name != "entities" and value is not None}


def standard_lines(file: IO[bytes]) -> Iterator[tuple[int, str]]:
    """Numbered lines of a stream of UTF-8 bytes, without their ends and a byte order mark."""
    for number, line in enumerate(file, start=1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        yield number, decoded(line.removesuffix(b"\n").removesuffix(b"\r"), "standard input", number)


def remaining_records(
    records: Iterator[Record], output: Path, reach: int
) -> tuple[list[Record], Iterator[Record], int]:
    """The last records of the whole chunks that an output holds, the records after them, and how many are done.

    What the output holds beyond whole chunks is cut off. At most `reach` of the last records are given, for context.

    A chunk that was begun is done again as a whole: in other batches its scores would differ in the last digits.

    Raises:
        ValueError: If the last line of the output is no answer to the record at its place in the input.
    """
    num_done, size, whole, last, line = 0, 0, 0, b"", b"{"
    with output.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                num_done, size, last = num_done + 1, size + len(line), line
                whole = size if num_done % CHUNK == 0 else whole
    num_begun = num_done % CHUNK
    numbered = enumerate(records, start=1)
    skipped = deque(islice(numbered, num_done - num_begun), maxlen=max(1, reach))
    begun = list(islice(numbered, num_begun))
    number, record = [(0, {}), *skipped, *begun][-1]
    is_ours = is_answer(last, record) if last else line.startswith(b"{")
    if number < num_done or not is_ours:
        place = num_done or 1
        raise ValueError(f"{output}, line {place}, is not from this input, where record {place} is another or none")
    os.truncate(output, whole)
    before = [record for _, record in skipped][-reach:] if reach else []
    return before, chain((record for _, record in begun), records), num_done - num_begun


def is_answer(line: bytes, record: Record) -> bool:
    """Whether a line of an output is the record with entities."""
    try:
        written = json.loads(line)
    except ValueError:
        return False
    is_answered = isinstance(written, dict) and "entities" in written
    return is_answered and all(written.get(name) == record.get(name) for name in ("text", "tokens"))


def open_output(path: Path | None) -> Any:
    """Output to append to, or standard output, which stays open; both in UTF-8."""
    if path is not None:
        return path.open("a", encoding="utf-8", newline="\n")
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    return nullcontext(sys.stdout)


def flush(file: IO[str]) -> None:
    """Bring what was written to the disk, so that a crash costs one chunk at most."""
    file.flush()
    if file is not sys.stdout:
        os.fsync(file.fileno())
