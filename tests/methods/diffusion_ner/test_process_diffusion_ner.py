"""Schedules, noising, expansion and sampling steps: worked numbers of the equations, and twins by brute force."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.methods.diffusion_ner.noise_diffusion_ner import text_keys
from hf_spanner.methods.diffusion_ner.process_diffusion_ner import (
    clean_boundaries,
    ddim_step,
    discrete_spans,
    distinct_spans,
    expanded_boundaries,
    noise_levels,
    noisy_boundaries,
    step_times,
    wanted_spans,
)

LR = {"form": "lr", "scale": 1.0}
LW = {"form": "lw", "scale": 1.0}


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("cosine", [0.999959, 0.898706, 0.647478, 0.340810, 0.094046, 2.4e-9]),
        ("linear", [0.999900, 0.659039, 0.195146, 0.025879, 0.001532, 4.0e-5]),
    ],
)
def test_signal_shares_at_six_times(schedule: str, expected: list[float]) -> None:
    """T = 1000, t = 0, 199, 399, 599, 799, 999.

    Cosine by hand: without the cap, the product telescopes to f(t + 1) / f(0); f(200) = cos((.2 + .008) / 1.008
    * pi / 2)^2 = cos(.324132)^2 = .898566, f(0) = cos(.012467)^2 = .999845, ratio .898706. Linear: prod (1 - beta),
    and at t = 0 1 - 1e-4.
    """
    levels = noise_levels(schedule, 1000)
    assert levels.dtype == np.float64
    assert levels[[0, 199, 399, 599, 799, 999]] == pytest.approx(expected, abs=5e-7, rel=0.02)
    assert levels[[199, 399, 599]] == pytest.approx(expected[1:4], abs=5e-7)


@pytest.mark.parametrize(
    ("schedule", "num_timesteps", "first", "last"),
    [
        ("cosine", 1000, 4.128e-5, 0.999),  # 1 - f(1) / f(0); f(1000) = 0, so the last one is cut
        ("linear", 1000, 1e-4, 0.02),
        ("linear", 500, 2e-4, 0.04),  # s = 2
        ("constant", 1000, 0.01, 0.01),
        ("constant", 2000, 0.005, 0.005),  # s = 1 / 2
    ],
)
def test_betas_begin_and_end_as_defined(schedule: str, num_timesteps: int, first: float, last: float) -> None:
    levels = noise_levels(schedule, num_timesteps)
    betas = 1 - levels / np.concatenate([[1.0], levels[:-1]])
    assert betas[0] == pytest.approx(first, rel=1e-3)
    assert betas[-1] == pytest.approx(last, rel=1e-9)


def test_shares_fall_within_zero_and_one_for_any_number_of_times() -> None:
    for schedule in ("linear", "cosine", "constant"):
        for num_timesteps in (2, 10, 50, 1500):
            levels = noise_levels(schedule, num_timesteps)
            assert levels.shape == (num_timesteps,)
            assert (np.diff(levels) < 0).all()
            assert levels[-1] > 0
            assert levels[0] < 1


@pytest.mark.parametrize(
    ("num_steps", "expected"),
    [
        (1, [999, -1]),
        (5, [999, 799, 599, 399, 199, -1]),
        (10, [999, 899, 799, 699, 599, 499, 399, 299, 199, 99, -1]),
        (3, [999, 665, 332, -1]),  # 999 - 333.3 = 665.7 and 332.3, cut
    ],
)
def test_times_of_sampling(num_steps: int, expected: list[int]) -> None:
    assert step_times(1000, num_steps) == expected


def test_times_equal_evenly_spaced_points_cut_to_integers() -> None:
    for num_timesteps in (2, 7, 1000):
        for num_steps in range(1, num_timesteps + 1, max(1, num_timesteps // 40)):
            points = [num_timesteps - 1 - step * num_timesteps / num_steps for step in range(num_steps)]
            assert step_times(num_timesteps, num_steps) == [math.floor(point + 1e-9) for point in points] + [-1]


def test_more_steps_than_times_are_refused() -> None:
    with pytest.raises(ValueError, match="num_steps must be at most num_timesteps = 10, got 11"):
        step_times(10, 11)


EPSILON = torch.tensor([[[0.5, -1.0]]])
LEVEL = torch.full((1, 1, 1), 0.64)
TEN = torch.tensor([10])
GOLD = torch.tensor([[[2, 4]]])


def test_noising_by_hand_with_left_and_right() -> None:
    """For M 10 and the entity (2, 4), x_0 = (-.6, -.2) and x_t = .8 x_0 + .6 (.5, -1) = (-.18, -.76).

    u M = (4.1, 1.2), so the words are (1, 4).
    """
    clean = clean_boundaries(GOLD, TEN, **LR)
    assert clean.flatten().tolist() == pytest.approx([-0.6, -0.2])
    noisy = noisy_boundaries(clean, EPSILON, LEVEL, scale=1.0)
    assert noisy.flatten().tolist() == pytest.approx([-0.18, -0.76])
    assert discrete_spans(noisy, TEN, **LR).flatten().tolist() == [1, 4]


def test_noising_by_hand_with_left_and_width() -> None:
    """The width is 4 - 2, so x_0 = (-.6, -.6); x_t = (-.18, -1.08) is clamped to -1: u = (.41, 0), words (4, 4).

    The official code multiplies by M - 1 and comes to the same words: .41 * 9 = 3.69.
    """
    clean = clean_boundaries(GOLD, TEN, **LW)
    assert clean.flatten().tolist() == pytest.approx([-0.6, -0.6])
    noisy = noisy_boundaries(clean, EPSILON, LEVEL, scale=1.0)
    assert noisy.flatten().tolist() == pytest.approx([-0.18, -1.0])
    assert discrete_spans(noisy, TEN, **LW).flatten().tolist() == [4, 4]


def test_scale_stretches_boundaries_and_limits() -> None:
    """With lambda 2, x_0 = (-1.2, -.4) and x_t = (-.66, -.92), within [-2, 2]."""
    clean = clean_boundaries(GOLD, TEN, form="lr", scale=2.0)
    assert clean.flatten().tolist() == pytest.approx([-1.2, -0.4])
    noisy = noisy_boundaries(clean, EPSILON, LEVEL, scale=2.0)
    assert noisy.flatten().tolist() == pytest.approx([-0.66, -0.92])
    assert noisy_boundaries(clean, 9 * EPSILON, LEVEL, scale=2.0).flatten().tolist() == pytest.approx([1.74, -2.0])


@pytest.mark.parametrize("form", ["lr", "lw"])
@pytest.mark.parametrize("scale", [1.0, 2.0])
@pytest.mark.parametrize("num_words", [1, 2, 3, 10, 77, 511])
def test_every_span_comes_back_from_its_boundaries(form: str, scale: float, num_words: int) -> None:
    """So do noise-free (8, 9) and (5, 5) of 10 words, which the official M and M - 1 move to (7, 8) and (4, 4)."""
    first, last = torch.triu_indices(num_words, num_words)
    spans = torch.stack([first, last], dim=-1)[None]
    lengths = torch.tensor([num_words])
    clean = clean_boundaries(spans, lengths, form=form, scale=scale)
    assert clean.abs().max() <= scale
    assert torch.equal(discrete_spans(clean, lengths, form=form, scale=scale), spans)


@given(
    form=st.sampled_from(["lr", "lw"]),
    values=st.lists(st.tuples(st.floats(-4, 4), st.floats(-4, 4)), min_size=1, max_size=5),
    num_words=st.integers(1, 30),
)
def test_any_boundaries_give_words_of_the_sentence(form: str, values: list, num_words: int) -> None:
    spans = discrete_spans(torch.tensor([values]), torch.tensor([num_words]), form=form, scale=1.0)[0]
    for (first, last), value in zip(spans.tolist(), values, strict=True):
        units = [(min(1.0, max(-1.0, number)) + 1) / 2 * num_words for number in value]
        places = [min(num_words - 1, round(float(np.float32(unit)))) for unit in units]
        wanted = sorted(places) if form == "lr" else [places[0], min(num_words - 1, sum(places))]
        assert 0 <= first <= last < num_words
        assert abs(first - wanted[0]) + abs(last - wanted[1]) == 0 or any(abs(u % 1 - 0.5) < 1e-5 for u in units)


PADDING = [-100, -100, -100]
THREE = [[0, 1, 0], [2, 4, 1], [4, 8, 2]]  # words (0, 0), (2, 3), (4, 7)


def expanded(gold: list, num_words: int, num_spans: int, seed: int = 0, form: dict = LR, **settings: str) -> list:
    """The words of each row after expansion."""
    lengths = torch.tensor([num_words])
    keys = text_keys(seed, lengths)
    rows = expanded_boundaries(torch.tensor([[*gold, PADDING]]), lengths, keys, num_spans, **settings, **form)
    assert rows.shape == (1, num_spans, 2)
    return [tuple(row) for row in discrete_spans(rows, lengths, **form)[0].tolist()]


@pytest.mark.parametrize("form", [LR, LW], ids=["lr", "lw"])
def test_repetition_gives_each_gold_span_its_share(form: dict) -> None:
    """K 11 and N 3 give three copies each, and chance picks two different gold spans for the remaining two."""
    seen = set()
    for seed in range(20):
        counts = Counter(expanded(THREE, 10, 11, seed, form, expansion="repetition"))
        assert set(counts) == {(0, 0), (2, 3), (4, 7)}
        assert sorted(counts.values()) == [3, 4, 4]
        seen.add(min(counts, key=lambda span: counts[span]))
    assert seen == {(0, 0), (2, 3), (4, 7)}


def test_random_fills_up_with_draws_around_the_middle() -> None:
    """Gold stands once each.

    Of 997 fillers with mean 1/2 and deviation 1/6 about 68.3 % of ends lie in the middle third.
    """
    lengths = torch.tensor([300])
    rows = expanded_boundaries(
        torch.tensor([[*THREE, PADDING]]), lengths, text_keys(0, lengths), 1000, expansion="random", **LR
    )
    units = (rows[0] + 1) / 2
    spans = Counter(tuple(row) for row in discrete_spans(rows, lengths, **LR)[0].tolist())
    assert all(spans[span] == 1 for span in [(0, 0), (2, 3), (4, 7)])
    assert units.mean().item() == pytest.approx(0.5, abs=0.03)
    assert units.std().item() == pytest.approx(1 / 6, abs=0.02)
    assert (units - 0.5).abs().lt(1 / 6).float().mean().item() == pytest.approx(0.683, abs=0.04)


def test_random_widths_are_never_below_their_floor() -> None:
    lengths = torch.tensor([300])
    rows = expanded_boundaries(
        torch.tensor([[PADDING]]), lengths, text_keys(0, lengths), 2000, expansion="random", **LW
    )
    widths = (rows[0, :, 1] + 1) / 2
    assert widths.min().item() == pytest.approx(1e-4, rel=1e-2)


@pytest.mark.parametrize("expansion", ["repetition", "random"])
def test_of_too_many_gold_spans_a_random_part_is_taken(expansion: str) -> None:
    drawn = [frozenset(expanded(THREE, 10, 2, seed, expansion=expansion)) for seed in range(30)]
    assert all(len(pair) == 2 for pair in drawn)
    assert set().union(*drawn) == {(0, 0), (2, 3), (4, 7)}
    assert len(set(drawn)) == 3


def test_without_gold_there_is_one_row_of_the_whole_sentence() -> None:
    assert set(expanded([], 10, 5, expansion="repetition")) == {(0, 9)}
    assert expanded([], 10, 5, expansion="random").count((0, 9)) == 1


def test_rows_stand_in_random_order() -> None:
    """The number of a row must not tell whether it is gold."""
    places = {expanded([THREE[2]], 200, 6, seed, expansion="random").index((4, 7)) for seed in range(60)}
    assert places == set(range(6))


def test_expansion_of_a_sentence_depends_neither_on_its_neighbours_nor_on_padding() -> None:
    lengths = torch.tensor([10, 4])
    gold = torch.tensor([[*THREE, PADDING], [[1, 2, 0], PADDING, PADDING, PADDING]])
    keys = text_keys(3, lengths)
    together = expanded_boundaries(gold, lengths, keys, 7, expansion="random", **LR)
    for row, width in ((0, 3), (1, 1)):
        alone = expanded_boundaries(
            gold[row : row + 1, :width], lengths[row : row + 1], keys[row : row + 1], 7, expansion="random", **LR
        )
        assert torch.equal(alone[0], together[row])


def test_step_by_hand_without_fresh_noise() -> None:
    """alpha_bar goes from .36 to .64, x is .5, x_0 -.5: epsilon (.5 + .3) / .8 = 1; x = .8 * -.5 + .6 * 1 = .2."""
    x, predicted = torch.full((1, 1, 2), 0.5), torch.full((1, 1, 2), -0.5)
    assert ddim_step(x, predicted, 0.36, 0.64).flatten().tolist() == pytest.approx([0.2, 0.2])


def test_step_by_hand_with_fresh_noise() -> None:
    """eta 1, z .5: sigma = sqrt((1 - .36 / .64) * .36 / .64) = sqrt(.4375 * .5625) = .496078;
    sqrt(.36 - .246094) = .3375; x = -.4 + .3375 + .248039 = .185539.
    """
    x, predicted = torch.full((1, 1, 2), 0.5), torch.full((1, 1, 2), -0.5)
    stepped = ddim_step(x, predicted, 0.36, 0.64, eta=1.0, noise=torch.full((1, 1, 2), 0.5))
    assert stepped.flatten().tolist() == pytest.approx([0.185539, 0.185539], abs=1e-6)


@given(
    x=st.floats(-2, 2),
    predicted=st.floats(-1, 1),
    place=st.integers(1, 999),
    share=st.floats(0, 0.99),
    eta=st.floats(0, 1),
)
def test_a_step_keeps_the_right_prediction_on_its_path(
    x: float, predicted: float, place: int, share: float, eta: float
) -> None:
    """Its variance of noise is 1 - alpha_bar whatever eta is.

    The squared coefficient of epsilon and sigma squared add up to it.
    """
    levels = noise_levels("cosine", 1000)
    level, later = levels[place], levels[int(place * share)]
    still = ddim_step(torch.tensor([x]), torch.tensor([predicted]), level, later, eta=eta).item()
    sigma = ddim_step(torch.tensor([x]), torch.tensor([predicted]), level, later, eta=eta, noise=torch.ones(1)).item()
    sigma -= still
    epsilon = (x - level**0.5 * predicted) / (1 - level) ** 0.5
    if abs(epsilon) > 0.1:
        coefficient = (still - later**0.5 * predicted) / epsilon
        assert coefficient**2 + sigma**2 == pytest.approx(1 - later, abs=1e-3)


def test_distinct_spans_by_hand() -> None:
    """(1, 2), (0, 3), (1, 2) and a span that does not exist give two rows, of one and two; none for the last."""
    spans = torch.tensor([[[[1, 2], [0, 3], [1, 2], [4, 4]]]])
    rows, counts, places = distinct_spans(spans, torch.tensor([[True, True, True, False]]))
    assert rows.tolist() == [[[[4, 4], [0, 3], [1, 2]]]]
    assert counts.tolist() == [[[0, 1, 2]]]
    assert places.tolist() == [[2, 1, 2, 0]]


@given(data=st.data())
def test_distinct_spans_put_back_are_the_spans(data: st.DataObject) -> None:
    shape = [data.draw(st.integers(1, 3)) for _ in range(2)] + [data.draw(st.integers(1, 6)), 2]
    spans = torch.tensor(data.draw(st.lists(st.integers(0, 2), min_size=36 * 3, max_size=36 * 3)))
    spans = spans[: torch.Size(shape).numel()].view(shape)
    rows, counts, places = distinct_spans(spans, None)
    flat = rows.flatten(1, 2)
    assert torch.equal(flat.gather(1, places[..., None].expand(-1, -1, 2)), spans.flatten(1, 2))
    assert (counts.sum(dim=-1) == shape[2]).all()
    wanted = [len({tuple(span) for span in draw}) for sentence in spans.tolist() for draw in sentence]
    assert (counts > 0).sum(dim=-1).flatten().tolist() == wanted
    assert rows.shape[2] == max(wanted)


def test_spans_in_proportion_to_the_words() -> None:
    """With 1.5 spans a word and at most 20, 1, 4 and 30 words have 2, 6 and 20."""
    decoding = {"num_spans": 20, "spans_per_word": 1.5}
    num_spans, mask = wanted_spans(torch.tensor([1, 4, 30]), 30, decoding)
    assert num_spans == 20
    assert mask is not None
    assert mask.sum(dim=1).tolist() == [2, 6, 20]
    assert wanted_spans(torch.tensor([1, 4]), 4, decoding)[0] == 6
    assert wanted_spans(torch.tensor([1, 4]), 4, {"num_spans": 20, "spans_per_word": 0.0}) == (20, None)


@given(num_words=st.integers(1, 200), longest=st.integers(200, 300), tenths=st.integers(1, 50))
def test_a_text_has_as_many_spans_alone_as_beside_a_longer_one(num_words: int, longest: int, tenths: int) -> None:
    """In float32 25 x 2.4 would be rounded up to 61."""
    decoding = {"num_spans": 2_000, "spans_per_word": tenths / 10}
    alone, _ = wanted_spans(torch.tensor([num_words]), num_words, decoding)
    _, mask = wanted_spans(torch.tensor([num_words, longest]), longest, decoding)
    assert mask is not None
    assert alone == mask[0].sum() == math.ceil(num_words * tenths / 10)
