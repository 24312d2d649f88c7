"""What every method promises, run over METHODS; no method is named here."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from saved_models import own_memory
from tiny_training import largest_difference
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel

from hf_spanner import METHODS, SpanNERCollator, SpanNERModel, SpanNEROutput, SpanNERPipeline
from hf_spanner.core.spans import Span, legal_gold, unpack_spans
from hf_spanner.methods import trainer_of, training_arguments_of
from hf_spanner.training.trainer import SpanNERTrainer, SpanNERTrainingArguments

Rows = list[dict[str, Any]]
Make = Callable[..., SpanNERModel]

LABELS = ("LOC", "ORG", "PER")


def sentence_losses(model: SpanNERModel, batch: dict[str, Tensor]) -> tuple[SpanNEROutput, Tensor]:
    """The output and the losses (B,), by the hooks of the method."""
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    gold = legal_gold(batch["labels"], batch["word_mask"], model.config.num_labels)
    output = model.score_spans(model.encode(**inputs).last_hidden_state, batch["word_mask"], gold, model.decoding())
    return output, model.compute_loss(output, gold)[0]


def candidates(model: SpanNERModel, batch: dict[str, Tensor]) -> list[set[Span]]:
    with torch.no_grad():
        output = model(**batch)
        return [set(spans) for spans in unpack_spans(model.candidate_spans(output, model.decoding()))]


def assert_same_spans(left: Sequence[set[Span]], right: Sequence[set[Span]], tolerance: float = 1e-5) -> None:
    assert len(left) == len(right)
    for first, second in zip(left, right, strict=True):
        scores = {span[:3]: span.score for span in first}
        others = {span[:3]: span.score for span in second}
        assert scores.keys() == others.keys()
        for span, score in scores.items():
            assert others[span] == pytest.approx(score, abs=tolerance)


def test_names_and_classes_follow_one_scheme(method: str) -> None:
    """Folder, model type and key share a name, classes are named after the method; pipeline and forward are shared."""
    model_class = METHODS[method]
    stem = model_class.__name__.removesuffix("Model")
    assert model_class.config_class.model_type == method
    assert model_class.config_class.__name__ == f"{stem}Config"
    assert model_class.__module__ == f"hf_spanner.methods.{method}.modeling_{method}"
    assert model_class.pipeline_class is SpanNERPipeline
    assert model_class.forward is SpanNERModel.forward
    assert model_class.accepts_loss_kwargs is False
    for hook in ("score_spans", "compute_loss", "candidate_spans"):
        assert vars(model_class)[hook] is not vars(SpanNERModel)[hook]
    assert trainer_of(method).__name__ == f"{stem}Trainer"
    assert issubclass(trainer_of(method), SpanNERTrainer)
    assert issubclass(training_arguments_of(method), SpanNERTrainingArguments)
    package = import_module(f"hf_spanner.methods.{method}")
    assert package.__all__ == [f"{stem}{kind}" for kind in ("Config", "Model", "Trainer", "TrainingArguments")]
    assert [getattr(package, name) for name in package.__all__[2:]] == [
        trainer_of(method),
        training_arguments_of(method),
    ]
    with pytest.raises(AttributeError, match=f"'hf_spanner.methods.{method}' has no attribute 'Trainr'"):
        _ = package.Trainr


def test_auto_classes_know_the_method(method: str) -> None:
    config = METHODS[method].config_class()
    assert type(AutoConfig.for_model(method)) is type(config)
    assert AutoModel._model_mapping[type(config)] is METHODS[method]


def test_output_extends_the_common_one_and_carries_the_word_mask(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows
) -> None:
    batch = collator(rows)
    output = model(**batch)
    assert isinstance(output, SpanNEROutput)
    assert {"loss", "logits", "word_mask"} <= {field.name for field in fields(output)}
    assert torch.equal(output.word_mask, batch["word_mask"])
    assert len(output.logits) == len(rows)
    assert output.loss.shape == ()


def test_loss_is_one_finite_float32_number_a_sentence(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows
) -> None:
    _, losses = sentence_losses(model, collator(rows))
    assert losses.shape == (len(rows),)
    assert losses.dtype == torch.float32
    assert losses.isfinite().all()
    assert (losses >= 0).all()


def test_a_training_step_gives_parts_of_the_loss_without_gradients(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows
) -> None:
    output = model.train()(**collator(rows))
    assert all(part.shape == (len(rows),) and part.dtype == torch.float32 for part in output.loss_parts.values())
    assert not any(part.requires_grad for part in output.loss_parts.values())
    assert output.loss.requires_grad
    assert model(**{name: value for name, value in collator(rows).items() if name != "labels"}).loss_parts is None


def test_the_loss_writes_nothing_onto_the_output(model: SpanNERModel, collator: SpanNERCollator, rows: Rows) -> None:
    batch = collator(rows)
    output, _ = sentence_losses(model, batch)
    before = dict(output)
    model.compute_loss(output, batch["labels"])
    assert dict(output).keys() == before.keys()
    assert all(output[name] is value for name, value in before.items())


def test_loss_and_parts_of_a_training_step_never_wait_for_the_device(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows, no_synchronisation: Any
) -> None:
    batch = collator(rows)
    output, _ = sentence_losses(model.train(), batch)
    with no_synchronisation:
        losses, _ = model.compute_loss(output, batch["labels"])
    with pytest.raises(AssertionError), no_synchronisation:
        losses.sum().item()


def test_loss_of_a_batch_is_the_sum_over_the_number_of_items(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows
) -> None:
    batch = collator(rows)
    _, losses = sentence_losses(model, batch)
    torch.testing.assert_close(model(**batch).loss, losses.mean())
    torch.testing.assert_close(model(**batch, num_items_in_batch=7).loss, losses.sum() / 7)
    torch.testing.assert_close(model(**batch, num_items_in_batch=torch.tensor(9)).loss, losses.sum() / 9)


def test_scores_in_eval_mode_are_pure_and_blind_to_gold(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows
) -> None:
    batch = collator(rows)
    first, second = model(**batch), model(**batch)
    blind = model(**{name: value for name, value in batch.items() if name != "labels"})
    assert torch.equal(first.logits, second.logits)
    assert torch.equal(first.logits, blind.logits)
    assert torch.equal(first.loss, second.loss)
    assert blind.loss is None


def test_padding_adds_no_loss_and_changes_no_span(model: SpanNERModel, collator: SpanNERCollator, rows: Rows) -> None:
    """Each sentence is read alone, then all in one batch that is padded further than needed.

    The padding is in tokens, words and gold.
    """
    batch = collator(rows)
    padded = {
        "input_ids": nn.functional.pad(batch["input_ids"], (0, 5), value=model.config.pad_token_id),
        "attention_mask": nn.functional.pad(batch["attention_mask"], (0, 5)),
        "word_index": nn.functional.pad(batch["word_index"], (0, 5)),
        "word_mask": nn.functional.pad(batch["word_mask"], (0, 3)),
        "labels": nn.functional.pad(batch["labels"], (0, 0, 0, 4), value=-100),
    }
    singles = [collator([row]) for row in rows]
    expected = torch.cat([sentence_losses(model, single)[1] for single in singles])
    torch.testing.assert_close(sentence_losses(model, batch)[1], expected, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(sentence_losses(model, padded)[1], expected, atol=1e-4, rtol=1e-5)
    spans = [candidates(model, single)[0] for single in singles]
    assert_same_spans(candidates(model, batch), spans)
    assert_same_spans(candidates(model, padded), spans)


def test_order_of_the_batch_changes_nothing(model: SpanNERModel, collator: SpanNERCollator, rows: Rows) -> None:
    forward, backward = collator(rows), collator(rows[::-1])
    losses, reversed_losses = sentence_losses(model, forward)[1], sentence_losses(model, backward)[1]
    torch.testing.assert_close(losses, reversed_losses.flip(0), atol=1e-4, rtol=1e-5)
    assert_same_spans(candidates(model, forward), candidates(model, backward)[::-1])


def test_order_and_repeats_of_gold_change_nothing(model: SpanNERModel, collator: SpanNERCollator, rows: Rows) -> None:
    changed = [{**row, "entities": [*row["entities"][::-1], *row["entities"]]} for row in rows]
    expected, losses = sentence_losses(model, collator(rows))[1], sentence_losses(model, collator(changed))[1]
    torch.testing.assert_close(losses, expected, atol=1e-5, rtol=1e-6)


def test_candidates_lie_inside_their_sentence_with_a_probability(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows
) -> None:
    batch = collator(rows)
    output = model(**batch)
    packed = model.candidate_spans(output, model.decoding())
    assert packed.shape[0] == len(rows)
    assert packed.shape[2] == 4
    assert packed.dtype == torch.float32
    is_padding = packed[..., 0] < 0
    assert (packed[is_padding] == -100).all()
    for spans, row in zip(unpack_spans(packed), rows, strict=True):
        for span in spans:
            assert 0 <= span.start < span.end <= len(row["tokens"])
            assert 0 <= span.label < len(LABELS)
            assert 0 <= span.score <= 1


def test_a_word_without_tokens_is_no_boundary_and_shifts_nothing(
    model: SpanNERModel, collator: SpanNERCollator
) -> None:
    """A blank word keeps its place; gold on it costs nothing and breaks nothing."""
    words = ["Ana", "\u200b", "met", "Bo", " "]
    gold = [{"start": 3, "end": 4, "label": "PER"}, {"start": 1, "end": 2, "label": "PER"}]
    batch = collator([{"tokens": words, "entities": gold}])
    assert batch["word_mask"].tolist() == [[True, False, True, True, False]]
    assert sentence_losses(model, batch)[1].isfinite().all()
    for span in candidates(model, batch)[0]:
        assert span.start not in (1, 4)
        assert span.end - 1 not in (1, 4)


def test_settings_of_a_call_are_checked_and_change_no_config(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows
) -> None:
    before = model.config.to_dict()
    decoding = model.decoding({"threshold": 0.9, "overlap": "any"})
    assert (decoding["threshold"], decoding["overlap"]) == (0.9, "any")
    assert set(decoding) == set(model.config.decoding_parameters)
    with pytest.raises(TypeError):
        decoding["threshold"] = 0.1  # type: ignore[index]
    for wrong in ({"treshold": 0.5}, {"threshold": 1.5}, {"overlap": "none"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            model(**collator(rows), decoding=wrong)
    model(**collator(rows), decoding={"threshold": 0.9})
    assert model.config.to_dict() == before


def test_decode_gives_resolved_spans_above_the_threshold(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows
) -> None:
    output = model(**collator(rows))
    flat = model.decode(output, {"overlap": "flat"})
    assert len(flat) == len(rows)
    for spans in flat:
        assert all(left.end <= right.start for left, right in zip(spans, spans[1:], strict=False))
    scores = {span.score for spans in flat for span in spans}
    cut = sorted(scores)[len(scores) // 2] if scores else 0.5
    kept = model.decode(output, {"overlap": "flat", "threshold": cut})
    assert kept == [[span for span in spans if span.score >= cut] for spans in flat]


def test_nothing_is_unreachable_where_nothing_is_gold(model: SpanNERModel) -> None:
    assert model.unreachable([]) == 0
    assert model.unreachable([(0, 1, 0)]) == 0


def test_unknown_fields_and_labels_are_refused(tiny_model: Make, method: str) -> None:
    with pytest.raises(ValueError, match="afine_size"):
        tiny_model(method, afine_size=3)
    with pytest.raises(ValueError, match="label"):
        tiny_model(method, labels=("A", "A"))


def test_save_and_load_are_bit_equal(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows, tmp_path: Path, messages: list[str]
) -> None:
    """By AutoModel and by the class, without a warning."""
    model.save_pretrained(tmp_path)
    messages.clear()
    batch = collator(rows)
    for loaded in (AutoModel.from_pretrained(tmp_path), METHODS[model.config.model_type].from_pretrained(tmp_path)):
        assert type(loaded) is type(model)
        assert not loaded.training
        assert largest_difference(model, loaded) == 0.0
        assert loaded.config.id2label == model.config.id2label
        own_memory(loaded)
        own_memory(model)
        assert torch.equal(loaded(**batch).logits, model(**batch).logits)
        assert candidates(loaded, batch) == candidates(model, batch)
    assert messages == []
