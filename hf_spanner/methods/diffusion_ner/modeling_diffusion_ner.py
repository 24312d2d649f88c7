"""DiffusionNER (Shen et al. 2023): noisy spans of a sentence are denoised into its entities."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from transformers import initialization as init

from hf_spanner.core.modeling_span_ner import SpanNERModel, SpanNEROutput
from hf_spanner.core.spans import Limits, pack_candidates
from hf_spanner.core.word_encoder import word_lengths
from hf_spanner.methods.diffusion_ner.configuration_diffusion_ner import DiffusionNERConfig
from hf_spanner.methods.diffusion_ner.denoiser_diffusion_ner import Denoiser, Sentence, gathered
from hf_spanner.methods.diffusion_ner.loss_diffusion_ner import (
    denoising_parts,
    matched_boundary_losses,
    matched_gold,
    matched_type_losses,
    matching_costs,
    span_type_losses,
)
from hf_spanner.methods.diffusion_ner.noise_diffusion_ner import (
    bag_keys,
    branched,
    normal_numbers,
    text_keys,
    uniform_numbers,
)
from hf_spanner.methods.diffusion_ner.pointers_diffusion_ner import ReducingLayer, ZeroLayer
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

NOISE_STREAM, TIME_STREAM, FIRST_STEP_STREAM = 11, 12, 1_000


@dataclass
class DiffusionNEROutput(SpanNEROutput):
    """Adds to the common output; `logits` is (B, R K, C + 1), types of each noisy span, none last; K spans of R draws.

    Args:
        left: (B, R K, N) float32 logits of the words as left boundary, the lowest number for padding.
        right: (B, R K, N) float32, the same for the right boundary.
        span_mask: (B, R K) bool, spans that exist; None: all.
        path: (B, S + 1, R K, 2) long, first and last word: noise, then the prediction of each of S steps.
        taught: (B, K + G, C + 1) logits of types of the noisy spans where they lie and of the gold spans; none where
            types are not read from words, and None outside of training.
    """

    # always set; ModelOutput wants a default of None after its first field
    left: Tensor = None  # type: ignore[assignment]
    right: Tensor = None  # type: ignore[assignment]
    span_mask: Tensor | None = None
    path: Tensor = None  # type: ignore[assignment]
    taught: Tensor | None = None


class DiffusionNERModel(SpanNERModel):
    """K noisy spans of a sentence point to their boundary words and take a type; steps of DDIM refine them.

    The sentence is encoded once for all steps. All randomness belongs to the text: noise at inference is drawn from the
    seed and the number of words, noise in training also from the gold spans, so neither depends on the batch. In
    training the seed itself is drawn from torch's global generator in every call, unless `training_seed` is set, as the
    Trainer does for each optimisation step.

    Time after the encoder: O(S R (K^2 h + K N h + K h^2)) for S steps and R draws, with K the different spans of a
    draw. Memory: O(R K (N + h) + N h).
    """

    config: DiffusionNERConfig
    config_class = DiffusionNERConfig

    def __init__(self, config: DiffusionNERConfig) -> None:
        super().__init__(config)
        self.denoiser = Denoiser(config)
        self.training_seed: int | None = None
        self.form = {"form": config.span_form, "scale": config.signal_scale}
        self.post_init()

    def score_spans(
        self, words: Tensor, word_mask: Tensor, labels: Tensor | None, decoding: Mapping[str, Any]
    ) -> DiffusionNEROutput:
        """In training one step from noised gold spans (Algorithm 1), else all steps from noise (Algorithm 2)."""
        sentence = self.denoiser.read(words, word_mask)
        if self.training and labels is not None:
            return self._denoised_gold(sentence, labels)
        return self._denoised_noise(sentence, decoding)

    def compute_loss(self, output: DiffusionNEROutput, labels: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Weighted sum of boundary and type loss after matching, both unweighted, and how far denoising went."""
        config = self.config
        matched = self.matched(output, labels)
        boundary_loss = matched_boundary_losses(
            output.left, output.right, matched, labels, word_mask=output.word_mask, kind=config.boundary_loss
        )
        reads_words = config.type_reading == "pointed"
        is_default = config.none_weight is None and (config.repeat_targets or reads_words)
        none_weight = 1.0 if is_default else config.none_weight
        if reads_words:
            type_loss = self._loss_of_read_types(output, labels, none_weight)
        else:
            type_loss = matched_type_losses(output.logits, matched, labels, output.span_mask, none_weight)
        losses = config.boundary_loss_weight * boundary_loss + config.type_loss_weight * type_loss
        parts = {"boundary_loss": boundary_loss, "type_loss": type_loss}
        return losses, parts | denoising_parts(output.path, matched, labels)

    def _loss_of_read_types(self, output: DiffusionNEROutput, gold: Tensor, none_weight: float | None) -> Tensor:
        """(B,) losses of types read from words: of the predicted spans, in training also of the noisy and gold ones."""
        noisy, predicted = output.path[:, 0], output.path[:, -1].sort(dim=-1).values
        losses = span_type_losses(output.logits, predicted, gold, output.span_mask, none_weight)
        if output.taught is None:
            return losses
        at_noise, at_gold = output.taught.split([noisy.shape[1], gold.shape[1]], dim=1)
        losses = losses + span_type_losses(at_noise, noisy, gold, None, none_weight)
        return losses + span_type_losses(at_gold, boundary_words(gold), gold, gold[..., 0] >= 0, none_weight)

    def matched(self, output: DiffusionNEROutput, gold: Tensor) -> Tensor:
        """(B, R K) long: index into (B, G, 3) gold of the span that each scored span is matched with, or -1."""
        left, right, types = (scores.detach() for scores in self._probabilities(output))
        costs = matching_costs(left, right, types, gold)
        return matched_gold(costs, output.span_mask, repeat_targets=self.config.repeat_targets)

    def candidate_spans(self, output: DiffusionNEROutput, decoding: Mapping[str, Any]) -> Tensor:
        """(B, P, 4) packed: denoised spans with a type, left before right, whose probabilities sum to more than phi.

        Section 4.3. Among equal boundaries in one draw, the span with the largest type probability stays; where types
        are read from words, so that they hardly differ, the one with the largest score. The score is the confidence
        that the settings name, averaged over the draws.
        """
        left, right, types = self._probabilities(output)
        (left, starts), (right, lasts), (type_scores, labels) = (scores.max(dim=-1) for scores in (left, right, types))
        has_tokens = output.word_mask.gather(1, starts) & output.word_mask.gather(1, lasts)
        is_entity = labels < types.shape[-1] - 1
        is_candidate = is_entity & (starts <= lasts) & has_tokens & (left + right + type_scores > decoding["phi"])
        if output.span_mask is not None:
            is_candidate &= output.span_mask
        sentence, slots = is_candidate.nonzero(as_tuple=True)  # (P,)
        num_draws = decoding["num_draws"]
        draws = slots // (labels.shape[1] // num_draws)
        starts, lasts, labels, type_scores, left, right = (
            values[sentence, slots] for values in (starts, lasts, labels, type_scores, left, right)
        )
        scores = confidences(left, right, type_scores, kind=decoding["confidence"])  # (P,)
        reads_words = self.config.type_reading == "pointed"
        kept = first_of_each([sentence, draws, starts, lasts], by=scores if reads_words else type_scores)
        sentence, starts, lasts, labels = (values[kept] for values in (sentence, starts, lasts, labels))
        spans, place = torch.stack([sentence, starts, lasts, labels]).unique(dim=1, return_inverse=True)
        totals = scores.new_zeros(spans.shape[1]).index_add(0, place, scores[kept])
        sentence, starts, lasts, labels = spans
        return pack_candidates(sentence, starts, lasts + 1, labels, totals / num_draws, len(output.logits))

    @property
    def limits(self) -> Limits:
        """Each noisy span of a draw becomes one span of one type; `spans_per_word` may leave a short text fewer."""
        return Limits(one_label=True, max_spans=self.config.num_spans * self.config.num_draws)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Scores of relative positions start at 0."""
        super()._init_weights(module)
        if isinstance(module, ReducingLayer):
            init.normal_(module.weight, std=module.in_features**-0.5)
        elif isinstance(module, ZeroLayer):
            init.zeros_(module.weight)
            init.zeros_(module.bias)

    def _probabilities(self, output: DiffusionNEROutput) -> tuple[Tensor, Tensor, Tensor]:
        """P_l and P_r (B, R K, N) and P_c (B, R K, C + 1), float32."""
        types = output.logits.softmax(dim=-1, dtype=torch.float32)
        if self.config.boundary_loss == "nll":
            return output.left.softmax(dim=-1), output.right.softmax(dim=-1), types
        return output.left.sigmoid(), output.right.sigmoid(), types

    def _denoised_gold(self, sentence: Sentence, gold: Tensor) -> DiffusionNEROutput:
        """One step from noised gold spans at a time of its own for each sentence (Algorithm 1)."""
        config = self.config
        lengths = word_lengths(sentence.word_mask)
        seed = int(torch.randint(2**62, ())) if self.training_seed is None else self.training_seed
        keys = text_keys(seed, lengths, bag_keys(gold, gold[..., 0] >= 0))
        clean = expanded_boundaries(
            gold, lengths, keys, config.num_train_spans, expansion=config.expansion, **self.form
        )
        times = (uniform_numbers(keys, TIME_STREAM, (1,))[:, 0] * config.num_timesteps).long()  # (B,)
        levels = torch.from_numpy(noise_levels(config.schedule, config.num_timesteps)).to(clean).take(times)
        noise = normal_numbers(keys, NOISE_STREAM, (config.num_train_spans, 2))
        noisy = noisy_boundaries(clean, noise, levels[:, None, None], scale=config.signal_scale)
        spans = discrete_spans(noisy, lengths, **self.form)[:, None]  # (B, 1, K, 2)
        vectors = self.denoiser(sentence, spans, times)
        left, right = self.denoiser.boundaries(sentence, vectors, spans)
        predicted = pointed(left, right)
        path, read = [spans[:, 0], predicted], predicted
        if config.type_reading == "pointed":
            read = torch.cat([predicted, spans[:, 0], boundary_words(gold)], dim=1)  # (B, 2 K + G, 2)
        types = self.denoiser.type_logits(sentence, vectors, read)
        types, taught = types[:, : predicted.shape[1]], types[:, predicted.shape[1] :]
        return self._output(sentence, path, types, left, right, None, taught)

    def _denoised_noise(self, sentence: Sentence, decoding: Mapping[str, Any]) -> DiffusionNEROutput:
        """All steps of DDIM from noise (Algorithm 2); only the last one carries gradients."""
        config = self.config
        lengths = word_lengths(sentence.word_mask)
        num_draws, eta = decoding["num_draws"], decoding["eta"]
        num_spans, span_mask = wanted_spans(lengths, sentence.word_mask.shape[1], decoding)
        keys = branched(text_keys(decoding["seed"], lengths), num_draws)  # (B, R)
        noisy = normal_numbers(keys, NOISE_STREAM, (num_spans, 2)).flatten(1, 2)  # (B, R K, 2)
        levels = noise_levels(config.schedule, config.num_timesteps)
        spans = discrete_spans(noisy, lengths, **self.form)
        path = [spans]
        for step, (time, later) in enumerate(pairwise(step_times(config.num_timesteps, decoding["num_steps"]))):
            with torch.set_grad_enabled(torch.is_grad_enabled() and later < 0):
                rows, counts, places = self._rows(spans.unflatten(1, (num_draws, -1)), span_mask)
                vectors = self.denoiser(sentence, rows, torch.full((1,), time, device=spans.device), counts)
                left, right = self.denoiser.boundaries(sentence, vectors, rows)
            found = pointed(left, right)
            predicted = gathered(found, places)  # (B, R K, 2)
            path.append(predicted)
            if later >= 0:
                clean = clean_boundaries(predicted, lengths, **self.form)
                stream = FIRST_STEP_STREAM + step
                noise = normal_numbers(keys, stream, (num_spans, 2)).flatten(1, 2) if eta > 0 else None
                noisy = ddim_step(noisy, clean, levels[time], levels[later], eta=eta, noise=noise)
                spans = discrete_spans(noisy, lengths, **self.form)
        types = self.denoiser.type_logits(sentence, vectors, found)
        types, left, right = (gathered(row_values, places) for row_values in (types, left, right))
        span_mask = None if span_mask is None else span_mask.repeat(1, num_draws)
        return self._output(sentence, path, types, left, right, span_mask)

    def _rows(self, spans: Tensor, span_mask: Tensor | None) -> tuple[Tensor, Tensor | None, Tensor]:
        """Spans to compute, what each stands for, and the (B, R K) row of each span; see `distinct_spans`."""
        if self.denoiser.slots is None:
            return distinct_spans(spans, span_mask)
        counts = None if span_mask is None else span_mask[:, None].expand(spans.shape[:3])
        places = torch.arange(spans.shape[1] * spans.shape[2], device=spans.device)
        return spans, counts, places.expand(len(spans), -1)

    def _output(
        self,
        sentence: Sentence,
        path: list[Tensor],
        types: Tensor,
        left: Tensor,
        right: Tensor,
        span_mask: Tensor | None,
        taught: Tensor | None = None,
    ) -> DiffusionNEROutput:
        return DiffusionNEROutput(
            logits=types,
            word_mask=sentence.word_mask,
            left=left,
            right=right,
            span_mask=span_mask,
            path=torch.stack(path, dim=1),
            taught=taught,
        )


def boundary_words(gold: Tensor) -> Tensor:
    """(B, G, 2) long, first and last word of (B, G, 3) gold spans; padding is the first word."""
    return torch.stack([gold[..., 0], gold[..., 1] - 1], dim=-1).clamp(min=0)


def pointed(left: Tensor, right: Tensor) -> Tensor:
    """(B, K, 2) long: likeliest left and right word of each span, which may be in the wrong order."""
    return torch.stack([left.argmax(dim=-1), right.argmax(dim=-1)], dim=-1)


def confidences(left: Tensor, right: Tensor, types: Tensor, *, kind: str) -> Tensor:
    """Score of spans from the probabilities of left word, right word and type, tensors of one shape, in [0, 1]."""
    if kind == "type":
        return types
    if kind == "mean":
        return (left + right + types) / 3
    product = left * right * types
    return product ** (1 / 3) if kind == "geometric" else product


def first_of_each(keys: Sequence[Tensor], *, by: Tensor) -> Tensor:
    """Places of the elements with the largest value among those of equal keys, ties going to the first.

    Args:
        keys: (P,) long each; elements are equal if all of them are.
        by: (P,) values.

    Returns:
        (Q,) long, ordered by keys.
    """
    order = by.argsort(descending=True, stable=True)  # (P,)
    for key in reversed(keys):
        order = order[key[order].argsort(stable=True)]
    groups = torch.stack([key[order] for key in keys])  # (number of keys, P)
    is_first = torch.ones_like(order, dtype=torch.bool)
    is_first[1:] = (groups[:, 1:] != groups[:, :-1]).any(dim=0)
    return order[is_first]
