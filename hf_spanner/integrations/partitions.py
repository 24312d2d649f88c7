"""Large inputs in parts that are read, answered and written alone, so that a part can be done again or left out.

A part is a range of bytes of a file of lines, or some row groups of a Parquet file. What is written for it appears as a
whole or not at all, so a worker that dies leaves nothing half done, and doing a part twice gives the same file.
"""

import codecs
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from itertools import chain, islice, pairwise
from operator import add
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from hf_spanner.core.pipeline_span_ner import SpanNERPipeline
from hf_spanner.data.answers import Record, answered_records, record_problem
from hf_spanner.data.jsonl import json_records
from hf_spanner.data.lines import decoded
from hf_spanner.data.policy import Reading, ReadOptions, ReadReport
from hf_spanner.data.schema import Problem

SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz", ".txt", ".txt.gz")
PART_BYTES = 2**19
PART_ROWS = 2**13
CHUNK = 1024  # records in memory at once, sorted by length inside the pipeline
UNFINISHED = ".unfinished"
HIDDEN = re.compile(r"(?:^|/)[._]")  # in a path below the input
WRONG = "wrong"  # folder of the records that cannot be read
ENTITIES = pa.list_(
    pa.struct(
        {
            "start": pa.int32(),
            "end": pa.int32(),
            "label": pa.string(),
            "score": pa.float64(),
            "text": pa.string(),
            "word_start": pa.int32(),
            "word_end": pa.int32(),
        }
    )
)


class Part(NamedTuple):
    """A part of the input.

    Attributes:
        number: Its place in the order of the input, from 0.
        path: Its file.
        start: The first byte, or the first row group.
        end: The byte or row group after the last; -1 is the end of a packed file, which is one part.
    """

    number: int
    path: str
    start: int
    end: int

    @property
    def is_parquet(self) -> bool:
        """Whether the file is one of Parquet, and not of lines."""
        return self.path.endswith(".parquet")

    @property
    def name(self) -> str:
        """Name of what is written for it, in the order of the input, without a suffix."""
        return f"part-{self.number:09d}"

    @property
    def output(self) -> str:
        """Name of the file that is written for it."""
        return f"{self.name}.{'parquet' if self.is_parquet else 'jsonl'}"


class PartCounts(NamedTuple):
    """How many records of a part were answered, the entities found in them, and the records that cannot be read."""

    records: int = 0
    entities: int = 0
    wrong: int = 0


class Chunk(NamedTuple):
    """Some records of a part.

    Attributes:
        records: Those that can be read.
        wrong: The others, each as a `line`, with its `problem`.
        rows: Of Parquet, the rows of those that can be read.
    """

    records: list[Record]
    wrong: list[Record]
    rows: pa.RecordBatch | None = None


@dataclass(frozen=True)
class Keeping(Reading):
    """A reading that goes on after a record that cannot be read, and keeps it in `wrong`."""

    wrong: list[Record]

    def keep(self, problem: str, line: str) -> None:
        """Keep what is wrong, and the line or item of JSON."""
        self.wrong.append({"problem": problem, "line": line})

    def refuse_row(self, place: str, problem: Problem) -> None:
        """Keep an item that is no record."""
        self.keep(f"{place}: {problem}", str(problem.value))


def file_system(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path, or of a URI such as `s3://bucket/folder`, and the path on it."""
    return fs.FileSystem.from_uri(path) if "://" in path else (fs.LocalFileSystem(), os.path.abspath(path))


def parts_of(source: str) -> list[Part]:
    """The parts of a file, or of all files of a folder in the order of their paths.

    Files and folders in it whose names begin with a dot or an underscore are none of the input.

    Raises:
        ValueError: If a file has none of the suffixes or is damaged, or there is no file.
    """
    system, root = file_system(source)
    if system.get_file_info(root).type == fs.FileType.Directory:
        found = system.get_file_info(fs.FileSelector(root, recursive=True))
        files = [info for info in found if info.is_file and not HIDDEN.search(info.path[len(root) :])]
    else:
        files = [info for info in [system.get_file_info(root)] if info.is_file]
    if not files:
        raise ValueError(f"input {source} must be a file or a folder of files with one of {', '.join(SUFFIXES)}")
    ranges = [
        (info.path, *span) for info in sorted(files, key=lambda info: info.path) for span in _ranges(system, info)
    ]
    return [Part(number, *span) for number, span in enumerate(ranges)]


@contextmanager
def named(path: str) -> Iterator[None]:
    """Names the file in what is wrong with it, as the messages of Arrow do not."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def _ranges(system: fs.FileSystem, info: fs.FileInfo) -> Iterator[tuple[int, int]]:
    """The ranges of a file that are parts of their own."""
    if not info.path.endswith(SUFFIXES):
        raise ValueError(f"{info.path}: the suffix is none of {', '.join(SUFFIXES)}")
    if info.path.endswith(".gz"):
        yield 0, -1
    elif info.path.endswith(".parquet"):
        with named(info.path):
            metadata = pq.read_metadata(info.path, filesystem=system)
        first, num_rows = 0, 0
        for group in range(metadata.num_row_groups):
            num_rows += metadata.row_group(group).num_rows
            if num_rows >= PART_ROWS or group + 1 == metadata.num_row_groups:
                yield first, group + 1
                first, num_rows = group + 1, 0
    else:
        yield from ((start, min(start + PART_BYTES, info.size)) for start in range(0, info.size, PART_BYTES))


def write_part(ner: SpanNERPipeline, part: Part, source: str, folder: str) -> PartCounts:
    """Answer a part and write its file, and one of the folder `wrong` where records cannot be read.

    The file holds the records, or the rows of Parquet with all their columns, with `entities` as `answered_records`
    gives them. Neighbouring sentences are read as context within a part.

    Memory: two chunks of records with their entities, and what cannot be read.

    Args:
        ner: The pipeline.
        part: The part.
        source: The input, a path or URI.
        folder: Folder of the output, a path or URI.

    Raises:
        ValueError: If the file is damaged.
    """
    system, target = file_system(folder)
    origin = file_system(source)[0]
    counts, wrong = PartCounts(), []
    reach = ner.model.config.context_sentences
    with finished_file(system, f"{target}/{part.output}") as file:
        chunks = _parquet_chunks(origin, part) if part.is_parquet else _line_chunks(origin, part)
        with _parquet_writer(origin, part, file) if part.is_parquet else _line_writer(file) as write:
            before: list[Record] = []
            for chunk, following in pairwise(chain(chunks, [Chunk([], [])])):
                answered = answered_records(ner, [*before, *chunk.records, *following.records[:reach]])
                answered = answered[len(before) : len(before) + len(chunk.records)]
                write(answered, chunk.rows)
                wrong += chunk.wrong
                num_entities = sum(len(record["entities"]) for record in answered)
                added = PartCounts(len(answered), num_entities, len(chunk.wrong))
                counts = PartCounts(*map(add, counts, added))
                before = chunk.records[-reach:] if reach else []
        if wrong:
            with finished_file(system, f"{target}/{WRONG}/{part.name}.jsonl") as wrong_file:
                wrong_file.write(_lines(wrong))
    return counts


@contextmanager
def finished_file(system: fs.FileSystem, path: str) -> Iterator[pa.NativeFile]:
    """A file to write that has its name once it is whole."""
    folder, _, name = path.rpartition("/")
    unfinished = f"{folder}/{UNFINISHED}-{uuid4().hex}-{name}"
    system.create_dir(folder, recursive=True)
    with system.open_output_stream(unfinished) as file:
        yield file
    system.move(unfinished, path)


def _line_chunks(system: fs.FileSystem, part: Part) -> Iterator[Chunk]:
    """The records of the lines that begin in the range of a part."""
    lines = enumerate(_lines_of(system, part), start=1)
    while taken := list(islice(lines, CHUNK)):
        chunk = Chunk([], [])
        keeping = Keeping(ReadOptions(), ReadReport(), chunk.wrong)
        for number, line in taken:
            num_wrong = len(chunk.wrong)
            try:
                chunk.records.extend(list(_line_records(part, number, line, keeping)))
            except ValueError as error:  # also in the middle of an array, none of which counts then
                del chunk.wrong[num_wrong:]
                keeping.keep(str(error), line.decode("utf-8", errors="replace"))
        yield chunk


def _line_records(part: Part, number: int, line: bytes, keeping: Keeping) -> Iterator[Record]:
    """The record of a line of text or JSON, or those of an array; none for a blank line of JSON."""
    source = part.path if part.start == 0 else f"{part.path} from byte {part.start}"
    text = decoded(line, source, number)
    if part.path.endswith((".txt", ".txt.gz")):
        yield {"text": text}
        return
    for place, record in json_records(iter([(number, text)]), source, keeping):
        if (problem := record_problem(record)) is None:
            yield record
        else:
            keeping.keep(f"{place}: {problem}", json.dumps(record, ensure_ascii=False))


def _lines_of(system: fs.FileSystem, part: Part) -> Iterator[bytes]:
    """The lines that begin in the range of a part, without their ends and a byte order mark."""
    opened = system.open_input_stream(part.path, compression="gzip") if part.end < 0 else None
    with named(part.path), BufferedReader(opened or system.open_input_file(part.path)) as file:  # type: ignore[arg-type]  # has what is read
        if part.start > 0:
            file.seek(part.start - 1)
            file.readline()  # the rest of a line that begins before the range
        place = part.start if part.start == 0 else file.tell()
        while (part.end < 0 or place < part.end) and (line := file.readline()):
            text = line if place else line.removeprefix(codecs.BOM_UTF8)
            place += len(line)
            yield text.removesuffix(b"\n").removesuffix(b"\r")


@contextmanager
def _line_writer(file: pa.NativeFile) -> Iterator[Callable[[list[Record], None], None]]:
    """Writes records as lines of JSON."""
    yield lambda records, _: file.write(_lines(records))


def _lines(records: Iterable[Record]) -> bytes:
    """Records as lines of JSON in UTF-8."""
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode("utf-8")


def _parquet_chunks(system: fs.FileSystem, part: Part) -> Iterator[Chunk]:
    """The rows of the row groups of a part."""
    row = 0
    with named(part.path), pq.ParquetFile(part.path, filesystem=system) as file:
        for batch in file.iter_batches(CHUNK, range(part.start, part.end)):
            chunk, good = Chunk([], []), []
            names = [name for name in ("text", "tokens", "document") if name in batch.schema.names]
            for place, record in enumerate(batch.select(names).to_pylist()):
                problem = record_problem(record)
                good.append(problem is None)
                if problem is None:
                    chunk.records.append(record)
                else:
                    where = f"{part.path}, row {row + place} (from 0) of row group {part.start} on"
                    line = json.dumps(_whole_row(batch, place, record), ensure_ascii=False, default=str)
                    chunk.wrong.append({"problem": f"{where}: {problem}", "line": line})
            row += len(good)
            yield chunk._replace(rows=batch if all(good) else batch.filter(pa.array(good, pa.bool_())))


def _whole_row(batch: pa.RecordBatch, row: int, known: Record) -> Record:
    """A row with all its columns, or what is known of it where Python has no such values, as of the year 10,000."""
    try:
        return batch.slice(row, 1).to_pylist()[0]
    except (ValueError, OverflowError):
        return known


@contextmanager
def _parquet_writer(system: fs.FileSystem, part: Part, file: pa.NativeFile) -> Iterator[Callable[..., None]]:
    """Writes rows with all their columns and one of entities, in place of one that is there."""
    schema = pq.read_schema(part.path, filesystem=system)
    kept = [name for name in schema.names if name != "entities"]
    schema = pa.schema([*(schema.field(name) for name in kept), pa.field("entities", ENTITIES)])
    with pq.ParquetWriter(file, schema) as writer:

        def write(records: list[Record], rows: pa.RecordBatch) -> None:
            entities = pa.array([record["entities"] for record in records], ENTITIES)
            columns = [*(rows.column(name) for name in kept), entities]
            writer.write_batch(pa.record_batch(columns, schema=schema))

        yield write
