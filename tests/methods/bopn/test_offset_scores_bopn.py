"""The biaffine against Eq. 3, the official code's extra term, and the convolutions against Eq. 4 and 5."""

from typing import Any

import pytest
import torch
from torch import Tensor

from hf_spanner.methods.bopn import BOPNConfig
from hf_spanner.methods.bopn.offset_scores_bopn import OffsetConvolutions, TypeMaps

WIDTH, SIZE, NUM_TYPES, NUM_WORDS = 4, 3, 3, 5


def randomised(module: torch.nn.Module) -> torch.nn.Module:
    """The module in eval mode with random weights of size 1."""
    with torch.no_grad():
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter)
    return module.eval()


def type_maps(**fields: Any) -> TypeMaps:
    return randomised(TypeMaps(BOPNConfig(biaffine_size=SIZE, max_offset=1, **fields), WIDTH))  # type: ignore[return-value]


def convolutions(**fields: Any) -> OffsetConvolutions:
    return randomised(OffsetConvolutions(BOPNConfig(max_offset=1, **fields)))  # type: ignore[return-value]


@pytest.mark.parametrize("has_term", [False, True])
def test_folded_maps_give_the_scores_of_the_equation(has_term: bool) -> None:
    """y_m U_q x + W_q [y_m ; x] + b_q, and with the extra term also P (gamma_x * Norm(h_m) + lambda_x)."""
    torch.manual_seed(0)
    module = type_maps(has_type_conditioned_term=has_term)
    types, spans = torch.randn(2, NUM_TYPES, WIDTH), torch.randn(2, 7, SIZE)
    maps, biases = module(types)
    assert maps.shape == (2, NUM_TYPES, 6, SIZE)
    scores = torch.einsum("bmqd,bcd->bcmq", maps, spans) + biases[:, None]
    vectors = module.type_layer(types).relu()
    expected = torch.einsum("bmd,qed,bce->bcmq", vectors, module.pair_weight, spans)
    concatenated = torch.cat(
        [vectors[:, None].expand(2, 7, -1, -1), spans[:, :, None].expand(-1, -1, NUM_TYPES, -1)], dim=-1
    )
    expected = expected + torch.einsum("bcmd,qd->bcmq", concatenated, module.linear_weight) + module.bias
    if module.term is not None:
        term = module.term
        gamma, shift = spans @ term.scale_weight.T + term.scale, spans @ term.shift_weight.T + term.shift  # (B, C, d)
        normed = (types - types.mean(-1, keepdim=True)) / (types.var(-1, unbiased=False, keepdim=True) + 1e-6).sqrt()
        conditioned = gamma[:, :, None] * normed[:, None] + shift[:, :, None]  # (B, C, M, d)
        expected = expected + conditioned @ term.output.weight.T
    torch.testing.assert_close(scores, expected, atol=1e-4, rtol=1e-4)


def test_score_of_one_span_by_hand() -> None:
    """d = d_b = 1, the type's vector is ReLU(2 x 3 - 1) = 5, and x = 2.

    For label 0, U = 1, W = (3, 4) and b = 0.5: 5 x 1 x 2 + 3 x 5 + 4 x 2 + 0.5 = 33.5.
    """
    module = TypeMaps(BOPNConfig(biaffine_size=1, max_offset=0), 1).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        module.type_layer.weight.fill_(2.0)
        module.type_layer.bias.fill_(-1.0)
        module.pair_weight[0] = 1.0
        module.linear_weight[0] = torch.tensor([3.0, 4.0])
        module.bias[0] = 0.5
        maps, biases = module(torch.tensor([[[3.0]]]))
    assert (maps[0, 0, 0] * 2.0 + biases[0, 0, 0]).item() == pytest.approx(33.5)
    assert (maps[0, 0, 1] * 2.0 + biases[0, 0, 1]).item() == 0.0


def literal_convolution(table: Tensor, weight: Tensor, bias: Tensor, dilation: int) -> Tensor:
    """One sentence (N, N, M, L): the sum over the 27 neighbours inside the table.

    The kernel is (label, labels read, 3, 3, 3).
    """
    num_words, _, num_types, num_labels = table.shape
    result = bias.expand_as(table).clone()
    for i in range(num_words):
        for j in range(num_words):
            for m in range(num_types):
                for a, b, c in torch.cartesian_prod(*[torch.arange(3)] * 3).tolist():
                    near = [place + (k - 1) * dilation for place, k in zip((i, j, m), (a, b, c), strict=True)]
                    sizes = (num_words, num_words, num_types)
                    if not all(0 <= place < size for place, size in zip(near, sizes, strict=True)):
                        continue
                    read = table[near[0], near[1], near[2]]  # (L,)
                    kernel = weight[:, :, a, b, c]
                    result[i, j, m] += kernel[:, 0] * read if weight.shape[1] == 1 else kernel @ read
    assert num_labels == len(bias)
    return result


@pytest.mark.parametrize(
    "fields",
    [
        {"num_convolutions": 1},
        {"num_convolutions": 3},
        {"conv_groups": 1},
        {"conv_style": "sequential_residual"},
    ],
)
def test_convolutions_equal_the_equations_cell_by_cell(fields: dict[str, Any]) -> None:
    """They follow Eq. 4 with dilations 1 .. l and Eq. 5, or the official code's chain and residual.

    Cells that do not count are read as 0.
    """
    torch.manual_seed(0)
    module = convolutions(**fields)
    scores = torch.randn(1, NUM_WORDS, NUM_WORDS, NUM_TYPES, 6)
    is_cell = torch.rand(1, NUM_WORDS, NUM_WORDS) < 0.8
    hidden = ~is_cell[0, ..., None, None]
    table = scores[0]
    if module.is_sequential:
        table = torch.nn.functional.gelu(table @ module.first.weight.flatten(1).T + module.first.bias)
    table = table.masked_fill(hidden, 0.0)
    outputs = []
    for place, convolution in enumerate(module.layers):
        made = literal_convolution(table, convolution.weight, convolution.bias, place + 1)
        outputs.append(torch.nn.functional.gelu(made))
        if module.is_sequential:
            table = outputs[-1].masked_fill(hidden, 0.0)
    expected = torch.cat(outputs, dim=-1) @ module.output.weight.T + module.output.bias
    expected = expected + scores[0] if module.is_sequential else expected
    torch.testing.assert_close(module(scores, is_cell)[0], expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("style", ["parallel", "sequential_residual"])
def test_padding_changes_no_cell(style: str) -> None:
    torch.manual_seed(0)
    module = convolutions(conv_style=style)
    scores = torch.randn(1, 4, 4, NUM_TYPES, 6)
    padded = torch.randn(1, 9, 9, NUM_TYPES, 6)
    padded[:, :4, :4] = scores
    alone = module(scores, torch.ones(1, 4, 4, dtype=torch.bool))
    is_cell = torch.zeros(1, 9, 9, dtype=torch.bool)
    is_cell[:, :4, :4] = True
    torch.testing.assert_close(module(padded, is_cell)[:, :4, :4], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("style", ["parallel", "sequential_residual"])
def test_kernels_run_over_types_first_with_labels_side_by_side(style: str) -> None:
    """Otherwise the library copies or takes a slow kernel, and convolutions cost two to three times as much."""
    module = convolutions(conv_style=style)
    seen = []
    for convolution in module.layers:
        convolution.register_forward_hook(lambda _, inputs, output: seen.append((inputs[0], output)))
    module(torch.randn(2, 4, 4, NUM_TYPES, 6, requires_grad=True), torch.ones(2, 4, 4, dtype=torch.bool))
    for tables in seen:
        for table in tables:
            assert table.shape == (2, 6, NUM_TYPES, 4, 4)
            assert table.permute(0, 2, 3, 4, 1).is_contiguous()
    assert len(seen) == len(module.layers)


def test_only_the_official_style_drops_labels_in_training() -> None:
    torch.manual_seed(0)
    scores, is_cell = torch.randn(1, 4, 4, NUM_TYPES, 6), torch.ones(1, 4, 4, dtype=torch.bool)
    module = convolutions(conv_style="sequential_residual", biaffine_dropout=0.5)
    assert torch.equal(module(scores, is_cell), module(scores, is_cell))
    module.train()
    assert not torch.equal(module(scores, is_cell), module(scores, is_cell))
    paper = convolutions(biaffine_dropout=0.5).train()
    assert torch.equal(paper(scores, is_cell), paper(scores, is_cell))
