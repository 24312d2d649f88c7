"""Assignment and losses of the paper's sections 2.2 to 2.5, with numbers worked by hand and a slow twin."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.methods.locate_and_label.loss_locate_and_label import (
    all_labels,
    assign_gold,
    classification_loss,
    filter_loss,
    fixed_keys,
    is_first_label,
    label_losses,
    moved_spans,
    overlap_loss,
    paired_iou,
    regression_loss,
    sampled_negatives,
    sentence_means,
    soft_weights,
)
from hf_spanner.methods.locate_and_label.span_pooling_locate_and_label import seed_spans

ORG, PER = 0, 1


def six_words(*gold: tuple[int, int, int]) -> tuple[list[tuple[int, int]], dict[tuple[int, int], tuple]]:
    """Seeds of lengths 1 to 5 in six words, and for the positive ones their IoU, label and offsets."""
    spans = seed_spans(6, range(1, 6), torch.device("cpu"))[None]
    pairs = assign_gold(spans, torch.tensor([sorted(gold)]))
    positives = {}
    for place, span in enumerate(spans[0].tolist()):
        if pairs.iou[0, place] > 0.7:
            offsets = (pairs.gold[0, place] - spans[0, place]).tolist()
            iou = round(pairs.iou[0, place].item(), 4)
            positives[tuple(span)] = (iou, pairs.label[0, place].item(), tuple(offsets))
    return [tuple(span) for span in spans[0].tolist()], positives


def test_positive_seeds_by_hand() -> None:
    """N = 6 and gold is ORG (1, 5): five of 20 seeds lie above .7; (0, 4) has 3/5 = .6 and stays negative."""
    seeds, positives = six_words((1, 5, ORG))
    assert len(seeds) == 20
    assert positives == {
        (1, 4): (0.75, ORG, (0, 1)),
        (2, 5): (0.75, ORG, (-1, 0)),
        (1, 5): (1.0, ORG, (0, 0)),
        (0, 5): (0.8, ORG, (1, 0)),
        (1, 6): (0.8, ORG, (0, -1)),
    }


def test_a_seed_goes_to_the_gold_it_overlaps_most_by_hand() -> None:
    """With PER (0, 5), (0, 4) is PER by 4/5, (1, 4) stays ORG by 3/4 against 3/5, and (0, 5) is PER exactly."""
    _, positives = six_words((1, 5, ORG), (0, 5, PER))
    assert positives[0, 4] == (0.8, PER, (0, 1))
    assert positives[1, 4] == (0.75, ORG, (0, 1))
    assert positives[0, 5] == (1.0, PER, (0, 0))


def test_threshold_is_strict() -> None:
    """The IoU of (0, 7) with gold (0, 10) is .7, which is not above .7; the weight is that of a positive, by >=."""
    iou = assign_gold(torch.tensor([[[0, 7]]]), torch.tensor([[[0, 10, ORG]]])).iou
    assert not (iou > torch.tensor(0.7)).any()
    assert soft_weights(iou, threshold=iou.item(), exponent=1.0).item() == pytest.approx(0.7)


def test_soft_weights_by_hand() -> None:
    """Stage 1 (.7): .75 -> .75, .6 -> .4, 0 -> 1, 1 -> 1. Stage 2 (1.0): .75 -> .25, 1 -> 1. eta 0: always 1."""
    iou = torch.tensor([0.75, 0.6, 0.0, 1.0])
    assert soft_weights(iou, threshold=0.7, exponent=1.0).tolist() == pytest.approx([0.75, 0.4, 1.0, 1.0])
    assert soft_weights(iou, threshold=1.0, exponent=1.0).tolist() == pytest.approx([0.25, 0.4, 1.0, 1.0])
    assert soft_weights(iou, threshold=0.7, exponent=0.0).tolist() == [1.0] * 4


def test_focal_filter_loss_by_hand() -> None:
    """-.75 x .3^2 x ln .7 = .0240756 for p = .7, positive; -.4 x .2^2 x ln .8 = .0035703 for p = .2, negative."""
    logits = torch.tensor([[0.7, 0.2]]).logit()
    losses = filter_loss(logits, torch.tensor([[True, False]]), torch.tensor([[0.75, 0.4]]), gamma=2.0)
    assert losses[0].tolist() == pytest.approx([0.0240756, 0.0035703], abs=1e-7)


def test_focal_exponent_below_one_has_finite_gradients() -> None:
    logits = torch.tensor([[120.0, -120.0]], requires_grad=True)
    filter_loss(logits, torch.tensor([[True, False]]), torch.ones(1, 2), gamma=0.5).sum().backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_weights_act_span_by_span() -> None:
    """The official code multiplies (n, 1) losses by (n,) weights; the sum is then that of all times the mean weight."""
    logits, weights = torch.zeros(1, 2), torch.tensor([[1.0, 0.0]])
    losses = filter_loss(logits, torch.tensor([[True, False]]), weights, gamma=2.0)
    assert losses.shape == (1, 2)
    assert losses[0, 1] == 0.0


def test_regression_loss_by_hand() -> None:
    """Seed (1, 4), gold (1, 5), t = (.2, .6): .2^2 / 2 + .4^2 / 2 = .02 + .08 = .10; beyond 1: |2| - .5 = 1.5."""
    assert regression_loss(torch.tensor([[[0.2, 0.6]]]), torch.tensor([[[0, 1]]])).item() == pytest.approx(0.10)
    assert regression_loss(torch.tensor([[[2.0, 0.0]]]), torch.tensor([[[0, 0]]])).item() == pytest.approx(1.5)


def test_overlap_loss_by_hand() -> None:
    """(1.2, 4.6) with (1, 5): 1 - 3.4 / 4 = .15; (0, 3) with (4, 6): 1 - (3 - 4) / 6 = 1.16667; one word hit: 0."""
    spans = torch.tensor([[[1.2, 4.6], [0.0, 3.0], [2.0, 3.0]]])
    gold = torch.tensor([[[1, 5], [4, 6], [2, 3]]])
    assert overlap_loss(spans, gold)[0].tolist() == pytest.approx([0.15, 1.1666667, 0.0])


def test_losses_of_boundaries_have_gradients_before_rounding() -> None:
    offsets = torch.tensor([[[0.2, 0.6]]], requires_grad=True)
    overlap_loss(torch.tensor([[[1, 4]]]) + offsets, torch.tensor([[[1, 5]]])).sum().backward()
    assert offsets.grad is not None
    assert offsets.grad.flatten().tolist() == pytest.approx([0.25, -0.25])


def test_boundaries_round_half_up_and_stay_inside() -> None:
    """.5 goes to 1, -.5 to 0 and 1.5 to 2 (half to even would give 0, 0, 2); then they are clamped to [0, N]."""
    spans = torch.tensor([[[2, 4], [2, 4], [0, 5], [2, 3]]])
    offsets = torch.tensor([[[0.5, -0.5], [1.5, 0.49], [-3.0, 9.0], [1e30, -1e30]]])
    moved = moved_spans(spans, offsets, torch.full((1, 4), 6))
    assert moved[0].tolist() == [[3, 4], [4, 4], [0, 6], [6, 0]]


def test_moved_span_is_labelled_by_a_hit_only() -> None:
    """(1, 4) with (1, 5) has IoU .75 < 1, so it is none with weight .25; (1, 5) has the type with weight 1."""
    iou = paired_iou(torch.tensor([[[1, 4], [1, 5]]]), torch.tensor([[[1, 5], [1, 5]]]))
    assert (iou >= 1).tolist() == [[False, True]]
    assert soft_weights(iou, threshold=1.0, exponent=1.0)[0].tolist() == pytest.approx([0.25, 1.0])


def test_classification_loss_is_weighted_by_hand() -> None:
    """Three equal logits give ln 3 each, and the weights are .25 and 1."""
    losses = classification_loss(torch.zeros(2, 3), torch.tensor([2, 0]), torch.tensor([0.25, 1.0]))
    assert losses.tolist() == pytest.approx([0.2746531, 1.0986123])


def test_all_labels_of_a_span_by_hand() -> None:
    """Gold (0, 2) is 0 and 2, (1, 2) is 1; padding and spans that are no gold give nothing."""
    gold = torch.tensor([[[0, 2, 0], [0, 2, 2], [1, 2, 1], [-100, -100, -100]]])
    spans = torch.tensor([[0, 2], [1, 2], [0, 1]])
    assert all_labels(spans, gold.expand(3, -1, -1), 3).tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 0]]


def test_losses_of_labels_are_weighted_sums_by_hand() -> None:
    """Log-odds 0 cost log 2 for each of two labels; log 3 for a right and a wrong label cost log(4 / 3) and log 4."""
    logits = torch.tensor([[0.0, 0.0], [math.log(3), math.log(3)]])
    losses = label_losses(logits, torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([1.0, 0.5]))
    assert losses.tolist() == pytest.approx([2 * math.log(2), (math.log(4 / 3) + math.log(4)) / 2])


def test_a_further_label_of_a_span_is_not_its_first() -> None:
    gold = torch.tensor([[[0, 2, 0], [0, 2, 1], [0, 3, 1], [4, 6, 1], [-100] * 3], [[0, 2, 1]] + [[-100] * 3] * 4])
    assert is_first_label(gold).tolist() == [[True, False, True, True, False], [True] + [False] * 4]


def test_negatives_are_sampled_up_to_their_number() -> None:
    is_negative = torch.tensor([[True] * 8 + [False] * 2, [False] * 9 + [True], [False] * 10])
    sampled = sampled_negatives(is_negative, torch.tensor([3, 5, 2]), torch.rand(3, 10))
    assert sampled.sum(dim=1).tolist() == [3, 1, 0]
    assert not (sampled & ~is_negative).any()


def test_negatives_are_sampled_uniformly() -> None:
    """Two of five are drawn 4,000 times, and each place comes near .4 (five standard errors are .039)."""
    generator = torch.Generator().manual_seed(0)
    is_negative = torch.ones(4000, 5, dtype=torch.bool)
    sampled = sampled_negatives(is_negative, torch.full((4000,), 2), torch.rand(4000, 5, generator=generator))
    assert sampled.float().mean(dim=0).tolist() == pytest.approx([0.4] * 5, abs=0.039)


def test_keys_outside_training_depend_on_the_span_alone() -> None:
    spans = seed_spans(30, range(1, 8), torch.device("cpu"))[None]
    keys = fixed_keys(spans)
    assert ((keys >= 0) & (keys <= 1)).all()
    assert torch.equal(fixed_keys(spans.flip(1)), keys.flip(1))
    assert keys.unique().numel() > 0.95 * keys.numel()


def test_means_by_sentence_by_hand() -> None:
    """The first sentence has 1 and 3, of which both count; the second 5, which does not; the third nothing."""
    values, sentence = torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 1])
    assert sentence_means(values, torch.tensor([True, True, False]), sentence, 3).tolist() == [2.0, 0.0, 0.0]


def literal_assignment(
    span: tuple[int, int], gold: list[tuple[int, int, int]]
) -> tuple[float, tuple[int, int, int] | None]:
    """The largest IoU of a span with the gold, as sets of words, and the first such gold on ties."""
    best, paired = 0.0, None
    for entity in sorted(set(gold)):
        words, others = set(range(*span)), set(range(entity[0], entity[1]))
        iou = len(words & others) / len(words | others)
        if iou > best + 1e-9:
            best, paired = iou, entity
    return best, paired


def gold_of(num_words: int) -> st.SearchStrategy[list[tuple[int, int, int]]]:
    ends = st.tuples(st.integers(0, num_words - 1), st.integers(1, num_words), st.integers(0, 2))
    return st.lists(ends.map(lambda g: (min(g[0], g[1] - 1), max(g[0] + 1, g[1]), g[2])), max_size=5)


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), gold_of(n))))
def test_assignment_equals_the_literal_one(case: tuple[int, list[tuple[int, int, int]]]) -> None:
    num_words, gold = case
    spans = seed_spans(num_words, range(1, 5), torch.device("cpu"))
    labels = torch.tensor([sorted(gold) + [(-100, -100, -100)]])
    pairs = assign_gold(spans[None], labels)
    for place, span in enumerate(spans.tolist()):
        iou, paired = literal_assignment(tuple(span), gold)
        assert pairs.iou[0, place].item() == pytest.approx(iou)
        assert pairs.gold[0, place].tolist() == (span if paired is None else list(paired[:2]))
        assert pairs.label[0, place].item() == (0 if paired is None else paired[2])
