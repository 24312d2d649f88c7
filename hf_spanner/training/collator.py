"""Turns rows into the batch that every model takes."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from hf_spanner.core.features import Window, WordTokenizer, pad_features
from hf_spanner.core.spans import PADDING
from hf_spanner.core.word_shapes import WordFeatures

WINDOW_COLUMNS = ("row", "first_word", "num_words", "num_windows")


class SpanNERCollator:
    """Rows of one window each -> `input_ids`, `attention_mask`, `word_index`, `word_mask`, `labels`.

    A model that reads `word_features` also gets `word_shapes`.

    A row has `tokens` (words) and `entities`; window rows of the trainer also have `left_context` and `right_context`
    (token ids), and `row`, `first_word`, `num_words`, `num_windows` (handed on as `windows`, (B, 4) long). Rows without
    `entities` give a batch without `labels`. There is no randomness.

    Args:
        tokenizer: The model's fast tokenizer.
        label2id: Index of each label.
        window_size: Most tokens of a row, special tokens not counted.
        max_word_tokens: Most tokens read of one word.
        word_features: Features of the words themselves that the model reads.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        label2id: Mapping[str, int],
        *,
        window_size: int = 510,
        max_word_tokens: int = 127,
        word_features: WordFeatures = "none",
    ) -> None:
        self.word_tokenizer = WordTokenizer(tokenizer, max_word_tokens, word_features)
        self.label2id = dict(label2id)
        self.window_size = window_size

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """The batch of rows.

        Raises:
            ValueError: If a row is longer than a window, or an entity has an unknown label or lies outside its row.
        """
        features, num_words = [], []
        for row, text in zip(rows, self.word_tokenizer([row["tokens"] for row in rows]), strict=True):
            if len(text.ids) > self.window_size:
                raise ValueError(
                    f"a row of {len(row['tokens'])} words has {len(text.ids)} tokens, more than window_size = "
                    f"{self.window_size}: {' '.join(row['tokens'][:8])} ...; SpanNERTrainer cuts rows into windows"
                )
            left, right = row.get("left_context") or (), row.get("right_context") or ()
            features.append(self.word_tokenizer.feature(text, Window(0, len(row["tokens"])), left, right))
            num_words.append(len(row["tokens"]))
        arrays = pad_features(features, num_words, self.word_tokenizer.rules.pad_token_id)
        batch = {name: torch.from_numpy(array) for name, array in arrays.items()}
        if (num_gold := sum("entities" in row for row in rows)) not in (0, len(rows)):
            raise ValueError(f"entities must be in all rows of a batch or in none, got {num_gold} of {len(rows)}")
        if num_gold:
            batch["labels"] = self._labels(rows)
        if "num_windows" in rows[0]:
            batch["windows"] = torch.tensor([[row[name] for name in WINDOW_COLUMNS] for row in rows])
        return batch

    def _labels(self, rows: Sequence[Mapping[str, Any]]) -> Tensor:
        """(B, G, 3) long, padding -100."""
        labels = torch.full((len(rows), max(len(row["entities"]) for row in rows), 3), PADDING)
        for table, row in zip(labels, rows, strict=True):
            for place, entity in enumerate(row["entities"]):
                if entity["label"] not in self.label2id:
                    raise ValueError(f"label {entity['label']!r} is not one of {', '.join(self.label2id)}")
                if not 0 <= entity["start"] < entity["end"] <= len(row["tokens"]):
                    raise ValueError(f"entity {dict(entity)} lies outside its row of {len(row['tokens'])} words")
                table[place] = torch.tensor([entity["start"], entity["end"], self.label2id[entity["label"]]])
        return labels
