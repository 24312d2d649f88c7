"""Matching and losses: worked numbers, twins by brute force, and gradients."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hf_spanner.methods.diffusion_ner.loss_diffusion_ner import (
    boundary_losses,
    denoising_parts,
    matched_boundary_losses,
    matched_gold,
    matched_type_losses,
    matching_costs,
    span_type_losses,
    type_losses,
)

PADDING = [-100, -100, -100]
# Three noisy spans, four words, two types and none; gold (1, 2, type 0) and (2, 3, type 1) in words, none last here.
LEFT = torch.tensor([[[0.1, 0.7, 0.1, 0.1], [0.6, 0.2, 0.1, 0.1], [0.05, 0.1, 0.8, 0.05]]])
RIGHT = torch.tensor([[[0.05, 0.15, 0.7, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.1, 0.2, 0.6]]])
TYPES = torch.tensor([[[0.7, 0.1, 0.2], [0.1, 0.6, 0.3], [0.3, 0.2, 0.5]]])
GOLD = torch.tensor([[[1, 3, 0], [2, 4, 1], PADDING]])
FOUR_WORDS = torch.ones(1, 4, dtype=torch.bool)
ALL_SPANS = torch.ones(1, 3, dtype=torch.bool)
MATCHED = torch.tensor([[0, -1, 1]])


def test_costs_and_matching_by_hand() -> None:
    """cost(0, g0) = -(.7 + .7 + .7) = -2.1 and cost(2, g1) = -(.8 + .6 + .2) = -1.6.

    Span 1 stays empty, and the total is -3.7.
    """
    costs = matching_costs(LEFT, RIGHT, TYPES, GOLD)
    expected = torch.tensor([[-2.1, -0.3], [-0.5, -0.8], [-0.6, -1.6]])
    torch.testing.assert_close(costs[0, :, :2], expected)
    assert costs[..., 2].isinf().all()
    matched = matched_gold(costs, None, repeat_targets=False)
    assert torch.equal(matched, MATCHED)
    assert sum(costs[0, span, gold].item() for span, gold in ((0, 0), (2, 1))) == pytest.approx(-3.7)


def test_repeated_targets_leave_no_span_without() -> None:
    """Of three spans, with gold g0 twice and g1 once, span 2 takes g1 (-1.6) and spans 0 and 1 take g0 (-2.6).

    The total is -4.2. The other choices of the span for g1 cost -.3 - .5 - .6 = -1.4 and -.8 - 2.1 - .6 = -3.5.
    """
    costs = matching_costs(LEFT, RIGHT, TYPES, GOLD)
    assert matched_gold(costs, None, repeat_targets=True).tolist() == [[0, 0, 1]]


def test_without_gold_and_with_too_much_of_it() -> None:
    """Without gold none is matched, repeated or not; with more gold than spans each span has one of its own."""
    none = matching_costs(LEFT, RIGHT, TYPES, torch.tensor([[PADDING]]))
    assert matched_gold(none, None, repeat_targets=True).tolist() == [[-1, -1, -1]]
    assert matched_gold(none, None, repeat_targets=False).tolist() == [[-1, -1, -1]]
    many = torch.tensor([[[0, 1, 0], [1, 2, 0], [1, 3, 0], [2, 4, 1]]])
    costs = matching_costs(LEFT, RIGHT, TYPES, many)
    for repeats in (False, True):
        matched = matched_gold(costs, None, repeat_targets=repeats)[0].tolist()
        assert len(set(matched)) == 3
        assert min(matched) >= 0


def test_spans_that_do_not_exist_are_matched_with_none() -> None:
    costs = matching_costs(LEFT, RIGHT, TYPES, GOLD)
    mask = torch.tensor([[True, True, False]])
    assert matched_gold(costs, mask, repeat_targets=False).tolist() == [[0, 1, -1]]
    assert matched_gold(costs, mask, repeat_targets=True).tolist() == [[0, 1, -1]]
    assert matched_gold(costs, ~ALL_SPANS, repeat_targets=True).tolist() == [[-1, -1, -1]]


@given(data=st.data())
def test_matching_is_the_cheapest_of_all(data: st.DataObject) -> None:
    """All ways are tried.

    A batch has sentences of unlike numbers of gold, and none of them sees another.
    """
    num_spans, counts = data.draw(st.integers(1, 4)), data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    repeats = data.draw(st.booleans())
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    costs = torch.full((len(counts), num_spans, 4), torch.inf)
    for row, count in enumerate(counts):
        costs[row, :, :count] = torch.from_numpy(-random.random((num_spans, count)))
    matched = matched_gold(costs, None, repeat_targets=repeats)
    for row, count in enumerate(counts):
        targets = list(range(count))
        if repeats and count:
            targets = [place % count for place in range(max(count, num_spans))]
        padded = [*targets, *[-1] * max(0, num_spans - len(targets))]
        price = {
            way: sum(costs[row, span, gold].item() for span, gold in enumerate(way) if gold >= 0)
            for way in set(itertools.permutations(padded, num_spans))
        }
        assert price[tuple(matched[row].tolist())] == pytest.approx(min(price.values()))


def logits(probabilities: Tensor) -> Tensor:
    return probabilities.log() - (1 - probabilities).log()


def test_boundary_losses_by_hand_with_binary_cross_entropy() -> None:
    """Span 0, left: -ln .7 - 3 ln .9 = .672756; right: -ln .7 - ln .95 - ln .85 - ln .9 = .675848.

    Span 2, left: -ln .8 - 2 ln .95 - ln .9 = .431091; right: -ln .6 - 2 ln .9 - ln .8 = .944690.
    """
    left = boundary_losses(logits(LEFT), torch.tensor([[1, 0, 2]]), FOUR_WORDS, kind="bce")[0]
    right = boundary_losses(logits(RIGHT), torch.tensor([[2, 0, 3]]), FOUR_WORDS, kind="bce")[0]
    assert left[[0, 2]].tolist() == pytest.approx([0.672756, 0.431091], abs=2e-6)
    assert right[[0, 2]].tolist() == pytest.approx([0.675848, 0.944690], abs=2e-6)


def test_loss_of_the_paper_by_hand() -> None:
    """-ln P of the gold words and type: span 0 3 * -ln .7 = 1.070025, span 2 -ln .8 - ln .6 - ln .2 = 2.343407, and for
    span 1 -ln .3 of none = 1.203973; total 4.617405. Our reductions: boundaries over the 2 matched spans, types over 3.
    """
    left, right = LEFT.log(), RIGHT.log()  # a softmax over words gives the probabilities back
    boundary = matched_boundary_losses(left, right, MATCHED, GOLD, word_mask=FOUR_WORDS, kind="nll")
    types = matched_type_losses(TYPES.log(), MATCHED, GOLD, None, 1.0)
    boundary_terms = [2 * -math.log(0.7), -math.log(0.8) - math.log(0.6)]
    type_terms = [-math.log(0.7), -math.log(0.3), -math.log(0.2)]
    assert sum(boundary_terms) + sum(type_terms) == pytest.approx(4.617405, abs=1e-6)
    assert boundary.item() == pytest.approx(sum(boundary_terms) / 2, abs=1e-6)
    assert types.item() == pytest.approx(sum(type_terms) / 3, abs=1e-6)


def test_the_literal_boundary_term_would_reward_all_words_alike() -> None:
    """With every probability near 1 the paper's -log P goes to 0 under a sigmoid, but binary cross entropy does not."""
    sure = torch.full((1, 1, 4), 9.0)
    place = torch.tensor([[2]])
    assert -torch.log(sure.sigmoid()[0, 0, 2]).item() < 1e-3
    assert boundary_losses(sure, place, FOUR_WORDS, kind="bce").item() > 26
    assert boundary_losses(sure, place, FOUR_WORDS, kind="nll").item() == pytest.approx(math.log(4))


@pytest.mark.parametrize(
    ("none_weight", "expected"),
    [
        (1.0, -math.log(0.7) - math.log(0.2) - math.log(0.3)),
        (0.1, -math.log(0.7) - math.log(0.2) - 0.1 * math.log(0.3)),
        (0.0, -math.log(0.7) - math.log(0.2)),
        (None, -math.log(0.7) - math.log(0.2) - 2 * math.log(0.3)),  # 2 matched over 1 unmatched
    ],
)
def test_type_loss_by_hand_with_weights_of_none(none_weight: float | None, expected: float) -> None:
    loss = matched_type_losses(TYPES.log(), MATCHED, GOLD, None, none_weight)
    assert loss.item() == pytest.approx(expected / 3, abs=1e-6)


def test_a_span_has_the_type_of_the_gold_span_where_it_lies() -> None:
    """Words 1 to 2 are of type 0, the first of two, 1 to 1 are nothing, 2 to 3 of type 1: .7, .3 (half of it) and .5.

    Where the gold spans are asked themselves, padding has no part: types 0, 1 and 1 of the rows, .7, .6 and .5, but the
    third lies where the first does, whose type 0 counts: .2.
    """
    gold = torch.tensor([[[1, 3, 0], [2, 4, 1], [1, 3, 1], PADDING]])
    spans = torch.tensor([[[1, 2], [1, 1], [2, 3]]])
    terms = [-math.log(0.7), -0.5 * math.log(0.3), -math.log(0.5)]
    types = TYPES.clone()
    types[0, 2] = torch.tensor([0.2, 0.5, 0.3])
    loss = span_type_losses(types.log(), spans, gold, None, 0.5)
    assert loss.item() == pytest.approx(sum(terms) / 3, abs=1e-6)
    mask = torch.tensor([[True, True, False]])
    assert span_type_losses(types.log(), spans, gold, mask, 0.5).item() == pytest.approx(sum(terms[:2]) / 2, abs=1e-6)
    at_gold = torch.cat([types, types[:, :1]], dim=1)
    ends = torch.stack([gold[..., 0], gold[..., 1] - 1], dim=-1).clamp(min=0)
    loss = span_type_losses(at_gold.log(), ends, gold, gold[..., 0] >= 0, 1.0)
    assert loss.item() == pytest.approx(-(math.log(0.7) + math.log(0.6) + math.log(0.2)) / 3, abs=1e-6)


def test_a_sentence_without_gold_teaches_none_wherever_a_span_lies() -> None:
    """Also a span of the first word, where padding would lie if it were a place: rows .2, .3 and .5 of none."""
    spans = torch.tensor([[[0, 0], [1, 1], [2, 3]]])
    loss = span_type_losses(TYPES.log(), spans, torch.tensor([[PADDING]]), None, 1.0)
    assert loss.item() == pytest.approx(-(math.log(0.2) + math.log(0.3) + math.log(0.5)) / 3, abs=1e-6)


def test_balance_of_none_is_guarded_at_both_ends() -> None:
    """If none is matched, each of three weighs 1 / 3; if all are matched, the weight of none has nothing to weigh."""
    matched = torch.zeros(1, 3, dtype=torch.bool)
    none = torch.full((1, 3), 2)
    loss = type_losses(TYPES.log(), matched, none, ALL_SPANS, None).item()
    assert loss == pytest.approx(-(math.log(0.2) + math.log(0.3) + math.log(0.5)) / 9, abs=1e-6)
    all_matched = type_losses(TYPES.log(), ~matched, torch.zeros(1, 3, dtype=torch.long), ALL_SPANS, None).item()
    assert all_matched == pytest.approx(-(math.log(0.7) + math.log(0.1) + math.log(0.3)) / 3, abs=1e-6)


def test_spans_that_do_not_exist_weigh_nothing() -> None:
    """It is as if span 1 were not there: the mean is over two, and the balance is 2 / 1."""
    mask = torch.tensor([[True, False, True]])
    types = matched_type_losses(TYPES.log(), MATCHED, GOLD, mask, None)
    assert types.item() == pytest.approx((-math.log(0.7) - math.log(0.2)) / 2, abs=1e-6)
    assert matched_type_losses(TYPES.log(), MATCHED, GOLD, ~ALL_SPANS, 1.0).item() == 0.0


@pytest.mark.parametrize("kind", ["bce", "nll"])
def test_padding_words_add_no_loss_and_take_no_gradient(kind: str) -> None:
    lowest = torch.finfo(torch.float32).min
    scores = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    padded = torch.nn.functional.pad(scores, (0, 2), value=lowest).requires_grad_()
    places = torch.tensor([[0, 1, 3], [2, 2, 0]])
    plain = boundary_losses(scores, places, FOUR_WORDS.expand(2, -1), kind=kind)
    mask = torch.tensor([[True] * 4 + [False] * 2] * 2)
    losses = boundary_losses(padded, places, mask, kind=kind)
    torch.testing.assert_close(losses, plain)
    losses.sum().backward()
    assert padded.grad is not None
    assert padded.grad.isfinite().all()
    assert not padded.grad[..., 4:].any()


def test_a_sentence_without_words_has_a_finite_loss_and_gradient() -> None:
    lowest = torch.finfo(torch.float32).min
    scores = torch.full((1, 3, 1), lowest, requires_grad=True)
    types = torch.zeros(1, 3, 3, requires_grad=True)
    unmatched, gold = torch.full((1, 3), -1), torch.tensor([[PADDING]])
    no_words = torch.zeros(1, 1, dtype=torch.bool)
    boundary = matched_boundary_losses(scores, scores, unmatched, gold, word_mask=no_words, kind="bce")
    type_loss = matched_type_losses(types, unmatched, gold, None, None)
    (boundary + type_loss).sum().backward()
    assert boundary.item() == 0.0
    assert type_loss.item() == pytest.approx(math.log(3) / 3)
    assert scores.grad is not None
    assert not scores.grad.any()
    assert types.grad is not None
    assert types.grad.isfinite().all()


@pytest.mark.parametrize("kind", ["bce", "nll"])
def test_gradients_equal_finite_differences(kind: str) -> None:
    generator = torch.Generator().manual_seed(1)
    scores = [torch.randn(1, 3, size, generator=generator) for size in (4, 4, 3)]

    def total(left: Tensor, right: Tensor, types: Tensor) -> Tensor:
        boundary = matched_boundary_losses(left, right, MATCHED, GOLD, word_mask=FOUR_WORDS, kind=kind)
        return (boundary + matched_type_losses(types, MATCHED, GOLD, None, 0.3)).sum()

    inputs = [score.clone().requires_grad_() for score in scores]
    total(*inputs).backward()
    for place, score in enumerate(scores):
        for index in [(0, 0, 1), (0, 1, 2), (0, 2, 0)]:
            moved = []
            for step in (1e-2, -1e-2):
                changed = [value.clone() for value in scores]
                changed[place][index] += step
                moved.append(total(*changed).item())
            slope = (moved[0] - moved[1]) / 2e-2
            assert inputs[place].grad[index].item() == pytest.approx(slope, abs=2e-3), (place, index, score.shape)


def test_denoising_parts_by_hand() -> None:
    """Of two sentences of two spans, the first has both matched with words 0 to 3, and the second has no gold.

    Noise 0..1 has 2 of 4 words and 4..5 none, so the mean is 1/4; denoised 0..3 has all and 0..1 half, so it is 3/4.
    """
    path = torch.tensor([[[[0, 1], [4, 5]], [[0, 3], [0, 1]]], [[[0, 0], [1, 1]], [[0, 0], [1, 1]]]])
    gold = torch.tensor([[[0, 4, 1]], [[-100, -100, -100]]])
    parts = denoising_parts(path, torch.tensor([[0, 0], [-1, -1]]), gold)
    assert {name: value.tolist() for name, value in parts.items()} == {
        "matched_share": [1.0, 0.0],
        "iou_noisy": [0.25, 0.0],
        "total_iou_noisy": [1.0, 0.0],
        "iou_denoised": [0.75, 0.0],
        "total_iou_denoised": [1.0, 0.0],
    }
