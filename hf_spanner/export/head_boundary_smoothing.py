"""The head of Boundary Smoothing, of operations that a graph can hold."""

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from hf_spanner.core.modeling_span_ner import SpanNERModel
from hf_spanner.methods.boundary_smoothing.modeling_boundary_smoothing import Biaffine, BoundarySmoothingModel


class BoundarySmoothingHead(nn.Module):
    """Candidates of words.

    Args:
        model: The model; its table of widths is read otherwise from here on.
        decoding: Settings of inference, none of which acts here.
    """

    fixed: tuple[str, ...] = ()  # settings that act inside the graph
    runs_alone = True  # nothing but merging follows the graph

    def __init__(self, model: SpanNERModel, decoding: Mapping[str, Any]) -> None:
        super().__init__()
        self.model = cast(BoundarySmoothingModel, model)
        biaffine = self.model.biaffine
        biaffine._width_scores = partial(width_scores, biaffine)  # type: ignore[method-assign]

    def forward(self, words: Tensor, word_mask: Tensor) -> tuple[Tensor, ...]:
        """Sentence, start, end, label and score of each candidate, (P,) each."""
        logits = self.model.score_spans(words, word_mask, None, {}).logits.contiguous()  # (B, N, N, C + 1)
        best = logits.argmax(dim=-1)  # (B, N, N)
        places = torch.arange(word_mask.shape[1])
        is_span = (places[:, None] <= places) & word_mask[:, :, None] & word_mask[:, None, :]
        found = (is_span & (best < logits.shape[-1] - 1)).nonzero(as_tuple=True)  # (P,) each
        scores = logits[found].softmax(dim=-1).amax(dim=-1)  # (P,)
        sentence, starts, lasts = found
        return sentence, starts, lasts + 1, best[found], scores


def width_scores(biaffine: Biaffine, num_words: int, width_weight: Tensor) -> Tensor:
    """(N, C + 1, N) as the biaffine's own, read cell by cell: a graph cannot hold windows of a size that is free."""
    table = cast(nn.Embedding, biaffine.widths).weight @ width_weight.T  # (W, C + 1)
    places = torch.arange(num_words)
    widths = (places - places[:, None]).clamp(0, table.shape[0] - 1)  # (N, N)
    return table[widths].transpose(1, 2)
