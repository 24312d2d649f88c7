"""Pointers against their equation, chunks of the fusion; relative positions and pointed words by hand and by loops."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from hf_spanner import SpanNERModel
from hf_spanner.methods.diffusion_ner import pointers_diffusion_ner as pointers
from hf_spanner.methods.diffusion_ner.pointers_diffusion_ner import (
    FusionScores,
    RelativePositions,
    WordPointer,
    chunks,
)

SIZE = 16
LOWEST = torch.finfo(torch.float32).min
NO_SPANS = torch.zeros(2, 5, 2, dtype=torch.long)


def test_pointer_equals_its_equation() -> None:
    """It is v . ReLU(W_S H_S[m] + W_X H[k]) + c for each span and word."""
    torch.manual_seed(0)
    pointer = WordPointer(SIZE, 0)
    words, spans = torch.randn(2, 7, SIZE), torch.randn(2, 5, SIZE)
    fused = pointer.words(words)[:, None] + pointer.spans(spans)[:, :, None]
    expected = torch.nn.functional.linear(fused.relu(), pointer.output.weight, pointer.output.bias)[..., 0]
    torch.testing.assert_close(pointer(pointer.words(words), spans, NO_SPANS), expected)


@pytest.mark.parametrize("chunk", [1, 100, 250, 600, 10**6], ids="chunk of {}".format)
def test_fusion_in_chunks_equals_the_whole(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores and all three gradients are equal, whether a chunk holds part of a sentence or several."""
    monkeypatch.setattr(pointers, "CPU_CHUNK", chunk)
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, 4, 8), (3, 5, 8), (8,)]
    tensors = [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes]
    plain = [value.detach().clone().requires_grad_() for value in tensors]
    scores = FusionScores.apply(*tensors)
    expected = (plain[0][:, None] + plain[1][:, :, None]).relu() @ plain[2]
    torch.testing.assert_close(scores, expected)
    outer = torch.randn(scores.shape, generator=generator)
    (scores * outer).sum().backward()
    (expected * outer).sum().backward()
    for value, wanted in zip(tensors, plain, strict=True):
        torch.testing.assert_close(value.grad, wanted.grad)


@pytest.mark.parametrize("chunk", [1, 7, 60, 150, 1000])
def test_chunks_cover_everything_once_and_stay_small(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointers, "CPU_CHUNK", chunk)
    words = torch.zeros(3, 2, 3)
    seen = torch.zeros(3, 10)
    for rows, columns in chunks(10, words):
        part = seen[rows, columns]
        part += 1
        assert part.numel() * 6 <= max(chunk, 6)
    assert (seen == 1).all()


def test_no_tensor_holds_more_than_a_chunk_of_the_fusion(monkeypatch: pytest.MonkeyPatch, largest_tensor: Any) -> None:
    """For K 20, N 30, h 16 and B 2, forward and backward hold 2,000 numbers at a time.

    They never hold 2 * 20 * 30 * 16 = 19,200.
    """
    monkeypatch.setattr(pointers, "CPU_CHUNK", 2_000)
    pointer = WordPointer(SIZE, 0)
    words, spans = torch.randn(2, 30, SIZE), torch.randn(2, 20, SIZE)
    with largest_tensor as largest:
        pointer(pointer.words(words), spans, NO_SPANS).sum().backward()
    assert largest.num_elements <= 2_000


def random_positions(reach: int) -> RelativePositions:
    positions = RelativePositions(SIZE, reach)
    for parameter in positions.parameters():
        nn.init.normal_(parameter, std=0.3)
    return positions


def test_relative_positions_by_hand() -> None:
    """R = 2 and the table of the span is b = (1, 2, 3, 4, 5) for distances -2 to 2, as its vector is zero.

    Of six words, counted from word 3, words 0 and 1 lie 3 and 2 before it and share the score of -2, word 5 lies 2
    after it. Counted from word 0, words 2 to 5 share the score of 2.
    """
    positions = RelativePositions(SIZE, 2)
    positions.expand.bias.data = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    scores = positions(torch.zeros(1, 2, SIZE), torch.tensor([[3, 0]]), num_words=6)
    assert scores.tolist() == [[[1, 1, 2, 3, 4, 5], [3, 4, 5, 5, 5, 5]]]


@given(st.integers(1, 5), st.integers(1, 9), st.data())
def test_relative_positions_equal_a_loop(reach: int, num_words: int, data: st.DataObject) -> None:
    """The loop takes b + W_2 W_1 h of each span and reads it word by word."""
    positions = random_positions(reach)
    vectors = torch.randn(2, 3, SIZE)
    places = torch.tensor(
        data.draw(st.lists(st.integers(0, num_words - 1), min_size=6, max_size=6)), dtype=torch.long
    ).view(2, 3)
    scores = positions(vectors, places, num_words)
    for row in range(2):
        for span in range(3):
            table = positions.expand.bias + positions.expand.weight @ (positions.reduce.weight @ vectors[row, span])
            for word in range(num_words):
                distance = max(-reach, min(reach, word - places[row, span].item()))
                torch.testing.assert_close(scores[row, span, word], table[distance + reach], atol=1e-5, rtol=1e-5)


def test_a_pointer_adds_the_scores_from_both_ends_of_the_span() -> None:
    torch.manual_seed(0)
    pointer = WordPointer(SIZE, 3)
    for parameter in pointer.parameters():
        nn.init.normal_(parameter, std=0.3)
    words, vectors, spans = torch.randn(2, 7, SIZE), torch.randn(2, 5, SIZE), torch.randint(0, 7, (2, 5, 2))
    fused = pointer.output(words, pointer.spans(vectors))
    from_first = pointer.from_first(vectors, spans[..., 0], 7)
    from_last = pointer.from_last(vectors, spans[..., 1], 7)
    torch.testing.assert_close(pointer(words, vectors, spans), fused + from_first + from_last)


def test_a_word_more_changes_no_score_of_the_others() -> None:
    """Distances are counted from the span alone, so padding at the end plays no part."""
    positions, vectors, places = random_positions(2), torch.randn(1, 3, SIZE), torch.tensor([[0, 2, 4]])
    assert torch.equal(positions(vectors, places, 9)[..., :5], positions(vectors, places, 5))


def test_no_tensor_of_positions_is_as_wide_as_the_vectors(largest_tensor: Any) -> None:
    """With K 20, N 30 and R 4 the largest are the (B, K, N) scores of 1,200 numbers; (K, N, h) would be 19,200."""
    positions, vectors = random_positions(4), torch.randn(2, 20, SIZE)
    with largest_tensor as largest:
        positions(vectors, torch.randint(0, 30, (2, 20)), 30).sum().backward()
    assert largest.num_elements <= 2 * 20 * 30


def test_new_positions_change_nothing_and_can_learn(tiny_model: Callable[..., SpanNERModel]) -> None:
    """Tables start at 0 behind inputs of about their size, so scores are those without them and gradients are not 0."""
    model = tiny_model("diffusion_ner", position_range=4, encoder_dropout=0.0)
    for pointer in (model.denoiser.left, model.denoiser.right):
        for positions in (pointer.from_first, pointer.from_last):
            assert not positions.expand.weight.any()
            assert not positions.expand.bias.any()
            size = positions.reduce.in_features
            assert positions.reduce.weight.std().item() == pytest.approx(size**-0.5, rel=0.15)
            scores = positions(torch.randn(1, 3, size), torch.tensor([[0, 1, 2]]), 5)
            assert not scores.any()
            (scores * torch.randn_like(scores)).sum().backward()
            assert positions.expand.weight.grad.any()
            assert positions.expand.bias.grad.any()


def test_without_a_range_there_are_no_positions(tiny_model: Callable[..., SpanNERModel]) -> None:
    names = dict(tiny_model("diffusion_ner").named_parameters())
    assert not any("from_first" in name or "from_last" in name for name in names)
