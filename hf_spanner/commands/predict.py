"""Write the entities of texts as JSON lines, streaming: files or standard input in, a line for each text out, in order.

hf-spanner predict MODEL texts.txt more.jsonl.gz --output entities.jsonl
hf-spanner predict MODEL --format text < texts.txt > entities.jsonl

Each line of a `.txt` file is a text, each line of a `.jsonl` file a record with `text`, or `tokens` (words). The output
has the record with its `entities` (characters for `text`, words for `tokens`, half-open), so it can be read as data
again.
"""

import argparse
import codecs
import json
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm
from transformers import pipeline

from hf_spanner import SpanNERPipeline
from hf_spanner.commands.options import add_decoding_options, at_least_one, command_parser, given_decoding, output_file
from hf_spanner.core.pipeline_span_ner import buffers
from hf_spanner.data.lines import decoded, text_lines
from hf_spanner.data.schema import Problem, words_problem

SUFFIX_FORMATS = {".txt": "text", ".jsonl": "jsonl", ".json": "jsonl"}
CHUNK = 1024  # records in memory at once, sorted by length inside the pipeline
Record = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the entities of all texts."""
    given = parsed_arguments(arguments)
    task: Any = "span-ner"  # the library's type hints know only its own tasks
    ner: Any = pipeline(task, model=given.model, batch_size=given.batch_size, **given_decoding(given))
    records = chain.from_iterable(input_records(source, given.format) for source in given.files or ["-"])
    reach, skipped, num_done = ner.model.config.context_sentences, [], 0
    if given.resume and given.output.exists():
        skipped, records, num_done = remaining_records(records, given.output, reach)
    with open_output(given.output) as file, tqdm(unit=" texts", initial=num_done, file=sys.stderr) as progress:
        for before, chunk, after in buffers(records, CHUNK, reach, skipped):
            answered = answered_records(ner, [*before, *chunk, *after])
            for record in answered[len(before) : len(before) + len(chunk)]:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
            flush(file)
            progress.update(len(chunk))


def parsed_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Options of the command line; decoding parameters are among them only if they were given."""
    parser = command_parser("predict", __doc__)
    parser.add_argument("model", help="folder or Hub name of a saved model")
    parser.add_argument("files", nargs="*", help=".txt or .jsonl, plain or .gz; - or nothing is standard input")
    parser.add_argument("--format", choices=("text", "jsonl"), help="by suffix if left out; text for standard input")
    parser.add_argument("--output", type=output_file, help="file to write; standard output if left out")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on after the lines that the output file holds; give the same model and options, nothing checks them",
    )
    parser.add_argument("--batch-size", type=at_least_one, default=32)
    add_decoding_options(parser)
    given = parser.parse_args(arguments)
    if given.resume and given.output is None:
        parser.error("--resume needs --output")
    if not given.resume and given.output is not None and given.output.exists():
        parser.error(f"--output {given.output} exists; give another name, or --resume to go on with it")
    return given


def input_records(source: str, format: str | None) -> Iterator[Record]:
    """Records of a file or of standard input ("-"), read one by one.

    Raises:
        ValueError: If the format is not known, or a line is malformed; the message names file, line and field.
    """
    path = Path(source)
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    format = format or ("text" if source == "-" else SUFFIX_FORMATS.get(suffix))
    if format is None:
        raise ValueError(f"{source}: the suffix is none of {', '.join(SUFFIX_FORMATS)}; give --format")
    name = "standard input" if source == "-" else source
    for number, line in standard_lines(sys.stdin.buffer) if source == "-" else text_lines(path):
        if format == "text":
            yield {"text": line}
        elif line.strip():
            yield json_record(line, f"{name}, line {number}")


def standard_lines(file: IO[bytes]) -> Iterator[tuple[int, str]]:
    """Numbered lines of a stream of UTF-8 bytes, without their ends and a byte order mark."""
    for number, line in enumerate(file, start=1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        yield number, decoded(line.removesuffix(b"\n").removesuffix(b"\r"), "standard input", number)


def json_record(line: str, place: str) -> Record:
    """The record of one line, checked.

    Raises:
        ValueError: If it is no JSON object with either `text` or `tokens`; the message names place, field and value.
    """
    try:
        record = json.loads(line)
        json.dumps(record, ensure_ascii=False).encode("utf-8")  # an escape may hold half of a character
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place}: {Problem('JSON', 'line', line, f'one JSON object a line ({error})')}") from error
    if not isinstance(record, dict):
        raise ValueError(f"{place}: {Problem('JSON', 'line', line, 'one JSON object a line')}")
    if ("text" in record) == ("tokens" in record):
        raise ValueError(f"{place}: {Problem('type', 'fields', sorted(record), 'either text or tokens')}")
    problem = words_problem(record["tokens"]) if "tokens" in record else None
    if "text" in record and not isinstance(record["text"], str):
        problem = Problem("type", "text", record["text"], "a string")
    if problem is not None:
        raise ValueError(f"{place}: {problem}")
    return record


def answered_records(ner: SpanNERPipeline, records: Sequence[Record]) -> list[Record]:
    """The records in their order, each with the entities found in it; neighbours of one document are context."""
    texts = [record for record in records if "text" in record]
    word_lists = [record for record in records if "text" not in record]
    text_answers = iter(ner([record["text"] for record in texts], documents=documents_of(texts)))
    word_answers = iter(
        ner([record["tokens"] for record in word_lists], documents=documents_of(word_lists), pretokenized=True)
    )
    return [
        record | {"entities": row_entities(next(text_answers), "")}
        if "text" in record
        else record | {"entities": row_entities(next(word_answers), "word_")}
        for record in records
    ]


def documents_of(records: Sequence[Record]) -> list[Any]:
    """The document that each record names, None where it names none."""
    return [record.get("document") for record in records]


def row_entities(entities: Iterable[Mapping[str, Any]], unit: str) -> list[Record]:
    """Entities as in a row of data, with their scores; `unit` is "word_" for offsets in words."""
    return [
        {
            "start": entity[f"{unit}start"],
            "end": entity[f"{unit}end"],
            "label": entity["entity_group"],
            "score": entity["score"],
            "text": entity["word"],
        }
        for entity in entities
    ]


def remaining_records(
    records: Iterator[Record], output: Path, reach: int
) -> tuple[list[Record], Iterator[Record], int]:
    """The last records of the whole chunks that an output holds, the records after them, and how many are done.

    What the output holds beyond whole chunks is cut off. At most `reach` of the last records are given, for context.

    A chunk that was begun is done again as a whole: in other batches its scores would differ in the last digits.

    Raises:
        ValueError: If the last record of the output is not the one at its place in the input.
    """
    num_done, size, whole, last = 0, 0, 0, b""
    with output.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                num_done, size, last = num_done + 1, size + len(line), line
                whole = size if num_done % CHUNK == 0 else whole
    num_begun = num_done % CHUNK
    skipped = deque(islice(records, num_done - num_begun), maxlen=max(1, reach))
    begun = list(islice(records, num_begun))
    record = begun[-1] if begun else skipped[-1] if skipped else {}
    written = json.loads(last) if last else {}
    if any(written.get(name) != record.get(name) for name in ("text", "tokens")):
        raise ValueError(f"{output}, line {num_done}, is not from this input, where record {num_done} is another")
    os.truncate(output, whole)
    return list(skipped)[-reach:] if reach else [], chain(begun, records), num_done - num_begun


def open_output(path: Path | None) -> Any:
    """Output to append to, or standard output, which stays open."""
    return nullcontext(sys.stdout) if path is None else path.open("a", encoding="utf-8", newline="\n")


def flush(file: IO[str]) -> None:
    """Bring what was written to the disk, so that a crash costs one chunk at most."""
    file.flush()
    if file is not sys.stdout:
        os.fsync(file.fileno())
