"""CoNLL columns and TSV: a line for each word, a blank line between sentences, -DOCSTART- between documents."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from hf_spanner.data.lines import LINE_ENDS, has_bare_return, text_lines
from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Problem, Row
from hf_spanner.data.tagged import scheme_of_stream, spans_of_tags

DOCUMENT_MARK = "-DOCSTART-"
FIELD = re.compile(r"[^ \t]+")  # other white space may be part of a word


class Sentence(NamedTuple):
    """A tagged sentence and the line of each of its words."""

    words: list[str]
    tags: list[str]
    lines: list[int]
    document: str | None


class Block(NamedTuple):
    """The numbered lines of one sentence."""

    lines: list[tuple[int, str]]
    document: str | None


def column_rows(path: Path, reading: Reading) -> Iterator[Row]:
    """Rows of a column file, read sentence by sentence.

    Documents are named after the file, so that rows of several files can be joined; without a mark they are None.

    Args:
        path: The file; with `delimiter` None, `.tsv` means tabs and anything else runs of blanks and tabs.
        reading: Options and report.

    Yields:
        Rows in file order.

    Raises:
        ValueError: For a line with a carriage return inside, too few or another number of columns, an empty word, an
            unknown or ill-formed tag, as the options say.
    """
    scheme, sentences = scheme_of_stream(_sentences(path, reading), lambda sentence: sentence.tags, str(path), reading)
    for words, tags, lines, document in sentences:

        def place_of(index: int, lines: list[int] = lines) -> str:
            return f"{path}, line {lines[index]}"

        spans = spans_of_tags(tags, place_of, scheme, reading)
        if spans is not None:
            entities = reading.unique_entities(spans, f"{path}, line {lines[0]}")
            yield {"id": None, "document": document, "tokens": words, "entities": entities}


def _sentences(path: Path, reading: Reading) -> Iterator[Sentence]:
    """Readable sentences of a file; the first line fixes the number of columns."""
    fields_of = _splitter(path, reading)
    width = None
    for block in _blocks(path):
        if width is None:
            width = len(fields_of(block.lines[0][1]))
        sentence = _sentence(block, fields_of, width, path, reading)
        if sentence is not None:
            yield sentence


def _blocks(path: Path) -> Iterator[Block]:
    """Runs of lines between blank lines and document marks."""
    document: str | None = None
    num_documents = 0
    lines: list[tuple[int, str]] = []
    for number, line in text_lines(path):
        is_mark = line.lstrip().startswith(DOCUMENT_MARK) and line.split()[0] == DOCUMENT_MARK
        is_mark = is_mark and not has_bare_return(line)  # it is refused as part of a sentence
        if line.strip() and not is_mark:
            lines.append((number, line))
            continue
        if lines:
            yield Block(lines, document)
            lines = []
        if is_mark:
            document = f"{path.name}-{num_documents}"
            num_documents += 1
    if lines:
        yield Block(lines, document)


def _sentence(
    block: Block, fields_of: Callable[[str], list[str]], width: int, path: Path, reading: Reading
) -> Sentence | None:
    """The sentence of a block, or None if a line of it is malformed and such sentences are dropped."""
    sentence = Sentence([], [], [], block.document)
    token_column, tag_column = reading.options.token_column, reading.options.tag_column
    is_possible = all(-width <= column < width for column in (token_column, tag_column))
    is_possible = is_possible and token_column % width != tag_column % width
    for number, line in block.lines:
        fields = fields_of(line)
        problem = None
        if has_bare_return(line):
            problem = Problem("line end", "line", line, LINE_ENDS)
        elif not is_possible:
            needed = f"a word in column {token_column} and a tag in column {tag_column}, two different ones"
            problem = Problem("missing column", "line", line, needed)
        elif len(fields) != width:
            problem = Problem(
                "number of columns", "line", line, f'{width} columns; delimiter="tab" keeps blanks in words'
            )
        elif not fields[token_column]:
            problem = Problem("empty word", "word", fields[token_column], "at least one character")
        if problem is not None:
            reading.refuse_row(f"{path}, line {number}", problem)
            return None
        sentence.words.append(fields[token_column])
        sentence.tags.append(fields[tag_column].strip())
        sentence.lines.append(number)
    return sentence


def _splitter(path: Path, reading: Reading) -> Callable[[str], list[str]]:
    """How the lines of a file are cut into fields; tabs at the end of a line hold no field."""
    delimiter = reading.options.delimiter
    if delimiter is None:
        delimiter = "tab" if ".tsv" in path.suffixes else "blank"
    if delimiter == "tab":
        return lambda line: line.rstrip("\t").split("\t")
    return FIELD.findall
