"""PubTator: documents of a title and an abstract, each on a line of its own, and a line for each mention."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from hf_spanner.data.formats.documents import left_out
from hf_spanner.data.formats.writing import Writing, entities_in_text, open_output, row_name, row_text
from hf_spanner.data.lines import LINE_ENDS, has_bare_return, text_lines
from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Problem, Row
from hf_spanner.data.texts import AnnotatedText, TextEntity, text_rows

TEXT_LINE = re.compile(r"([^|\t]+)\|([ta])\|(.*)")
MENTION_LINE = re.compile(r"[^\t]*\t(\d{1,18})\t(\d{1,18})\t([^\t]*)\t([^\t]*)")
MENTION = "number, start, end, surface and type with tabs between"
UNWRITABLE = re.compile(r"[\t\r\n]")
Lines = list[tuple[int, str]]


def pubtator_rows(path: Path, reading: Reading) -> Iterator[Row]:
    """Rows of titles and abstracts; the number of the article is the document. Relations are counted.

    Args:
        path: The file, plain or `.gz`.
        reading: Options and report.

    Raises:
        ValueError: For malformed lines, and surfaces that are not at their offsets, as the options say.
    """
    lines: Lines = []
    document = None
    for number, line in chain(text_lines(path), [(0, "")]):
        match = TEXT_LINE.fullmatch(line)
        if lines and (not line.strip() or (match and document not in (None, match[1]))):
            yield from _document(document, lines, path, reading)
            lines, document = [], None
        if match:
            document = match[1]
        if line.strip():
            lines.append((number, line))


def _document(document: str | None, lines: Lines, path: Path, reading: Reading) -> Iterator[Row]:
    """Rows of one article."""
    texts: dict[str, str] = {}
    entities = []
    for number, line in lines:
        place = f"{path}, line {number}"
        match, mention = TEXT_LINE.fullmatch(line), MENTION_LINE.match(line)
        fields = line.split("\t")
        if has_bare_return(line):
            reading.refuse(place, Problem("line end", "line", line, LINE_ENDS))
        elif match is not None and match[2] not in texts:
            texts[match[2]] = match[3]
        elif match is not None or (len(fields) >= 4 and document not in (None, fields[0])):
            reading.refuse(place, Problem("article", "line", line, f"one title, abstract and mentions of {document}"))
        elif mention is not None:
            pieces = [(int(mention[1]), int(mention[2]))]
            entities.append(TextEntity(place, "mention", pieces, mention[4], mention[3]))
        elif len(fields) >= 4 and fields[1][:1].isalpha():
            reading.report.count("skipped, relation", f"{place}: {line[:80]!r}")
        else:
            reading.refuse(place, Problem("line", "line", line, f"{MENTION}, or a title or an abstract"))
    place = f"{path}, line {lines[0][0]}"
    if "t" not in texts:
        reading.refuse_row(place, Problem("form", "article", document, "a line with |t| for the title"))
        return
    text = f"{texts['t']}\n{texts.get('a', '')}"
    parts = [0, len(texts["t"]) + 1]
    yield from text_rows(AnnotatedText(place, text, entities, document=document, parts=parts), reading)


def write_pubtator(rows: Iterable[Row], path: Path, writing: Writing) -> None:
    """Write an article for each document: its first row is the title, the others are the abstract.

    A row whose document is unknown is an article of its own, a title without abstract.

    Raises:
        ValueError: For names and labels with tabs, and rows of a document that do not stand together, as `on_error`
            says.
    """
    seen: set[str] = set()
    current: str | None = None
    article: list[tuple[str, Row]] = []
    with open_output(path) as file:
        for number, row in enumerate(writing.counted(rows, text=True)):
            name, document = row_name(row, number), row.get("document")
            left_out(row, writing, name)
            if document is None or document != current:
                if article:
                    file.write(_article(current or article[0][0], article, writing))
                article, current = [], document
                if document in seen:
                    raise ValueError(f"rows of document {document!r} must stand together")
                seen |= set() if document is None else {document}
            article.append((str(row.get("id") or number) if document is None else name, row))
        if article:
            file.write(_article(current or article[0][0], article, writing))


def _article(document: str, rows: list[tuple[str, Row]], writing: Writing) -> str:
    """The lines of one article."""
    if UNWRITABLE.search(document) or "|" in document:
        raise ValueError(f"document is {document!r}, allowed: a name without tabs, line ends and |")
    begin, texts, lines = 0, [], []
    for name, row in rows:
        raw, offsets = row_text(row)
        text = UNWRITABLE.sub(" ", raw)
        for entity in entities_in_text(row, text, offsets, name, writing):
            if UNWRITABLE.search(entity.label):
                writing.drop_entity(name, Problem("label", "label", entity.label, "a label without tabs"))
            else:
                start, end = begin + entity.start, begin + entity.end
                lines.append(f"{document}\t{start}\t{end}\t{entity.text}\t{entity.label}\t-")
        begin += len(text) + 1
        texts.append(text)
    head = [f"{document}|t|{texts[0]}", f"{document}|a|{' '.join(texts[1:])}"]
    return "\n".join([*head, *lines]) + "\n\n"
