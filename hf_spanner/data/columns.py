"""CoNLL columns and TSV: a line for each word, a blank line between sentences, -DOCSTART- between documents.

Comments may stand at the head of a sentence, as in CoNLL-U, GermEval, MultiCoNER and OntoNotes.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from hf_spanner.data.lines import LINE_ENDS, has_bare_return, text_lines
from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Problem, Row
from hf_spanner.data.tagged import scheme_of_stream, spans_of_tags
from hf_spanner.data.tags import CONLLU_HINT, is_tag

DOCUMENT_MARK = "-DOCSTART-"
TAB_SUFFIXES = {".tsv", ".conllu", ".conllup"}
COMMENT_SIGN = "#"
COMMENT = re.compile(r"#(?:\s|$|(?:begin|end) document\b|[A-Za-z]+=)")
DOCUMENT_COMMENT = re.compile(r"#(?:begin document\b| ?newdoc\b)")
WORD_NUMBER = re.compile(r"\d+(?:[-.]\d+)?")  # also those of CoNLL-U for several words and for none
NUM_NUMBERED_SENTENCES = 100  # looked at, to see whether a column numbers the words
FIELD = re.compile(r"[^ \t]+")  # other white space may be part of a word


class Sentence(NamedTuple):
    """A tagged sentence and the line of each of its words."""

    words: list[str]
    tags: list[str]
    lines: list[int]
    document: str | None


class Block(NamedTuple):
    """The numbered lines of one sentence, and how many documents began since the one before."""

    lines: list[tuple[int, str]]
    num_marks: int


def column_rows(path: Path, reading: Reading) -> Iterator[Row]:
    """Rows of a column file, read sentence by sentence.

    Documents are named after the file, so that rows of several files can be joined; without a mark they are None.

    Args:
        path: The file; with `delimiter` None, `.tsv` and `.conllu` mean tabs, anything else runs of blanks and tabs.
        reading: Options and report.

    Yields:
        Rows in file order.

    Raises:
        ValueError: For a line with a carriage return inside, too few or another number of columns, an
            unknown or ill-formed tag, as the options say; where the column of the words numbers them, in any case.
    """
    sentences = _numbers_refused(_sentences(path, reading), path, reading)
    scheme, sentences = scheme_of_stream(sentences, lambda sentence: sentence.tags, str(path), reading)
    for words, tags, lines, document in sentences:

        def place_of(index: int, lines: list[int] = lines) -> str:
            return f"{path}, line {lines[index]}"

        spans = spans_of_tags(tags, place_of, scheme, reading)
        if spans is not None:
            entities = reading.unique_entities(spans, f"{path}, line {lines[0]}")
            yield {"id": None, "document": document, "tokens": words, "entities": entities}


def _sentences(path: Path, reading: Reading) -> Iterator[Sentence]:
    """Readable sentences of a file without their comments."""
    fields_of = _splitter(path, reading)
    width, blocks = _width(_blocks(path), fields_of)
    num_documents = 0
    for block in blocks:
        num_comments = _num_comments(block, fields_of, width, reading)
        comments, lines = block.lines[:num_comments], block.lines[num_comments:]
        for number, comment in comments:
            reading.report.count("skipped, comment line", f"{path}, line {number}: {comment[:80]!r}")
        num_documents += block.num_marks + any(DOCUMENT_COMMENT.match(comment) for _, comment in comments)
        document = f"{path.name}-{num_documents - 1}" if num_documents else None
        sentence = _sentence(lines, document, fields_of, width, path, reading) if lines else None
        if sentence is not None:
            yield sentence


def _width(blocks: Iterator[Block], fields_of: Callable[[str], list[str]]) -> tuple[int, Iterator[Block]]:
    """The number of columns, and all blocks: of the first line that cannot be a comment, or else of the first."""
    head = []
    for block in blocks:
        head.append(block)
        line = next((line for _, line in block.lines if not line.startswith(COMMENT_SIGN)), None)
        if line is not None:
            return len(fields_of(line)), chain(head, blocks)
    return len(fields_of(head[0].lines[0][1])) if head else 0, iter(head)


def _num_comments(block: Block, fields_of: Callable[[str], list[str]], width: int, reading: Reading) -> int:
    """How many lines at the head of a block are comments; a line with all columns and a tag is a word."""
    mode, tag_column = reading.options.comments, reading.options.tag_column
    if mode == "keep":
        return 0
    for index, (_, line) in enumerate(block.lines):
        is_comment = line.startswith(COMMENT_SIGN)
        if mode == "auto" and is_comment:
            fields = fields_of(line)
            has_tag = len(fields) == width and -width <= tag_column < width and is_tag(fields[tag_column].strip())
            is_comment = COMMENT.match(line) is not None and not has_tag
        if not is_comment:
            return index
    return len(block.lines)


def _blocks(path: Path) -> Iterator[Block]:
    """Runs of lines between blank lines and document marks."""
    num_marks = 0
    lines: list[tuple[int, str]] = []
    for number, line in text_lines(path, old_line_ends=True):
        is_mark = line.lstrip().startswith(DOCUMENT_MARK) and line.split()[0] == DOCUMENT_MARK
        is_mark = is_mark and not has_bare_return(line)  # it is refused as part of a sentence
        if line.strip() and not is_mark:
            lines.append((number, line))
            continue
        if lines:
            yield Block(lines, num_marks)
            lines, num_marks = [], 0
        num_marks += is_mark
    if lines:
        yield Block(lines, num_marks)


def _numbers_refused(sentences: Iterable[Sentence], path: Path, reading: Reading) -> Iterator[Sentence]:
    """The same sentences, unless what stands for their words are numbers that count them.

    Raises:
        ValueError: If it is so in each of the first sentences.
    """
    sentences = iter(sentences)
    head = list(islice(sentences, NUM_NUMBERED_SENTENCES))
    if sum(len(sentence.words) for sentence in head) > 2 and all(_is_count(sentence.words) for sentence in head):
        problem = Problem("word numbers", "token_column", reading.options.token_column, "the column of the words")
        hint = f"this one counts them, {head[0].words[:4]}; {CONLLU_HINT}"
        raise ValueError(f"{path}, line {head[0].lines[0]}: {problem}; {hint}")
    yield from chain(head, sentences)


def _is_count(words: list[str]) -> bool:
    """Whether some words are 1, 2, 3 and so on, beside numbers such as 1-2 and 3.1."""
    numbers = [word for word in words if word.isdecimal()]
    return all(map(WORD_NUMBER.fullmatch, words)) and numbers == [str(place) for place in range(1, len(numbers) + 1)]


def _sentence(
    lines: list[tuple[int, str]],
    document: str | None,
    fields_of: Callable[[str], list[str]],
    width: int,
    path: Path,
    reading: Reading,
) -> Sentence | None:
    """The sentence of some lines, or None if one of them is malformed and such sentences are dropped."""
    sentence = Sentence([], [], [], document)
    token_column, tag_column = reading.options.token_column, reading.options.tag_column
    is_possible = all(-width <= column < width for column in (token_column, tag_column))
    is_possible = is_possible and token_column % width != tag_column % width
    for number, line in lines:
        fields = fields_of(line)
        problem = None
        if has_bare_return(line):
            problem = Problem("line end", "line", line, LINE_ENDS)
        elif not is_possible:
            needed = f"a word in column {token_column} and a tag in column {tag_column}, two different ones"
            problem = Problem("missing column", "line", line, needed)
        elif len(fields) != width:
            comments = '; comments="skip" takes all lines with # at the head of a sentence as comments'
            allowed = f'{width} columns; delimiter="tab" keeps blanks in words'
            allowed += comments if line.startswith(COMMENT_SIGN) else ""
            problem = Problem("number of columns", "line", line, allowed)
        if problem is not None:
            reading.refuse_row(f"{path}, line {number}", problem)
            return None
        sentence.words.append(fields[token_column])
        sentence.tags.append(fields[tag_column].strip())
        sentence.lines.append(number)
    reading.count_empty_words(sentence.words, f"{path}, line {sentence.lines[0]}")
    return sentence


def _splitter(path: Path, reading: Reading) -> Callable[[str], list[str]]:
    """How the lines of a file are cut into fields; tabs at the end of a line hold no field."""
    delimiter = reading.options.delimiter
    if delimiter is None:
        delimiter = "tab" if TAB_SUFFIXES.intersection(path.suffixes) else "blank"
    if delimiter == "tab":
        return lambda line: line.rstrip("\t").split("\t")
    return FIELD.findall
