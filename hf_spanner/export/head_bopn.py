"""The head of BOPN, of operations that a graph can hold."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from hf_spanner.core.modeling_span_ner import SpanNERModel
from hf_spanner.methods.bopn.loss_bopn import offset_moves
from hf_spanner.methods.bopn.modeling_bopn import BOPNModel


class BOPNHead(nn.Module):
    """Entities of types and words, with the votes counted in a table of all spans in place of lists.

    Scores of all cells are computed at once, so memory is O(N^2 d) for a sentence.

    Args:
        model: The model.
        decoding: All settings but threshold and overlap act here.

    Raises:
        ValueError: If `decode_mode` is `rules`, which follows single votes.
    """

    fixed = ("decode_mode", "min_votes", "pool_votes", "confidence")
    runs_alone = True  # nothing but merging follows the graph

    def __init__(self, model: SpanNERModel, decoding: Mapping[str, Any]) -> None:
        super().__init__()
        if decoding["decode_mode"] == "rules":
            raise ValueError("decode_mode must be center, votes or all in a graph, got 'rules'")
        self.model = cast(BOPNModel, model)
        self.mode, self.pools, self.confidence = (
            decoding[name] for name in ("decode_mode", "pool_votes", "confidence")
        )
        self.max_offset = self.model.config.max_offset
        self.moves = offset_moves(self.max_offset, torch.device("cpu")).tolist()[:-1]  # of all labels but out
        self.enough = (decoding["min_votes"] or max(1, self.max_offset)) if self.mode == "votes" else 1

    def forward(self, words: Tensor, word_mask: Tensor) -> tuple[Tensor, ...]:
        """Sentence, start, end, type and score of each entity, (P,) each."""
        places = torch.arange(word_mask.shape[1])
        is_upper = (places[:, None] <= places) & word_mask[:, :, None] & word_mask[:, None, :]  # (B, N, N)
        logits = self.logits(words, word_mask, is_upper)  # (B, N, N, M, L)
        best, probabilities = logits.argmax(dim=-1), logits.softmax(dim=-1)
        chosen = probabilities.amax(dim=-1)  # (B, N, N, M)
        centre = 2 * self.max_offset
        has_centre = (best == centre) & is_upper[..., None]
        counts, total = self.votes(best, chosen, is_upper)  # (2, B, N, N, M), (B, N, N, M)
        weight = counts.sum(dim=0)
        mean_vote = total / weight.clamp(min=1)
        if self.confidence == "sum":
            scores = (probabilities[..., centre] + mean_vote).clamp(max=1)
        else:
            scores = torch.where(has_centre, chosen, mean_vote)
        if self.confidence == "product":
            scores = scores * self.agreement(probabilities, is_upper)
        most = weight if self.pools else counts.amax(dim=0)
        found = (has_centre | ((most >= self.enough) & is_upper[..., None])).nonzero(as_tuple=True)
        sentence, starts, lasts, types = found
        return sentence, starts, lasts + 1, types, scores[found]

    def logits(self, words: Tensor, word_mask: Tensor, is_upper: Tensor) -> Tensor:
        """(B, N, N, M, L) scores of all cells in one block."""
        model, num_words = self.model, word_mask.shape[1]
        types, words = words[:, : words.shape[1] - num_words], words[:, words.shape[1] - num_words :]
        maps, biases = model.type_maps(types)
        scores = model._block_scores(*model.span_vectors.parts(words), maps, biases, 0)
        if model.convolutions is None:
            return scores
        is_cell = is_upper if model.config.mask_lower else word_mask[:, :, None] & word_mask[:, None, :]
        return model.convolutions(scores, is_cell)

    def agreement(self, probabilities: Tensor, is_upper: Tensor) -> Tensor:
        """(B, N, N, M) mean probability with which the cells around each span vote for it, 1 where there are none."""
        is_cell = is_upper[..., None].to(probabilities.dtype)  # (B, N, N, 1)
        total, count = torch.zeros_like(probabilities[..., 0]), torch.zeros_like(is_cell)
        for label, move in enumerate(self.moves):
            if move != [0, 0]:
                total = total + self.moved(probabilities[..., label] * is_cell, move)
                count = count + self.moved(is_cell, move)
        return torch.where(count > 0, total / count.clamp(min=1), 1.0)

    def moved(self, table: Tensor, move: list[int]) -> Tensor:
        """The (B, N, N, M) table with each cell on the span that it means by a label of this move, 0 beyond."""
        reach, num_words = self.max_offset, table.shape[1]
        start, last = reach + move[0], reach + move[1]
        padded = pad(table, (0, 0, reach, reach, reach, reach))
        return padded[:, start : start + num_words, last : last + num_words]

    def votes(self, best: Tensor, chosen: Tensor, is_upper: Tensor) -> tuple[Tensor, Tensor]:
        """For each span and type the numbers of votes of each boundary (2, ...), and the sum of their probabilities.

        A label's votes are its cells, moved onto the span that they mean.
        """
        counts, total = [torch.zeros_like(chosen), torch.zeros_like(chosen)], torch.zeros_like(chosen)
        for label, move in enumerate(self.moves):
            if move == [0, 0] or self.mode == "center":
                continue
            votes = ((best == label) & is_upper[..., None]).to(chosen.dtype)
            here, weighed = (self.moved(table, move) * is_upper[..., None] for table in (votes, votes * chosen))
            side = 0 if move[0] else 1
            counts[side], total = counts[side] + here, total + weighed
        return torch.stack(counts), total
