"""What a training step scores: a sample that follows from the gold alone, with the loss and gradients of all seeds."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from hf_spanner import SpanNERCollator, SpanNERModel
from hf_spanner.core.spans import legal_gold
from hf_spanner.core.word_encoder import word_lengths
from hf_spanner.methods.locate_and_label.loss_locate_and_label import (
    assign_gold,
    classification_loss,
    filter_loss,
    is_first_label,
    moved_spans,
    overlap_loss,
    paired_iou,
    regression_loss,
    sampled_negatives,
    soft_weights,
)
from hf_spanner.methods.locate_and_label.modeling_locate_and_label import is_legal_span, word_rows
from hf_spanner.methods.locate_and_label.span_pooling_locate_and_label import pooled_spans, range_maxima, seed_spans

Make = Callable[..., SpanNERModel]
LABELS = {"LOC": 0, "ORG": 1, "PER": 2}


@pytest.fixture
def collator(tokenizer: PreTrainedTokenizerBase) -> SpanNERCollator:
    return SpanNERCollator(tokenizer, LABELS)


def without_dropout(model: SpanNERModel) -> SpanNERModel:
    """The model with every rate of dropout at 0."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def test_a_training_step_scores_its_sample_only(tiny_model: Make, collator: SpanNERCollator) -> None:
    """Seeds have one and four words, and gold has two of them.

    Positive are (0, 1), (2, 6) and, as gold that is no seed, (6, 8); each brings one negative, and there are no more.
    """
    model = tiny_model("locate_and_label", seed_lengths=[1, 4], negatives_per_positive=1, min_negatives=0)
    gold = [(0, 1), (2, 6), (6, 8)]
    entities = [{"start": start, "end": end, "label": "ORG"} for start, end in gold]
    rows = [{"tokens": list("abcdefgh"), "entities": entities}, {"tokens": ["a", "b"], "entities": []}]
    batch = collator(rows)
    output = model.train()(**batch)
    assert output.seeds is None
    assert output.sample.sentence.tolist() == [0] * 6
    spans = [tuple(span) for span in output.sample.spans.tolist()]
    assert {span for span, is_positive in zip(spans, output.sample.is_positive, strict=True) if is_positive} == set(
        gold
    )
    assert {end - start for start, end in set(spans) - set(gold)} <= {1, 4}
    assert (len(output.logits), len(output.offsets), len(output.proposals), len(output.class_logits)) == (6, 6, 6, 6)
    output = model.eval()(**batch)
    assert set((output.seeds[:, 1] - output.seeds[:, 0]).tolist()) == {1, 2, 3, 4}
    assert output.sample is None


def test_the_sample_follows_from_the_gold_alone(
    tiny_model: Make, collator: SpanNERCollator, rows: list[dict[str, Any]]
) -> None:
    """Other weights of encoder and heads give other scores and the same spans."""
    samples = []
    for weight in (1.0, -2.0):
        model = without_dropout(tiny_model("locate_and_label"))
        for parameter in model.parameters():
            parameter.data *= weight
        torch.manual_seed(0)
        samples.append(model.train()(**collator(rows)))
    assert all(torch.equal(first, second) for first, second in zip(samples[0].sample, samples[1].sample, strict=True))
    assert not torch.equal(samples[0].logits, samples[1].logits)


def test_a_sampled_loss_and_its_gradients_equal_those_of_all_seeds(
    tiny_model: Make, collator: SpanNERCollator, rows: list[dict[str, Any]]
) -> None:
    """The twin runs all heads on every seed and on gold that is no seed, and only then leaves out what is unsampled."""
    model = without_dropout(tiny_model("locate_and_label", seed_lengths=[1, 2, 4], positive_iou=0.6)).train()
    batch = collator(rows)
    torch.manual_seed(3)
    loss = model(**batch).loss
    loss.backward()
    gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    torch.manual_seed(3)
    twin = loss_of_all_seeds(model, batch)
    twin.backward()
    torch.testing.assert_close(loss, twin, rtol=0, atol=1e-6)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-5, atol=1e-6, msg=name)


def loss_of_all_seeds(model: SpanNERModel, batch: dict[str, Tensor]) -> Tensor:
    """The loss with every head on all (B, K + G) spans and masks for the sample."""
    config, mask = model.config, batch["word_mask"]
    gold = legal_gold(batch["labels"], mask, config.num_labels)
    inputs = (batch[name] for name in ("input_ids", "attention_mask", "word_index", "word_mask"))
    words = model.encode(*inputs).last_hidden_state
    maxima, lengths = range_maxima(words), word_lengths(mask)
    seeds = seed_spans(words.shape[1], config.seed_lengths, words.device).expand(len(words), -1, -1)
    is_gold = is_first_label(gold)
    extra = torch.where(is_gold[..., None], gold[..., :2], torch.tensor([0, 1]))
    is_seed_length = torch.isin(extra[..., 1] - extra[..., 0], torch.tensor(config.seed_lengths))
    spans = torch.cat([seeds, extra], dim=1)
    rows = torch.arange(len(words))[:, None]
    is_legal = torch.cat([is_legal_span(rows, seeds, mask), is_gold & ~is_seed_length], dim=1)
    pairs = assign_gold(spans, gold)
    is_positive = is_legal & (pairs.iou > config.positive_iou)
    wanted = is_positive.sum(dim=1) * config.negatives_per_positive + config.min_negatives
    is_sampled = is_positive | sampled_negatives(is_legal & ~is_positive, wanted, torch.rand(is_legal.shape))
    sentence = rows.expand(spans.shape[:2]).flatten()
    flat = spans.flatten(0, 1)
    pooled = pooled_spans(maxima, sentence, *flat.unbind(dim=1))
    places = word_rows(sentence, flat, words.shape[1])
    logits, offsets = model._filter_logits(words, pooled, places), model._moves(words, mask, pooled, places)
    moved = moved_spans(flat, offsets.detach(), lengths[sentence])
    class_logits = model._class_logits(words, maxima, torch.cat([sentence[:, None], moved], dim=1))
    targets, iou = pairs.gold.flatten(0, 1), pairs.iou.flatten()
    moved_iou = paired_iou(moved, targets).masked_fill(iou == 0, 0.0)
    classes = torch.where(moved_iou >= 1, pairs.label.flatten(), config.num_labels)
    weights = soft_weights(iou, threshold=config.positive_iou, exponent=config.soft_exponent)
    moved_weights = soft_weights(moved_iou, threshold=1.0, exponent=config.soft_exponent)
    can_classify = is_sampled.flatten() & is_legal_span(sentence, moved, mask)
    parts = {
        "filter_loss": (filter_loss(logits, is_positive.flatten(), weights, gamma=config.focal_gamma), is_sampled),
        "regression_loss": (regression_loss(offsets, targets - flat), is_positive),
        "overlap_loss": (overlap_loss(flat + offsets, targets), is_positive),
        "classification_loss": (classification_loss(class_logits, classes, moved_weights), can_classify),
    }
    total = torch.zeros(len(words))
    for name, (values, counted) in parts.items():
        counted = counted.view(spans.shape[:2])
        kept = values.view(spans.shape[:2]).masked_fill(~counted, 0.0)
        total = total + model.loss_weights[name] * kept.sum(dim=1) / counted.sum(dim=1).clamp(min=1)
    return total.mean()
