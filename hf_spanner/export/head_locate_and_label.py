"""The heads of Locate and Label, of operations that a graph can hold."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from hf_spanner.core.modeling_span_ner import SpanNERModel
from hf_spanner.core.word_encoder import word_lengths
from hf_spanner.methods.locate_and_label.loss_locate_and_label import moved_spans
from hf_spanner.methods.locate_and_label.modeling_locate_and_label import (
    LocateAndLabelModel,
    found_labels,
    is_legal_span,
    word_rows,
)
from hf_spanner.methods.locate_and_label.span_pooling_locate_and_label import pooled_spans


class LocateAndLabelHead(nn.Module):
    """Classified proposals of words; what Soft-NMS does with them is the caller's.

    The table of maxima has as many rows as the longest window needs, and seeds that do not fit are illegal ones, so
    that nothing depends on the number of words. A proposal that several seeds are moved onto is given out once for each
    of them; the highest score is the one that counts.

    Args:
        model: The model.
        decoding: `filter_threshold` and `confidence` act here.
    """

    fixed = ("filter_threshold", "confidence")
    runs_alone = False  # Soft-NMS follows the graph, which the runner does not know

    def __init__(self, model: SpanNERModel, decoding: Mapping[str, Any]) -> None:
        super().__init__()
        self.model = cast(LocateAndLabelModel, model)
        self.threshold = decoding["filter_threshold"]
        self.weighs_filter = self.model.weighs_filter(decoding)
        self.num_levels = cast(int, model.config.window_size).bit_length()  # a word has a token at least

    def forward(self, words: Tensor, word_mask: Tensor) -> tuple[Tensor, ...]:
        """Sentence, start, end, label and score of each classified proposal, (P,) each, repeats among them."""
        model, num_words = self.model, words.shape[1]
        maxima = clamped_maxima(words, self.num_levels)
        longest = model.config.max_seed_length
        starts = torch.arange(num_words)[:, None].expand(-1, longest).flatten()  # (K,)
        ends = (torch.arange(num_words)[:, None] + torch.arange(1, longest + 1)).flatten()
        fits = ends <= num_words
        seeds = torch.stack([starts, torch.where(fits, ends, starts + 1)], dim=1)  # (K, 2)
        sentence = torch.arange(words.shape[0])[:, None].expand(-1, seeds.shape[0])  # (B, K)
        flat = sentence.flatten()
        spans = seeds.expand(words.shape[0], -1, -1)  # (B, K, 2)
        pooled = pooled_spans(maxima, flat, *spans.flatten(0, 1).unbind(dim=1)).view(*sentence.shape, -1)
        logits = model._filter_logits(words, pooled, word_rows(sentence, spans, num_words))
        is_legal = fits & is_legal_span(sentence, spans, word_mask)
        row, number = (model._passes_filter(logits, self.threshold) & is_legal).nonzero(as_tuple=True)  # (S,) each
        passed = seeds[number]  # (S, 2)
        moves = model._moves(words, word_mask, pooled[row, number], word_rows(row, passed, num_words))
        moved = moved_spans(passed, moves, word_lengths(word_mask)[row])
        kept = is_legal_span(row, moved, word_mask).nonzero()[:, 0]  # (P,)
        proposals = torch.cat([row[kept, None], moved[kept]], dim=1)  # (P, 3)
        class_logits = model._class_logits(words, maxima, proposals)
        places, labels, scores = found_labels(class_logits, multi_label=model.config.multi_label)
        if self.weighs_filter:
            scores = scores * logits[row, number][kept][places].float().sigmoid()
        return (*proposals[places].unbind(dim=1), labels, scores)


def clamped_maxima(words: Tensor, num_levels: int) -> Tensor:
    """(J, B, N, D) maxima over the 2^j words from each word on, as `range_maxima`, with any number of rows J.

    Where fewer words are left, it is the maximum over those; no span reads it there.
    """
    places = torch.arange(words.shape[1])
    levels = [words]
    for level in range(num_levels - 1):
        last = levels[-1]
        levels.append(torch.maximum(last, last[:, (places + 2**level).clamp(max=words.shape[1] - 1)]))
    return torch.stack(levels)
