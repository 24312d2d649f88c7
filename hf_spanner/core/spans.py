"""Spans as tuples and as packed tensors, and arithmetic on them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

PADDING = -100
EntityLists = list[list[dict[str, Any]]]  # the entities of each row: start, end, label and, where predicted, score


class Span(NamedTuple):
    """One labelled span: half-open word offsets, label index into `config.id2label`, score a probability."""

    start: int
    end: int
    label: int
    score: float


def named_span(span: Span, id2label: Mapping[int, str]) -> dict[str, Any]:
    """A span as an entity of a row with its score: `start` and `end` in words, `label` by name."""
    return {"start": span.start, "end": span.end, "label": id2label[span.label], "score": span.score}


class Limits(NamedTuple):
    """Spans that a method cannot produce whatever its weights are; gold beyond these limits is reported and missed.

    Args:
        one_label: It gives a single label to each span.
        max_length: Longest span, in words; None: any.
        max_spans: Most spans of a sentence; None: any.
    """

    one_label: bool = False
    max_length: int | None = None
    max_spans: int | None = None

    def num_beyond(self, gold: Sequence[tuple[int, int, int]]) -> int:
        """How many gold spans (start, end, label) of one sentence lie beyond the limits, repeats left out."""
        spans = {tuple(span) for span in gold}
        reachable = {span[:2] for span in spans} if self.one_label else spans
        if self.max_length is not None:
            reachable = {span for span in reachable if span[1] - span[0] <= self.max_length}
        return len(spans) - min(len(reachable), self.max_spans or len(reachable))


def legal_gold(labels: Tensor, word_mask: Tensor, num_labels: int) -> Tensor:
    """The gold of each sentence, sorted, each span once, and only spans that can be found.

    A span must not be empty, lie inside its sentence, begin and end on words with tokens, and have a known label. Each
    span travels as one number whose order is that of (start, end, label), so two sorts do all of it on the device.

    Args:
        labels: (B, G, 3) long (start, end, label), half-open, each below 2^20; padding -100.
        word_mask: (B, N) bool.
        num_labels: C.

    Returns:
        (B, max(G, 1), 3) long, sorted; padding -100 after them.
    """
    if labels.shape[1] == 0:
        return labels.new_full((len(labels), 1, 3), PADDING)
    starts, ends, types = labels.unbind(dim=-1)  # (B, G)
    last_word = word_mask.shape[1] - 1
    is_inside = (starts >= 0) & (starts < ends) & (ends <= last_word + 1) & (types >= 0) & (types < num_labels)
    has_tokens = [word_mask.gather(1, words.clamp(0, last_word)) for words in (starts, ends - 1)]
    is_legal = is_inside & has_tokens[0] & has_tokens[1]
    unlisted = 1 << 62  # above all codes
    codes = ((starts << 42) | (ends << 21) | types).masked_fill(~is_legal, unlisted).sort(dim=1).values  # (B, G)
    is_repeat = pad(codes[:, 1:] == codes[:, :-1], (1, 0))
    codes = codes.masked_fill(is_repeat, unlisted).sort(dim=1).values
    low = (1 << 21) - 1
    gold = torch.stack([codes >> 42, (codes >> 21) & low, codes & low], dim=-1)  # (B, G, 3)
    return gold.masked_fill((codes == unlisted)[..., None], PADDING)


def span_iou(first: Tensor, second: Tensor) -> Tensor:
    """Overlap of every span of one set with every span of another, as intersection over union.

    Paper: Shen et al. 2021, section 2.2, IoU(A, B) = |A and B| / |A or B|, with A and B sets of words.
    The paper's e and s are our half-open end and start, so lengths are plain differences.

    Args:
        first: (B, K, 2) long, spans as (start, end) in words, half-open.
        second: (B, G, 2) long, the same; padding rows hold -100 and give 0.

    Returns:
        (B, K, G) float32 in [0, 1].

    Raises:
        ValueError: If the two batches differ in size.

    Example:
        >>> span_iou(torch.tensor([[[1, 4]]]), torch.tensor([[[1, 5]]]))
        tensor([[[0.7500]]])
    """
    if len(first) != len(second):
        raise ValueError(f"span_iou needs batches of equal size, got {len(first)} and {len(second)}")
    starts, ends = first[:, :, None, 0], first[:, :, None, 1]  # (B, K, 1)
    other_starts, other_ends = second[:, None, :, 0], second[:, None, :, 1]  # (B, 1, G)
    intersection = (torch.minimum(ends, other_ends) - torch.maximum(starts, other_starts)).clamp(min=0)
    union = (ends - starts) + (other_ends - other_starts) - intersection
    return intersection / union.clamp(min=1)


def pack_candidates(
    sentence: Tensor, starts: Tensor, ends: Tensor, labels: Tensor, scores: Tensor, batch_size: int
) -> Tensor:
    """One table of candidates per sentence from flat lists that are ordered by sentence.

    Args:
        sentence: (P,) long, the sentence of each candidate, never decreasing.
        starts: (P,) long, first word.
        ends: (P,) long, one after the last word.
        labels: (P,) long.
        scores: (P,) float, probabilities.
        batch_size: B.

    Returns:
        (B, K, 4) float32 rows (start, end, label, score), padded with -100; K is the largest count of a sentence.
    """
    counts = sentence.new_zeros(batch_size).index_add(0, sentence, torch.ones_like(sentence))  # (B,)
    rows = torch.stack([starts, ends, labels, scores.float()], dim=-1)  # (P, 4)
    return pad_sequence(list(rows.split(counts.tolist())), batch_first=True, padding_value=PADDING)


def pack_spans(spans: Sequence[Sequence[Span]]) -> Tensor:
    """Spans of each sentence as one (B, K, 4) float32 table, rows (start, end, label, score), padding -100."""
    packed = torch.full((len(spans), max(map(len, spans), default=0), 4), float(PADDING))
    for row, sentence_spans in zip(packed, spans, strict=True):
        if sentence_spans:
            row[: len(sentence_spans)] = torch.tensor(sentence_spans, dtype=torch.float32)
    return packed


def unpack_spans(packed: Tensor) -> list[list[Span]]:
    """Spans of each sentence, in the table's order, from a (B, K, 4) packed table; padding rows are left out."""
    return [
        [Span(int(start), int(end), int(label), score) for start, end, label, score in rows if start >= 0]
        for rows in packed.tolist()
    ]
