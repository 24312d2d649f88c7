"""Random numbers that belong to a text: the same in any batch, in any order and on any device.

A counter-based generator: each number is a mixed counter, so all numbers of a batch are computed at once, without a
generator object for each text. The mixer is splitmix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom
number generators").
"""

import torch
from torch import Tensor

STEP = 0x9E3779B97F4A7C15 - 2**64  # as signed 64-bit numbers, whose products wrap around
FIRST_FACTOR = 0xBF58476D1CE4E5B9 - 2**64
SECOND_FACTOR = 0x94D049BB133111EB - 2**64


def text_keys(seed: int, lengths: Tensor, contents: Tensor | None = None) -> Tensor:
    """(B,) long keys from which all numbers of a text are drawn.

    Args:
        seed: At least 0, below 2^63.
        lengths: (B,) long, words of each text; nothing else tells texts apart at inference.
        contents: (B,) long that tells apart texts of one length, or None.
    """
    keys = mixed(lengths + mixed_number(seed))
    return keys if contents is None else mixed(keys ^ contents)


def bag_keys(rows: Tensor, is_real: Tensor) -> Tensor:
    """(B,) long that depend on the real rows of each text, not on their order, from (B, G, F) long and (B, G) bool."""
    codes = torch.zeros_like(rows[..., 0])  # (B, G)
    for field in rows.unbind(dim=-1):
        codes = mixed(codes + field)
    return codes.masked_fill(~is_real, 0).sum(dim=1)


def branched(keys: Tensor, num_branches: int) -> Tensor:
    """(*keys, num_branches) long, keys of independent draws; the first ones are the same for any number of draws."""
    return mixed(keys[..., None] ^ mixed(torch.arange(num_branches, device=keys.device)))


def random_bits(keys: Tensor, stream: int, shape: tuple[int, ...]) -> Tensor:
    """(*keys, *shape) long; a longer first dimension of `shape` adds numbers but changes none of the others.

    Args:
        keys: Any shape, long.
        stream: What the numbers are for; streams of one key are independent.
        shape: Numbers of each key.
    """
    origins = mixed(keys ^ mixed_number(stream))
    counters = torch.arange(1, torch.Size(shape).numel() + 1, device=keys.device) * STEP
    return mixed(origins[..., None] + counters).view(*keys.shape, *shape)


def uniform_numbers(keys: Tensor, stream: int, shape: tuple[int, ...]) -> Tensor:
    """(*keys, *shape) float32, uniform in (0, 1), both ends excluded; see `random_bits`."""
    return (_shifted(random_bits(keys, stream, shape), 41).float() + 0.5) * 2**-23  # exact in float32


def normal_numbers(keys: Tensor, stream: int, shape: tuple[int, ...]) -> Tensor:
    """(*keys, *shape) float32, standard normal by the inverse of its distribution; see `random_bits`."""
    return torch.special.ndtri(uniform_numbers(keys, stream, shape))


def mixed(numbers: Tensor) -> Tensor:
    """Well mixed 64-bit numbers, one for each number: the finaliser of splitmix64."""
    numbers = (numbers ^ _shifted(numbers, 30)) * FIRST_FACTOR
    numbers = (numbers ^ _shifted(numbers, 27)) * SECOND_FACTOR
    return numbers ^ _shifted(numbers, 31)


def mixed_number(number: int) -> int:
    """`mixed` of one Python number, moved off 0, as a signed 64-bit number."""
    number = (number + STEP) % 2**64
    number = (number ^ number >> 30) * FIRST_FACTOR % 2**64
    number = (number ^ number >> 27) * SECOND_FACTOR % 2**64
    number ^= number >> 31
    return number - 2**64 if number >= 2**63 else number


def _shifted(numbers: Tensor, places: int) -> Tensor:
    """Unsigned shift to the right."""
    return (numbers >> places) & ((1 << (64 - places)) - 1)
