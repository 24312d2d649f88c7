"""BRAT standoff: a text file and its annotation file, or a folder of such pairs."""

import re
from collections.abc import Iterator
from pathlib import Path

from hf_spanner.data.lines import LINE_ENDS, decoded, has_bare_return, text_lines
from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Problem, Row
from hf_spanner.data.texts import AnnotatedText, TextEntity, lines_of, text_rows

# Relations, attributes, modifiers, normalisations, events, notes, equivalences.
OTHER_LINE = re.compile(r"([RAMNE#])\d+\t|(\*)\t")
OTHERS = {
    "R": "relation",
    "A": "attribute",
    "M": "attribute",
    "N": "normalisation",
    "E": "event",
    "#": "note",
    "*": "equivalence",
}
SPAN_LINE = re.compile(r"(T\S+)\t(\S+) (\d{1,18} \d{1,18}(?:;\d{1,18} \d{1,18})*)\t(.*)", re.DOTALL)


def brat_rows(path: Path, reading: Reading) -> Iterator[Row]:
    """Rows of one annotated text or of a folder of them, in order of their names.

    A row is a line of the text, or several where an entity runs over the line break; the text is its `document`.
    Fragments of an entity that only blanks part are one span. Other discontinuous entities follow `discontinuous`.

    Args:
        path: A folder, searched to any depth, or one of the two files of a pair.
        reading: Options and report.

    Yields:
        Rows in order.

    Raises:
        ValueError: For a file that leads outside its folder or lacks its partner; for a malformed line, a surface that
            differs from the text, a discontinuous or misaligned entity, as the options say.
    """
    folder = path if path.is_dir() else path.parent
    files = sorted(path.rglob("*.ann")) if path.is_dir() else [path.with_suffix(".ann")]
    if not files:
        raise ValueError(f"{path}: no .ann file; allowed: a BRAT folder with pairs of .txt and .ann files")
    for text_file in sorted(path.rglob("*.txt")):
        if not text_file.with_suffix(".ann").exists():
            reading.report.count("dropped, text without an .ann file", str(text_file))
    for annotation in files:
        yield from _document_rows(annotation, folder, reading)


def _document_rows(annotation: Path, folder: Path, reading: Reading) -> Iterator[Row]:
    """Rows of one pair of files."""
    text_file = annotation.with_suffix(".txt")
    for file in (annotation, text_file):
        target = file.resolve()
        if not target.is_relative_to(folder.resolve()):
            raise ValueError(f"path {file} leads to {target}; allowed: files inside {folder}")
        if not target.is_file():
            raise ValueError(f"path {file} does not exist; allowed: pairs of .txt and .ann files")
    text = decoded(text_file.read_bytes(), str(text_file))
    document = annotation.relative_to(folder).with_suffix("").as_posix()
    entities = list(_text_bounds(annotation, reading))
    texts = (text.removeprefix("\ufeff"), text)  # BRAT itself counts a byte order mark
    text = next((text for text in texts if all(_fits(entity, text) for entity in entities)), texts[0])
    annotated = AnnotatedText(str(annotation), text, entities, document=document, parts=lines_of(text))
    yield from text_rows(annotated, reading)


def _fits(entity: TextEntity, text: str) -> bool:
    """Whether the offsets of an entity show its surface."""
    return " ".join(text[start:end] for start, end in entity.fragments).split() == entity.surface.split()


def _text_bounds(annotation: Path, reading: Reading) -> Iterator[TextEntity]:
    """The entities of the T lines of an annotation file."""
    for number, line in text_lines(annotation):
        place = f"{annotation}, line {number}"
        if has_bare_return(line):
            reading.refuse(place, Problem("line end", "line", line, LINE_ENDS))
            continue
        other = OTHER_LINE.match(line)
        if other is not None:
            reading.report.count(f"skipped, {OTHERS[other[1] or other[2]]}", f"{place}: {line[:80]!r}")
        if not line.strip() or other is not None:
            continue
        match = SPAN_LINE.fullmatch(line)
        if match is None:
            allowed = (
                "T<number>, tab, label and offsets, tab, surface; or R, A, M, N, E, # with a number, or *, and tab"
            )
            reading.refuse(place, Problem("line", "line", line, allowed))
            continue
        name, label, offsets, surface = match.groups()
        pairs = [pair.split() for pair in offsets.split(";")]
        yield TextEntity(f"{place}, {name}", "span", [(int(start), int(end)) for start, end in pairs], label, surface)
