"""Pooling against loops, padding, the BiLSTM, layer means, prompts, and every kind of encoder."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    AutoModel,
    BertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    ModernBertConfig,
    MPNetConfig,
    PreTrainedConfig,
    RobertaConfig,
    XLMRobertaConfig,
)

from hf_spanner import METHODS, SpanNERConfig
from hf_spanner.core.word_encoder import WordEncoder, word_lengths
from hf_spanner.core.word_shapes import NUM_SHAPES

SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
SHIFTED = {**SIZES, "max_position_embeddings": 66, "pad_token_id": 1}
ENCODERS = {
    "bert": (BertConfig(max_position_embeddings=64, **SIZES), 62),
    "roberta": (RobertaConfig(**SHIFTED), 62),
    "xlm-roberta": (XLMRobertaConfig(**SHIFTED), 62),
    "mpnet": (MPNetConfig(**SHIFTED), 62),
    "electra": (ElectraConfig(max_position_embeddings=64, embedding_size=16, **SIZES), 62),
    "distilbert": (
        DistilBertConfig(vocab_size=50, dim=32, n_layers=2, n_heads=2, hidden_dim=64, max_position_embeddings=64),
        62,
    ),
    "deberta-v2": (
        DebertaV2Config(max_position_embeddings=64, relative_attention=True, pos_att_type=["p2c", "c2p"], **SIZES),
        62,
    ),
    "modernbert": (
        ModernBertConfig(max_position_embeddings=64, pad_token_id=0, cls_token_id=2, sep_token_id=3, **SIZES),
        62,
    ),
}
WORD_INDEX = torch.tensor([[0, 1, 1, 2, 4, 4, 4, 0], [0, 3, 0, 0, 0, 0, 0, 0]])


def encoder(**fields: Any) -> WordEncoder:
    """A word encoder in eval mode over a tiny random BERT."""
    torch.manual_seed(0)
    config = SpanNERConfig(encoder_config=BertConfig(max_position_embeddings=64, **SIZES), **fields)
    return WordEncoder(config).eval()


def batch(*lengths: int, num_tokens: int | None = None, num_words: int | None = None) -> dict[str, Tensor]:
    """A batch of texts of one-token words, padded, with a special token on each side."""
    width, words = num_tokens or max(lengths) + 2, num_words or max(lengths)
    places = torch.arange(width)
    length = torch.tensor(lengths)[:, None]
    is_word = (places >= 1) & (places <= length)
    torch.manual_seed(1)
    ids = torch.randint(5, 50, (1, width)).expand(len(lengths), -1)
    return {
        "input_ids": ids * (places < length + 2),
        "attention_mask": (places < length + 2).long(),
        "word_index": places * is_word,
        "word_mask": torch.arange(words) < length,
    }


@pytest.mark.parametrize("pooling", ["mean", "max", "first"])
def test_pooling_is_that_of_a_loop(pooling: str) -> None:
    hidden = torch.randn(2, 8, 32) - 3  # below zero, so that a maximum with padding zeros would show
    pooled = encoder(pooling=pooling).pool(hidden, WORD_INDEX, 5)
    assert pooled.shape == (2, 5, 32)
    for row in range(2):
        for word in range(5):
            tokens = hidden[row, WORD_INDEX[row] == word + 1]
            if not len(tokens):
                assert torch.equal(pooled[row, word], torch.zeros(32))
                continue
            expected = {"mean": tokens.mean(0), "max": tokens.max(0).values, "first": tokens[0]}[pooling]
            assert torch.allclose(pooled[row, word], expected, atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "max", "first"])
def test_a_text_without_words_pools_to_zeros(pooling: str) -> None:
    pooled = encoder(pooling=pooling).pool(torch.randn(1, 3, 32), torch.zeros(1, 3, dtype=torch.long), 1)
    assert torch.equal(pooled, torch.zeros(1, 1, 32))


@pytest.mark.parametrize("fields", [{}, {"lstm_layers": 1, "lstm_size": 10}, {"lstm_layers": 2, "lstm_size": 10}])
def test_padding_changes_no_word(fields: dict[str, Any]) -> None:
    model = encoder(**fields)
    alone = model(**batch(3)).last_hidden_state
    padded = model(**batch(3, 7, num_tokens=12, num_words=9)).last_hidden_state
    assert padded.shape == (2, 9, model.output_size)
    assert torch.allclose(alone[0], padded[0, :3], atol=1e-5)


@pytest.mark.parametrize(
    ("fields", "rates"),
    [
        ({"lstm_layers": 1, "lstm_dropout": 0.4}, (0.4, 0.0)),
        ({"lstm_layers": 2, "lstm_dropout": 0.4}, (0.4, 0.4)),
        ({"lstm_layers": 2, "lstm_dropout": 0.0, "lstm_layer_dropout": 0.2}, (0.0, 0.2)),
        ({"lstm_layers": 1, "lstm_dropout": 0.0, "lstm_layer_dropout": 0.2}, (0.0, 0.0)),
    ],
)
def test_dropout_on_the_input_of_the_lstm_and_between_its_layers(
    fields: dict[str, Any], rates: tuple[float, float]
) -> None:
    """Where no rate between the layers is given it is that of the input; one layer has nothing between."""
    model = encoder(lstm_size=10, **fields)
    assert (model.lstm_dropout.p, model.lstm.dropout) == rates


def test_lstm_reads_both_directions_up_to_the_last_word() -> None:
    model = encoder(lstm_layers=1, lstm_size=10)
    words = torch.randn(1, 4, 32)
    states = model.recur(words, torch.tensor([3]))
    expected, _ = model.lstm(words[:, :3])
    assert torch.allclose(states[:, :3], expected, atol=1e-6)
    assert torch.equal(states[:, 3:], torch.zeros(1, 1, 10))


def random_shapes(word_mask: Tensor) -> Tensor:
    """A shape for each word of a batch, also where there is none."""
    torch.manual_seed(2)
    return torch.randint(NUM_SHAPES, word_mask.shape)


def with_random_shapes(**fields: Any) -> WordEncoder:
    model = encoder(word_features="shapes", **fields)
    nn.init.normal_(model.shapes.weight)
    return model


@pytest.mark.parametrize("fields", [{}, {"lstm_layers": 1, "lstm_size": 10}])
def test_vectors_of_shapes_are_added_before_the_lstm_and_padding_changes_none(fields: dict[str, Any]) -> None:
    model = with_random_shapes(**fields)
    alone, padded = batch(3), batch(3, 7, num_tokens=12, num_words=9)
    shapes = random_shapes(padded["word_mask"])
    states = model(**alone, word_shapes=shapes[:1, :3]).last_hidden_state
    together = model(**padded, word_shapes=shapes).last_hidden_state
    torch.testing.assert_close(together[0, :3], states[0], atol=1e-5, rtol=1e-5)
    tokens = model.embed(alone["input_ids"], alone["attention_mask"]).last_hidden_state
    expected = model.pool(tokens, alone["word_index"], 3) + model.shapes.weight[shapes[:1, :3]]
    torch.testing.assert_close(states, model.recur(expected, torch.tensor([3])) if model.has_lstm else expected)


def test_a_word_without_tokens_has_zeros_whatever_its_shape() -> None:
    model, inputs = with_random_shapes(), batch(3)
    inputs["word_index"][0, 2], inputs["word_mask"][0, 1] = 0, False
    states = model(**inputs, word_shapes=random_shapes(inputs["word_mask"])).last_hidden_state
    assert torch.equal(states[0, 1], torch.zeros(32))
    assert states[0, [0, 2]].any(dim=-1).all()


def test_shapes_that_are_read_must_be_given() -> None:
    with pytest.raises(ValueError, match="word_shapes must be given, since the model's word_features is 'shapes', got"):
        encoder(word_features="shapes")(**batch(3))


def test_length_is_the_last_word_with_tokens() -> None:
    mask = torch.tensor([[True, False, True, False], [False] * 4, [True] * 4])
    assert word_lengths(mask).tolist() == [3, 1, 4]


def test_layers_are_averaged() -> None:
    model = encoder(num_encoder_layers=2)
    inputs = batch(4)
    inputs = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    states = model.encoder(**inputs, output_hidden_states=True).hidden_states
    assert torch.allclose(model.embed(**inputs).last_hidden_state, (states[-1] + states[-2]) / 2, atol=1e-6)


def test_prompts_come_before_the_tokens() -> None:
    model = encoder()
    inputs = batch(3, 5)
    inputs = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    embeddings = model.encoder.get_input_embeddings()
    prompts = embeddings(torch.tensor([7, 8]))
    hidden = model.embed(**inputs, prompts=prompts).last_hidden_state
    ids = torch.cat([torch.tensor([[7, 8]]).expand(2, -1), inputs["input_ids"]], dim=1)
    mask = torch.cat([torch.ones(2, 2, dtype=torch.long), inputs["attention_mask"]], dim=1)
    expected = model.encoder(ids, attention_mask=mask).last_hidden_state
    assert hidden.shape == (2, 9, 32)
    is_real = mask.bool()
    assert torch.allclose(hidden[is_real], expected[is_real], atol=1e-5)


def test_output_size_is_that_of_the_last_part() -> None:
    assert encoder().output_size == 32
    assert encoder(lstm_layers=1, lstm_size=10).output_size == 10


def tiny(kind: str) -> tuple[PreTrainedConfig, int]:
    """A fresh copy of a tiny encoder's configuration, and the window it allows."""
    config, window_size = ENCODERS[kind]
    return type(config).from_dict(config.to_dict()), window_size


@pytest.mark.parametrize("kind", ENCODERS)
def test_every_kind_of_encoder_runs_saves_and_loads(kind: str, tmp_path: Path) -> None:
    """The way leads from an encoder's folder to a saved model and back.

    The window follows from the positions, there is no pooler, and scores are equal.
    """
    config, window_size = tiny(kind)
    AutoModel.from_config(config).save_pretrained(tmp_path / "encoder")
    method = METHODS["boundary_smoothing"]
    model = method.from_encoder(tmp_path / "encoder", labels=["A", "B"], affine_size=8, lstm_size=8).eval()
    assert model.config.window_size == window_size
    assert not [name for name, _ in model.named_parameters() if "pooler" in name]
    inputs = batch(window_size, 3)
    inputs["input_ids"] = inputs["input_ids"] + (1 - inputs["attention_mask"]) * model.config.pad_token_id
    with torch.no_grad():
        logits = model(**inputs).logits
    assert torch.isfinite(logits).all()
    model.save_pretrained(tmp_path / "model")
    loaded = method.from_pretrained(tmp_path / "model")
    assert all(map(torch.equal, model.state_dict().values(), loaded.state_dict().values()))
    realigned = deepcopy(
        loaded
    ).eval()  # loaded tensors lie in memory where the file puts them; kernels differ in the last bit
    with torch.no_grad():
        assert torch.equal(realigned(**inputs).logits, logits)


@pytest.mark.parametrize("kind", ENCODERS)
def test_padding_changes_nothing_for_any_encoder(kind: str) -> None:
    """Position ids and relative positions must not see the padding."""
    config, _ = tiny(kind)
    torch.manual_seed(0)
    model = WordEncoder(SpanNERConfig(encoder_config=config)).eval()
    alone, padded = batch(4), batch(4, 9)
    for inputs in (alone, padded):
        inputs["input_ids"] = inputs["input_ids"] + (1 - inputs["attention_mask"]) * (config.pad_token_id or 0)
    with torch.no_grad():
        assert torch.allclose(model(**alone).last_hidden_state[0], model(**padded).last_hidden_state[0, :4], atol=1e-5)


def test_encoder_weights_are_those_of_the_folder(tiny_encoder: Path, tiny_model: Callable[..., Any]) -> None:
    pretrained = AutoModel.from_pretrained(tiny_encoder, add_pooling_layer=False).state_dict()
    loaded = tiny_model(seed=5).word_encoder.encoder.state_dict()
    assert pretrained.keys() == loaded.keys()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in pretrained.items())
