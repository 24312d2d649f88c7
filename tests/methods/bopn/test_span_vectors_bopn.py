"""Span vectors against Eq. 1 with one loop for each pair, by hand, and in blocks."""

from typing import Any

import pytest
import torch
from torch import Tensor

from hf_spanner.methods.bopn import BOPNConfig
from hf_spanner.methods.bopn.span_vectors_bopn import SpanVectors, distance_buckets, pair_dropout

WIDTH = 6


def span_vectors(**fields: Any) -> SpanVectors:
    """A module in eval mode with random weights of size 1."""
    config = BOPNConfig(biaffine_size=5, **{"region_embedding_size": 3, **fields})
    module = SpanVectors(config, WIDTH).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter)
    return module


def all_pairs(module: SpanVectors, words: Tensor, num_rows: int | None = None) -> Tensor:
    """Vectors (B, N, N, d_b), computed in blocks of `num_rows` first words."""
    normed, gamma, shift = module.parts(words)
    blocks = normed.split(num_rows or words.shape[1], dim=1)
    starts = [sum(block.shape[1] for block in blocks[:place]) for place in range(len(blocks))]
    return torch.cat([module(block, gamma, shift, -start) for block, start in zip(blocks, starts, strict=True)], dim=1)


def literal_vectors(module: SpanVectors, words: Tensor) -> Tensor:
    """Each pair alone: the condition of the last word, the normalised first word, embeddings, one product, ReLU."""
    batch_size, num_words, _ = words.shape
    expected = torch.zeros(batch_size, num_words, num_words, len(module.layer.weight))
    for b in range(batch_size):
        for i in range(num_words):
            for j in range(num_words):
                h = words[b, i]
                normed = (h - h.mean()) / (h.var(unbiased=False) + 1e-6).sqrt()
                parts = [module.scale_layer(words[b, j]) * normed + module.shift_layer(words[b, j])]
                if module.regions is not None:
                    parts.append(module.regions.weight[0 if i <= j else 1])
                if module.distances is not None:
                    gap = j - i
                    size = 0 if gap == 0 else min(abs(gap).bit_length(), 9)
                    parts.append(module.distances.weight[9 + (size if gap > 0 else -size)])
                expected[b, i, j] = module.layer(torch.cat(parts)).relu()
    return expected


@pytest.mark.parametrize("fields", [{}, {"region_embedding_size": 0}, {"distance_embedding_size": 4}])
def test_vectors_equal_the_equation_pair_by_pair(fields: dict[str, Any]) -> None:
    torch.manual_seed(0)
    module = span_vectors(**fields)
    words = torch.randn(2, 7, WIDTH)
    expected = literal_vectors(module, words)
    for num_rows in (None, 1, 3):
        torch.testing.assert_close(all_pairs(module, words, num_rows), expected, atol=1e-4, rtol=1e-4)


def test_gradients_equal_those_of_the_equation() -> None:
    torch.manual_seed(0)
    module = span_vectors(distance_embedding_size=2)
    words, weights = torch.randn(1, 4, WIDTH, requires_grad=True), torch.randn(1, 4, 4, 5)
    inputs = [words, *module.parameters()]
    actual = torch.autograd.grad((all_pairs(module, words) * weights).sum(), inputs)
    expected = torch.autograd.grad((literal_vectors(module, words) * weights).sum(), inputs)
    for left, right in zip(actual, expected, strict=True):
        torch.testing.assert_close(left, right, atol=1e-3, rtol=1e-3)


def test_conditional_norm_of_one_pair_by_hand() -> None:
    """h_i = (1, 3): mean 2, deviation 1, Norm = (-1, 1). h_j = (1, 0): gamma (2, 1), lambda (0, 5), so v = (-2, 6).

    The layer is the identity and the region embedding (1, 1) has weights (10, 0) and (0, -4): ReLU(8, 2) = (8, 2).
    """
    config = BOPNConfig(biaffine_size=2, region_embedding_size=2)
    module = SpanVectors(config, 2).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        module.scale_layer.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
        module.scale_layer.bias.fill_(1.0)
        module.shift_layer.weight.copy_(torch.tensor([[0.0, 0.0], [5.0, 0.0]]))
        module.layer.weight.copy_(torch.tensor([[1.0, 0.0, 10.0, 0.0], [0.0, 1.0, 0.0, -4.0]]))
        module.regions.weight[0] = 1.0
        vectors = all_pairs(module, torch.tensor([[[1.0, 3.0], [1.0, 0.0]]]))
    assert vectors[0, 0, 1].tolist() == pytest.approx([8.0, 2.0], abs=1e-4)


def test_distances_fall_into_buckets_of_doubling_width() -> None:
    gaps = torch.tensor([-256, -255, -4, -3, -2, -1, 0, 1, 2, 3, 4, 7, 8, 255, 256, 100_000])
    assert distance_buckets(gaps).tolist() == [0, 1, 6, 7, 7, 8, 9, 10, 11, 11, 12, 12, 13, 17, 18, 18]


def test_a_word_of_zeros_is_finite_with_its_gradient() -> None:
    """It is a word without tokens, and its deviation is 0."""
    module = span_vectors()
    words = torch.zeros(1, 2, WIDTH, requires_grad=True)
    all_pairs(module, words).sum().backward()
    assert words.grad is not None
    assert words.grad.isfinite().all()


def test_dropout_acts_on_span_vectors_and_embeddings_in_training_only() -> None:
    torch.manual_seed(0)
    module = span_vectors(biaffine_dropout=0.5, distance_embedding_size=2)
    words = torch.randn(1, 4, WIDTH)
    assert torch.equal(all_pairs(module, words), all_pairs(module, words))
    module.train()
    assert not torch.equal(all_pairs(module, words), all_pairs(module, words))
    with torch.no_grad():
        module.scale_layer.weight.zero_()
        module.scale_layer.bias.zero_()
        module.shift_layer.weight.zero_()
        module.shift_layer.bias.zero_()
    assert not torch.equal(all_pairs(module, words), all_pairs(module, words))


def test_dropout_of_pairs_keeps_means_and_is_independent_pair_by_pair() -> None:
    """Each entry drops at the rate, two of one first or last word both at its square, and what stays is scaled up."""
    torch.manual_seed(0)
    dropped = pair_dropout(torch.ones(60, 5, 4, 50), 0.25)
    is_dropped = dropped == 0
    torch.testing.assert_close(dropped[~is_dropped].unique(), torch.tensor([4 / 3]))
    assert is_dropped.float().mean().item() == pytest.approx(0.25, abs=0.005)
    both_dropped = [
        is_dropped[:, 1:] & is_dropped[:, :-1],
        is_dropped[:, :, 1:] & is_dropped[:, :, :-1],
        is_dropped[:, 1:, 1:] & is_dropped[:, :-1, :-1],
        is_dropped[..., 1:] & is_dropped[..., :-1],
        is_dropped[1:] & is_dropped[:-1],
    ]
    assert [pair.float().mean().item() for pair in both_dropped] == pytest.approx([0.0625] * 5, abs=0.005)


def test_dropout_acts_in_training_alone() -> None:
    torch.manual_seed(0)
    module, words = span_vectors(biaffine_dropout=0.5), torch.randn(2, 6, WIDTH)
    assert torch.equal(all_pairs(module, words), all_pairs(module, words))
    module.train()
    assert not torch.equal(all_pairs(module, words), all_pairs(module, words))
