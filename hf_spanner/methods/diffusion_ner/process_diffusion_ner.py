"""The diffusion process on boundaries: schedules, noise, words and steps of DDIM (Shen et al. 2023, section 4.1)."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hf_spanner.methods.diffusion_ner.noise_diffusion_ner import normal_numbers, uniform_numbers

ORDER_STREAM, FILLER_STREAM, PLACE_STREAM = 1, 2, 3
LOWEST_WIDTH = 1e-4


@lru_cache(maxsize=16)
def noise_levels(schedule: str, num_timesteps: int) -> np.ndarray:
    """alpha_bar_t for t = 0..T-1: the share of the clean signal's variance that is left at time t.

    alpha_bar_t = prod_{s <= t} (1 - beta_s) (section 3). The paper names two schedules (section 6.3) and gives neither;
    as in the official code:

        linear:   beta evenly spaced from 1e-4 s to 2e-2 s, with s = 1000 / T
        cosine:   f(t) = cos((t / T + .008) / 1.008 * pi / 2)^2, beta_t = min(1 - f(t + 1) / f(t), .999)
        constant: beta = .01 s

    Args:
        schedule: `linear`, `cosine` or `constant`.
        num_timesteps: T. Below 20, a linear beta would exceed 1 and is cut at .999.

    Returns:
        (T,) float64, falling, in (0, 1); not to be written to.
    """
    scale = 1000 / num_timesteps
    if schedule == "linear":
        betas = np.linspace(1e-4 * scale, 2e-2 * scale, num_timesteps)
    elif schedule == "cosine":
        times = np.arange(num_timesteps + 1) / num_timesteps
        signal = np.cos((times + 0.008) / 1.008 * np.pi / 2) ** 2
        betas = 1 - signal[1:] / signal[:-1]
    else:
        betas = np.full(num_timesteps, 1e-2 * scale)
    return np.cumprod(1 - np.minimum(betas, 0.999))


def step_times(num_timesteps: int, num_steps: int) -> list[int]:
    """Times of sampling: gamma + 1 points evenly from T - 1 to -1, cut to integers (Algorithm 2; zero-based).

    Raises:
        ValueError: If there are more steps than times.

    Example:
        >>> step_times(1000, 5)
        [999, 799, 599, 399, 199, -1]
    """
    if num_steps > num_timesteps:
        raise ValueError(f"num_steps must be at most num_timesteps = {num_timesteps}, got {num_steps}")
    return [num_timesteps - 1 + -step * num_timesteps // num_steps for step in range(num_steps)] + [-1]


def clean_boundaries(spans: Tensor, lengths: Tensor, *, form: str, scale: float) -> Tensor:
    """Boundaries divided by the number of words and moved into [-lambda, lambda] (section 4.1).

    Args:
        spans: (B, K, 2) long, first and last word.
        lengths: (B,) long, M of each sentence.
        form: `lr` keeps (left, right), `lw` takes (left, right - left), at least 0.
        scale: lambda.

    Returns:
        (B, K, 2) float32.
    """
    left, right = spans.unbind(dim=-1)
    second = right if form == "lr" else (right - left).clamp(min=0)
    return (2 * torch.stack([left, second], dim=-1) / lengths[:, None, None] - 1) * scale


def discrete_spans(boundaries: Tensor, lengths: Tensor, *, form: str, scale: float) -> Tensor:
    """Words nearest to boundaries: index = clip(round(u M), 0, M - 1) with u = (x / lambda + 1) / 2.

    Undoes `clean_boundaries` exactly. The official code divides by M and multiplies by M - 1, which moves spans.

    Args:
        boundaries: (B, K, 2) float, clamped here to [-lambda, lambda].
        lengths: (B,) long, M of each sentence.
        form: `lr` orders the pair, `lw` adds the width to the left boundary.
        scale: lambda.

    Returns:
        (B, K, 2) long, first and last word, 0 <= first <= last < M.
    """
    unit = (boundaries.clamp(-scale, scale) / scale + 1) / 2
    last_word = (lengths - 1)[:, None]
    places = (unit * lengths[:, None, None]).round().long()  # (B, K, 2)
    left, second = torch.minimum(places, last_word[..., None]).unbind(dim=-1)
    if form == "lr":
        return torch.stack([torch.minimum(left, second), torch.maximum(left, second)], dim=-1)
    return torch.stack([left, torch.minimum(left + second, last_word)], dim=-1)


def expanded_boundaries(
    gold: Tensor, lengths: Tensor, keys: Tensor, num_spans: int, *, expansion: str, form: str, scale: float
) -> Tensor:
    """x_0: K rows of clean boundaries from the N gold spans of each sentence (section 4.1).

    `repetition` gives floor(K / N) copies of each gold span, the remainder spread at random. `random` gives each gold
    span once and fills up with draws of mean 1/2 and deviation 1/6 in the unit interval (official code). If there are
    more than K gold spans, a random part is taken. A sentence without gold has one row, the whole sentence (official
    code). The rows stand in random order, so that the place of a row tells nothing.

    Args:
        gold: (B, G, 3) long (start, end, label), half-open, padding -100 after them, G at least 1.
        lengths: (B,) long, M.
        keys: (B,) long, of which random numbers are drawn.
        num_spans: K.
        expansion: `repetition` or `random`.
        form: `lr` or `lw`.
        scale: lambda.

    Returns:
        (B, K, 2) float32.
    """
    counts = (gold[..., 0] >= 0).sum(dim=1)  # (B,)
    whole = torch.stack([torch.zeros_like(lengths), lengths], dim=-1)[:, None]  # (B, 1, 2)
    spans = torch.where((counts == 0)[:, None, None], whole, gold[..., :2])  # (B, G, 2)
    counts = counts.clamp(min=1)[:, None]  # (B, 1)
    disorder = uniform_numbers(keys, ORDER_STREAM, (spans.shape[1],))  # (B, G)
    is_padding = torch.arange(spans.shape[1], device=gold.device) >= counts
    order = disorder.masked_fill(is_padding, 2.0).argsort(dim=1)  # (B, G)
    slots = torch.arange(num_spans, device=gold.device).expand(len(gold), -1)  # (B, K)
    chosen = order.gather(1, slots % counts)[..., None].expand(-1, -1, 2)  # (B, K, 2)
    rows = spans.gather(1, chosen) - torch.tensor([0, 1], device=gold.device)
    clean = clean_boundaries(rows, lengths, form=form, scale=scale)
    if expansion == "random":
        unit = 0.5 + normal_numbers(keys, FILLER_STREAM, (num_spans, 2)) / 6  # (B, K, 2)
        if form == "lw":
            unit = torch.stack([unit[..., 0], unit[..., 1].clamp(min=LOWEST_WIDTH)], dim=-1)
        clean = torch.where((slots < counts)[..., None], clean, (2 * unit - 1) * scale)
    places = uniform_numbers(keys, PLACE_STREAM, (num_spans,)).argsort(dim=1)[..., None]  # (B, K, 1)
    return clean.gather(1, places.expand_as(clean))


def noisy_boundaries(clean: Tensor, noise: Tensor, level: Tensor, *, scale: float) -> Tensor:
    """x_t = sqrt(alpha_bar_t) x_0 + sqrt(1 - alpha_bar_t) epsilon (Eq. 4), clamped to [-lambda, lambda].

    Args:
        clean: (B, K, 2), x_0.
        noise: (B, K, 2), epsilon.
        level: (B, 1, 1), alpha_bar_t of each sentence.
        scale: lambda.

    Returns:
        (B, K, 2).
    """
    return (level.sqrt() * clean + (1 - level).sqrt() * noise).clamp(-scale, scale)


def ddim_step(
    noisy: Tensor, predicted: Tensor, level: float, next_level: float, *, eta: float = 0.0, noise: Tensor | None = None
) -> Tensor:
    """Boundaries at an earlier time, from those at a later one and the prediction of the clean ones.

    Args:
        noisy: (B, K, 2), at the later time, not clamped.
        predicted: (B, K, 2), of the denoiser.
        level: alpha_bar at the later time.
        next_level: alpha_bar at the earlier time.
        eta: 0 is deterministic (the paper), 1 is the official code's.
        noise: (B, K, 2) fresh noise, needed for an eta above 0.

    Returns:
        (B, K, 2).
    """
    # ours            paper
    # noisy           x_tau(i)
    # predicted       x_0 (hat)
    # level           alpha_bar at tau(i), next_level at tau(i - 1)
    # 1. the noise that explains the difference (Eq. 6)
    epsilon = (noisy - level**0.5 * predicted) / (1 - level) ** 0.5
    # 2. the share of fresh noise (Song et al. 2021, Eq. 16; 0 in the paper)
    sigma = eta * ((1 - level / next_level) * (1 - next_level) / (1 - level)) ** 0.5
    # 3. the step to the earlier time (Eq. 7)
    earlier = next_level**0.5 * predicted + (1 - next_level - sigma**2) ** 0.5 * epsilon
    return earlier if noise is None else earlier + sigma * noise


def wanted_spans(lengths: Tensor, num_words: int, decoding: Mapping[str, Any]) -> tuple[int, Tensor | None]:
    """K of a batch of (B,) lengths, padded to `num_words`, and the (B, K) mask of spans that exist, None for all.

    With `spans_per_word` a text has that many for each of its words, rounded up, and at most `num_spans`.
    """
    num_spans, rate = decoding["num_spans"], decoding["spans_per_word"]
    if rate == 0:
        return num_spans, None
    # by number of words; in float64, which not every device has: rounding must not depend on the batch
    wanted = (torch.arange(num_words + 1, dtype=torch.float64) * rate).ceil().clamp(1, num_spans).long()  # (N + 1,)
    num_spans = int(wanted[-1])
    return num_spans, torch.arange(num_spans, device=lengths.device) < wanted.to(lengths.device)[lengths, None]


def distinct_spans(spans: Tensor, span_mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The noisy spans of each draw, equal ones taken once.

    Equal spans of a draw get equal vectors, so each is computed once; in self-attention it counts as often as it
    occurs. This changes no score and saves most of the work where steps have drawn the spans together.

    Args:
        spans: (B, R, K, 2) long, first and last word.
        span_mask: (B, K) bool, spans that exist; None: all.

    Returns:
        (B, R, U, 2) long, U the largest number of different spans in a draw; (B, R, U), how often each occurs, 0 for
        padding; and (B, R K) long, the row of each span in R U.
    """
    codes = (spans[..., 0] << 32) | spans[..., 1]  # (B, R, K)
    ones = torch.ones_like(codes)
    if span_mask is not None:
        codes = codes.masked_fill(~span_mask[:, None], -1)
        ones = ones * span_mask[:, None]
    ordered, order = codes.sort(dim=-1)
    is_new = ordered[..., 1:] != ordered[..., :-1]
    ranks = torch.nn.functional.pad(is_new.cumsum(dim=-1), (1, 0))  # (B, R, K)
    num_rows = int(ranks[..., -1].max()) + 1
    places = torch.zeros_like(ranks).scatter(-1, order, ranks)  # (B, R, K)
    shape = (*spans.shape[:2], num_rows)
    counts = ones.new_zeros(shape).scatter_add(-1, places, ones)
    rows = spans.new_zeros(*shape, 2).scatter(2, places[..., None].expand_as(spans), spans)
    offsets = torch.arange(shape[1], device=spans.device)[:, None] * num_rows  # (R, 1)
    return rows, counts, (places + offsets).flatten(1)
