"""The loss along a random direction, for every method."""

import random
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from hf_spanner import METHODS, SpanNERCollator, SpanNERModel, SpanNERPipeline
from hf_spanner.analysis import landscape
from hf_spanner.analysis.landscape import (
    kept_parameters,
    kept_random_state,
    loss_landscape,
    move_parameters,
    random_direction,
)
from hf_spanner.commands.judging import predicted_and_gold
from hf_spanner.core.spans import named_span
from hf_spanner.metrics.span_ner.scoring import score_spans
from hf_spanner.training.trainer import SpanNERTrainer, SpanNERTrainingArguments

Rows = list[dict[str, Any]]
TinyModel = Callable[..., SpanNERModel]
RandomTagger = Callable[..., SpanNERPipeline]

every_method = pytest.mark.parametrize("method", METHODS)


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainers stay on the CPU."""
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")


def bits(model: SpanNERModel) -> dict[str, bytes]:
    """All weights and buffers as bytes."""
    return {name: value.numpy().tobytes() for name, value in model.state_dict().items()}


def without_scores(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Predicted spans in the form of gold."""
    return [{name: span[name] for name in ("start", "end", "label")} for span in spans]


def slow_point(
    model: SpanNERModel, tokenizer: PreTrainedTokenizerBase, rows: Rows, direction: dict[str, Tensor], distance: float
) -> tuple[float, float]:
    """Loss and F1 of a moved copy of the model, computed one row at a time."""
    moved = deepcopy(model)
    moved.load_state_dict(
        {name: value + distance * direction.get(name, torch.tensor(0)) for name, value in model.state_dict().items()}
    )
    collator = SpanNERCollator(tokenizer, moved.config.label2id)
    losses, predicted = [], []
    for row in rows:
        with torch.no_grad():
            output = moved(**collator([row]))
        losses.append(output.loss.item())
        predicted.append([named_span(span, moved.config.id2label) for span in moved.decode(output)[0]])
    return sum(losses) / len(losses), score_spans(predicted, [row["entities"] for row in rows])["overall_f1"]


@every_method
def test_each_point_is_a_moved_copy_scored_row_by_row(
    random_tagger: RandomTagger, tokenizer: PreTrainedTokenizerBase, rows: Rows, method: str
) -> None:
    """No point depends on the batch, the split beside it or the point before, and all splits share one direction.

    Gold is what the model itself finds, so that F1 is 1 in the middle.
    """
    tagger = random_tagger(method)
    model = tagger.model
    found_spans, _ = predicted_and_gold(tagger, rows, {}, 2)
    rows = [row | {"entities": without_scores(spans)} for row, spans in zip(rows, found_spans, strict=True)]
    splits = {"train": rows[:3], "test": rows}
    measured = loss_landscape(model, tokenizer, splits, points=3, seed=7, batch_size=2)
    assert measured.distances == [-1.0, 0.0, 1.0]
    direction = random_direction(dict(model.named_parameters()), 7)
    for split, split_rows in splits.items():
        expected = [slow_point(model, tokenizer, split_rows, direction, distance) for distance in measured.distances]
        losses, f1 = zip(*expected, strict=True)
        assert measured.losses[split] == pytest.approx(losses, rel=1e-4)
        assert measured.f1[split] == pytest.approx(f1)
    assert len(set(measured.losses["test"])) == 3
    assert measured.f1["test"][1] == 1.0 > measured.f1["test"][0]


@every_method
def test_the_middle_is_the_model_itself_and_nothing_is_left_changed(
    random_tagger: RandomTagger, tokenizer: PreTrainedTokenizerBase, rows: Rows, method: str, tmp_path: Path
) -> None:
    """Weights and global generators are bit-equal afterwards, and the same seed gives the same curve."""
    model = random_tagger(method).model
    args = SpanNERTrainingArguments(
        output_dir=str(tmp_path),
        eval_strategy="no",
        save_strategy="no",
        load_best_model_at_end=False,
        per_device_eval_batch_size=2,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    with kept_random_state():
        metrics = SpanNERTrainer(model=model, args=args, processing_class=tokenizer).predict(rows).metrics
    before = bits(model)
    states = random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state()
    first = loss_landscape(model, tokenizer, {"test": rows}, points=3, batch_size=2)
    assert (random.getstate(), np.random.get_state()[1].tobytes()) == states[:2]
    assert torch.equal(torch.get_rng_state(), states[2])
    assert bits(model) == before
    assert first.losses["test"][1] == pytest.approx(metrics["test_loss"], rel=1e-6)  # means of float32 and of float64
    assert first.f1["test"][1] == metrics["test_f1"]
    torch.manual_seed(99)
    assert loss_landscape(model, tokenizer, {"test": rows}, points=3, batch_size=2) == first
    other = loss_landscape(model, tokenizer, {"test": rows}, points=3, seed=1, batch_size=2)
    assert other.losses["test"][1] == first.losses["test"][1]
    assert other.losses["test"][0] != first.losses["test"][0]


def test_randomness_that_a_method_draws_from_the_global_generator_is_the_same_at_every_point(
    tiny_model: TinyModel, tokenizer: PreTrainedTokenizerBase, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss that is nothing but such a draw gives a level line."""
    model = tiny_model()
    monkeypatch.setattr(model, "compute_loss", lambda output, labels: (torch.rand(len(labels)), {}))
    losses = loss_landscape(model, tokenizer, {"dev": rows, "test": rows}, points=3).losses
    assert len({*losses["dev"], *losses["test"]}) == 1


def test_an_error_leaves_weights_and_generators_as_they_were(
    tiny_model: TinyModel, tokenizer: PreTrainedTokenizerBase, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second point fails at a moment when the weights are moved."""
    model = tiny_model()
    before, state = bits(model), torch.get_rng_state()
    own_loss, calls = landscape.loss_and_f1, []

    def fail_later(*args: Any) -> Any:
        calls.append(bits(model))
        if len(calls) == 2:
            raise RuntimeError("out of memory")
        return own_loss(*args)

    monkeypatch.setattr(landscape, "loss_and_f1", fail_later)
    with pytest.raises(RuntimeError, match="out of memory"):
        loss_landscape(model, tokenizer, {"test": rows}, points=5)
    assert before not in calls
    assert bits(model) == before
    assert torch.equal(torch.get_rng_state(), state)


@every_method
def test_the_direction_has_each_parameters_norm(tiny_model: TinyModel, method: str) -> None:
    """This includes biases and normalisation weights; a parameter of zeros stays as it is."""
    parameters = dict(tiny_model(method).named_parameters())
    direction = random_direction(parameters, 3)
    assert direction.keys() == parameters.keys()
    for name, parameter in parameters.items():
        assert direction[name].shape == parameter.shape
        assert direction[name].norm().item() == pytest.approx(parameter.norm().item(), rel=1e-5)
    again = random_direction(parameters, 3)
    assert all(torch.equal(direction[name], again[name]) for name in parameters)
    zeros = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
    assert not any(tensor.any() for tensor in random_direction(zeros, 3).values())


def test_half_precision_is_moved_in_float32_and_put_back(tiny_model: TinyModel) -> None:
    """The moved weights are the rounded sum, and the direction itself is not in half precision."""
    model = tiny_model().bfloat16()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    direction = random_direction(before, 0)
    assert {tensor.dtype for tensor in direction.values()} == {torch.float32}
    with kept_parameters(model) as originals:
        move_parameters(model, originals, direction, 0.04)
        for name, parameter in model.named_parameters():
            assert torch.equal(parameter, (before[name].float() + 0.04 * direction[name]).bfloat16())
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())


def test_rows_may_be_a_generator(tiny_model: TinyModel, tokenizer: PreTrainedTokenizerBase, rows: Rows) -> None:
    """They are read once and used at every point."""
    measured = loss_landscape(tiny_model(), tokenizer, {"test": (row for row in rows)}, points=3)
    assert measured == loss_landscape(tiny_model(), tokenizer, {"test": rows}, points=3)


@pytest.mark.parametrize("points", [1, 50])
def test_the_model_must_be_a_point(tiny_model: TinyModel, tokenizer: PreTrainedTokenizerBase, points: int) -> None:
    """An even number of points would have none at 0."""
    with pytest.raises(ValueError, match=f"points must be odd and at least 3, got {points}"):
        loss_landscape(tiny_model(), tokenizer, {}, points=points)


def test_a_split_without_rows_is_named(tiny_model: TinyModel, tokenizer: PreTrainedTokenizerBase, rows: Rows) -> None:
    """The error comes before anything is computed."""
    with pytest.raises(ValueError, match="every split must have rows, got none for dev"):
        loss_landscape(tiny_model(), tokenizer, {"train": rows, "dev": []})
