"""Maxima over spans from the table, against a loop over words."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.methods.locate_and_label.span_pooling_locate_and_label import (
    pooled_seeds,
    pooled_spans,
    range_maxima,
    seed_spans,
)

CPU = torch.device("cpu")


def test_seeds_are_all_spans_of_the_lengths_that_fit() -> None:
    assert seed_spans(3, [1, 2, 5], CPU).tolist() == [[0, 1], [1, 2], [2, 3], [0, 2], [1, 3]]
    assert seed_spans(1, [2, 3], CPU).shape == (0, 2)


LENGTHS = st.lists(st.integers(1, 20), min_size=1, max_size=5, unique=True).map(sorted)


@given(st.integers(1, 20), LENGTHS, st.integers(0, 9))
def test_maxima_of_seeds_and_of_any_spans_equal_a_loop(num_words: int, lengths: list[int], seed: int) -> None:
    words = torch.randn(2, num_words, 3, generator=torch.Generator().manual_seed(seed))
    maxima = range_maxima(words)
    seeds = seed_spans(num_words, lengths, CPU)
    expected = [[words[row, start:end].amax(dim=0) for start, end in seeds.tolist()] for row in (0, 1)]
    pooled = pooled_seeds(maxima, lengths)
    assert pooled.shape == (2, len(seeds), 3)
    for row in (0, 1):
        for place, vector in enumerate(expected[row]):
            assert torch.equal(pooled[row, place], vector)
    all_spans = seed_spans(num_words, range(1, num_words + 1), CPU)
    sentence = torch.arange(2).repeat_interleave(len(all_spans))
    starts, ends = all_spans.repeat(2, 1).unbind(dim=1)
    pooled = pooled_spans(maxima, sentence, starts, ends)
    for place in range(len(sentence)):
        assert torch.equal(pooled[place], words[sentence[place], starts[place] : ends[place]].amax(dim=0))


def test_gradient_goes_to_the_largest_word() -> None:
    words = torch.tensor([[[1.0], [5.0], [3.0], [2.0]]], requires_grad=True)
    maxima = range_maxima(words)
    pooled_spans(maxima, torch.tensor([0]), torch.tensor([1]), torch.tensor([4])).sum().backward()
    assert words.grad is not None
    assert words.grad.flatten().tolist() == [0.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("num_words", [1, 2, 3, 4, 7, 8, 9])
def test_table_has_one_row_for_each_power_of_two(num_words: int) -> None:
    assert range_maxima(torch.zeros(1, num_words, 2)).shape == (num_words.bit_length(), 1, num_words, 2)
