"""The biaffine scorer against its equation, its initialisation on every path, its candidates, and its memory."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers import AutoModel

from hf_spanner.core.modeling_span_ner import SpanNERModel, SpanNEROutput
from hf_spanner.methods.boundary_smoothing import BoundarySmoothingConfig, BoundarySmoothingModel
from hf_spanner.methods.boundary_smoothing.loss_boundary_smoothing import boundary_smoothing_loss, legal_spans
from hf_spanner.methods.boundary_smoothing.modeling_boundary_smoothing import Biaffine

LABELS = ("LOC", "ORG", "PER")


def scorer(num_labels: int = 3, **fields: Any) -> Biaffine:
    """A scorer in eval mode with random weights of size 1."""
    id2label = {index: f"T{index}" for index in range(num_labels)}
    sizes = {"affine_size": 5, "width_embedding_size": 3, "max_width": 4, **fields}
    biaffine = Biaffine(BoundarySmoothingConfig(id2label=id2label, **sizes)).eval()
    with torch.no_grad():
        for parameter in biaffine.parameters():
            torch.nn.init.normal_(parameter)
    return biaffine


def literal_scores(biaffine: Biaffine, starts: Tensor, ends: Tensor) -> Tensor:
    """Scores (B, N, N, C + 1): h_i U_c h_j + W_c . [h_i ; h_j ; w_{j-i}] + b_c, with a pair's vectors side by side."""
    batch_size, num_words, _ = starts.shape
    pairs = torch.zeros(batch_size, num_words, num_words, biaffine.linear_weight.shape[1])
    for i in range(num_words):
        for j in range(num_words):
            parts = [starts[:, i], ends[:, j]]
            if biaffine.widths is not None:
                width = min(max(j - i, 0), biaffine.widths.num_embeddings - 1)
                parts.append(biaffine.widths.weight[width].expand(batch_size, -1))
            pairs[:, i, j] = torch.cat(parts, dim=-1)
    bilinear = torch.einsum("bid,ced,bje->bijc", starts, biaffine.pair_weight, ends)
    return bilinear + torch.einsum("bijw,cw->bijc", pairs, biaffine.linear_weight) + biaffine.bias


@pytest.mark.parametrize("width_embedding_size", [0, 3])
@pytest.mark.parametrize(("batch_size", "num_words", "num_labels"), [(1, 1, 1), (2, 9, 3), (3, 4, 6)])
def test_scores_equal_the_equation_on_concatenated_pairs(
    width_embedding_size: int, batch_size: int, num_words: int, num_labels: int
) -> None:
    """This is Eq. 1; nine words reach beyond `max_width` 4, so long widths share an embedding."""
    torch.manual_seed(0)
    biaffine = scorer(num_labels, width_embedding_size=width_embedding_size)
    starts, ends = torch.randn(batch_size, num_words, 5), torch.randn(batch_size, num_words, 5)
    logits = biaffine(starts, ends)
    assert logits.shape == (batch_size, num_words, num_words, num_labels + 1)
    torch.testing.assert_close(logits, literal_scores(biaffine, starts, ends), atol=1e-4, rtol=1e-5)


def test_score_of_one_pair_by_hand() -> None:
    """d = 1, one type: h_i = 2, h_j = 3, U = (5, 7), W = ((1, 2, 4), (0, 1, 1)), w = 0.5, b = (1, -1).

    Type: 2 x 5 x 3 + 1 x 2 + 2 x 3 + 4 x 0.5 + 1 = 41; none: 2 x 7 x 3 + 0 + 3 + 0.5 - 1 = 44.5.
    """
    biaffine = scorer(1, affine_size=1, width_embedding_size=1)
    with torch.no_grad():
        biaffine.pair_weight.copy_(torch.tensor([[[5.0]], [[7.0]]]))
        biaffine.linear_weight.copy_(torch.tensor([[1.0, 2.0, 4.0], [0.0, 1.0, 1.0]]))
        biaffine.widths.weight.fill_(0.5)
        biaffine.bias.copy_(torch.tensor([1.0, -1.0]))
        logits = biaffine(torch.tensor([[[2.0]]]), torch.tensor([[[3.0]]]))
    assert logits.flatten().tolist() == [41.0, 44.5]


def test_gradients_equal_those_of_the_equation() -> None:
    torch.manual_seed(0)
    biaffine = scorer()
    starts, ends = torch.randn(2, 6, 5, requires_grad=True), torch.randn(2, 6, 5, requires_grad=True)
    weights = torch.randn(2, 6, 6, 4)
    inputs = [starts, ends, *biaffine.parameters()]
    actual = torch.autograd.grad((biaffine(starts, ends) * weights).sum(), inputs)
    expected = torch.autograd.grad((literal_scores(biaffine, starts, ends) * weights).sum(), inputs)
    for left, right in zip(actual, expected, strict=True):
        torch.testing.assert_close(left, right, atol=1e-4, rtol=1e-4)


def from_config(encoder: Path, tmp_path: Path) -> SpanNERModel:
    return BoundarySmoothingModel(settings_of(encoder))


def from_auto_config(encoder: Path, tmp_path: Path) -> SpanNERModel:
    return AutoModel.from_config(settings_of(encoder))


def from_encoder(encoder: Path, tmp_path: Path) -> SpanNERModel:
    return BoundarySmoothingModel.from_encoder(encoder, labels=LABELS, lstm_size=16, affine_size=16)


def from_checkpoint(encoder: Path, tmp_path: Path) -> SpanNERModel:
    from_encoder(encoder, tmp_path).save_pretrained(tmp_path)
    return BoundarySmoothingModel.from_pretrained(tmp_path)


def from_checkpoint_of_other_labels(encoder: Path, tmp_path: Path) -> SpanNERModel:
    """Nothing is new but what depends on the labels."""
    other = BoundarySmoothingModel.from_encoder(encoder, labels=("A", "B"), lstm_size=16, affine_size=16)
    other.save_pretrained(tmp_path)
    names = dict(enumerate(LABELS))
    return BoundarySmoothingModel.from_pretrained(
        tmp_path, id2label=names, label2id={name: index for index, name in names.items()}, ignore_mismatched_sizes=True
    )


def settings_of(encoder: Path) -> BoundarySmoothingConfig:
    return from_encoder(encoder, encoder).config


@pytest.mark.parametrize(
    "construct", [from_config, from_auto_config, from_encoder, from_checkpoint, from_checkpoint_of_other_labels]
)
def test_initial_weights_are_those_of_the_official_code(
    construct: Callable[[Path, Path], SpanNERModel], tiny_encoder: Path, tmp_path: Path
) -> None:
    """The rows of U and W are orthonormal, b is zero, and the width embedding lies within sqrt(3 / 25).

    The layers are Kaiming, and the biases of the LSTM are zero.
    """
    torch.manual_seed(0)
    model = construct(tiny_encoder, tmp_path)
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    biaffine = model.biaffine
    identity = torch.eye(len(LABELS) + 1)
    flat = biaffine.pair_weight.flatten(1)
    torch.testing.assert_close(flat @ flat.T, identity, atol=1e-5, rtol=0)
    torch.testing.assert_close(biaffine.linear_weight @ biaffine.linear_weight.T, identity, atol=1e-5, rtol=0)
    assert not biaffine.bias.any()
    bound = math.sqrt(3 / 25)
    assert 0.9 * bound < biaffine.widths.weight.abs().max() <= bound
    assert biaffine.widths.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)
    for layer in (model.start_layer, model.end_layer):
        limit = math.sqrt(6 / 16)  # Kaiming uniform for ReLU, 16 inputs
        assert 0.9 * limit < layer.weight.abs().max() <= limit
        assert not layer.bias.any()
    assert not torch.equal(model.start_layer.weight, model.end_layer.weight)
    for name, parameter in model.word_encoder.lstm.named_parameters():
        assert parameter.any() == ("weight" in name)


def test_training_goes_on_from_an_encoder_that_keeps_its_weights(tiny_encoder: Path) -> None:
    """A new head does not touch the encoder."""
    encoder = AutoModel.from_pretrained(tiny_encoder)
    parameters = dict(from_encoder(tiny_encoder, tiny_encoder).word_encoder.encoder.named_parameters())
    expected = {name: value for name, value in encoder.named_parameters() if not name.startswith("pooler")}
    assert parameters.keys() == expected.keys()
    assert all(torch.equal(parameters[name], value) for name, value in expected.items())


def literal_candidates(logits: Tensor, word_mask: Tensor) -> list[set[tuple[int, int, int, float]]]:
    """The spans of each sentence whose likeliest class is a type, with its probability, found cell by cell."""
    candidates = []
    for table, mask in zip(logits.float(), word_mask.tolist(), strict=True):
        spans = set()
        for i in range(len(mask)):
            for j in range(i, len(mask)):
                scores = table[i, j].tolist()
                label = scores.index(max(scores))
                if mask[i] and mask[j] and label < len(scores) - 1:
                    total = sum(math.exp(score) for score in scores)
                    spans.add((i, j + 1, label, round(math.exp(scores[label]) / total, 4)))
        candidates.append(spans)
    return candidates


@pytest.fixture(scope="module")
def model(tiny_model: Callable[..., SpanNERModel]) -> SpanNERModel:
    return tiny_model()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@given(data=st.data())
def test_candidates_equal_a_literal_twin(dtype: torch.dtype, model: SpanNERModel, data: st.DataObject) -> None:
    """Any lengths, words without tokens and scores, ties included; the lowest of equal classes wins."""
    batch_size, num_words = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 6))
    mask = [data.draw(st.lists(st.booleans(), min_size=num_words, max_size=num_words)) for _ in range(batch_size)]
    word_mask = torch.tensor(mask)
    torch.manual_seed(data.draw(st.integers(0, 1000)))
    logits = torch.randn(batch_size, num_words, num_words, 4).mul(2).round(decimals=1).to(dtype)
    output = SpanNEROutput(logits=logits, word_mask=word_mask)
    packed = model.candidate_spans(output, model.decoding())
    assert packed.dtype == torch.float32
    assert packed.shape[0] == batch_size
    assert packed.shape[2] == 4
    candidates = [
        {(int(a), int(b), int(label), round(score, 4)) for a, b, label, score in rows if a >= 0}
        for rows in packed.tolist()
    ]
    for spans, expected in zip(candidates, literal_candidates(logits, word_mask), strict=True):
        assert {span[:3] for span in spans} == {span[:3] for span in expected}
        for span, wanted in zip(sorted(spans), sorted(expected), strict=True):
            assert span[3] == pytest.approx(wanted[3], abs=2e-4)


def test_candidates_hold_no_span_twice_and_pad_with_minus_100(model: SpanNERModel) -> None:
    """Every cell is a type, so there are N (N + 1) / 2 spans in one sentence, and one in the other."""
    logits = torch.zeros(2, 4, 4, 4)
    logits[..., 1] = 5.0
    word_mask = torch.tensor([[True] * 4, [True, False, False, False]])
    output = SpanNEROutput(logits=logits, word_mask=word_mask)
    packed = model.candidate_spans(output, model.decoding())
    assert packed.shape == (2, 10, 4)
    assert len({tuple(row[:2]) for row in packed[0].tolist()}) == 10
    assert (packed[1, 1:] == -100).all()


def test_nothing_likely_gives_an_empty_table(model: SpanNERModel) -> None:
    logits = torch.zeros(2, 3, 3, 4)
    logits[..., 3] = 1.0
    output = SpanNEROutput(logits=logits, word_mask=torch.ones(2, 3, dtype=torch.bool))
    assert model.candidate_spans(output, model.decoding()).shape == (2, 0, 4)
    assert model.decode(output) == [[], []]


def test_perfect_scores_decode_to_the_gold_spans(model: SpanNERModel) -> None:
    """A round trip: gold spans are high at (start, end - 1), and all else is none."""
    gold = [(0, 6, 2), (1, 3, 0), (2, 3, 1)]
    logits = torch.zeros(1, 6, 6, 4)
    logits[..., 3] = 4.0
    for start, end, label in gold:
        logits[0, start, end - 1, label] = 9.0
    output = SpanNEROutput(logits=logits, word_mask=torch.ones(1, 6, dtype=torch.bool))
    spans = model.decode(output, {"overlap": "nested"})[0]
    assert [tuple(span[:3]) for span in spans] == gold
    assert all(span.score > 0.98 for span in spans)


def test_second_labels_of_a_span_are_unreachable(model: SpanNERModel) -> None:
    assert model.unreachable([(0, 2, 0), (0, 2, 1), (0, 2, 1), (0, 3, 2)]) == 1
    assert model.unreachable([(0, 2, 0), (0, 2, 0), (1, 2, 1)]) == 0
    assert model.unreachable([]) == 0


@pytest.mark.parametrize("num_words", [64, 128])
def test_no_tensor_outgrows_the_score_table(largest_tensor: Any, num_words: int) -> None:
    """Case R-03, forward and backward: N^2 (C + 1) scores or N (C + 1) d queries, never N^2 (2 d + d_w) pairs."""
    size, num_classes = 24, 4
    biaffine = scorer(affine_size=size, width_embedding_size=25, max_width=50).train()
    starts, ends = torch.randn(1, num_words, size), torch.randn(1, num_words, size)
    is_legal = legal_spans(torch.ones(1, num_words, dtype=torch.bool))
    targets = torch.full((1, num_words, num_words, num_classes), 0.25)
    with largest_tensor as largest:
        boundary_smoothing_loss(biaffine(starts, ends), targets, is_legal).sum().backward()
    assert largest.num_elements <= num_words * num_classes * max(num_words, size)
    assert largest.num_elements < num_words**2 * size


@pytest.mark.parametrize("num_words", [128, 256, 512])
def test_score_table_has_the_size_of_the_case(num_words: int, cases: Callable[[str], dict[str, Any]]) -> None:
    """Case R-03 has 9 classes in float32, so the table grows fourfold as the length doubles."""
    case = cases("R-03")
    biaffine = scorer(case["input"]["classes"] - 1)
    with torch.no_grad():
        logits = biaffine(torch.randn(1, num_words, 5), torch.randn(1, num_words, 5))
    assert logits.untyped_storage().nbytes() == case["expected"]["score_grid_bytes"][str(num_words)]


def test_dropout_acts_on_boundary_vectors_and_widths_in_training_only() -> None:
    torch.manual_seed(0)
    biaffine = scorer(affine_dropout=0.5)
    starts, ends = torch.randn(1, 4, 5), torch.zeros(1, 4, 5)
    assert torch.equal(biaffine(starts, ends), biaffine(starts, ends))
    assert not torch.equal(biaffine.train()(starts, ends), biaffine(starts, ends))
    assert not torch.equal(biaffine(0 * starts, ends), biaffine(0 * starts, ends))


def test_the_model_trains_with_the_mass_that_its_configuration_names(
    tiny_model: Callable[..., BoundarySmoothingModel],
) -> None:
    """One word that is an entity, epsilon .2: by default its target is 1, with `none` .8, and the rest is none.

    Of equal logits of four classes each class has probability 1/4, so the loss is ln 4 either way; with the bias of
    none raised by 1 it is ln(3 + e) and, with .2 of the mass on none, .2 less.
    """
    for edge_mass, expected in (("center", math.log(3 + math.e)), ("none", math.log(3 + math.e) - 0.2)):
        model = tiny_model("boundary_smoothing", smoothing_epsilon=0.2, edge_mass=edge_mass)
        output = SpanNEROutput(
            logits=torch.tensor([[[[0.0, 0.0, 0.0, 1.0]]]]), word_mask=torch.ones(1, 1, dtype=torch.bool)
        )
        losses, _ = model.compute_loss(output, torch.tensor([[[0, 1, 0]]]))
        assert losses.item() == pytest.approx(expected, abs=1e-6)


def test_both_boundary_layers_have_a_dropout_mask_of_their_own(
    tiny_model: Callable[..., BoundarySmoothingModel],
) -> None:
    """Layers with equal weights give equal start and end vectors of the same words, but not under dropout."""
    model = tiny_model("boundary_smoothing", reduction_dropout=0.5, affine_dropout=0.0)
    model.end_layer.load_state_dict(model.start_layer.state_dict())
    vectors: list[torch.Tensor] = []
    model.biaffine.register_forward_pre_hook(lambda _, inputs: vectors.extend(inputs))
    words, mask = torch.randn(2, 4, model.word_encoder.output_size), torch.ones(2, 4, dtype=torch.bool)
    for training in (False, True):
        vectors.clear()
        model.train(training).score_spans(words, mask, None, model.decoding())
        assert torch.equal(*vectors) == (not training)
