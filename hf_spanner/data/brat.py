"""BRAT standoff: a text file and its annotation file, or a folder of such pairs."""

import codecs
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from hf_spanner.core.words import split_words
from hf_spanner.data.characters import CharEntity, SplitText, with_normal_form
from hf_spanner.data.lines import LINE_ENDS, decoded, has_bare_return, text_lines
from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Problem, Row, entity_problem

# Relations, attributes, modifiers, normalisations, events, notes, equivalences.
OTHER_LINE = re.compile(r"[RAMNE#]\d+\t|\*\t")
SPAN_LINE = re.compile(r"(T\S+)\t(\S+) (\d{1,18} \d{1,18}(?:;\d{1,18} \d{1,18})*)\t(.*)", re.DOTALL)


class TextBound(NamedTuple):
    """A T line: its place, label, stored surface and fragments in characters, half-open."""

    place: str
    label: str
    surface: str
    fragments: list[tuple[int, int]]


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
    text = decoded(text_file.read_bytes().removeprefix(codecs.BOM_UTF8), str(text_file))
    split = SplitText(text, split_words(text, split_hyphens=reading.options.split_hyphens))
    spans = []
    for bound in _text_bounds(annotation, text, reading):
        for start, end in _continuous(bound, text, reading):
            span = split.word_span(CharEntity(start, end, bound.label), "span", bound.place, reading)
            if span is not None:
                spans.append(span)
    document = annotation.relative_to(folder).with_suffix("").as_posix()
    words = split.words
    for first, last in _row_borders(split, spans):
        inside = [(start - first, end - first, label) for start, end, label in spans if first <= start < last]
        entities = reading.unique_entities(inside, str(annotation))
        yield {"id": None, "document": document, "tokens": words[first:last], "entities": entities}


def _text_bounds(annotation: Path, text: str, reading: Reading) -> Iterator[TextBound]:
    """The T lines of an annotation file that agree with the text."""
    for number, line in text_lines(annotation):
        place = f"{annotation}, line {number}"
        if has_bare_return(line):
            reading.refuse(place, Problem("line end", "line", line, LINE_ENDS))
            continue
        if not line.strip() or OTHER_LINE.match(line):
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
        bound = TextBound(f"{place}, {name}", label, surface, [(int(start), int(end)) for start, end in pairs])
        problem = _text_bound_problem(bound, text)
        if problem is None:
            yield bound
        else:
            reading.refuse(bound.place, with_normal_form(problem, text, bound.fragments, bound.surface))


def _text_bound_problem(bound: TextBound, text: str) -> Problem | None:
    """First thing wrong with the offsets of a T line; the surface may have blanks where the text has line breaks."""
    for start, end in bound.fragments:
        problem = entity_problem(start, end, bound.label, length=len(text), unit="characters", field="span")
        if problem is not None:
            return problem
    text_surface = " ".join(text[start:end] for start, end in bound.fragments)
    if text_surface.split() != bound.surface.split():
        hint = "; the offsets may count a Windows line break as one character" if "\r\n" in text else ""
        return Problem("surface", "surface", bound.surface, f"{text_surface!r}, as the text has it{hint}")
    return None


def _continuous(bound: TextBound, text: str, reading: Reading) -> list[tuple[int, int]]:
    """The spans that an entity becomes under the policy for discontinuous ones."""
    merged: list[tuple[int, int]] = []
    fragments = sorted(bound.fragments)
    if any(later < end for (_, end), (later, _) in pairwise(fragments)):
        reading.report.count("changed, overlapping fragments joined", f"{bound.place}: {bound.surface!r}")
    for start, end in fragments:
        if merged and not text[merged[-1][1] : start].strip():
            start, earlier_end = merged.pop()
            end = max(earlier_end, end)  # fragments may overlap
        merged.append((start, end))
    if len(merged) == 1:
        return merged
    policy = reading.options.discontinuous
    allowed = 'one piece; discontinuous="split", "cover", "first" or "drop" accepts the file'
    problem = Problem("discontinuous", "span", merged, allowed)
    if policy == "error":
        reading.refuse(bound.place, problem)
        return []
    verb = "dropped, discontinuous" if policy == "drop" else f"changed, discontinuous ({policy})"
    reading.report.count(verb, f"{bound.place}: {bound.surface!r}")
    cover = (merged[0][0], max(end for _, end in merged))
    return {"split": merged, "cover": [cover], "first": merged[:1], "drop": []}[policy]


def _row_borders(split: SplitText, spans: list[tuple[int, int, str]]) -> Iterator[tuple[int, int]]:
    """Word borders of the rows of a text: its lines, joined where an entity runs over the break."""
    joined = {index for start, end, _ in spans for index in range(start + 1, end)}
    first = 0
    for index in range(1, len(split.starts) + 1):
        is_last = index == len(split.starts)
        if is_last or (index not in joined and "\n" in split.text[split.ends[index - 1] : split.starts[index]]):
            yield first, index
            first = index
