"""A pipeline that is right by construction, for every method: targets of the gold spans stand in for its scores."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from method_facts import facts_of
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from hf_spanner import SpanNERModel, SpanNEROutput, SpanNERPipeline
from hf_spanner.core.features import TokenizedWords, Window
from hf_spanner.core.spans import legal_gold
from hf_spanner.core.words import split_words


class PerfectPipeline:
    """Gives back the gold spans that the method's own targets, candidates and the merge let through.

    Each window's gold spans become targets, the targets scores, and the rest is the real pipeline.
    """

    def __init__(self, model: SpanNERModel, tokenizer: PreTrainedTokenizerBase, patch: pytest.MonkeyPatch) -> None:
        self.model = model
        self.pipeline = SpanNERPipeline(model=model, tokenizer=tokenizer)
        self.feature = self.pipeline.reader.word_tokenizer.feature
        self.windows: list[Window] = []
        self.num_read = 0
        self.gold: list[tuple[int, int, int]] = []
        patch.setattr(self.pipeline.reader.word_tokenizer, "feature", self.recorded_feature)
        patch.setattr(model, "score_spans", self.score_spans)

    def run_text(self, text: str, entities: Sequence[Mapping[str, Any]], **settings: Any) -> list[dict[str, Any]]:
        """Entities that are found in a text whose gold entities are given in characters."""
        offsets = split_words(text)
        starts, ends = ([offset[side] for offset in offsets] for side in (0, 1))
        spans = [(starts.index(entity["start"]), ends.index(entity["end"]) + 1, entity["label"]) for entity in entities]
        return self.run(text, spans, **settings)

    def run(self, item: Any, spans: Sequence[Sequence[Any]], **settings: Any) -> list[dict[str, Any]]:
        """Entities found in a text, or in words with `pretokenized=True`, whose gold spans are given in words."""
        self.windows, self.num_read = [], 0
        self.gold = [(start, end, self.model.config.label2id[label]) for start, end, label in spans]
        return self.pipeline(item, **settings)

    def recorded_feature(self, text: TokenizedWords, window: Window, *context: list[int]) -> dict[str, list[int]]:
        """The real feature of a window, noted down."""
        self.windows.append(window)
        return self.feature(text, window, *context)

    @torch.no_grad()
    def score_spans(self, words: Tensor, word_mask: Tensor, *_: Any) -> SpanNEROutput:
        """Perfect scores of the windows that have been read since the last batch."""
        windows = self.windows[self.num_read : self.num_read + len(word_mask)]
        self.num_read += len(windows)
        labels = torch.full((len(windows), max(1, len(self.gold)), 3), -100)
        for table, (first, length) in zip(labels, windows, strict=True):
            inside = [
                (start - first, end - first, label)
                for start, end, label in self.gold
                if start >= first and end <= first + length
            ]
            if inside:
                table[: len(inside)] = torch.tensor(inside)
        gold = legal_gold(labels, word_mask, self.model.config.num_labels)
        return facts_of(self.model.config.model_type).perfect_scores(self.model, words, word_mask, gold)
