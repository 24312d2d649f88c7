"""Rows of a data set to rows of one window each, with what is lost counted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from datasets import Dataset, Features, List, Value

from hf_spanner.core.configuration_span_ner import SpanNERConfig
from hf_spanner.core.features import TokenizedWords, Window, WordTokenizer, plan_windows, window_owners

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
CHUNK = 1024


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
    rows: Iterable[Mapping[str, Any]], word_tokenizer: WordTokenizer, config: SpanNERConfig
) -> tuple[Dataset, WindowReport]:
    """Rows cut into windows, each entity in the window that owns its midpoint, and what was lost.

    Args:
        rows: Rows with `tokens`, `entities` and optionally `document` (needed for context).
        word_tokenizer: The model's.
        config: `window_size`, `window_overlap`, `context_sentences`, `label2id`.

    Returns:
        A data set of window rows in the order of the rows, and the report.

    Raises:
        ValueError: If there are no rows, or an entity lies outside its row.
    """
    report = WindowReport()
    rows = list(rows)
    texts: list[TokenizedWords] = []
    for first in range(0, len(rows), CHUNK):
        texts.extend(word_tokenizer([row["tokens"] for row in rows[first : first + CHUNK]]))
    if not rows:
        raise ValueError("rows must hold at least one row, got none")
    windows = []
    for place, (row, text) in enumerate(zip(rows, texts, strict=True)):
        report.rows += 1
        of_row = _windows_of_row(row, text, config, report)
        contexts = _contexts(rows, texts, place, config, len(of_row) == 1)
        for window in of_row:
            left, right = contexts
            windows.append({**window, "left_context": left, "right_context": right, "row": place})
    report.windows = len(windows)
    return Dataset.from_list(windows, features=WINDOW_FEATURES), report


def _windows_of_row(
    row: Mapping[str, Any], text: TokenizedWords, config: SpanNERConfig, report: WindowReport
) -> list[dict[str, Any]]:
    assert config.window_size is not None
    assert config.window_overlap is not None
    windows = plan_windows(text.bounds, config.window_size, config.window_overlap)
    entities: list[list[dict[str, Any]]] = [[] for _ in windows]
    for entity in row["entities"]:
        report.entities += 1
        start, end, label = entity["start"], entity["end"], entity["label"]
        if not 0 <= start < end <= len(row["tokens"]):
            raise ValueError(f"entity {dict(entity)} lies outside its row of {len(row['tokens'])} words")
        owner = int(window_owners(windows, np.array([start]), np.array([end]))[0])
        first, num_words = windows[owner]
        if label not in config.label2id:
            report.lose("unknown_label", row["tokens"], entity)
        elif text.bounds[start] == text.bounds[start + 1] or text.bounds[end - 1] == text.bounds[end]:
            report.lose("without_tokens", row["tokens"], entity)
        elif start < first or end > first + num_words:
            report.lose("longer_than_overlap", row["tokens"], entity)
        else:
            entities[owner].append({"start": start - first, "end": end - first, "label": label})
    return [_window_row(row, text, window, gold, len(windows)) for window, gold in zip(windows, entities, strict=True)]


def _window_row(
    row: Mapping[str, Any], text: TokenizedWords, window: Window, entities: list[dict[str, Any]], num_windows: int
) -> dict[str, Any]:
    first, behind = window.first_word, window.first_word + window.num_words
    return {
        "tokens": row["tokens"][first:behind],
        "entities": entities,
        "length": text.bounds[behind] - text.bounds[first],
        "first_word": first,
        "num_words": window.num_words,
        "num_windows": num_windows,
    }


def _contexts(
    rows: Sequence[Mapping[str, Any]],
    texts: Sequence[TokenizedWords],
    place: int,
    config: SpanNERConfig,
    is_whole: bool,
) -> tuple[list[int], list[int]]:
    """Token ids of neighbouring sentences of the same document, as far as the window has room, half on each side."""
    assert config.window_size is not None
    document = rows[place].get("document")
    if config.context_sentences == 0 or document is None or not is_whole:
        return [], []
    reach = range(1, config.context_sentences + 1)
    before = [place - step for step in reach if place - step >= 0 and rows[place - step].get("document") == document]
    behind = [
        place + step for step in reach if place + step < len(rows) and rows[place + step].get("document") == document
    ]
    left = [token for neighbour in reversed(before) for token in texts[neighbour].ids]
    right = [token for neighbour in behind for token in texts[neighbour].ids]
    room = config.window_size - len(texts[place].ids)
    num_left = min(len(left), max(room // 2, room - len(right)))
    return left[len(left) - num_left :], right[: room - num_left]
