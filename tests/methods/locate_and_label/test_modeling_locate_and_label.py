"""Heads against the equations on concatenated vectors, proposals, and what the switches of the ablation take away."""

import math
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from hf_spanner import SpanNERCollator, SpanNERModel
from hf_spanner.core.spans import unpack_spans
from hf_spanner.methods.locate_and_label.modeling_locate_and_label import (
    LocateAndLabelOutput,
    SpanHead,
    found_labels,
    is_legal_span,
)

Make = Callable[..., SpanNERModel]
LABELS = {"LOC": 0, "ORG": 1, "PER": 2}
LOSSES = ("filter_loss", "regression_loss", "overlap_loss", "classification_loss")


@pytest.fixture
def collator(tokenizer: PreTrainedTokenizerBase) -> SpanNERCollator:
    return SpanNERCollator(tokenizer, LABELS)


def literal_head(head: SpanHead, pooled: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Linear, GELU and Linear on the three vectors side by side."""
    weight = torch.cat([head.pool_layer.weight, head.left_layer.weight, head.right_layer.weight], dim=1)
    hidden = nn.functional.linear(torch.cat([pooled, left, right]), weight, head.pool_layer.bias)
    return head.output_layer(nn.functional.gelu(hidden))


def test_heads_equal_the_equations_on_concatenated_vectors(
    tiny_model: Make, collator: SpanNERCollator, rows: list[dict[str, Any]]
) -> None:
    """The filter reads the inner boundary words, the regressor the outer neighbours, clamped to the sentence.

    A seed that does not pass the filter, here about one in two, is not moved.
    """
    model = tiny_model("locate_and_label", seed_lengths=[1, 2, 3])
    batch = collator(rows)
    threshold = model(**batch).logits.sigmoid().median().item()
    output = model(**batch, decoding={"filter_threshold": threshold})
    is_passed = output.logits.sigmoid() > threshold
    assert 0.3 < is_passed.float().mean() < 0.7
    assert not output.offsets[~is_passed].any()
    for row, length in enumerate(batch["word_mask"].sum(dim=1).tolist()):
        words = output.words[row]
        for place, (start, end) in enumerate(output.seeds.tolist()):
            if end > length:
                continue
            pooled = words[start:end].amax(dim=0)
            expected = literal_head(model.filter, pooled, words[start], words[end - 1])
            torch.testing.assert_close(output.logits[row, place], expected[0])
            if not is_passed[row, place]:
                continue
            outer = words[max(start - 1, 0)], words[min(end, length - 1)]
            torch.testing.assert_close(output.offsets[row, place], literal_head(model.regressor, pooled, *outer))


def test_initial_weights_of_a_head_follow_its_widths(tiny_model: Make) -> None:
    """The deviation is sqrt(2 / 48) on three vectors of 16 and sqrt(1 / 16) after them, and biases are zero."""
    model = tiny_model("locate_and_label")
    for head in (model.filter, model.regressor, model.classifier):
        first = torch.stack([layer.weight for layer in (head.pool_layer, head.left_layer, head.right_layer)])
        assert first.std().item() == pytest.approx((2 / 48) ** 0.5, rel=0.1)
        assert head.output_layer.weight.std().item() == pytest.approx(1 / 4, rel=0.4)
        assert not head.pool_layer.bias.any()
        assert not head.output_layer.bias.any()


def test_classes_are_those_of_the_moved_span(
    tiny_model: Make, collator: SpanNERCollator, rows: list[dict[str, Any]]
) -> None:
    """Each moved span comes once, lies within its sentence, and is classified by its own words."""
    model = tiny_model("locate_and_label", filter_threshold=0.0)
    output = model(**collator(rows))
    proposals = [tuple(proposal) for proposal in output.proposals.tolist()]
    assert proposals == sorted(set(proposals))
    for (row, start, end), logits in zip(proposals, output.class_logits, strict=True):
        assert 0 <= start < end <= len(rows[row]["tokens"])
        words = output.words[row]
        expected = literal_head(model.classifier, words[start:end].amax(dim=0), words[start], words[end - 1])
        torch.testing.assert_close(logits, expected)


def test_the_filter_saves_work(tiny_model: Make, collator: SpanNERCollator, rows: list[dict[str, Any]]) -> None:
    """The classifier sees proposals only: none above a threshold of 1, and all seeds without a filter."""
    batch = collator(rows)
    strict = tiny_model("locate_and_label", filter_threshold=1.0)(**batch)
    assert strict.proposals.shape == (0, 3)
    assert strict.class_logits.shape == (0, 4)
    model = tiny_model("locate_and_label", use_filter=False, use_regressor=False)
    output = model(**batch)
    num_seeds = is_legal_span(torch.arange(len(rows))[:, None], output.seeds, batch["word_mask"]).sum().item()
    assert len(output.proposals) == num_seeds
    assert "filter" not in dict(model.named_children())


def test_gold_that_is_no_seed_takes_part(tiny_model: Make, collator: SpanNERCollator) -> None:
    """Seven words are one entity and seeds have one word: the only positive is the entity itself and need not move."""
    model = tiny_model("locate_and_label", seed_lengths=[1])
    row = {"tokens": list("abcdefg"), "entities": [{"start": 0, "end": 7, "label": "ORG"}]}
    output = model(**collator([row]))
    assert output.loss_parts["total_filter_recall"].item() == 1


def literal_losses(model: SpanNERModel, words: Tensor, gold: list[tuple[int, int, int]]) -> list[float]:
    """Filter, regression, overlap and classification loss of one sentence, computed span by span."""
    config, num_words = model.config, len(words)
    spans = [(i, i + length) for length in config.seed_lengths for i in range(num_words - length + 1)]
    spans += [span[:2] for span in gold if span[1] - span[0] not in config.seed_lengths]
    examples = []
    for start, end in spans:
        pooled = words[start:end].amax(dim=0)
        p = literal_head(model.filter, pooled, words[start], words[end - 1]).sigmoid().item()
        outer = words[max(start - 1, 0)], words[min(end, num_words - 1)]
        left, right = literal_head(model.regressor, pooled, *outer).tolist()
        iou, near = max(((literal_iou((start, end), other), other) for other in gold), key=lambda pair: pair[0])
        key = ((start * 7_919 + end * 104_729) * 2_654_435_761 % 2**32) / 2**32
        examples.append((key, start, end, p, left, right, iou, near))
    positive = [example for example in examples if example[6] > config.positive_iou]
    limit = len(positive) * config.negatives_per_positive + config.min_negatives
    negative = sorted(example for example in examples if example[6] <= config.positive_iou)[:limit]
    losses: list[list[float]] = [[], [], [], []]
    for _, start, end, p, left, right, iou, near in positive + negative:
        is_positive = iou > config.positive_iou
        share = iou if iou >= config.positive_iou else 1 - iou
        losses[0].append(-share * ((1 - p) ** 2 * math.log(p) if is_positive else p**2 * math.log(1 - p)))
        if is_positive:
            errors = [abs(left - near[0] + start), abs(right - near[1] + end)]
            losses[1].append(sum(error**2 / 2 if error < 1 else error - 0.5 for error in errors))
            inner = min(end + right, near[1]) - max(start + left, near[0])
            losses[2].append(1 - inner / (max(end + right, near[1]) - min(start + left, near[0])))
        first = min(max(start + math.floor(left + 0.5), 0), num_words)
        last = min(max(end + math.floor(right + 0.5), 0), num_words)
        if first >= last:
            continue
        scores = literal_head(model.classifier, words[first:last].amax(dim=0), words[first], words[last - 1])
        hit = literal_iou((first, last), near) if iou > 0 else 0.0
        label, weight = (near[2], 1.0) if hit == 1 else (config.num_labels, 1 - hit)
        losses[3].append(-weight * scores.log_softmax(dim=0)[label].item())
    return [sum(part) / max(len(part), 1) for part in losses]


def literal_iou(first: tuple[int, int], second: tuple[int, ...]) -> float:
    inner = min(first[1], second[1]) - max(first[0], second[0])
    return max(0, inner) / (max(first[1], second[1]) - min(first[0], second[0]))


@pytest.mark.parametrize("negatives", [0, 1, 5])
def test_losses_equal_a_literal_loop(tiny_model: Make, collator: SpanNERCollator, negatives: int) -> None:
    """Random sentences have nested gold, some of it no seed, and each has another number of sampled negatives."""
    random = Random(negatives)
    model = tiny_model(
        "locate_and_label", seed_lengths=[1, 2, 3], negatives_per_positive=negatives, min_negatives=2, positive_iou=0.6
    )
    for parameter in model.regressor.parameters():
        parameter.data *= 3.0  # so that some spans move
    for _ in range(10):
        length = random.randint(5, 9)
        bounds = {tuple(sorted(random.sample(range(length + 1), 2))) for _ in range(3)}
        gold = sorted((start, end, random.randrange(3)) for start, end in bounds)
        names = {index: name for name, index in LABELS.items()}
        entities = [{"start": start, "end": end, "label": names[label]} for start, end, label in gold]
        output = model(**collator([{"tokens": list("abcdefghi")[:length], "entities": entities}]))
        with torch.no_grad():
            expected = literal_losses(model, output.words[0], gold)
        assert [output.loss_parts[name].item() for name in LOSSES] == pytest.approx(expected, abs=1e-5)


def test_gold_on_a_word_without_tokens_makes_no_seed_positive(tiny_model: Make, collator: SpanNERCollator) -> None:
    """Seed (0, 4) overlaps (0, 5) by .8, but the fifth word has no tokens, so no span can end there."""
    model = tiny_model("locate_and_label", seed_lengths=[1, 2, 4])
    row = {"tokens": list("abcdef"), "entities": [{"start": 0, "end": 5, "label": "ORG"}]}
    batch = collator([row])
    assert model(**batch).loss_parts["total_filter_recall"] > 0
    batch["word_mask"][0, 4] = False
    assert model(**batch).loss_parts["total_filter_recall"] == 0


def test_soft_nms_follows_its_switch(tiny_model: Make) -> None:
    """(0, 5) and (1, 5) overlap by .8: the worse one decays from near 1 to .4, below .5, unless the switch is off."""
    gold = [(0, 5, 1), (1, 5, 1)]
    for use_soft_nms, count in ((True, 1), (False, 2)):
        model = tiny_model("locate_and_label", use_soft_nms=use_soft_nms, nms_decay=0.4, nms_threshold=0.5)
        output = perfect_output(model, gold, num_words=5)
        assert len(unpack_spans(model.candidate_spans(output, model.decoding()))[0]) == count


def test_sampling_in_training_is_drawn_from_the_global_generator(
    tiny_model: Make, collator: SpanNERCollator, rows: list[dict[str, Any]]
) -> None:
    model = tiny_model("locate_and_label", negatives_per_positive=1, min_negatives=1, head_dropout=0.0)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    model.train()
    batch, losses = collator(rows), []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        losses.append(model(**batch).loss.item())
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.parametrize(
    ("switches", "unused"),
    [
        ({"use_filter": False}, {"filter_loss"}),
        ({"use_regressor": False}, {"regression_loss", "overlap_loss"}),
        ({"use_filter": False, "use_regressor": False}, {"filter_loss", "regression_loss", "overlap_loss"}),
    ],
)
def test_a_loss_without_its_head_has_no_weight(tiny_model: Make, switches: dict[str, bool], unused: set[str]) -> None:
    assert tiny_model("locate_and_label", **switches).loss_weights.keys() == set(LOSSES) - unused


def test_shares_are_logged_from_positive_seeds_kept_and_exact(
    tiny_model: Make, collator: SpanNERCollator, rows: list[dict[str, Any]]
) -> None:
    parts = tiny_model("locate_and_label")(**collator(rows)).loss_parts
    assert parts["total_filter_recall"].tolist()[2] == 0  # it rained all the way
    assert (parts["total_filter_recall"] >= parts["filter_recall"]).all()
    assert torch.equal(parts["filter_recall"], parts["total_exact_moves"])
    assert (parts["total_exact_moves"] >= parts["exact_moves"]).all()


def test_four_losses_have_four_weights(tiny_model: Make, collator: SpanNERCollator, rows: list[dict[str, Any]]) -> None:
    names = ("filter", "regression", "overlap", "classification")
    weights = [2.0, 3.0, 5.0, 7.0]
    fields = {f"{name}_loss_weight": weight for name, weight in zip(names, weights, strict=True)}
    output = tiny_model("locate_and_label", **fields)(**collator(rows))
    expected = sum(weight * output.loss_parts[name].mean() for name, weight in zip(LOSSES, weights, strict=True))
    torch.testing.assert_close(output.loss, expected)


def perfect_output(
    model: SpanNERModel | None, spans: list[tuple[int, int, int]], num_words: int
) -> LocateAndLabelOutput:
    """The output that a model that is sure of its spans would give for one sentence."""
    logits = torch.zeros(len(spans), 4)
    for place, (_, _, label) in enumerate(spans):
        logits[place, label] = 12.0
    proposals = torch.tensor([[0, start, end] for start, end, _ in spans]).reshape(-1, 3)
    return LocateAndLabelOutput(
        logits=torch.zeros(1, 1),
        word_mask=torch.ones(1, num_words, dtype=torch.bool),
        proposals=proposals,
        class_logits=logits,
    )


def test_perfect_scores_decode_to_gold(tiny_model: Make) -> None:
    """Nested gold comes through Soft-NMS and the overlap rule, and nothing comes of what is none."""
    model = tiny_model("locate_and_label")
    gold = [(0, 5, 1), (1, 5, 1), (3, 5, 0), (6, 7, 2)]
    output = perfect_output(model, [*gold, (2, 4, 3)], num_words=8)
    # IoU of (0, 5) and (1, 5) is .8, above the default .7: the second decays to .8, still above .5
    assert {span[:3] for span in model.decode(output, {"nms_threshold": 0.5})[0]} == set(gold)
    dropped = model.decode(output, {"nms_threshold": 0.5, "nms_decay": 0.4})[0]
    assert {span[:3] for span in dropped} == set(gold) - {(1, 5, 1)}


def test_score_is_the_probability_before_decay(tiny_model: Make) -> None:
    model = tiny_model("locate_and_label")
    output = perfect_output(model, [(0, 5, 1), (1, 5, 1)], num_words=5)
    packed = unpack_spans(model.candidate_spans(output, model.decoding({"nms_decay": 0.6})))[0]
    expected = torch.tensor([12.0, 0.0, 0.0, 0.0]).softmax(dim=0)[0].item()
    assert [span.score for span in packed] == pytest.approx([expected] * 2)


def scored_output(spans: list[tuple[int, int, float]], num_words: int) -> LocateAndLabelOutput:
    """The output for one sentence in which these (start, end) have the first of three types with a probability."""
    output = perfect_output(None, [(start, end, 0) for start, end, _ in spans], num_words)
    for place, (*_, score) in enumerate(spans):
        output.class_logits[place] = torch.tensor([score, 0.0, 0.0, 1 - score]).log()
    return output


def test_clashing_spans_are_ordered_by_their_decayed_scores(tiny_model: Make) -> None:
    """(0, 10) .9, (0, 9) .85 and (7, 10) .8 with k .7 and u .8, nested.

    (0, 9) overlaps (0, 10) by .9 and decays to .68. So (7, 10) comes before it, and (0, 9), which crosses it, goes. The
    scores are those before decay. Without Soft-NMS (0, 9) comes first, and (7, 10) goes.
    """
    spans = [(0, 9, 0.85), (0, 10, 0.9), (7, 10, 0.8)]
    settings = {"nms_iou": 0.7, "nms_decay": 0.8, "nms_threshold": 0.5, "overlap": "nested"}
    for use_soft_nms, expected in ((True, [(0, 10, 0.9), (7, 10, 0.8)]), (False, [(0, 10, 0.9), (0, 9, 0.85)])):
        model = tiny_model("locate_and_label", use_soft_nms=use_soft_nms)
        found = model.decode(scored_output(spans, num_words=10), settings)[0]
        assert [(span.start, span.end, pytest.approx(span.score)) for span in found] == expected


def test_any_overlap_keeps_what_soft_nms_keeps(tiny_model: Make) -> None:
    model = tiny_model("locate_and_label", nms_iou=0.7, nms_decay=0.8, nms_threshold=0.5)
    output = scored_output([(0, 10, 0.9), (0, 9, 0.85), (7, 10, 0.8), (0, 8, 0.6)], num_words=10)
    found = model.decode(output, {"overlap": "any"})[0]
    assert {span[:2] for span in found} == {(0, 10), (0, 9), (7, 10)}


def test_without_soft_nms_every_span_stays(tiny_model: Make) -> None:
    output = scored_output([(0, 4, 0.9), (0, 3, 0.6)], num_words=4)
    for use_soft_nms, count in ((False, 2), (True, 1)):
        model = tiny_model("locate_and_label", use_soft_nms=use_soft_nms)
        settings = model.decoding({"nms_iou": 0.7, "nms_decay": 0.5, "nms_threshold": 0.4})
        assert len(unpack_spans(model.candidate_spans(output, settings))[0]) == count


def test_the_filters_threshold_belongs_to_the_call(
    tiny_model: Make, collator: SpanNERCollator, rows: list[dict[str, Any]]
) -> None:
    """A call may let fewer or more seeds pass than the configuration does, which stays as it is."""
    model = tiny_model("locate_and_label")
    sizes = [len(model(**collator(rows), decoding={"filter_threshold": rate}).proposals) for rate in (0.0, 0.5, 1.0)]
    assert sizes[0] > sizes[1] > sizes[2] == 0
    assert model.config.filter_threshold == pytest.approx(1 / 6)


def test_unreachable_counts_second_types_and_what_no_seed_can_become(tiny_model: Make) -> None:
    labels = [(0, 2, 0), (0, 2, 1), (0, 5, 0)]
    assert tiny_model("locate_and_label", seed_lengths=[1, 2]).unreachable(labels) == 1
    assert tiny_model("locate_and_label", seed_lengths=[1, 2], use_regressor=False).unreachable(labels) == 2


def test_labels_that_are_likelier_than_not_are_found_by_hand() -> None:
    """Probabilities .73 .12 and .5 .88: .5 is not likelier than not."""
    places, labels, scores = found_labels(torch.tensor([[1.0, -2.0], [0.0, 2.0]]), multi_label=True)
    assert (places.tolist(), labels.tolist()) == ([0, 1], [0, 1])
    assert scores.tolist() == pytest.approx([0.7310586, 0.8807971])
    classes = torch.tensor([[0.0, 0.0, 3.0], [math.log(6), math.log(2), math.log(2)]])  # none, then .6 for label 0
    places, labels, scores = found_labels(classes, multi_label=False)
    assert (places.tolist(), labels.tolist(), scores.tolist()) == ([1], [0], [pytest.approx(0.6)])


def test_labels_that_are_decisions_of_their_own_start_rare(tiny_model: Make) -> None:
    """log(.01 / .99) = -4.595; classes and the filter start even."""
    model, plain = tiny_model("locate_and_label", multi_label=True), tiny_model("locate_and_label")
    assert model.classifier.output_layer.bias.tolist() == pytest.approx([-4.59512] * 3)
    for head in (plain.classifier, plain.filter, model.filter):
        assert not head.output_layer.bias.any()


def test_one_span_of_two_types_is_trained_and_predicted(tiny_model: Make, collator: SpanNERCollator) -> None:
    """The same words are PER and ORG: `multi_label` gives both, and without it one of them is unreachable."""
    entities = [{"start": 0, "end": 2, "label": label} for label in ("PER", "ORG")]
    batch = collator([{"tokens": ["Mira", "Stone", "met", "Bo"], "entities": entities}])
    dropout = {"lstm_dropout": 0.0, "head_dropout": 0.0, "encoder_dropout": 0.0}
    model = tiny_model("locate_and_label", multi_label=True, **dropout).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(60):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
    with torch.no_grad():
        decoded = model.eval().decode(model(**batch))[0]
    assert [span[:3] for span in decoded] == [(0, 2, 1), (0, 2, 2)]
    assert model.unreachable([(0, 2, 1), (0, 2, 2)]) == 0
    assert tiny_model("locate_and_label").unreachable([(0, 2, 1), (0, 2, 2)]) == 1


def test_entities_longer_than_every_seed_are_found(tiny_model: Make, collator: SpanNERCollator) -> None:
    """Seeds have up to four words and the entity has six, so only a boundary that moves reaches it."""
    model = tiny_model("locate_and_label", seed_lengths=[1, 2, 3, 4], encoder_dropout=0.0, positive_iou=0.5)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    row = {
        "tokens": ["we", "met", "the", "Bank", "of", "Oslo", "and", "Lake", "in", "May"],
        "entities": [{"start": 2, "end": 8, "label": "ORG"}, {"start": 9, "end": 10, "label": "LOC"}],
    }
    batch = collator([row])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(400):
        optimizer.zero_grad()
        model.train()(**batch).loss.backward()
        optimizer.step()
        with torch.no_grad():
            spans = model.eval().decode(model(**batch))[0]
        if {span[:3] for span in spans} == {(2, 8, 1), (9, 10, 0)}:
            return
    pytest.fail(f"found {spans}")
