"""Broken and hostile files are refused with the reason, before memory is taken for what they claim."""

import json
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from method_facts import facts_of
from safetensors.torch import load_file, save_file
from saved_models import rewrite_config
from transformers import AutoModel

from hf_spanner import SpanNERModel

Make = Callable[..., SpanNERModel]
ROOM = 400_000_000  # bytes of memory beyond the present; what the files below claim is many times this


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Let an allocation of more than `ROOM` bytes fail."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    present = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (present + ROOM, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture
def saved(tiny_model: Make, tmp_path: Path) -> Path:
    tiny_model().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def refusal(folder: Path, kind: type[Exception] = ValueError) -> str:
    """The message and the notes of the error that loading raises."""
    with pytest.raises(kind) as error:
        AutoModel.from_pretrained(folder)
    return "\n".join([str(error.value), *getattr(error.value, "__notes__", [])])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"encoder_config": {"num_hidden_layers": 10**9}}, r"num_hidden_layers must be an integer in [1, 1000], got"),
        (
            {"encoder_config": {"hidden_size": 10**9}},
            "encoder_config.hidden_size must be an integer in [1, 65536], got",
        ),
        ({"encoder_config": {"hidden_size": -1}}, "encoder_config.hidden_size must be"),
        ({"encoder_config": {"vocab_size": 10**12}}, "encoder_config.vocab_size must be an integer in [1, 10000000]"),
        ({"encoder_config": {"intermediate_size": 10**8}}, "intermediate.dense.bias [64] for [100000000]"),
        ({"encoder_config": {"max_position_embeddings": 10**9}}, "embeddings.weight [512, 32] for [1000000000, 32]"),
        ({"id2label": None, "label2id": None, "num_labels": 10**9}, "num_labels must be an integer in [1, 65536]"),
        ({"lstm_size": 10**12}, "lstm_size must be an integer in [1, 65536], got 1000000000000"),
        ({"affine_size": 65_536}, "shapes of 6 weights mismatch those of its configuration, e.g. biaffine.linear"),
    ],
)
@pytest.mark.usefixtures("little_memory")
def test_absurd_sizes_are_refused_before_memory_is_taken(saved: Path, fields: dict[str, Any], reason: str) -> None:
    rewrite_config(saved, **fields)
    assert reason in refusal(saved)


@pytest.mark.usefixtures("little_memory")
def test_weights_that_a_file_lacks_take_no_memory(tiny_model: Make, method: str, tmp_path: Path) -> None:
    """The head has the largest size that the ranges allow, and the file holds the encoder alone."""
    tiny_model(method).save_pretrained(tmp_path)
    size_field = facts_of(method).size_field
    if size_field is not None:
        rewrite_config(tmp_path, **{size_field: 65_536})
        assert "mismatch" in refusal(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    encoder_weights = {name: value for name, value in weights.items() if name.startswith("word_encoder.encoder.")}
    save_file(encoder_weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    message = refusal(tmp_path)
    assert f"lacks {len(weights) - len(encoder_weights)} weights of" in message
    assert f"while reading config.json and model.safetensors of {tmp_path}" in message


@pytest.mark.parametrize(
    ("id2label", "reason"),
    [
        (["LOC", "ORG", "PER"], "id2label must map 0, 1, 2 and so on"),
        ({}, "id2label must map 0, 1, 2 and so on"),
        ({"0": "LOC", "1": "ORG", "3": "PER"}, "id2label must map 0, 1, 2 and so on"),
        ({"a": "LOC", "1": "ORG", "2": "PER"}, "id2label must map 0, 1, 2 and so on"),
        ({"0": "LOC", "1": "ORG", "2": 7}, "id2label must map to names"),
        ({"0": "LOC", "1": "ORG", "2": ""}, "id2label must map to names"),
        ({"0": "LOC", "1": "ORG", "2": "LOC"}, "id2label must not name a label twice"),
        ({"0": "ORG", "1": "LOC", "2": "PER"}, "label2id must be the inverse of id2label"),
        ({"0": "LOC", "1": "ORG"}, "label2id must be the inverse of id2label"),
    ],
)
def test_a_wrong_label_map_is_refused(saved: Path, id2label: Any, reason: str) -> None:
    rewrite_config(saved, id2label=id2label)
    assert reason in refusal(saved)


@pytest.mark.parametrize("kept", [0, 7, 100, 5_000, -1], ids="{} bytes".format)
@pytest.mark.usefixtures("little_memory")
def test_a_truncated_file_of_weights_is_refused_by_name(saved: Path, kept: int) -> None:
    path = saved / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    assert f"model.safetensors of {saved}" in refusal(saved, Exception)


@pytest.mark.parametrize("size", [10**6, 2**40, 2**63], ids="{} bytes".format)
@pytest.mark.usefixtures("little_memory")
def test_a_header_that_claims_too_much_is_refused_by_name(saved: Path, size: int) -> None:
    path = saved / "model.safetensors"
    path.write_bytes(size.to_bytes(8, "little") + path.read_bytes()[8:])
    assert f"model.safetensors of {saved}" in refusal(saved, Exception)


@pytest.mark.usefixtures("little_memory")
def test_tensors_that_claim_too_much_are_refused(saved: Path) -> None:
    """The header gives a shape and a place in the file that do not agree."""
    path = saved / "model.safetensors"
    header = {"biaffine.bias": {"dtype": "F32", "shape": [10**6, 10**6], "data_offsets": [0, 4 * 10**12]}}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\0" * 64)
    assert f"model.safetensors of {saved}" in refusal(saved, Exception)


@pytest.mark.parametrize("name", ["../model.safetensors", "/model.safetensors", "inner/model.safetensors", "a.bin", 3])
def test_an_index_leads_to_no_other_folder_and_no_other_format(saved: Path, name: object) -> None:
    (saved / "model.safetensors").rename(saved.parent / "model.safetensors")
    index = {"metadata": {}, "weight_map": {"biaffine.bias": name}}
    (saved / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert f"a shard must be a safetensors file of the same folder, got {name!r}" in refusal(saved)


@pytest.mark.parametrize(
    ("index_name", "arguments", "fields"),
    [
        ("model.safetensors.index.x.json", {"variant": "x"}, {}),
        ("other.safetensors.index.json", {}, {"transformers_weights": "other.safetensors.index.json"}),
        ("inner/other.safetensors.index.json", {}, {"transformers_weights": "inner/other.safetensors.index.json"}),
    ],
)
def test_no_index_of_the_folder_leads_to_another(
    saved: Path, index_name: str, arguments: dict[str, Any], fields: dict[str, Any]
) -> None:
    """All weights lie outside, and neither a variant nor the configuration reaches them."""
    rewrite_config(saved, **fields)
    names = list(load_file(saved / "model.safetensors"))
    (saved / "model.safetensors").rename(saved.parent / "outside.safetensors")
    (saved / index_name).parent.mkdir(exist_ok=True)
    index = {"metadata": {}, "weight_map": dict.fromkeys(names, "../outside.safetensors")}
    (saved / index_name).write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(ValueError, match=r"of the same folder, got '\.\./outside\.safetensors'"):
        AutoModel.from_pretrained(saved, **arguments)


@pytest.mark.parametrize("name", ["../model.safetensors", "pytorch_model.bin"])
def test_a_configuration_leads_to_no_other_folder_and_no_other_format(saved: Path, name: str) -> None:
    rewrite_config(saved, transformers_weights=name)
    assert name in refusal(saved)
