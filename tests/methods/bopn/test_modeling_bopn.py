"""The whole model against its equations, prompts on every kind of encoder, blocks, memory, and initial weights."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    MPNetConfig,
    PreTrainedConfig,
    RobertaConfig,
    XLMRobertaConfig,
)

from hf_spanner import SpanNERCollator, SpanNERModel, SpanNEROutput
from hf_spanner.core.spans import unpack_spans
from hf_spanner.methods.bopn import BOPNConfig, BOPNModel, modeling_bopn

LABELS = ("LOC", "ORG", "PER")
SIZES = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
SHIFTED = {**SIZES, "max_position_embeddings": 34, "pad_token_id": 1}
DISTIL = {"vocab_size": 50, "dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}
ENCODERS: dict[str, PreTrainedConfig] = {
    "bert": BertConfig(max_position_embeddings=32, **SIZES),
    "roberta": RobertaConfig(**SHIFTED),
    "xlm-roberta": XLMRobertaConfig(**SHIFTED),
    "mpnet": MPNetConfig(**SHIFTED),
    "electra": ElectraConfig(max_position_embeddings=32, embedding_size=16, **SIZES),
    "distilbert": DistilBertConfig(max_position_embeddings=32, **DISTIL),
    "deberta-v2": DebertaV2Config(
        max_position_embeddings=32, relative_attention=True, pos_att_type=["p2c", "c2p"], **SIZES
    ),
}
Make = Callable[..., BOPNModel]


@pytest.fixture
def bopn(tiny_model: Callable[..., SpanNERModel]) -> Make:
    return lambda **fields: tiny_model("bopn", **fields)  # type: ignore[return-value]


@pytest.fixture
def collator(tiny_encoder: Path) -> SpanNERCollator:
    labels = {label: index for index, label in enumerate(LABELS)}
    return SpanNERCollator(AutoTokenizer.from_pretrained(tiny_encoder), labels)


def batch_of(*lengths: int, pad: int = 0) -> dict[str, Tensor]:
    """A batch of texts of one-token words, padded, with a special token on each side."""
    width = max(lengths) + 2
    places = torch.arange(width)
    length = torch.tensor(lengths)[:, None]
    torch.manual_seed(1)
    ids = torch.randint(5, 50, (1, width)).expand(len(lengths), -1)
    is_real = places < length + 2
    return {
        "input_ids": ids.masked_fill(~is_real, pad),
        "attention_mask": is_real.long(),
        "word_index": places * ((places >= 1) & (places <= length)),
        "word_mask": torch.arange(max(lengths)) < length,
    }


def literal_logits(model: BOPNModel, states: Tensor, num_types: int) -> Tensor:
    """The biaffine of every type with every pair's vector, one cell at a time and without convolution."""
    types, words = states[:num_types], states[num_types:]
    maps, biases = model.type_maps(types[None])
    normed, gamma, shift = model.span_vectors.parts(words[None])
    num_words = len(words)
    logits = torch.zeros(num_words, num_words, num_types, model.config.num_offset_labels)
    regions = model.span_vectors.regions
    for i in range(num_words):
        for j in range(num_words):
            vector = torch.cat([gamma[0, j] * normed[0, i] + shift[0, j], regions.weight[int(i > j)]])
            x = model.span_vectors.layer(vector).relu()
            logits[i, j] = maps[0] @ x + biases[0]
    return logits


@pytest.mark.parametrize("max_offset", [0, 1, 3])
def test_scores_equal_the_equations_cell_by_cell(bopn: Make, max_offset: int) -> None:
    """Eq. 1 to 3 are computed without convolutions on what `encode` gives; L = 4 S + 2."""
    model = bopn(num_convolutions=0, max_offset=max_offset)
    torch.nn.init.normal_(model.span_vectors.scale_layer.weight)
    torch.nn.init.normal_(model.span_vectors.shift_layer.weight)
    batch = batch_of(5)
    with torch.no_grad():
        states = model.encode(**batch).last_hidden_state
        logits = model.score_spans(states, batch["word_mask"], None, model.decoding()).logits
        expected = literal_logits(model, states[0], 3)
        model.config.mask_lower = True
        upper = model.score_spans(states, batch["word_mask"], None, model.decoding()).logits
    assert logits.shape == upper.shape == (1, 5, 5, 3, 4 * max_offset + 2)
    is_upper = torch.ones(5, 5, dtype=torch.bool).triu()
    torch.testing.assert_close(upper[0, is_upper], expected[is_upper], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(logits[0], expected, atol=1e-5, rtol=1e-4)


def test_types_and_words_share_encoder_and_lstm(bopn: Make) -> None:
    """Section 3.1: prompts before the first token, one BiLSTM over types then words, and zeros after the last word."""
    model = bopn()
    batch = batch_of(4, 2)
    with torch.no_grad():
        states = model.encode(**batch).last_hidden_state
        hidden = model.word_encoder.embed(
            batch["input_ids"], batch["attention_mask"], model.types.weight
        ).last_hidden_state
        for row, length in enumerate((4, 2)):
            sequence = torch.cat([hidden[row, :3], hidden[row, 4 : 4 + length]])  # one token a word, after [CLS]
            expected, _ = model.word_encoder.lstm(sequence[None])
            torch.testing.assert_close(states[row, : 3 + length], expected[0], atol=1e-5, rtol=1e-4)
        assert not states[1, 5:].any()


def test_without_type_inputs_the_sentence_is_read_alone(bopn: Make) -> None:
    """In this ablation the type vectors meet the spans in the biaffine only."""
    model = bopn(has_type_inputs=False)
    batch = batch_of(4, 2)
    with torch.no_grad():
        states = model.encode(**batch).last_hidden_state
        torch.testing.assert_close(states[:, 3:], model.word_encoder(**batch).last_hidden_state)
    assert torch.equal(states[0, :3], model.types.weight)
    assert model.types.embedding_dim == model.word_encoder.output_size == 16


@pytest.mark.parametrize("kind", ENCODERS)
def test_prompts_work_with_every_kind_of_encoder(kind: str, tmp_path: Path) -> None:
    """Prompts have the width of the input embeddings, a full window fits, padding changes nothing, gradients arrive."""
    config = ENCODERS[kind]
    encoder = AutoModel.from_config(config)
    encoder.save_pretrained(tmp_path)
    model = BOPNModel.from_encoder(tmp_path, labels=LABELS, lstm_size=8, biaffine_size=8).eval()
    assert model.types.embedding_dim == encoder.get_input_embeddings().embedding_dim
    assert model.config.window_size == 32 - 2 - 3
    batch = batch_of(27, 4, pad=config.pad_token_id or 0)
    logits = model(**batch).logits
    alone = model(**batch_of(4)).logits
    torch.testing.assert_close(logits[1, :4, :4], alone[0], atol=1e-4, rtol=1e-4)
    logits.sum().backward()
    assert model.types.weight.grad is not None
    assert model.types.weight.grad.abs().sum() > 0


def test_prompts_can_start_from_label_names(encoder_folders: dict[str, Path]) -> None:
    """A prompt starts as the mean input embedding of the name's pieces without special tokens."""
    folder = encoder_folders["bpe"]
    model = BOPNModel.from_encoder(folder, labels=("city", "running dog"), lstm_size=8, prompt_init="label_names")
    tokenizer, embeddings = AutoTokenizer.from_pretrained(folder), model.word_encoder.encoder.get_input_embeddings()
    for prompt, name in zip(model.types.weight, ("city", "running dog"), strict=True):
        pieces = tokenizer(name, add_special_tokens=False)["input_ids"]
        assert len(pieces) > 1
        torch.testing.assert_close(prompt, embeddings.weight[pieces].mean(dim=0))


def test_label_names_without_pieces_are_refused_as_prompts(encoder_folders: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match="prompt_init='label_names' needs label names with pieces, got ' '"):
        BOPNModel.from_encoder(encoder_folders["wordpiece"], labels=("city", " "), prompt_init="label_names")


@pytest.mark.parametrize("fields", [{}, {"conv_style": "sequential_residual", "mask_lower": True}])
def test_blocks_of_rows_change_neither_scores_nor_gradients(
    bopn: Make, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    """There is one block, or blocks of two of seven rows, or blocks of one row where a row alone exceeds the limit."""
    batch = batch_of(7, 3)
    batch["labels"] = torch.tensor([[[1, 3, 0], [2, 6, 1]], [[0, 1, 2], [-100, -100, -100]]])
    results = []
    for limit in (2**24, 2 * 2 * 7 * 16, 1):
        monkeypatch.setattr(modeling_bopn, "BLOCK_ELEMENTS", limit)
        model = bopn(**fields)
        output = model(**batch)
        output.loss.backward()
        results.append((output.logits, [parameter.grad for parameter in model.parameters()]))
    for logits, gradients in results[1:]:
        torch.testing.assert_close(logits, results[0][0], atol=1e-5, rtol=1e-5)
        for gradient, expected in zip(gradients, results[0][1], strict=True):
            torch.testing.assert_close(gradient, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("num_words", [48, 96])
def test_no_tensor_outgrows_the_scores(
    bopn: Make, monkeypatch: pytest.MonkeyPatch, largest_tensor: Any, num_words: int
) -> None:
    """Case R-03, forward and backward: tables have N^2 M L numbers, never N^2 d of span vectors (d = 256)."""
    monkeypatch.setattr(modeling_bopn, "BLOCK_ELEMENTS", 2**16)
    width, num_types, num_offsets = 256, 3, 6
    model = bopn(max_offset=1, lstm_size=width).train()
    states = torch.randn(1, num_types + num_words, width)
    word_mask = torch.ones(1, num_words, dtype=torch.bool)
    labels = torch.tensor([[[1, 3, 0]]])
    with largest_tensor as largest:
        output = model.score_spans(states, word_mask, labels, model.decoding())
        model.compute_loss(output, labels)[0].sum().backward()
    assert largest.num_elements <= max(2**16, num_words**2 * num_types * num_offsets, 2 * width * width)
    assert largest.num_elements < num_words**2 * width


def test_scores_never_wait_for_the_device(bopn: Make, no_synchronisation: Any) -> None:
    model, batch = bopn().train(), batch_of(6, 1)
    states = model.encode(**batch).last_hidden_state
    with no_synchronisation:
        model.score_spans(states, batch["word_mask"], None, model.decoding())


def test_one_block_of_both_triangles_is_not_copied(bopn: Make) -> None:
    """The scores that the biaffine gives are the very memory of its one product; a copy would be as large again."""
    model = bopn(mask_lower=False, num_convolutions=0)
    blocks: list[Tensor] = []
    block_scores = model._block_scores
    model._block_scores = lambda *inputs: blocks.append(block_scores(*inputs)) or blocks[-1]
    output = model(**batch_of(5, 3))
    assert len(blocks) == 1
    assert output.logits.data_ptr() == blocks[0].data_ptr()


@pytest.mark.parametrize("mask_lower", [False, True])
def test_convolutions_see_the_same_near_the_diagonal_in_training_and_inference(bopn: Make, mask_lower: bool) -> None:
    """Equal logits in both modes without dropout; with `mask_lower`, cells below the diagonal have no part in them."""
    model = bopn(mask_lower=mask_lower)
    assert model.convolutions is not None
    for convolution in model.convolutions.layers:
        torch.nn.init.normal_(convolution.weight)
    batch = batch_of(6)
    labels = torch.tensor([[[1, 3, 0]]])
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        elif isinstance(module, torch.nn.LSTM):
            module.dropout = 0.0
    for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
        setattr(model.config.encoder_config, name, 0.0)
    with torch.no_grad():
        states = model.encode(**batch).last_hidden_state
        inference = model.eval().score_spans(states, batch["word_mask"], None, model.decoding()).logits
        training = model.train().score_spans(states, batch["word_mask"], labels, model.decoding()).logits
        assert torch.equal(inference, training)
        model.span_vectors.regions.weight[1] += 5.0  # those of the lower triangle alone
        changed = model.score_spans(states, batch["word_mask"], None, model.decoding()).logits
    is_upper = torch.ones(6, 6, dtype=torch.bool).triu()
    assert torch.equal(changed[0, is_upper], inference[0, is_upper]) == mask_lower


def test_one_span_of_two_types_is_trained_and_predicted(bopn: Make, collator: SpanNERCollator) -> None:
    """The same words are PER and ORG.

    `multi_label` with nested overlap gives both, and without it one of them is unreachable.
    """
    entities = [{"start": 0, "end": 2, "label": label} for label in ("PER", "ORG")]
    batch = collator([{"tokens": ["Mira", "Stone", "met", "Bo"], "entities": entities}])
    model = bopn(
        multi_label=True, overlap="nested", lstm_dropout=0.0, biaffine_dropout=0.0, encoder_dropout=0.0
    ).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(150):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
    with torch.no_grad():
        output = model.eval()(**batch)
        decoded = [span[:3] for span in model.decode(output)[0]]
        assert decoded == [(0, 2, 1), (0, 2, 2)]
        assert {span[:3] for span in unpack_spans(model.candidate_spans(output, model.decoding()))[0]} == set(decoded)
    assert model.unreachable([(0, 2, 1), (0, 2, 2), (0, 2, 2)]) == 0
    assert bopn().unreachable([(0, 2, 1), (0, 2, 2), (0, 2, 2), (1, 2, 0)]) == 1


def test_a_call_chooses_how_votes_count(bopn: Make) -> None:
    """With S = 2 the centre of (1, 2) is missed and two start votes stand.

    A centre (4, 4) is there with every mode.
    """
    model = bopn()
    logits = torch.zeros(1, 6, 6, 3, 10)
    logits[..., 9] = 5.0
    for i, j, label in [(0, 2, 2), (2, 2, 5), (4, 4, 4)]:
        logits[0, i, j, 1, label] = 9.0
    output = SpanNEROutput(logits=logits, word_mask=torch.ones(1, 6, dtype=torch.bool))
    both_spans, centre_span = [(1, 3, 1), (4, 5, 1)], [(4, 5, 1)]
    for settings, expected in [
        ({}, both_spans),
        ({"decode_mode": "center"}, centre_span),
        ({"min_votes": 3}, centre_span),
        ({"decode_mode": "all"}, both_spans),
        ({"decode_mode": "rules"}, both_spans),
        ({"threshold": 0.9}, both_spans),
        ({"threshold": 0.99}, []),
    ]:
        assert [span[:3] for span in model.decode(output, settings)[0]] == expected


def from_config(encoder: Path, tmp_path: Path) -> BOPNModel:
    return BOPNModel(from_encoder(encoder, encoder).config)


def from_encoder(encoder: Path, tmp_path: Path) -> BOPNModel:
    fields = {"distance_embedding_size": 4, "has_type_conditioned_term": True, "biaffine_size": 20}
    return BOPNModel.from_encoder(encoder, labels=LABELS, lstm_size=16, **fields)


def from_checkpoint(encoder: Path, tmp_path: Path) -> BOPNModel:
    from_encoder(encoder, tmp_path).save_pretrained(tmp_path)
    return BOPNModel.from_pretrained(tmp_path)


@pytest.mark.parametrize("construct", [from_config, from_encoder, from_checkpoint])
def test_initial_weights(construct: Callable[[Path, Path], BOPNModel], tiny_encoder: Path, tmp_path: Path) -> None:
    """Conditional norm starts as a plain norm, U at (2 d_b)^-1/2, out at its share, convolutions as the identity."""
    torch.manual_seed(0)
    model = construct(tiny_encoder, tmp_path)
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    vectors, maps = model.span_vectors, model.type_maps
    assert not vectors.scale_layer.weight.any()
    assert not vectors.shift_layer.weight.any()
    assert (vectors.scale_layer.bias == 1).all()
    assert not vectors.shift_layer.bias.any()
    assert vectors.regions.weight.std().item() == pytest.approx(1.0, abs=0.4)
    assert maps.pair_weight.std().item() == pytest.approx(1 / math.sqrt(40), rel=0.1)
    assert maps.linear_weight.std().item() == pytest.approx(1 / 20, rel=0.15)
    assert maps.bias.tolist() == [0.0] * 9 + [5.0]
    assert maps.bias.softmax(dim=0)[-1].item() == pytest.approx(0.943, abs=1e-3)  # e^5 / (e^5 + 9)
    assert maps.term is not None
    assert (maps.term.scale == 1).all()
    assert not maps.term.scale_weight.any()
    limit = math.sqrt(6 / 16)  # Kaiming uniform for ReLU, 16 inputs
    assert 0.9 * limit < maps.type_layer.weight.abs().max() <= limit
    assert 0 < model.types.weight.abs().max() < 0.1
    assert model.convolutions is not None
    scores, is_cell = 0.3 * torch.randn(1, 4, 4, 3, 10), torch.ones(1, 4, 4, dtype=torch.bool)
    with torch.no_grad():
        shift = model.convolutions(scores, is_cell) - scores
    assert shift.std() < 0.1 * scores.std()


def test_convolutions_of_the_official_style_start_as_there(bopn: Make) -> None:
    """They are uniform within (27)^-1/2 for the depthwise ones and within (2 L)^-1/2 for the linear layer."""
    convolutions = bopn(conv_style="sequential_residual").convolutions
    assert convolutions is not None
    for convolution in convolutions.layers:
        assert 0.8 / math.sqrt(27) < convolution.weight.abs().max() <= 1 / math.sqrt(27)
    assert 0.8 / math.sqrt(20) < convolutions.output.weight.abs().max() <= 1 / math.sqrt(20)


def test_a_new_label_set_keeps_what_does_not_depend_on_labels(tiny_encoder: Path, tmp_path: Path) -> None:
    """Offset labels do not depend on entity types, so only the prompts are new."""
    model = from_encoder(tiny_encoder, tmp_path)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.25)
    model.save_pretrained(tmp_path)
    other = {"id2label": {0: "A"}, "label2id": {"A": 0}}
    loaded = BOPNModel.from_pretrained(tmp_path, ignore_mismatched_sizes=True, **other)
    old = model.state_dict()
    for name, value in loaded.state_dict().items():
        assert torch.equal(value, old[name]) == (name != "types.weight"), name
    assert loaded.types.weight.abs().max() < 0.1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_stays_finite(bopn: Make, dtype: torch.dtype) -> None:
    model = bopn(has_type_conditioned_term=True, distance_embedding_size=4).train()
    batch = batch_of(9, 1)
    batch["labels"] = torch.tensor([[[1, 3, 0]], [[0, 1, 2]]])
    with torch.autocast("cpu", dtype):
        loss = model(**batch).loss
    assert loss.dtype == torch.float32
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)


def test_registered_defaults_build() -> None:
    model = BOPNModel(BOPNConfig(encoder_config=BertConfig(**SIZES), id2label=dict(enumerate(LABELS))))
    assert model.word_encoder.output_size == 256
