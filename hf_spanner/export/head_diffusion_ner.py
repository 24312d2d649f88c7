"""The head of DiffusionNER, of operations that a graph can hold."""

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn

from hf_spanner.core.modeling_span_ner import SpanNERModel
from hf_spanner.core.word_encoder import word_lengths
from hf_spanner.methods.diffusion_ner.denoiser_diffusion_ner import Attention, gathered
from hf_spanner.methods.diffusion_ner.modeling_diffusion_ner import (
    FIRST_STEP_STREAM,
    NOISE_STREAM,
    DiffusionNERModel,
    DiffusionNEROutput,
    confidences,
    pointed,
)
from hf_spanner.methods.diffusion_ner.noise_diffusion_ner import branched, normal_numbers, text_keys
from hf_spanner.methods.diffusion_ner.pointers_diffusion_ner import PointerOutput
from hf_spanner.methods.diffusion_ner.process_diffusion_ner import (
    clean_boundaries,
    ddim_step,
    discrete_spans,
    noise_levels,
    step_times,
)

FUSED_CHANNELS = 64  # of the fusion of spans and words that exist at a time


class DiffusionNERHead(nn.Module):
    """Entities of words, after all steps from noise.

    The noise of a text follows from its number of words, so it is a table, and so are the different spans of the first
    step. A window with more words than it may have tokens takes those of the longest; most of its words have no token.
    The fusion of all different spans with all words is held for some channels at a time, so memory is O(K N) for a
    sentence, and O((K + N) h).

    Args:
        model: The model; its pointers are computed otherwise from here on.
        decoding: All settings but threshold and overlap act here.
    """

    fixed = ("num_steps", "num_spans", "spans_per_word", "num_draws", "seed", "eta", "phi", "confidence")
    runs_alone = True  # nothing but merging follows the graph

    def __init__(self, model: SpanNERModel, decoding: Mapping[str, Any]) -> None:
        super().__init__()
        self.model, self.settings = cast(DiffusionNERModel, model), dict(decoding)
        self.noise: Tensor = nn.Buffer(noise_tables(cast(int, model.config.window_size), decoding))
        self.first_spans, self.first_counts, self.first_places = (nn.Buffer(table) for table in self.first_tables())
        denoiser = self.model.denoiser
        for attention in [module for module in denoiser.modules() if isinstance(module, Attention)]:
            attention.forward = partial(attended, attention)  # type: ignore[method-assign]
        for pointer in (denoiser.left, denoiser.right):
            pointer.output.forward = partial(fusion_scores, pointer.output)  # type: ignore[method-assign]

    def forward(self, words: Tensor, word_mask: Tensor) -> tuple[Tensor, ...]:
        """Sentence, start, end, label and score of each entity, (P,) each."""
        model, settings = self.model, self.settings
        denoiser, config, form = model.denoiser, model.config, model.form
        sentence, lengths = denoiser.read(words, word_mask), word_lengths(word_mask)
        known = lengths.clamp(max=self.noise.shape[1] - 1)
        noise = self.noise[:, known]  # (1 or S, B, R K, 2)
        is_wanted = self.wanted(known)
        levels = noise_levels(config.schedule, config.num_timesteps)
        noisy = noise[0]
        rows, counts, places = self.first_rows(known)
        for step, (time, later) in enumerate(pairwise(step_times(config.num_timesteps, settings["num_steps"]))):
            if step > 0:
                spans = discrete_spans(noisy, lengths, **form)
                rows, counts, places = self.rows(spans.unflatten(1, (settings["num_draws"], -1)), is_wanted)
            vectors = denoiser(sentence, rows, torch.full((1,), time), counts)
            left, right = denoiser.boundaries(sentence, vectors, rows)
            if later >= 0:
                clean = clean_boundaries(gathered(pointed(left, right), places), lengths, **form)
                fresh = noise[step + 1] if settings["eta"] > 0 else None
                noisy = ddim_step(noisy, clean, levels[time], levels[later], eta=settings["eta"], noise=fresh)
        types = denoiser.type_logits(sentence, vectors, pointed(left, right))
        return self.entities(DiffusionNEROutput(logits=types, word_mask=word_mask, left=left, right=right), counts)

    def wanted(self, lengths: Tensor) -> Tensor:
        """(B, K) bool, noisy spans that exist in texts of (B,) lengths."""
        num_spans, rate = self.settings["num_spans"], self.settings["spans_per_word"]
        wanted = torch.full_like(lengths, num_spans)
        if rate > 0:
            wanted = (lengths.double() * rate).ceil().clamp(1, num_spans)
        return torch.arange(num_spans) < wanted[:, None]

    def first_tables(self) -> tuple[Tensor, Tensor, Tensor]:
        """What `rows` gives of the noise of texts of 0 to N words, padded: (N + 1, R, K, 2) and twice (N + 1, R, K)."""
        lengths = torch.arange(self.noise.shape[1])
        spans = discrete_spans(self.noise[0], lengths, **self.model.form)
        spans = spans.unflatten(1, (self.settings["num_draws"], -1))
        tables = torch.zeros(*spans.shape[:3], 4, dtype=torch.int32)
        for text, is_wanted in enumerate(self.wanted(lengths)):
            rows, counts, places = self.rows(spans[text : text + 1], is_wanted[None])
            tables[text, :, : rows.shape[2], :3] = torch.cat([rows, counts[..., None]], dim=-1)[0]
            tables[text, ..., 3] = places.view(spans.shape[1:3]) % rows.shape[2]
        return tables[..., :2], tables[..., 2], tables[..., 3]

    def first_rows(self, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What `rows` gives of the noise of texts of (B,) lengths."""
        counts, num_spans = self.first_counts[lengths], self.first_counts.shape[2]
        is_used = (counts > 0).flatten(0, 1).any(dim=0) | (torch.arange(num_spans) < 2)  # (K,)
        numbers = is_used.nonzero()[:, 0]  # (U,)
        if num_spans > 1:
            torch._check(numbers.shape[0] > 1)  # so that the graph needs no case for one row
        draws = torch.arange(counts.shape[1])[:, None] * numbers.shape[0]  # (R, 1)
        places = self.first_places[lengths].clamp(max=numbers.shape[0] - 1)  # spans that do not exist may lie beyond
        rows = self.first_spans[lengths].index_select(2, numbers).long()
        return rows, counts.index_select(2, numbers).long(), (places + draws).flatten(1).long()

    def rows(self, spans: Tensor, is_wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What `distinct_rows` gives; all spans where their numbers tell them apart."""
        if self.model.denoiser.slots is None:
            return distinct_rows(spans, is_wanted)
        places = torch.arange(spans.shape[1] * spans.shape[2]).expand(spans.shape[0], -1)
        return spans, is_wanted[:, None].expand(spans.shape[:3]), places

    def entities(self, output: DiffusionNEROutput, counts: Tensor) -> tuple[Tensor, ...]:
        """What `candidate_spans` of the model gives, by comparing all rows of a sentence with each other.

        Args:
            output: Of the last step, a row for each different span.
            counts: (B, R, U), how many noisy spans a row stands for, 0 for padding.
        """
        left, right, types = self.model._probabilities(output)
        (left, starts), (right, lasts), (type_scores, labels) = (scores.max(dim=-1) for scores in (left, right, types))
        has_tokens = output.word_mask.gather(1, starts) & output.word_mask.gather(1, lasts)
        is_entity = (labels < types.shape[-1] - 1) & (counts.flatten(1) > 0) & has_tokens
        is_kept = is_entity & (starts <= lasts) & (left + right + type_scores > self.settings["phi"])  # (B, R U)
        draws = torch.arange(counts.shape[1])[:, None].expand(counts.shape[1:]).flatten()  # (R U,)
        places = torch.arange(draws.shape[0])
        is_earlier = places < places[:, None]
        is_same = (starts[:, :, None] == starts[:, None]) & (lasts[:, :, None] == lasts[:, None])  # (B, R U, R U)
        scores = confidences(left, right, type_scores, kind=self.settings["confidence"])
        ranks = scores if self.model.config.type_reading == "pointed" else type_scores
        first, second = ranks[:, :, None], ranks[:, None]
        is_better = (second > first) | ((second == first) & is_earlier)
        is_beaten = is_same & is_better & is_kept[:, None] & (draws[:, None] == draws)
        is_kept = is_kept & ~is_beaten.any(dim=-1)
        is_same = is_same & (labels[:, :, None] == labels[:, None]) & is_kept[:, None]
        scores = (is_same * scores[:, None]).sum(dim=-1) / self.settings["num_draws"]
        found = (is_kept & ~(is_same & is_earlier).any(dim=-1)).nonzero(as_tuple=True)
        return found[0], starts[found], lasts[found] + 1, labels[found], scores[found]


def noise_tables(num_words: int, decoding: Mapping[str, Any]) -> Tensor:
    """(1, N + 1, R K, 2) noise of texts of 0 to N words, or (S, ...) with what each later step adds."""
    lengths = torch.arange(num_words + 1)
    keys = branched(text_keys(decoding["seed"], lengths), decoding["num_draws"])  # (N + 1, R)
    later = range(decoding["num_steps"] - 1) if decoding["eta"] > 0 else ()
    streams = [NOISE_STREAM, *(FIRST_STEP_STREAM + step for step in later)]
    return torch.stack([normal_numbers(keys, stream, (decoding["num_spans"], 2)).flatten(1, 2) for stream in streams])


def attended(attention: Attention, vectors: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """(B, K, h) as the attention's own, with a row of the mask for each vector, as ONNX Runtime wants it."""
    mask = None if mask is None else mask.expand(-1, -1, vectors.shape[1], -1)
    return Attention.forward(attention, vectors, keys, values, mask)


def fusion_scores(output: PointerOutput, words: Tensor, spans: Tensor) -> Tensor:
    """(B, K, N) as the pointer's own, some channels at a time, so that the fusion stays in a processor's cache.

    ONNX Runtime is slow where the matrix comes first.
    """
    scores = (spans * output.weight[0]).sum(dim=-1, keepdim=True) + output.bias  # (B, K, 1)
    parts = (tensor.split(FUSED_CHANNELS, dim=-1) for tensor in (words, spans, output.weight))
    for part, span_part, weight in zip(*parts, strict=True):
        fused = torch.maximum(part[:, None], -span_part[:, :, None])  # (B, K, N, c)
        scores = scores + nn.functional.linear(weight, fused.flatten(0, 2)).view(fused.shape[:3])
    return scores


def distinct_rows(spans: Tensor, is_wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`distinct_spans` in the order in which spans come first, by comparing all spans of a draw.

    Args:
        spans: (B, R, K, 2) long, first and last word.
        is_wanted: (B, K) bool, spans that exist.

    Returns:
        (B, R, U, 2) long, (B, R, U) counts and (B, R K) rows.
    """
    num_draws, num_spans = spans.shape[1:3]
    slots = torch.arange(num_spans)
    codes = ((spans[..., 0] << 32) | spans[..., 1]).masked_fill(~is_wanted[:, None], -1)  # (B, R, K)
    is_equal = codes[..., None] == codes[..., None, :]  # (B, R, K, K)
    is_first = ~(is_equal & (slots < slots[:, None])).any(dim=-1)  # (B, R, K)
    ranks = is_first.cumsum(dim=-1) - 1
    numbers = (slots <= ranks.max().clamp(min=1)).nonzero()[:, 0]  # (U,)
    if num_spans > 1:
        torch._check(numbers.shape[0] > 1)  # so that the graph needs no case for one row
    is_owner = is_first[:, :, None] & (ranks[:, :, None] == numbers[:, None])  # (B, R, U, K)
    owners = is_owner.long().argmax(dim=-1)  # (B, R, U)
    rows = spans.gather(2, owners[..., None].expand(-1, -1, -1, 2))
    totals = (is_equal & is_wanted[:, None, None]).sum(dim=-1)  # (B, R, K)
    totals = totals.masked_fill(~is_wanted[:, None], 0)
    counts = totals.gather(2, owners) * is_owner.any(dim=-1)
    firsts = is_equal.long().argmax(dim=-1)  # (B, R, K)
    places = ranks.gather(2, firsts) + torch.arange(num_draws)[:, None] * numbers.shape[0]
    return rows, counts, places.flatten(1)
