"""What all writers share: the text of a row, its entities in characters, and the count of what a format cannot hold."""

import gzip
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TextIO, cast

from hf_spanner.core.words import surface_offsets
from hf_spanner.data.policy import OnError, ReadReport
from hf_spanner.data.schema import Problem, Row, entity_problem, words_problem


@dataclass(frozen=True)
class Writing:
    """One writing: what becomes of what the format cannot hold, the tag scheme of columns, and the counts.

    Attributes:
        on_error: "error" refuses what the format cannot hold; "drop" leaves it out and counts it.
        scheme: Tag scheme, for columns.
        report: Counts of what was written, dropped and changed.
    """

    on_error: OnError
    scheme: str
    report: ReadReport

    def refuse(self, place: str, problem: Problem) -> None:
        """Raise for what the format cannot hold, or count it where the user asked to drop it.

        Raises:
            ValueError: If `on_error` is "error".
        """
        message = f"{place}: {problem}"
        if self.on_error == "error":
            raise ValueError(f'{message}; on_error="drop" leaves it out')
        self.report.count(f"dropped, {problem.reason}", message)

    def drop_entity(self, place: str, problem: Problem) -> None:
        """As `refuse`, for an entity that is then left out of the count of entities."""
        self.refuse(place, problem)
        self.report.num_entities -= 1

    def counted(self, rows: Iterable[Row], *, text: bool = False, scores: bool = False) -> Iterator[Row]:
        """The same rows, checked and counted; what a writer drops of them it counts itself.

        Args:
            rows: Rows, with or without details.
            text: Whether the format keeps the raw text of rows that have it; else it is counted as left out.
            scores: Whether it keeps scores.

        Raises:
            ValueError: For a row whose words or entities are none.
        """
        for index, row in enumerate(rows):
            problem = words_problem(row["tokens"])
            for number, entity in enumerate(row["entities"]):
                problem = problem or entity_problem(
                    entity["start"],
                    entity["end"],
                    entity["label"],
                    length=len(row["tokens"]),
                    unit="words",
                    field=f"entities[{number}]",
                )
            if problem is not None:
                raise ValueError(f"{row_name(row, index)}: {problem}")
            name = row_name(row, index)
            if "text" in row and not text:
                self.report.count("left out, raw text beside the words", name)
            if not scores and any("score" in entity for entity in row["entities"]):
                self.report.count("left out, scores of a row's entities", name)
            self.report.num_rows += 1
            self.report.num_entities += len(row["entities"])
            yield row


class WrittenEntity(NamedTuple):
    """An entity in characters and in words, both half-open, with its surface, and its score if it has one."""

    start: int
    end: int
    label: str
    text: str
    words: tuple[int, int]
    score: float | None


def row_name(row: Row, index: int) -> str:
    """What a row is called in messages."""
    return f"row {index} (from 0)" if row.get("id") is None else f"row {row.get('id')}"


def row_text(row: Row) -> tuple[str, Sequence[tuple[int, int]]]:
    """The text of a row and the half-open character offsets of its words; words are joined by blanks if it has none."""
    if "text" in row and "offsets" in row:
        return row["text"], row["offsets"]
    return " ".join(row["tokens"]), surface_offsets(row["tokens"])


def entities_in_text(
    row: Row, text: str, offsets: Sequence[tuple[int, int]], place: str, writing: Writing
) -> list[WrittenEntity]:
    """The entities of a row in characters.

    Raises:
        ValueError: For an entity of empty words, which has no surface, unless such entities are dropped.
    """
    entities = []
    for index, entity in enumerate(row["entities"]):
        start, end = offsets[entity["start"]][0], offsets[entity["end"] - 1][1]
        if text[start:end].strip():
            words = (entity["start"], entity["end"])
            entities.append(WrittenEntity(start, end, entity["label"], text[start:end], words, entity.get("score")))
        else:
            words = row["tokens"][entity["start"] : entity["end"]]
            writing.drop_entity(place, Problem("empty", f"entities[{index}]", words, "words that hold a character"))
    return entities


def open_output(path: Path) -> TextIO:
    """A UTF-8 text file to write, packed if its name ends with `.gz`."""
    if path.suffix == ".gz":
        return cast(TextIO, gzip.open(path, "wt", encoding="utf-8", newline="\n"))
    return path.open("w", encoding="utf-8", newline="\n")
