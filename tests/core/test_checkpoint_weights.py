"""Weights are compared with a model by the headers of their files: one file, shards, older layouts, and the Hub's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub.errors import EntryNotFoundError
from safetensors.torch import load_file, save_file
from transformers import AutoModel, EsmConfig, IBertConfig, NomicBertConfig

from hf_spanner import SpanNERModel
from hf_spanner.core import checkpoint_weights
from hf_spanner.core.checkpoint_weights import check_weights, saved_weights
from hf_spanner.methods.boundary_smoothing import BoundarySmoothingConfig, BoundarySmoothingModel

Make = Callable[..., SpanNERModel]


def shapes_in(*arguments: Any) -> dict[str, torch.Size]:
    return {name: weight.shape for name, weight in saved_weights(*arguments).items()}


def shapes_of(model: SpanNERModel) -> dict[str, torch.Size]:
    return {name: weight.shape for name, weight in model.state_dict().items()}


@pytest.mark.parametrize("arguments", [{}, {"max_shard_size": "50KB"}, {"variant": "x"}])
def test_shapes_of_files_are_those_of_the_model(tiny_model: Make, tmp_path: Path, arguments: dict[str, str]) -> None:
    """The weights lie in the folder itself, and in a folder inside it."""
    model = tiny_model()
    model.save_pretrained(tmp_path / "inner", **arguments)
    asked = {name: value for name, value in arguments.items() if name == "variant"}
    assert shapes_in(tmp_path / "inner", asked, None) == shapes_of(model)
    assert shapes_in(tmp_path, asked | {"subfolder": "inner", "token": None}, None) == shapes_of(model)
    assert shapes_in(tmp_path, asked, None) == {}


def test_the_file_that_a_configuration_names(tiny_model: Make, tmp_path: Path) -> None:
    model = tiny_model()
    model.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "other.safetensors")
    assert shapes_in(tmp_path, {}, "other.safetensors") == shapes_of(model)
    for name in (
        "../other.safetensors",
        "/other.safetensors",
        "a/../other.safetensors",
        "other.bin",
        "",
        "~/a.safetensors",
    ):
        with pytest.raises(ValueError, match="transformers_weights must be a safetensors file of the folder, got '"):
            shapes_in(tmp_path, {}, name)


def test_an_absent_shard_is_left_to_the_library(tiny_model: Make, tmp_path: Path) -> None:
    tiny_model().save_pretrained(tmp_path, max_shard_size="50KB")
    next(tmp_path.glob("model-*.safetensors")).unlink()
    assert shapes_in(tmp_path, {}, None) == {}
    with pytest.raises(OSError, match="No such file"):
        AutoModel.from_pretrained(tmp_path)


def test_a_repository_is_asked_for_the_same_files(
    tiny_model: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model()
    model.save_pretrained(tmp_path, max_shard_size="50KB")
    calls = []

    def download(repo_id: str, name: str, **asked: str) -> str:
        calls.append((repo_id, name, asked))
        if not (tmp_path / name).exists():
            raise EntryNotFoundError(name)
        return str(tmp_path / name)

    monkeypatch.setattr(checkpoint_weights, "hf_hub_download", download)
    assert shapes_in("org/model", {"revision": "abc", "dtype": "float32"}, None) == shapes_of(model)
    shards = {path.name for path in tmp_path.glob("*.safetensors")}
    assert {name for _, name, _ in calls} == {"model.safetensors", "model.safetensors.index.json", *shards}
    assert all((repo_id, asked) == ("org/model", {"revision": "abc"}) for repo_id, _, asked in calls)


def test_missing_and_misshapen_weights_are_named(tiny_model: Make) -> None:
    model = tiny_model()
    saved = model.state_dict()
    check_weights(model, "folder", saved, ignores_sizes=False)
    check_weights(model, "folder", saved | {"of.another.head": torch.zeros(3)}, ignores_sizes=False)
    *_, last = sorted(saved, key=lambda name: saved[name].numel())
    rest = {name: weight for name, weight in saved.items() if name != last}
    for ignores_sizes in (False, True):
        with pytest.raises(
            ValueError, match=f"folder lacks 1 weights of BoundarySmoothingModel, e.g. {last}; to start"
        ):
            check_weights(model, "folder", rest | {"too.small": torch.zeros(3)}, ignores_sizes=ignores_sizes)
    other = saved | {last: torch.zeros(1, 2)}
    with pytest.raises(ValueError, match=rf"shapes of 1 weights mismatch .* {last} \[1, 2\] for \["):
        check_weights(model, "folder", other, ignores_sizes=False)
    check_weights(model, "folder", other, ignores_sizes=True)


@pytest.mark.parametrize("max_shard_size", ["5GB", "50KB"])
def test_a_new_label_set_is_refused_unless_it_is_wanted(tiny_model: Make, tmp_path: Path, max_shard_size: str) -> None:
    tiny_model(labels=("A", "B")).save_pretrained(tmp_path, max_shard_size=max_shard_size)
    labels = {"id2label": dict(enumerate("XYZUV"))}
    for load in (BoundarySmoothingModel.from_pretrained, AutoModel.from_pretrained):
        with pytest.raises(
            ValueError, match=r"biaffine.bias .3. for .6.,.*; a new label set needs ignore_mismatched_sizes"
        ):
            load(tmp_path, **labels)
        assert load(tmp_path, **labels, ignore_mismatched_sizes=True).biaffine.bias.shape == (6,)


@pytest.mark.parametrize("encoder", [EsmConfig, NomicBertConfig])
def test_weights_under_the_names_of_an_older_layout_are_read(encoder: type, tmp_path: Path) -> None:
    """Asked to, the library saves these encoders as their first authors did: other names, and weights joined."""
    tiny = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = encoder(**tiny, vocab_size=30, pad_token_id=1, mask_token_id=2)
    model = BoundarySmoothingModel(BoundarySmoothingConfig(encoder_config=config, id2label={0: "A"}, affine_size=8))
    model.save_pretrained(tmp_path, save_original_format=True)
    assert load_file(tmp_path / "model.safetensors").keys() != model.state_dict().keys()
    loaded = AutoModel.from_pretrained(tmp_path).state_dict()
    assert all(weight.equal(loaded[name]) for name, weight in model.state_dict().items())


def test_no_weight_is_read_for_the_comparison(
    tiny_model: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model()
    model.save_pretrained(tmp_path)
    seen = []
    read = checkpoint_weights.load_state_dict
    monkeypatch.setattr(
        checkpoint_weights, "load_state_dict", lambda *args, **kwargs: seen.append(read(*args, **kwargs)) or seen[-1]
    )
    AutoModel.from_pretrained(tmp_path)
    assert [weight.device.type for file_weights in seen for weight in file_weights.values()] == ["meta"] * len(
        model.state_dict()
    )


@pytest.mark.parametrize("kind", [torch.int64, torch.uint8, torch.bool])
def test_weights_of_another_kind_of_number_are_refused(tiny_model: Make, tmp_path: Path, kind: torch.dtype) -> None:
    """The library would load them as zeros without a word; half precision is another float type, which it converts."""
    model = tiny_model()
    model.save_pretrained(tmp_path)
    path, name = tmp_path / "model.safetensors", "start_layer.weight"
    weights = load_file(path)
    save_file(weights | {name: weights[name].to(kind)}, path, metadata={"format": "pt"})
    for load in (BoundarySmoothingModel.from_pretrained, AutoModel.from_pretrained):
        with pytest.raises(ValueError, match=rf"1 weights are of another kind .*, e.g. {name} \w+ for float32"):
            load(tmp_path)
    save_file(weights | {name: weights[name].half()}, path, metadata={"format": "pt"})
    assert AutoModel.from_pretrained(tmp_path, dtype=torch.float32).start_layer.weight.equal(
        weights[name].half().float()
    )


def test_whole_numbers_of_an_encoder_are_no_weights(tmp_path: Path) -> None:
    """IBert keeps the scales of its quantisation and counts as buffers."""
    tiny = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = IBertConfig(**tiny, vocab_size=30, quant_mode=True)
    model = BoundarySmoothingModel(BoundarySmoothingConfig(encoder_config=config, id2label={0: "A"}, affine_size=8))
    model.register_buffer("steps", torch.arange(3))
    assert any(not weight.is_floating_point() for weight in model.state_dict().values())
    check_weights(model, "folder", model.state_dict(), ignores_sizes=False)
