"""Elementwise maxima of the word vectors of many spans, by a table of maxima over runs of 1, 2, 4, ... words."""

from collections.abc import Sequence

import torch
from torch import Tensor


def range_maxima(words: Tensor) -> Tensor:
    """Sparse table for range maxima: row j holds the maximum over the 2^j words from each word on.

    Where fewer words are left, a row holds the maximum over some of them; no span reads it there.

    Args:
        words: (B, N, D).

    Returns:
        (J, B, N, D), J = floor(log2 N) + 1.
    """
    levels = [words]
    step = 1
    while 2 * step <= words.shape[1]:
        last = levels[-1]
        levels.append(torch.cat([torch.maximum(last[:, :-step], last[:, step:]), last[:, -step:]], dim=1))
        step *= 2
    return torch.stack(levels)


def seed_spans(num_words: int, lengths: Sequence[int], device: torch.device) -> Tensor:
    """(K, 2) long: spans (start, end) of the given lengths, by length, then start; those that fit."""
    fitting = [length for length in lengths if length <= num_words]
    spans = [torch.arange(num_words - length + 1, device=device)[:, None] for length in fitting]
    pairs = [torch.cat([starts, starts + length], dim=1) for starts, length in zip(spans, fitting, strict=True)]
    return torch.cat(pairs) if pairs else torch.zeros(0, 2, dtype=torch.long, device=device)


def pooled_seeds(maxima: Tensor, lengths: Sequence[int]) -> Tensor:
    """Maxima over the spans of `seed_spans`, by two slices of the table for each length.

    Args:
        maxima: (J, B, N, D) of `range_maxima`.
        lengths: Lengths in words.

    Returns:
        (B, K, D).
    """
    num_words = maxima.shape[2]
    pooled = [maxima[0, :, :0]]
    for length in lengths:
        if length > num_words:
            continue
        level = length.bit_length() - 1
        shift = length - (1 << level)
        count = num_words - length + 1
        table = maxima[level]
        pooled.append(torch.maximum(table[:, :count], table[:, shift : shift + count]))
    return torch.cat(pooled, dim=1)


def pooled_spans(maxima: Tensor, sentence: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
    """Maxima over any spans, by two reads of the table for each.

    Args:
        maxima: (J, B, N, D) of `range_maxima`.
        sentence: (P,) long, the sentence of each span.
        starts: (P,) long, in [0, N - 1].
        ends: (P,) long, half-open, in [starts + 1, N].

    Returns:
        (P, D).
    """
    _, batch_size, num_words, size = maxima.shape
    powers = 2 ** torch.arange(1, len(maxima), device=maxima.device)  # (J - 1,)
    level = torch.bucketize(ends - starts, powers, right=True)  # (P,), floor(log2(length))
    table = maxima.view(-1, size)
    first = (level * batch_size + sentence) * num_words + starts  # (P,)
    second = first + (ends - starts) - 2**level
    return torch.maximum(table.index_select(0, first), table.index_select(0, second))
