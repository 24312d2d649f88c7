"""The loss around a trained model along one random direction; Zhu and Li 2022, Appendix C.

    f(alpha) = L(D; theta + alpha delta),  delta_i <- ||theta_i|| / ||delta_i|| delta_i,  delta ~ N(0, I)

with i a weight tensor (the paper's footnote 9: weight-wise, where Li et al. 2018, section 4, norm each filter) and L
the mean of the model's own loss in evaluation mode, so the loss of Boundary Smoothing is the smoothed one.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm
from transformers import PreTrainedTokenizerBase, set_seed

from hf_spanner.core.modeling_span_ner import SpanNERModel
from hf_spanner.core.prediction import TextReader
from hf_spanner.metrics.span_ner.scoring import score_spans
from hf_spanner.training.collator import SpanNERCollator
from hf_spanner.training.windows import EvaluationWindows


@dataclass
class Landscape:
    """Loss and F1 along one direction.

    Args:
        distances: alpha of each point, rising and symmetric around 0, the model itself. At 1 each weight tensor has
            moved by its own norm.
        losses: By split, the loss per sentence at each point (per window, where a sentence has several).
        f1: By split, the strict F1 at each point, in [0, 1].
        seed: Seed of the direction.
    """

    distances: list[float]
    losses: dict[str, list[float]]
    f1: dict[str, list[float]]
    seed: int


def loss_landscape(
    model: SpanNERModel,
    tokenizer: PreTrainedTokenizerBase,
    splits: Mapping[str, Iterable[Mapping[str, Any]]],
    *,
    points: int = 51,
    seed: int = 0,
    batch_size: int = 32,
) -> Landscape:
    """Loss and strict F1 of each split at evenly spaced distances from -1 to 1 along one direction.

    Points differ by weights alone. In evaluation mode DiffusionNER draws its noise from the configuration's seed and
    the number of words, and Locate and Label samples negative spans by a fixed order of spans, so neither depends on
    the point or the batch; besides, the global generators are seeded anew for each split of each point. They and the
    weights are left as they were, even after an error; the model is left in evaluation mode. Memory: the weights three
    times.

    Args:
        model: A trained model of any method; its configuration says how spans are decoded.
        tokenizer: Its tokenizer.
        splits: Rows with `tokens` and `entities`, by the name of their split.
        points: Number of distances, odd, so that the model itself is one of them; 51 in the paper.
        seed: Seed of the direction, in [0, 2^32). Models of one architecture have the same direction, apart
            from the norms.
        batch_size: Windows run through the model at once.

    Returns:
        The landscape.

    Raises:
        ValueError: If `points` is even or below 3, or a split has no rows.
    """
    if points < 3 or points % 2 == 0:
        raise ValueError(f"points must be odd and at least 3, got {points}")
    rows = {name: list(split_rows) for name, split_rows in splits.items()}
    if empty := [name for name, split_rows in rows.items() if not split_rows]:
        raise ValueError(f"every split must have rows, got none for {', '.join(empty)}")
    distances = [(2 * place - (points - 1)) / (points - 1) for place in range(points)]
    landscape = Landscape(distances, {name: [] for name in rows}, {name: [] for name in rows}, seed)
    read = {name: labelled_batches(model, tokenizer, split_rows, batch_size) for name, split_rows in rows.items()}
    model.eval()
    with (
        kept_random_state(),
        kept_parameters(model) as origin,
        tqdm(total=points * len(rows), desc="loss landscape", unit=" evaluations") as progress,
    ):
        direction = random_direction(origin, seed)
        for distance in distances:
            move_parameters(model, origin, direction, distance)
            for name, (windows, batches) in read.items():
                set_seed(seed)
                loss, f1 = loss_and_f1(model, windows, batches)
                landscape.losses[name].append(loss)
                landscape.f1[name].append(f1)
                progress.update()
    return landscape


def labelled_batches(
    model: SpanNERModel, tokenizer: PreTrainedTokenizerBase, rows: Iterable[Mapping[str, Any]], batch_size: int
) -> tuple[EvaluationWindows, list[dict[str, Tensor]]]:
    """Rows cut into windows, and the batches of these with gold, on the model's device."""
    reader = TextReader(tokenizer, model.config)
    label2id = cast(dict[str, int], model.config.label2id)
    windows = EvaluationWindows(rows, reader, label2id)
    collator = SpanNERCollator(
        tokenizer,
        label2id,
        window_size=reader.window_size,
        max_word_tokens=reader.window_overlap,
        word_features=model.config.word_features,
    )
    batches = [collator(windows.windows[first : first + batch_size]) for first in range(0, len(windows), batch_size)]
    return windows, [{name: value.to(model.device) for name, value in batch.items()} for batch in batches]


@torch.no_grad()
def loss_and_f1(
    model: SpanNERModel, windows: EvaluationWindows, batches: Sequence[Mapping[str, Tensor]]
) -> tuple[float, float]:
    """Mean loss of the windows, and strict F1 of their rows."""
    decoding = model.decoding()
    total, tables, places = 0.0, [], []
    for batch in batches:
        inputs = {name: value for name, value in batch.items() if name != "windows"}
        output = model(**inputs, decoding=decoding)
        total += output.loss.item() * len(batch["windows"])
        tables.extend(model.candidate_spans(output, decoding).cpu().numpy())
        places.append(batch["windows"].cpu().numpy())
    spans = windows.merged(tables, np.concatenate(places), model.config.merge_settings(), decoding)
    return total / len(windows), score_spans(spans, windows.gold)["overall_f1"]


def random_direction(parameters: Mapping[str, Tensor], seed: int) -> dict[str, Tensor]:
    """Normal noise of each parameter's shape, scaled to the parameter's norm.

    Biases and normalisation weights are tensors like all others (the paper does not tell them apart); a parameter of
    zeros does not move. The noise is drawn on the CPU, so the direction is the same on every device.

    Args:
        parameters: Weights by name, in the model's order.
        seed: Seed of the noise.

    Returns:
        Float32 tensors by the same names, on the parameters' devices.
    """
    generator = torch.Generator().manual_seed(seed)
    direction = {}
    for name, parameter in parameters.items():
        noise = torch.randn(parameter.shape, generator=generator)
        length = torch.linalg.vector_norm(parameter, dtype=torch.float32).cpu()
        noise *= length / torch.linalg.vector_norm(noise)
        direction[name] = noise.to(parameter.device)
    return direction


@torch.no_grad()
def move_parameters(
    model: nn.Module, origin: Mapping[str, Tensor], direction: Mapping[str, Tensor], distance: float
) -> None:
    """Set a model's parameters to origin + distance * direction, in float32 until they are stored."""
    for name, parameter in model.named_parameters():
        parameter.copy_(torch.add(origin[name], direction[name], alpha=distance))


@contextmanager
def kept_parameters(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Copies of a model's parameters by name, put back bit by bit at the end."""
    copies = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    try:
        yield copies
    finally:
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(copies[name])


@contextmanager
def kept_random_state() -> Iterator[None]:
    """Leave the global generators of Python, numpy and torch (CPU and CUDA) as they were."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)
