"""The class of an encoder, how strictly its weights are loaded, its float type, and its one configuration."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from method_facts import facts_of
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    BartConfig,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    CanineConfig,
    CLIPTextConfig,
    ElectraConfig,
    GPT2Config,
    PreTrainedConfig,
    T5Config,
    ViTConfig,
)

from hf_spanner import METHODS, SpanNERConfig, SpanNERModel
from hf_spanner.core.text_encoder import encoder_class, float_type, new_encoder, pooler_arguments

Make = Callable[..., SpanNERModel]
Weights = dict[str, Tensor]
SIZES = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
METHOD = METHODS["boundary_smoothing"]
QUERY = "encoder.layer.1.attention.self.query.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a tiny random BERT."""
    torch.manual_seed(0)
    AutoModel.from_config(BertConfig(**SIZES)).save_pretrained(tmp_path)
    return tmp_path


@pytest.fixture(params=sorted(METHODS))
def method(request: pytest.FixtureRequest) -> str:
    return request.param


def rewrite(folder: Path, change: Callable[[Weights], Weights]) -> None:
    """Change the weights of an encoder's folder."""
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})


def from_encoder(folder: Path, **arguments: Any) -> SpanNERModel:
    return METHOD.from_encoder(folder, ["A", "B"], affine_size=8, lstm_size=8, **arguments)


def without(weights: Weights, part: str) -> Weights:
    return {name: weight for name, weight in weights.items() if part not in name}


UNFIT: dict[str, tuple[Callable[[Weights], Weights], str]] = {
    "DDP": (
        lambda weights: {f"module.{name}": weight for name, weight in weights.items()},
        r"lacks 37 weights of BertModel, e.g. .*; its files name weights such as module\.embeddings.*; a prefix that",
    ),
    "PEFT": (
        lambda weights: {
            f"base_model.model.{name.replace('query.', 'query.base_layer.')}": weight
            for name, weight in weights.items()
        },
        r"its files name weights such as base_model\.model\.embeddings",
    ),
    "missing": (lambda weights: without(weights, "layer.1.attention"), r"lacks 10 weights of BertModel, e.g. encoder"),
    "one more layer": (
        lambda weights: {**weights, "encoder.layer.2.output.dense.weight": torch.zeros(16, 16)},
        r"has 1 weights inside BertModel for which its configuration has no place, e.g. encoder\.layer\.2",
    ),
    "an adapter": (
        lambda weights: {**weights, "bert.encoder.layer.0.output.adapters.x.weight": torch.zeros(2, 16)},
        r"has 1 weights inside BertModel .* bert\.encoder\.layer\.0\.output\.adapters",
    ),
    "misshapen": (
        lambda weights: {**weights, QUERY: torch.zeros(8, 16)},
        rf"shapes of 1 weights mismatch those of its configuration, e.g. {QUERY} \[8, 16\] for \[16, 16\]",
    ),
    "whole numbers": (
        lambda weights: {**weights, QUERY: torch.ones(16, 16, dtype=torch.int64)},
        rf"1 weights are of another kind of number than the model's, e.g. {QUERY} int64 for float32",
    ),
}


@pytest.mark.parametrize("kind", UNFIT)
def test_weights_that_do_not_fit_are_refused_by_name(kind: str, folder: Path) -> None:
    change, message = UNFIT[kind]
    rewrite(folder, change)
    with pytest.raises(ValueError, match=message):
        from_encoder(folder)


def test_what_an_encoder_may_lack_or_have_beside_it(folder: Path) -> None:
    """A pooler may be missing; a head of another task, the base model's prefix and old buffers may be there."""
    AutoModel.from_pretrained(folder)
    masked = BertForMaskedLM(AutoConfig.from_pretrained(folder))
    masked.save_pretrained(folder)
    old = {"bert.embeddings.position_ids": torch.arange(512)[None]}
    rewrite(folder, lambda weights: {**weights, **old, "bert.pooler.dense.weight": torch.zeros(16, 16)})
    weights = load_file(folder / "model.safetensors")
    assert any(name.startswith("cls.") for name in weights)
    loaded = from_encoder(folder).word_encoder.encoder.state_dict()
    assert loaded[QUERY].equal(weights[f"bert.{QUERY}"])
    assert all(weight.equal(weights[f"bert.{name}"]) for name, weight in loaded.items())


def test_pooler_is_left_out_only_where_the_class_allows_it() -> None:
    assert pooler_arguments(encoder_class(BertConfig())) == {"add_pooling_layer": False}
    assert pooler_arguments(encoder_class(ElectraConfig())) == {}


@pytest.mark.parametrize("stored", [torch.bfloat16, torch.float16])
def test_encoder_and_head_share_one_float_type(
    stored: torch.dtype, tiny_encoder: Path, method: str, tmp_path: Path
) -> None:
    """It is float32 unless another one is asked for, whatever the files hold; scores are finite in all of them."""
    AutoModel.from_pretrained(tiny_encoder, dtype=stored).save_pretrained(tmp_path)
    batch = {
        "input_ids": torch.tensor([[2, 7, 8, 3]]),
        "attention_mask": torch.ones(1, 4, dtype=torch.long),
        "word_index": torch.tensor([[0, 1, 2, 0]]),
        "word_mask": torch.ones(1, 2, dtype=torch.bool),
    }
    for asked, expected in ((None, torch.float32), ("auto", stored), ("bfloat16", torch.bfloat16)):
        model = METHODS[method].from_encoder(tmp_path, ["A", "B"], dtype=asked, **facts_of(method).tiny).eval()
        assert {parameter.dtype for parameter in model.parameters()} == {expected}
        with torch.no_grad():
            assert model(**batch).logits.isfinite().all()


def test_a_configuration_in_half_precision_gives_one_float_type(folder: Path) -> None:
    encoder_config = AutoConfig.from_pretrained(folder, dtype=torch.bfloat16)
    model = METHOD(METHOD.config_class(encoder_config=encoder_config, affine_size=8))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_a_float_type_is_named() -> None:
    assert [float_type(None), float_type("float16"), float_type(torch.bfloat16), float_type("auto")] == [
        torch.float32,
        torch.float16,
        torch.bfloat16,
        "auto",
    ]
    wrong: Any
    for wrong in ("int8", "float", torch.int64, ["float32"], 16):
        with pytest.raises(ValueError, match=r"dtype must be auto or one of float32, bfloat16, float16, got "):
            float_type(wrong)


def test_what_is_asked_of_the_source_reaches_configuration_weights_and_tokenizer(
    tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: dict[str, dict[str, Any]] = {}

    def watch(owner: Any, name: str) -> None:
        original = owner.from_pretrained

        def load(source: Any, *args: Any, **arguments: Any) -> Any:
            seen.setdefault(name, arguments)
            return original(source, *args, **arguments)

        monkeypatch.setattr(owner, "from_pretrained", load)

    for owner, name in ((AutoConfig, "config"), (BertModel, "weights"), (AutoTokenizer, "tokenizer")):
        watch(owner, name)
    asked = {"revision": "abc", "token": "secret", "cache_dir": tmp_path, "local_files_only": True}
    model = METHODS["bopn"].from_encoder(
        tiny_encoder, ["A"], prompt_init="label_names", attn_implementation="eager", lstm_size=8, **asked
    )
    for name in ("config", "weights", "tokenizer"):
        assert asked.items() <= seen[name].items()
    assert model.word_encoder.encoder.config._attn_implementation == "eager"
    assert "secret" not in model.config.to_json_string()


def test_model_and_encoder_share_one_configuration(folder: Path, tmp_path: Path) -> None:
    """So an encoder that is resized is saved with its new size, and loads again."""
    model = from_encoder(folder)
    assert model.config.encoder_config is model.word_encoder.encoder.config
    assert model.get_input_embeddings() is model.word_encoder.encoder.embeddings.word_embeddings
    before = model.get_input_embeddings().weight.detach().clone()
    model.resize_token_embeddings(57)
    assert (
        model.config.vocab_size
        == model.config.encoder_config.vocab_size
        == len(model.get_input_embeddings().weight)
        == 57
    )
    assert model.get_input_embeddings().weight[:50].equal(before)
    model.save_pretrained(tmp_path / "saved")
    loaded = AutoModel.from_pretrained(tmp_path / "saved")
    assert loaded.config.encoder_config is loaded.word_encoder.encoder.config
    assert all(map(torch.equal, model.state_dict().values(), loaded.state_dict().values()))
    model.word_encoder.encoder.resize_token_embeddings(61)
    model.save_pretrained(tmp_path / "saved")
    assert AutoModel.from_pretrained(tmp_path / "saved").config.vocab_size == 61


def test_embeddings_can_be_replaced(folder: Path) -> None:
    model = from_encoder(folder)
    table = torch.nn.Embedding(50, 16)
    model.set_input_embeddings(table)
    assert model.word_encoder.encoder.embeddings.word_embeddings is table


def test_sizes_of_the_encoder_are_seen_on_the_configuration(folder: Path) -> None:
    config = from_encoder(folder).config
    assert (config.hidden_size, config.vocab_size) == (16, 50)
    assert not {"hidden_size", "vocab_size"} & config.to_dict().keys()
    with pytest.raises(ValueError, match="vocab_size is a field of encoder_config, got vocab_size=9 beside it"):
        SpanNERConfig(vocab_size=9)


SPLIT: dict[str, PreTrainedConfig] = {
    "t5": T5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=16, num_layers=2, num_heads=2, num_decoder_layers=1),
    "bart": BartConfig(
        vocab_size=50,
        d_model=16,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=40,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=2,
        forced_eos_token_id=2,
    ),
}


@pytest.mark.parametrize("kind", SPLIT)
def test_of_an_encoder_decoder_the_encoder_is_taken(kind: str, tmp_path: Path) -> None:
    config = type(SPLIT[kind]).from_dict(SPLIT[kind].to_dict())
    whole = AutoModel.from_config(config)
    whole.save_pretrained(tmp_path / "encoder")
    model = from_encoder(tmp_path / "encoder").eval()
    encoder = model.word_encoder.encoder
    assert not [name for name, _ in encoder.named_modules() if "decoder" in name]
    ids = torch.tensor([[5, 6, 7, 2]])
    with torch.no_grad():
        expected = whole.eval().get_encoder()(ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        assert model.word_encoder.embed(ids, torch.ones_like(ids)).last_hidden_state.equal(expected)
    model.save_pretrained(tmp_path / "model")
    loaded = AutoModel.from_pretrained(tmp_path / "model")
    assert all(map(torch.equal, model.state_dict().values(), loaded.state_dict().values()))


def test_what_is_no_text_encoder_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="must state hidden_size, .*, and the model type 'canine' has no vocab_size"):
        SpanNERConfig(encoder_config=CanineConfig())
    with pytest.raises(ValueError, match="the model type 'vit' has no vocab_size"):
        SpanNERConfig(encoder_config=ViTConfig())


def test_an_encoder_of_ones_own_is_told_what_it_lacks() -> None:
    class OwnConfig(PreTrainedConfig):
        model_type = "own_encoder"

    with pytest.raises(
        ValueError, match="AutoModel knows no model of the type 'own_encoder'; an encoder of your own is"
    ):
        SpanNERConfig(encoder_config=OwnConfig())


def test_layers_of_the_encoder_are_seen_on_the_model(folder: Path) -> None:
    """So automatic device maps do not cut a layer, and automatic wrapping finds layers."""
    model = from_encoder(folder)
    assert {"BertLayer"} <= set(model._no_split_modules)
    assert model._no_split_modules == set(new_encoder(BertConfig(**SIZES))._no_split_modules)


def test_a_layer_around_the_table_of_tokens_may_be_cut_where_prompts_read_the_table_alone(folder: Path) -> None:
    """Sharded by itself, the layer would hold its table together only while it runs itself."""
    model = METHODS["bopn"].from_encoder(folder, ["A"], **facts_of("bopn").tiny)
    assert model._no_split_modules == set(new_encoder(BertConfig(**SIZES))._no_split_modules) - {"BertEmbeddings"}
    assert "BertLayer" in model._no_split_modules


@pytest.mark.parametrize("fields", [{}, {"has_type_inputs": False, "has_type_conditioned_term": True}])
def test_weights_that_lie_elsewhere_are_fetched_for_the_module_that_reads_them(
    fields: dict[str, bool], method: str, folder: Path, tmp_path: Path
) -> None:
    """With little memory `device_map="auto"` leaves most weights on disk; scores are the same."""
    if fields and method != "bopn":
        pytest.skip("these fields are BOPN's")
    settings = {"lstm_size": 8, **facts_of(method).tiny, **fields}
    model = METHODS[method].from_encoder(folder, ["A", "B"], **settings).eval()
    model.save_pretrained(tmp_path / "model")
    spread = AutoModel.from_pretrained(
        tmp_path / "model", device_map="auto", max_memory={"cpu": 60_000}, offload_folder=tmp_path / "offload"
    )
    assert "disk" in spread.hf_device_map.values()
    assert not [name for name in spread.hf_device_map if ".layer.0." in name]  # no layer is cut
    batch = {
        "input_ids": torch.tensor([[2, 7, 8, 9, 3]]),
        "attention_mask": torch.ones(1, 5, dtype=torch.long),
        "word_index": torch.tensor([[0, 1, 2, 3, 0]]),
        "word_mask": torch.ones(1, 3, dtype=torch.bool),
    }
    with torch.no_grad():
        torch.testing.assert_close(spread(**batch).logits, model(**batch).logits)
    assert any(parameter.is_meta for parameter in spread.parameters())


def test_a_decoder_keeps_no_cache_of_what_it_has_read() -> None:
    encoder = new_encoder(GPT2Config(vocab_size=50, n_embd=16, n_layer=1, n_head=2))
    assert encoder(torch.ones(1, 3, dtype=torch.long)).past_key_values is None


def test_prompts_want_an_encoder_that_takes_vectors() -> None:
    clip = CLIPTextConfig(**{**SIZES, "num_hidden_layers": 1})
    config = METHODS["bopn"].config_class(encoder_config=clip)
    with pytest.raises(
        ValueError, match="has_type_inputs.* must be False with CLIPTextModel, which takes no plain vectors"
    ):
        METHODS["bopn"](config)
    METHODS["bopn"](METHODS["bopn"].config_class(encoder_config=clip, has_type_inputs=False))
