"""A pipeline whose model is right by construction: targets of the gold spans stand in for its scores; every method."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from hf_spanner import SpanNERModel, SpanNEROutput, SpanNERPipeline
from hf_spanner.core.features import TokenizedWords, Window
from hf_spanner.core.words import split_words
from hf_spanner.methods.bopn.loss_bopn import offset_targets
from hf_spanner.methods.bopn.modeling_bopn import BOPNOutput
from hf_spanner.methods.boundary_smoothing.loss_boundary_smoothing import legal_spans, smoothed_targets
from hf_spanner.methods.boundary_smoothing.modeling_boundary_smoothing import BoundarySmoothingOutput
from hf_spanner.methods.locate_and_label.loss_locate_and_label import assign_gold, sorted_gold
from hf_spanner.methods.locate_and_label.modeling_locate_and_label import is_legal_span

SURE = 30.0  # a logit beside zeros; its probability is 1 in float32


def boundary_smoothing_scores(model: Any, words: Tensor, word_mask: Tensor, labels: Tensor) -> SpanNEROutput:
    """Logarithms of the smoothed targets."""
    config = model.config
    targets = smoothed_targets(
        labels,
        legal_spans(word_mask),
        epsilon=config.smoothing_epsilon,
        distance=config.smoothing_distance,
        num_labels=config.num_labels,
    )
    return BoundarySmoothingOutput(logits=targets.log(), word_mask=word_mask)


def bopn_scores(model: Any, words: Tensor, word_mask: Tensor, labels: Tensor) -> SpanNEROutput:
    """The offset label of each cell, certain."""
    max_offset = model.config.max_offset
    targets = offset_targets(labels, word_mask, max_offset=max_offset, num_labels=model.config.num_labels)
    return BOPNOutput(logits=SURE * nn.functional.one_hot(targets, 4 * max_offset + 2).float(), word_mask=word_mask)


def diffusion_ner_scores(model: Any, words: Tensor, word_mask: Tensor, labels: Tensor) -> SpanNEROutput:
    """The model's own noisy spans, matched with gold as its loss does, each certain of what it is matched with."""
    output = type(model).score_spans(model, words, word_mask, None, model.decoding())
    model.compute_loss(output, labels)
    is_matched = output.matched >= 0
    places = output.matched.clamp(min=0)[..., None].expand(-1, -1, 3)
    gold = output.gold.gather(1, places) if output.gold.shape[1] else torch.zeros_like(places)
    classes = torch.where(is_matched, gold[..., 2], model.config.num_labels)
    starts, lasts = (side.clamp(0, word_mask.shape[1] - 1) for side in (gold[..., 0], gold[..., 1] - 1))
    for name, targets in (("logits", classes), ("left", starts), ("right", lasts)):
        scores = output[name]
        scores.copy_(SURE * nn.functional.one_hot(targets, scores.shape[-1]))
    return output


def locate_and_label_scores(model: Any, words: Tensor, word_mask: Tensor, labels: Tensor) -> SpanNEROutput:
    """Seeds that the filter keeps are those near gold, moved onto it; then each proposal takes the type of its gold."""
    output = type(model).score_spans(model, words, word_mask, None, model.decoding())
    gold, _ = sorted_gold(labels)
    seeds = output.seeds.expand(len(words), -1, -1)
    pairs = assign_gold(seeds, gold)
    is_positive = (pairs.iou > model.config.positive_iou) & is_legal_span(pairs.gold, word_mask)
    output.logits = torch.where(is_positive, SURE, -SURE)
    output.offsets = torch.where(is_positive[..., None], pairs.gold - seeds, 0).float()
    output.proposals, class_logits = model._classified_proposals(output)
    label_of = {(row, *span[:2]): span[2] for row, spans in enumerate(gold.tolist()) for span in reversed(spans)}
    classes = [label_of[tuple(proposal)] for proposal in output.proposals.tolist()]
    classes = torch.tensor(classes, dtype=torch.long)
    output.class_logits = SURE * nn.functional.one_hot(classes, class_logits.shape[-1]).float()
    return output


SCORES = {
    "boundary_smoothing": boundary_smoothing_scores,
    "bopn": bopn_scores,
    "diffusion_ner": diffusion_ner_scores,
    "locate_and_label": locate_and_label_scores,
}


class PerfectPipeline:
    """Gives back the gold spans that the method's own targets, candidates and the merge let through.

    Each window's gold spans become targets, the targets scores, and the rest is the real pipeline.
    """

    def __init__(self, model: SpanNERModel, tokenizer: PreTrainedTokenizerBase, patch: pytest.MonkeyPatch) -> None:
        self.model = model
        self.pipeline = SpanNERPipeline(model=model, tokenizer=tokenizer)
        self.feature = self.pipeline.word_tokenizer.feature
        self.windows: list[Window] = []
        self.num_read = 0
        self.gold: list[tuple[int, int, int]] = []
        patch.setattr(self.pipeline.word_tokenizer, "feature", self.recorded_feature)
        patch.setattr(model, "score_spans", self.score_spans)

    def of_text(self, text: str, entities: Sequence[Mapping[str, Any]], **settings: Any) -> list[dict[str, Any]]:
        """Entities found in a text whose gold entities are given in characters."""
        offsets = split_words(text)
        starts, ends = ([offset[side] for offset in offsets] for side in (0, 1))
        spans = [(starts.index(one["start"]), ends.index(one["end"]) + 1, one["label"]) for one in entities]
        return self.run(text, spans, **settings)

    def run(self, item: Any, spans: Sequence[Sequence[Any]], **settings: Any) -> list[dict[str, Any]]:
        """Entities found in a text, or in words with `pretokenized=True`, whose gold spans are given in words."""
        self.windows, self.num_read = [], 0
        self.gold = [(start, end, self.model.config.label2id[label]) for start, end, label in spans]
        return self.pipeline(item, **settings)

    def recorded_feature(self, text: TokenizedWords, window: Window) -> dict[str, list[int]]:
        """The real feature of a window, noted down."""
        self.windows.append(window)
        return self.feature(text, window)

    @torch.no_grad()
    def score_spans(self, words: Tensor, word_mask: Tensor, *_: Any) -> SpanNEROutput:
        """Perfect scores of the windows that were read since the last batch."""
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
        return SCORES[self.model.config.model_type](self.model, words, word_mask, labels)
