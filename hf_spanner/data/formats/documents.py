"""Writers of formats that hold whole documents or plain columns: BRAT pairs, CoNLL columns and Parquet."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path, PurePosixPath

from datasets import Dataset

from hf_spanner.data.columns import DOCUMENT_MARK, TAB_SUFFIXES
from hf_spanner.data.formats.writing import Writing, entities_in_text, open_output, row_name, row_text
from hf_spanner.data.schema import FEATURES, Problem, Row
from hf_spanner.data.tags import spans_to_tags

NO_DOCUMENT = "rows"  # name of the file for rows whose document is unknown
LINE_END = re.compile(r"[\r\n]")


def documents_of(rows: Iterable[Row]) -> Iterator[tuple[str | None, Iterable[tuple[int, Row]]]]:
    """Rows by document, each with its number among all; those without one come last.

    Raises:
        ValueError: If the rows of one document do not stand together.
    """
    seen = set()
    unnamed = []
    for document, group in groupby(enumerate(rows), key=lambda numbered: numbered[1].get("document")):
        if document in seen:
            raise ValueError(f"rows of document {document!r} must stand together")
        seen.add(document)
        if document is None:
            unnamed = list(group)
        else:
            yield document, group
    if unnamed:
        yield None, unnamed


def write_brat(rows: Iterable[Row], path: Path, writing: Writing) -> None:
    """Write a folder with a text and its annotation for each document; each row is a line of the text.

    Rows whose document is unknown go into one text. A document's name may hold "/", which makes folders.

    Raises:
        ValueError: For a name that leads out of the folder, rows of a document that do not stand together, and labels
            with blanks, as `on_error` says.
    """
    path.mkdir()
    for document, group in documents_of(writing.counted(rows, text=True)):
        name = NO_DOCUMENT if document is None else document
        if document is None:
            writing.report.count("changed, rows without document written as one", str(path))
            while (path / f"{name}.txt").exists():
                name += "_"
        if PurePosixPath(name).is_absolute() or not {"..", ".", ""}.isdisjoint(name.split("/")):
            raise ValueError(f"document is {name!r}, allowed: a name that stays in the folder")
        text_file, annotation = path / f"{name}.txt", path / f"{name}.ann"
        try:
            text_file.parent.mkdir(parents=True, exist_ok=True)
            text_file.touch(exist_ok=False)
            annotation.touch(exist_ok=False)
        except (FileExistsError, NotADirectoryError) as error:
            raise ValueError(f"document is {name!r}, allowed: a name of its own") from error
        begin = count = 0
        with open_output(text_file) as texts, open_output(annotation) as spans:
            for number, row in group:
                raw, offsets = row_text(row)
                text = LINE_END.sub(" ", raw)
                left_out(row, writing, row_name(row, number))
                for entity in entities_in_text(row, text, offsets, row_name(row, number), writing):
                    if entity.label.split() != [entity.label]:
                        problem = Problem("label", "label", entity.label, "a label without blanks")
                        writing.drop_entity(row_name(row, number), problem)
                        continue
                    count += 1
                    place = f"{begin + entity.start} {begin + entity.end}"
                    spans.write(f"T{count}\t{entity.label} {place}\t{entity.text}\n")
                texts.write(text + "\n")
                begin += len(text) + 1


def left_out(row: Row, writing: Writing, name: str) -> None:
    """Count what formats of documents and columns do not hold: ids, and rows without words."""
    if row.get("id") is not None:
        writing.report.count("left out, id of a row", name)
    if not "".join(row["tokens"]).strip():
        writing.report.count("left out, row without words", name)
        writing.report.num_rows -= 1


def write_columns(rows: Iterable[Row], path: Path, writing: Writing) -> None:
    """Write a line with word and tag for each word, parted by a tab in `.tsv` and by a blank else.

    Where a document begins stands `-DOCSTART-`. Of entities that overlap the longest is written.

    Raises:
        ValueError: For words and labels that cannot stand in a column and entities that overlap, as `on_error` says;
            for an unknown scheme.
    """
    separator = "\t" if TAB_SUFFIXES.intersection(path.suffixes) else " "
    unwritable = re.compile(r"[\t\r\n]" if separator == "\t" else r"[ \t\r\n]")
    document: str | None = None
    with open_output(path) as file:
        for number, row in enumerate(writing.counted(rows)):
            name, words = row_name(row, number), row["tokens"]
            bad = [word for word in words if not word or unwritable.search(word) or word == DOCUMENT_MARK]
            if bad:
                writing.refuse(name, Problem("word", "tokens", bad[0], "words without blanks that are no mark"))
                writing.report.num_rows -= 1
                writing.report.num_entities -= len(row["entities"])
                continue
            left_out(row, writing, name)
            if row.get("document") != document:
                document = row.get("document")
                file.write(f"{DOCUMENT_MARK}{separator}O\n\n")
            tags = spans_to_tags(_flat(row, name, unwritable, writing), len(words), scheme=writing.scheme)
            file.writelines(f"{word}{separator}{tag}\n" for word, tag in zip(words, tags, strict=True))
            file.write("\n" if words else "")


def _flat(row: Row, name: str, unwritable: re.Pattern[str], writing: Writing) -> list[tuple[int, int, str]]:
    """The entities of a row that tags can hold, the longest first; the others are refused or counted."""
    kept: list[tuple[int, int, str]] = []
    for item in sorted(row["entities"], key=lambda item: item["start"] - item["end"]):
        span = (item["start"], item["end"], item["label"])
        if any(start < span[1] and span[0] < end for start, end, _ in kept):
            writing.drop_entity(name, Problem("overlap", "entities", span, "entities that do not overlap, in columns"))
        elif unwritable.search(span[2]):
            writing.drop_entity(name, Problem("label", "label", span[2], "a label without blanks"))
        else:
            kept.append(span)
    return kept


def write_parquet(rows: Iterable[Row], path: Path, writing: Writing) -> None:
    """Write a Parquet file with the columns of `FEATURES`."""
    columns: dict[str, list] = {name: [] for name in FEATURES}
    for row in writing.counted(rows):
        entities = [{name: item[name] for name in ("start", "end", "label")} for item in row["entities"]]
        for name, column in columns.items():
            column.append(entities if name == "entities" else row.get(name))
    Dataset.from_dict(columns, features=FEATURES).to_parquet(str(path))
