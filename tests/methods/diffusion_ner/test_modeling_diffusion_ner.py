"""The training pass, sampling and decoding of the whole model."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from hf_spanner import SpanNERCollator, SpanNERModel
from hf_spanner.core.spans import unpack_spans
from hf_spanner.methods.diffusion_ner import DiffusionNERModel
from hf_spanner.methods.diffusion_ner import modeling_diffusion_ner as modeling
from hf_spanner.methods.diffusion_ner.loss_diffusion_ner import span_type_losses
from hf_spanner.methods.diffusion_ner.modeling_diffusion_ner import (
    DiffusionNEROutput,
    confidences,
    first_of_each,
)

Rows = list[dict[str, Any]]
Make = Callable[..., SpanNERModel]
LOWEST = torch.finfo(torch.float32).min


def large_weights(model: SpanNERModel) -> SpanNERModel:
    """The same model with a denoiser whose weights are large enough to tell spans apart."""
    torch.manual_seed(1)
    for parameter in model.denoiser.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


@pytest.fixture(scope="module")
def model(tiny_model: Make) -> SpanNERModel:
    return large_weights(tiny_model("diffusion_ner", boundary_loss="bce"))


@pytest.fixture
def batch(tokenizer: PreTrainedTokenizerBase, rows: Rows) -> dict[str, Tensor]:
    return SpanNERCollator(tokenizer, {"LOC": 0, "ORG": 1, "PER": 2})(rows)


def without_labels(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value for name, value in batch.items() if name != "labels"}


def output_of(
    spans: list[tuple[float, float, float, int, int, int]], num_words: int = 5, num_types: int = 3, **fields: Any
) -> DiffusionNEROutput:
    """One sentence from (P_l, P_r, P_c, left, right, type) of each noisy span.

    Other words have 0, and other classes are alike.
    """
    left, right = (torch.full((1, len(spans), num_words), LOWEST) for _ in range(2))
    types = torch.zeros(1, len(spans), num_types + 1)
    for row, (p_left, p_right, p_type, first, last, label) in enumerate(spans):
        left[0, row, first] = torch.tensor(p_left).logit()
        right[0, row, last] = torch.tensor(p_right).logit()
        types[0, row] = torch.tensor((1 - p_type) / num_types).log()
        types[0, row, label] = torch.tensor(p_type).log()
    word_mask = torch.ones(1, num_words, dtype=torch.bool)
    return DiffusionNEROutput(logits=types, left=left, right=right, word_mask=word_mask, **fields)


def scores_by_span(
    model: SpanNERModel, output: DiffusionNEROutput, **decoding: Any
) -> dict[tuple[int, int, int], float]:
    packed = model.candidate_spans(output, model.decoding(decoding))
    spans = unpack_spans(packed)[0]
    assert len({span[:3] for span in spans}) == len(spans)
    return {span[:3]: round(span.score, 5) for span in spans}


def test_a_span_is_kept_if_its_probabilities_pass_phi(model: SpanNERModel) -> None:
    """.9 + .9 + .8 = 2.6 passes 2.5, but .9 + .8 + .75 = 2.45 does not; none and a left after the right never do."""
    output = output_of(
        [(0.9, 0.9, 0.8, 0, 2, 1), (0.9, 0.8, 0.75, 1, 1, 0), (1, 1, 0.99, 2, 3, 3), (1, 1, 0.99, 4, 2, 0)]
    )
    assert scores_by_span(model, output, confidence="type") == {(0, 3, 1): 0.8}
    assert scores_by_span(model, output, confidence="type", phi=0.0) == {(0, 3, 1): 0.8, (1, 2, 0): 0.75}
    assert scores_by_span(model, output, phi=2.6001) == {}


def test_of_equal_boundaries_the_likelier_type_stays(model: SpanNERModel) -> None:
    """It stays by its type probability, .8, though the first has the larger sum, 2.75 to 2.7.

    Of equal ones the first stays, not the one of 2.6.
    """
    output = output_of([(1, 1, 0.75, 0, 2, 1), (0.95, 0.95, 0.8, 0, 2, 0), (0.9, 0.9, 0.8, 0, 2, 0)])
    assert scores_by_span(model, output, confidence="type") == {(0, 3, 0): 0.8}
    assert scores_by_span(model, output, confidence="mean") == {(0, 3, 0): round(2.7 / 3, 5)}


def test_of_equal_boundaries_the_surest_stays_where_types_are_read_from_words(tiny_model: Make) -> None:
    """The example above: the first has the largest mean, 2.75 / 3, and the largest product, .75 to .722 and .648.

    As in the paper the type alone decides where it is the score.
    """
    model = tiny_model("diffusion_ner", type_reading="pointed", boundary_loss="bce")
    output = output_of([(1, 1, 0.75, 0, 2, 1), (0.95, 0.95, 0.8, 0, 2, 0), (0.9, 0.9, 0.8, 0, 2, 0)])
    assert scores_by_span(model, output, confidence="mean") == {(0, 3, 1): round(2.75 / 3, 5)}
    assert scores_by_span(model, output) == {(0, 3, 1): 0.75}
    assert scores_by_span(model, output, confidence="type") == {(0, 3, 0): 0.8}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("type", 0.8), ("mean", 0.7), ("geometric", 0.24 ** (1 / 3) * 1.4 ** (1 / 3)), ("product", 0.336)],
)
def test_confidences_by_hand(kind: str, expected: float) -> None:
    """P_l .7, P_r .6, P_c .8: sum 2.1, product .336."""
    score = confidences(torch.tensor([0.7]), torch.tensor([0.6]), torch.tensor([0.8]), kind=kind)
    assert score.item() == pytest.approx(expected, abs=1e-6)


def test_confidence_is_the_mean_over_draws(model: SpanNERModel) -> None:
    """In two draws of two spans (0, 3) has .8 and .9, which give .85, and (4, 5) has .9 once, which gives .45.

    A span that is found twice in one draw counts once, with the larger probability: .9 of .9 and .85.
    """
    spans = [(1, 1, 0.8, 0, 2, 1), (1, 1, 0.9, 4, 4, 0), (1, 1, 0.9, 0, 2, 1), (1, 1, 0.85, 0, 2, 1)]
    assert scores_by_span(model, output_of(spans), confidence="type", num_draws=2) == {(0, 3, 1): 0.85, (4, 5, 0): 0.45}
    assert scores_by_span(model, output_of(spans), confidence="type") == {(0, 3, 1): 0.9, (4, 5, 0): 0.9}


def test_spans_that_do_not_exist_are_not_given(model: SpanNERModel) -> None:
    mask = torch.tensor([[True, False]])
    output = output_of([(1, 1, 0.9, 0, 2, 1), (1, 1, 0.9, 4, 4, 0)], span_mask=mask)
    assert set(scores_by_span(model, output)) == {(0, 3, 1)}


@given(data=st.data())
def test_candidates_equal_a_literal_twin(model: SpanNERModel, data: st.DataObject) -> None:
    """There are some sentences in a batch, two draws, words without tokens, and random scores with ties."""
    batch_size, num_words, num_spans = (data.draw(st.integers(1, 3)) for _ in range(3))
    torch.manual_seed(data.draw(st.integers(0, 1000)))
    left, right = (torch.randn(batch_size, 2 * num_spans, num_words).round(decimals=1) for _ in range(2))
    types = torch.randn(batch_size, 2 * num_spans, 4).round(decimals=1)
    word_mask = torch.rand(batch_size, num_words) < 0.8
    left, right = (scores.masked_fill(~word_mask[:, None], LOWEST) for scores in (left, right))
    output = DiffusionNEROutput(logits=types, left=left, right=right, word_mask=word_mask)
    decoding = model.decoding({"num_draws": 2, "phi": 1.2, "confidence": "mean"})
    packed = model.candidate_spans(output, decoding)
    for row in range(batch_size):
        totals: dict[tuple[int, int, int], float] = {}
        for draw in range(2):
            best: dict[tuple[int, int], tuple[float, int, float]] = {}
            for span in range(draw * num_spans, (draw + 1) * num_spans):
                p_left, p_right, p_type = (
                    left[row, span].sigmoid(),
                    right[row, span].sigmoid(),
                    types[row, span].softmax(-1),
                )
                first, last, label = p_left.argmax().item(), p_right.argmax().item(), p_type.argmax().item()
                total = (p_left.max() + p_right.max() + p_type.max()).item()
                is_legal = first <= last and label < 3 and word_mask[row, first] and word_mask[row, last]
                if is_legal and total > 1.2 and p_type.max().item() > best.get((first, last), (0.0,))[0]:
                    best[first, last] = (p_type.max().item(), label, total / 3)
            for (first, last), (_, label, score) in best.items():
                totals[first, last + 1, label] = totals.get((first, last + 1, label), 0.0) + score / 2
        candidate_scores = {span[:3]: span.score for span in unpack_spans(packed[row : row + 1])[0]}
        assert candidate_scores == pytest.approx(totals, abs=1e-5)


def test_first_of_each_by_hand() -> None:
    """The groups are (0, 1), (0, 2) and (1, 1); the largest value counts, and of equal ones the first."""
    keys = [torch.tensor([0, 0, 1, 0, 0]), torch.tensor([2, 1, 1, 2, 2])]
    places = first_of_each(keys, by=torch.tensor([0.5, 0.1, 0.2, 0.7, 0.7]))
    assert places.tolist() == [1, 3, 2]


def test_nothing_likely_gives_an_empty_table(model: SpanNERModel) -> None:
    output = output_of([(0.1, 0.1, 0.9, 0, 2, 3)])
    assert model.candidate_spans(output, model.decoding()).shape == (1, 0, 4)
    assert model.decode(output) == [[]]


def test_perfect_scores_decode_to_the_gold_spans(model: SpanNERModel) -> None:
    """A round trip: noisy spans point to nested gold spans, many to each, in any order."""
    gold = [(0, 5, 2), (1, 3, 0), (2, 3, 1)]
    spans = [(0.99, 0.99, 0.99, start, end - 1, label) for start, end, label in (gold * 3)[::-1]]
    decoded = model.decode(output_of(spans), {"overlap": "nested"})[0]
    assert [tuple(span[:3]) for span in decoded] == gold


def test_unreachable_are_second_labels_and_more_gold_than_noisy_spans(tiny_model: Make) -> None:
    model = tiny_model("diffusion_ner", num_spans=2)
    assert model.unreachable([(0, 2, 0), (0, 2, 1), (0, 2, 1)]) == 1
    assert model.unreachable([(0, 1, 0), (1, 2, 0), (2, 3, 0), (2, 3, 1)]) == 2
    model.config.num_draws = 2  # each draw finds its own
    assert model.unreachable([(0, 1, 0), (1, 2, 0), (2, 3, 0), (2, 3, 1)]) == 1
    assert model.unreachable([]) == 0


def test_a_training_pass_begins_at_noised_gold_and_shows_its_path(
    tiny_model: Make, batch: dict[str, Tensor], rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hardly any noise is put on, so the path begins with the gold spans, repeated, or with the whole sentence."""
    monkeypatch.setattr(modeling, "noise_levels", lambda schedule, num_timesteps: np.full(num_timesteps, 1 - 1e-8))
    output = tiny_model("diffusion_ner", expansion="repetition").train()(**batch)
    assert output.path.shape == (5, 2, 12, 2)
    assert output.logits.shape == (5, 12, 4)
    assert output.left.shape == output.right.shape == (5, 12, 8)
    for row, path in zip(rows, output.path[:, 0].tolist(), strict=True):
        whole = {(0, len(row["tokens"]) - 1)}
        gold = {(entity["start"], entity["end"] - 1) for entity in row["entities"]} or whole
        assert {tuple(span) for span in path} == gold
    assert torch.equal(output.path[:, 1, :, 0], output.left.argmax(dim=-1))
    assert torch.equal(output.path[:, 1, :, 1], output.right.argmax(dim=-1))
    assert output.loss_parts["total_iou_noisy"].tolist() == [1.0, 1.0, 0.0, 1.0, 1.0]


def test_noise_in_training_belongs_to_step_and_text(model: SpanNERModel, batch: dict[str, Tensor]) -> None:
    """A text has the same in any batch at one seed and another at another; without a seed torch's generator decides."""
    model.train()
    try:
        model.training_seed = 5
        whole = model(**batch).path[:, 0]
        part = {name: value[2:] for name, value in batch.items()}
        assert torch.equal(model(**part).path[:, 0], whole[2:])
        model.training_seed = 6
        assert not torch.equal(model(**batch).path[:, 0], whole)
        model.training_seed = None
        torch.manual_seed(3)
        drawn = model(**batch).path[:, 0]
        assert not torch.equal(model(**batch).path[:, 0], drawn)
        torch.manual_seed(3)
        assert torch.equal(model(**batch).path[:, 0], drawn)
    finally:
        model.training_seed = None
        model.eval()


@pytest.mark.parametrize("settings_of_call", [{}, {"num_draws": 3}, {"eta": 1.0}, {"spans_per_word": 1.5}])
def test_a_text_has_its_answer_alone_and_in_any_batch(
    model: SpanNERModel, batch: dict[str, Tensor], settings_of_call: dict[str, Any]
) -> None:
    """The whole path is the same with other texts as neighbours, padded further, and in another order."""
    inputs = without_labels(batch)
    order = torch.tensor([3, 0, 4, 2, 1])
    wide = {"word_mask": nn.functional.pad(inputs["word_mask"], (0, 4))}
    turned = {name: value[order] for name, value in (inputs | wide).items()}
    together, again = (model(**batch_inputs, decoding=settings_of_call) for batch_inputs in (inputs, turned))
    for row, place in enumerate(order.tolist()):
        alone = model(**{name: value[place : place + 1] for name, value in inputs.items()}, decoding=settings_of_call)
        num_words = int(inputs["word_mask"][place].sum())
        for output, index in ((together, place), (again, row)):
            spans = slice(None)
            if "spans_per_word" in settings_of_call:
                spans = slice(0, -(-num_words * 3 // 2))
                assert output.span_mask[index].sum() == alone.span_mask.sum() == spans.stop
            assert torch.equal(output.path[index][:, spans], alone.path[0][:, spans])
            torch.testing.assert_close(output.logits[index][spans], alone.logits[0][spans], atol=1e-5, rtol=1e-5)


def test_each_draw_is_a_sampling_of_its_own_and_the_first_is_always_the_same(
    model: SpanNERModel, batch: dict[str, Tensor]
) -> None:
    inputs = without_labels(batch)
    one_draw, three_draws = (model(**inputs, decoding={"num_draws": num_draws}) for num_draws in (1, 3))
    assert three_draws.logits.shape[1] == 3 * one_draw.logits.shape[1] == 36
    assert torch.equal(three_draws.path[:, :, :12], one_draw.path)
    torch.testing.assert_close(three_draws.left[:, :12], one_draw.left, atol=1e-5, rtol=1e-5)
    assert not torch.equal(three_draws.path[:, 0, 12:24], one_draw.path[:, 0])


def test_seed_steps_and_spans_act_in_a_call(model: SpanNERModel, batch: dict[str, Tensor]) -> None:
    inputs = without_labels(batch)
    start = model(**inputs).path
    assert start.shape == (5, 6, 12, 2)
    other = model(**inputs, decoding={"seed": 7, "num_steps": 2, "num_spans": 18}).path
    assert other.shape == (5, 3, 18, 2)
    assert not torch.equal(other[:, 0, :12], start[:, 0])
    assert torch.equal(model(**inputs, decoding={"num_spans": 18}).path[:, 0, :12], start[:, 0])


def test_fresh_noise_changes_later_steps_only(model: SpanNERModel, batch: dict[str, Tensor]) -> None:
    inputs = without_labels(batch)
    still, noisy, again = (model(**inputs, decoding={"eta": eta}).path for eta in (0.0, 1.0, 1.0))
    assert torch.equal(still[:, :2], noisy[:, :2])
    assert torch.equal(noisy, again)


@pytest.mark.parametrize(
    "fields",
    [{}, {"has_slot_embedding": True}, {"position_range": 3, "type_reading": "pointed", "right_reads_left": True}],
)
def test_equal_noisy_spans_are_computed_once_without_changing_a_score(
    tiny_model: Make, batch: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    """The twin computes every span; with slot embeddings equal spans differ, and nothing may be joined."""
    model = large_weights(tiny_model("diffusion_ner", **fields))
    inputs, settings_of_call = without_labels(batch), {"num_draws": 2, "spans_per_word": 7.0}
    output = model(**inputs, decoding=settings_of_call)

    def every_span(self: DiffusionNERModel, spans: Tensor, span_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        places = torch.arange(spans.shape[1] * spans.shape[2]).expand(len(spans), -1)
        return spans, span_mask[:, None].expand(spans.shape[:3]), places

    monkeypatch.setattr(DiffusionNERModel, "_rows", every_span)
    expected = model(**inputs, decoding=settings_of_call)
    real = expected.span_mask
    assert torch.equal(real, output.span_mask)
    for name in ("logits", "left", "right"):
        torch.testing.assert_close(getattr(output, name)[real], getattr(expected, name)[real], atol=1e-3, rtol=1e-4)
    assert torch.equal(output.path.transpose(1, 2)[real], expected.path.transpose(1, 2)[real])


def test_none_weighs_as_much_as_a_type_where_targets_are_repeated(tiny_model: Make, batch: dict[str, Tensor]) -> None:
    """There all spans of a sentence are matched or none is, and a balance within it would be 1 / K without gold.

    With targets matched once the balance of each sentence is the default.
    """
    for repeat_targets in (True, False):
        losses = {}
        for weight in (None, 1.0, 1 / 12):
            model = tiny_model("diffusion_ner", repeat_targets=repeat_targets, none_weight=weight).eval()
            losses[weight] = model(**batch).loss_parts["type_loss"]
        is_without_gold = (batch["labels"][..., 0] < 0).all(dim=1)
        assert is_without_gold.any()
        assert torch.equal(losses[None], losses[1.0]) == repeat_targets
        balanced = losses[None][is_without_gold] * (1 / 12 if repeat_targets else 1)
        torch.testing.assert_close(balanced, losses[1 / 12][is_without_gold])


def test_types_read_from_words_are_taught_at_noise_prediction_and_gold(
    tiny_model: Make, batch: dict[str, Tensor]
) -> None:
    """The type loss is the sum of those at the three; without training only the predicted spans have one."""
    model = tiny_model("diffusion_ner", type_reading="pointed", encoder_dropout=0.0, decoder_dropout=0.0).train()
    model.training_seed = 1
    output, gold = model(**batch), batch["labels"]
    noisy, predicted = output.path[:, 0], output.path[:, 1].sort(dim=-1).values  # a pair in the wrong order is turned
    assert output.taught.shape == (5, 12 + gold.shape[1], 4)
    ends = torch.stack([gold[..., 0], gold[..., 1] - 1], dim=-1).clamp(min=0)
    expected = (
        span_type_losses(output.logits, predicted, gold, None, 1.0)
        + span_type_losses(output.taught[:, :12], noisy, gold, None, 1.0)
        + span_type_losses(output.taught[:, 12:], ends, gold, gold[..., 0] >= 0, 1.0)
    )
    torch.testing.assert_close(output.loss_parts["type_loss"], expected)
    judged = model.eval()(**batch)
    assert judged.taught is None
    expected = span_type_losses(judged.logits, judged.path[:, -1].sort(dim=-1).values, gold, judged.span_mask, 1.0)
    torch.testing.assert_close(judged.loss_parts["type_loss"], expected)


@pytest.mark.parametrize(  # of the eight, four in which any two values meet
    ("span_form", "repeat_targets", "boundary_loss"),
    [("lr", False, "bce"), ("lr", True, "nll"), ("lw", False, "nll"), ("lw", True, "bce")],
)
def test_loss_falls_in_every_setting(
    tiny_model: Make, batch: dict[str, Tensor], boundary_loss: str, repeat_targets: bool, span_form: str
) -> None:
    """After thirty steps the last five losses add up to less than .8 of the first five."""
    model = tiny_model(
        "diffusion_ner",
        boundary_loss=boundary_loss,
        repeat_targets=repeat_targets,
        span_form=span_form,
        expansion="repetition" if repeat_targets else "random",
    ).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for step in range(30):
        model.training_seed = step
        optimizer.zero_grad()
        output = model(**batch)
        output.loss.backward()
        optimizer.step()
        losses.append(output.loss.item())
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_every_initial_weight_is_that_of_the_official_code(tiny_model: Make) -> None:
    """Linear layers are normal with deviation .02 and have no bias, norms are 1 and 0, and LSTM biases are 0."""
    model = tiny_model("diffusion_ner", lstm_layers=2, lstm_size=64)
    for name, parameter in model.denoiser.named_parameters():
        if "norm" in name:
            assert (parameter == float("weight" in name)).all(), name
        elif name.endswith("bias"):
            assert not parameter.any(), name
        elif parameter.numel() > 1000:
            assert parameter.std().item() == pytest.approx(0.02, rel=0.1), name
    for name, parameter in model.word_encoder.lstm.named_parameters():
        assert parameter.any() == ("weight" in name)
