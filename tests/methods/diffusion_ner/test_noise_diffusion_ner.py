"""The random numbers of a text: by hand, independent of the batch, and random enough."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.methods.diffusion_ner.noise_diffusion_ner import (
    bag_keys,
    branched,
    mixed,
    mixed_number,
    normal_numbers,
    random_bits,
    text_keys,
    uniform_numbers,
)


def signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def literal_splitmix(state: int) -> int:
    """One number of splitmix64 from its state, computed with plain integers."""
    z = (state + 0x9E3779B97F4A7C15) % 2**64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    return z ^ (z >> 31)


def test_mixing_is_that_of_splitmix64() -> None:
    """The first number for state 0 is published with the generator: e220a8397b1dcdaf in hexadecimal."""
    assert literal_splitmix(0) == 0xE220A8397B1DCDAF
    assert mixed_number(0) == signed(0xE220A8397B1DCDAF)


@given(number=st.integers(0, 2**63 - 1))
def test_numbers_equal_a_twin_in_plain_integers(number: int) -> None:
    assert mixed_number(number) == signed(literal_splitmix(number))
    moved = torch.tensor([signed((number + 0x9E3779B97F4A7C15) % 2**64)])
    assert mixed(moved).item() == signed(literal_splitmix(number))


def test_uniform_numbers_never_reach_the_ends() -> None:
    """23 bits b give (b + 1/2) / 2^23, exact in float32: between 2^-24 and 1 - 2^-24, where the normal is finite."""
    keys = torch.arange(200)
    numbers = uniform_numbers(keys, 0, (500,))
    assert numbers.shape == (200, 500)
    assert numbers.min() >= 2**-24
    assert numbers.max() <= 1 - 2**-24
    assert torch.equal(numbers * 2**23 % 1, torch.full_like(numbers, 0.5))
    ends = torch.special.ndtri(torch.tensor([2**-24, 1 - 2**-24]))
    assert ends.isfinite().all()


def test_numbers_look_uniform_and_normal() -> None:
    """Of 100,000 numbers mean and variance lie within 5 standard errors; neighbours and streams are uncorrelated."""
    keys = text_keys(1, torch.arange(1, 1001))
    uniform, normal = uniform_numbers(keys, 0, (100,)), normal_numbers(keys, 1, (100,))
    error = 5 / math.sqrt(100_000)
    assert uniform.mean().item() == pytest.approx(0.5, abs=error * math.sqrt(1 / 12))
    assert uniform.var().item() == pytest.approx(1 / 12, abs=error * math.sqrt(1 / 180))
    assert normal.mean().item() == pytest.approx(0.0, abs=error)
    assert normal.var().item() == pytest.approx(1.0, abs=error * math.sqrt(2))
    assert (normal[:, 1:] * normal[:, :-1]).mean().item() == pytest.approx(0.0, abs=error)
    assert (normal[1:] * normal[:-1]).mean().item() == pytest.approx(0.0, abs=error)
    assert (normal * normal_numbers(keys, 2, (100,))).mean().item() == pytest.approx(0.0, abs=error)
    assert (normal.abs() < 1.0).float().mean().item() == pytest.approx(0.682689, abs=error)


@given(lengths=st.lists(st.integers(1, 500), min_size=1, max_size=6), seed=st.integers(0, 2**31 - 1))
def test_a_text_has_its_numbers_alone_and_in_any_batch(lengths: list[int], seed: int) -> None:
    together = normal_numbers(text_keys(seed, torch.tensor(lengths)), 3, (7, 2))
    for row, length in enumerate(lengths):
        alone = normal_numbers(text_keys(seed, torch.tensor([length])), 3, (7, 2))
        assert torch.equal(together[row], alone[0])


def test_more_spans_and_more_draws_keep_the_first_ones() -> None:
    keys = text_keys(5, torch.tensor([4, 9]))
    assert torch.equal(normal_numbers(keys, 0, (60, 2))[:, :10], normal_numbers(keys, 0, (10, 2)))
    assert torch.equal(branched(keys, 5)[:, :2], branched(keys, 2))
    draws = normal_numbers(branched(keys, 3), 0, (60, 2))
    assert draws.shape == (2, 3, 60, 2)
    assert not torch.equal(draws[:, 0], draws[:, 1])


def test_seed_length_stream_and_contents_each_change_the_numbers() -> None:
    keys = text_keys(5, torch.tensor([4]))
    others = [
        text_keys(6, torch.tensor([4])),
        text_keys(5, torch.tensor([5])),
        text_keys(5, torch.tensor([4]), torch.tensor([1])),
    ]
    numbers = {random_bits(key, 0, (1,)).item() for key in [keys, *others]}
    numbers.add(random_bits(keys, 1, (1,)).item())
    assert len(numbers) == 5


def test_keys_of_a_bag_depend_on_its_rows_only() -> None:
    """They depend neither on the order of the rows nor on padding, but on which number stands in which place."""
    rows = torch.tensor([[[0, 1, 2], [3, 5, 0], [-100, -100, -100]]])
    is_real = rows[..., 0] >= 0
    expected = bag_keys(rows, is_real)
    assert torch.equal(bag_keys(rows[:, [1, 2, 0]], is_real[:, [1, 2, 0]]), expected)
    assert torch.equal(bag_keys(rows[:, :2], is_real[:, :2]), expected)
    assert not torch.equal(bag_keys(rows.flip(-1).clamp(min=0), is_real), expected)
    assert bag_keys(rows[:, 2:], is_real[:, 2:]).tolist() == [0]
