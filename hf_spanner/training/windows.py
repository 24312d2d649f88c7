"""Turns rows of a data set into rows of one window each, and counts what is lost."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from datasets import Dataset, Features, List, Value

from hf_spanner.core.features import Window
from hf_spanner.core.prediction import ReadableText, TextReader, merge_windows
from hf_spanner.core.spans import named_span
from hf_spanner.data.annotated import annotated_rows

ENTITY = {"start": Value("int32"), "end": Value("int32"), "label": Value("string")}
WINDOW_FEATURES = Features(
    {
        "tokens": List(Value("string")),
        "entities": List(ENTITY),
        "left_context": List(Value("int32")),
        "right_context": List(Value("int32")),
        "length": Value("int32"),
        "row": Value("int32"),
        "first_word": Value("int32"),
        "num_words": Value("int32"),
        "num_windows": Value("int32"),
    }
)
TRAINING_COLUMNS = ["tokens", "entities", "left_context", "right_context", "length"]


@dataclass
class WindowReport:
    """What became of gold entities when rows were cut into windows; `examples` names the first of each kind."""

    rows: int = 0
    windows: int = 0
    entities: int = 0
    without_tokens: int = 0
    longer_than_overlap: int = 0
    unknown_label: int = 0
    examples: dict[str, str] = field(default_factory=dict)

    def lose(self, kind: str, words: Sequence[str], entity: Mapping[str, Any]) -> None:
        """Count one entity that no window can teach or give, and keep the first as an example."""
        setattr(self, kind, getattr(self, kind) + 1)
        surface = " ".join(words[entity["start"] : entity["end"]])
        self.examples.setdefault(kind, f"{surface[:60]!r} ({entity['label']})")

    def __str__(self) -> str:
        """One line for the log."""
        kinds = ("without_tokens", "longer_than_overlap", "unknown_label")
        lost = [
            f"{getattr(self, kind)} {kind.replace('_', ' ')}, e.g. {self.examples[kind]}"
            for kind in kinds
            if kind in self.examples
        ]
        return f"{self.rows} rows in {self.windows} windows, {self.entities} entities" + "".join(
            f"; {text}" for text in lost
        )


def window_rows(
    rows: Iterable[Mapping[str, Any]], reader: TextReader, label2id: Mapping[str, int]
) -> tuple[list[dict[str, Any]], WindowReport]:
    """Rows cut into windows, each with all entities that lie whole inside it, and what was lost.

    An entity in the words that two windows share belongs to both: a window that shows it and calls it none would teach
    the opposite of the other. Which window may give it out is a matter of `merge_windows` alone. An entity that its
    owner cannot hold lies whole in no window, so what is lost is the same for training and for prediction.

    Args:
        rows: Rows with `tokens`, `entities` and optionally `document` (needed for context), or in another form that
            `load_rows` reads, such as `tokens` and `ner_tags`.
        reader: The model's reader.
        label2id: The labels that the model knows.

    Returns:
        Window rows with the columns of `WINDOW_FEATURES`, in the order of the rows, and the report.

    Raises:
        ValueError: If there are no rows, or an entity lies outside its row.
    """
    report = WindowReport()
    rows = list(annotated_rows(rows))
    if not rows:
        raise ValueError("rows must hold at least one row, got none")
    texts = reader.texts([row["tokens"] for row in rows], [row.get("document") for row in rows])
    windows = []
    for place, (row, text) in enumerate(zip(rows, texts, strict=True)):
        report.rows += 1
        gold = _gold_of_windows(row, text, label2id, report)
        windows += [
            _window_row(place, row, text, window, entities) for window, entities in zip(text.windows, gold, strict=True)
        ]
    report.windows = len(windows)
    return windows, report


def training_windows(windows: list[dict[str, Any]]) -> Dataset:
    """Window rows as a data set with the columns that training reads."""
    return Dataset.from_list(windows, features=WINDOW_FEATURES).select_columns(TRAINING_COLUMNS)


class EvaluationWindows(torch.utils.data.Dataset):
    """The windows of rows that are evaluated, longest first; they also put the spans of a row together again.

    They depend on the tokenizer and the sizes of windows alone, so one cut serves every evaluation of the rows.

    Args:
        rows: Rows as in `window_rows`.
        reader: The model's reader.
        label2id: The labels that the model knows.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]], reader: TextReader, label2id: Mapping[str, int]) -> None:
        self.rows = rows
        kept = list(annotated_rows(rows))
        windows, self.report = window_rows(kept, reader, label2id)
        self.windows = sorted(windows, key=lambda window: -window["length"])  # padding is the largest cost
        self.gold = [list(row["entities"]) for row in kept]

    def __len__(self) -> int:
        """Number of windows."""
        return len(self.windows)

    def __getitem__(self, place: int) -> dict[str, Any]:
        """The window row of a place in the order of length."""
        return self.windows[place]

    def merged(
        self,
        packed: Sequence[np.ndarray] | np.ndarray,
        places: np.ndarray,
        settings: Mapping[str, Any],
        decoding: Mapping[str, Any],
    ) -> list[list[dict[str, Any]]]:
        """Entities of each row from the candidates of its windows.

        Args:
            packed: For each of P windows, in any order, its (K, 4) candidates.
            places: (P, 4) long, for each window its row, first word and number of words, and how many windows its
                row has.
            settings: The model's `merge_settings`.
            decoding: Checked settings of inference.

        Returns:
            For each row its entities (start, end, label, score).
        """
        row_windows: dict[int, list[tuple[Window, int]]] = defaultdict(list)
        for place, (row, first_word, num_words, _) in enumerate(places.tolist()):
            row_windows[row].append((Window(first_word, num_words), place))
        merged = []
        for row in range(len(self.gold)):
            parts = sorted(row_windows[row])
            tables = [packed[place] for _, place in parts]
            spans = merge_windows(tables, [window for window, _ in parts], settings, decoding)
            merged.append([named_span(span, settings["id2label"]) for span in spans])
        return merged


def lasting_rows(rows: Any) -> Any:
    """The rows, or rows by name, themselves, but as a list where they can be read only once, as from a generator."""
    if isinstance(rows, dict):
        return {name: lasting_rows(named_rows) for name, named_rows in rows.items()}
    return list(rows) if isinstance(rows, Iterator) else rows


def _gold_of_windows(
    row: Mapping[str, Any], text: ReadableText, label2id: Mapping[str, int], report: WindowReport
) -> list[list[dict[str, Any]]]:
    """For each window of a row the entities that lie whole in it, counted in its words; what is lost is reported."""
    bounds = text.tokens.bounds
    firsts = [window.first_word for window in text.windows]
    ends = [window.first_word + window.num_words for window in text.windows]
    entities: list[list[dict[str, Any]]] = [[] for _ in text.windows]
    for entity in row["entities"]:
        report.entities += 1
        start, end, label = entity["start"], entity["end"], entity["label"]
        if not 0 <= start < end <= len(row["tokens"]):
            raise ValueError(f"entity {dict(entity)} lies outside its row of {len(row['tokens'])} words")
        holders = range(bisect_left(ends, end), bisect_right(firsts, start))  # neither firsts nor ends ever decrease
        if label not in label2id:
            report.lose("unknown_label", row["tokens"], entity)
        elif bounds[start] == bounds[start + 1] or bounds[end - 1] == bounds[end]:
            report.lose("without_tokens", row["tokens"], entity)
        elif not holders:
            report.lose("longer_than_overlap", row["tokens"], entity)
        else:
            for place in holders:
                first = firsts[place]
                entities[place].append({"start": start - first, "end": end - first, "label": label})
    return entities


def _window_row(
    place: int, row: Mapping[str, Any], text: ReadableText, window: Window, entities: list[dict[str, Any]]
) -> dict[str, Any]:
    first, end = window.first_word, window.first_word + window.num_words
    return {
        "tokens": row["tokens"][first:end],
        "entities": entities,
        "left_context": text.left,
        "right_context": text.right,
        "length": text.tokens.bounds[end] - text.tokens.bounds[first],
        "row": place,
        "first_word": first,
        "num_words": window.num_words,
        "num_windows": len(text.windows),
    }
