import json
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bare_process import BareProcess
from transformers import AutoModel, AutoTokenizer, pipeline

from hf_spanner import SpanNERModel, SpanNERPipeline
from hf_spanner.core import exported_model
from hf_spanner.core.exported_model import GRAPH_FACTS, ExportedModel, onnx_graph

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
TEXT = "Ana met Bo in Oslo"
BARE_PROGRAM = """
import sys
from transformers import pipeline

ner = pipeline("span-ner", model=sys.argv[1], trust_remote_code=True)
print([entity["word"] for entity in ner("Ana met Bo")])
"""


def write_word_graph(path: Path, score: float = 0.75) -> None:
    """A graph that makes each real word an entity of the first label."""
    helper, types = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("NonZero", ["word_mask"], ["places"]),  # (2, P)
        helper.make_node("Cast", ["places"], ["numbers"], to=types.FLOAT),
        helper.make_node("Split", ["numbers"], ["sentence", "start"], axis=0, num_outputs=2),  # (1, P) each
        helper.make_node("Add", ["start", "one"], ["end"]),
        helper.make_node("Mul", ["start", "zero"], ["label"]),
        helper.make_node("Add", ["label", "score"], ["scores"]),
        helper.make_node("Concat", ["sentence", "start", "end", "label", "scores"], ["columns"], axis=0),
        helper.make_node("Transpose", ["columns"], ["candidates"]),
    ]
    constants = [
        helper.make_tensor(name, types.FLOAT, [1], [value])
        for name, value in (("one", 1.0), ("zero", 0.0), ("score", score))
    ]
    inputs = [helper.make_tensor_value_info("word_mask", types.BOOL, ["batch", "words"])]
    outputs = [helper.make_tensor_value_info("candidates", types.FLOAT, ["found", 5])]
    graph = helper.make_graph(nodes, "words", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)


@pytest.fixture
def graph_folder(tiny_model: Callable[..., SpanNERModel], tiny_encoder: Path, tmp_path: Path) -> Path:
    """An exported folder around the graph of `write_word_graph`."""
    folder = tmp_path / "exported"
    tiny_model(window_size=8, window_overlap=2).config.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(folder)
    write_word_graph(folder / "model.onnx")
    facts = {"format": "onnx", "precision": "fp32", "files": ["model.onnx"], "decoding": {"overlap": "flat"}}
    (folder / GRAPH_FACTS).write_text(json.dumps(facts))
    return folder


def words_of(answer: Sequence[dict[str, Any]]) -> list[str]:
    return [entity["word"] for entity in answer]


def test_pipelines_take_a_folder_with_a_graph_in_place_of_weights(graph_folder: Path) -> None:
    loaded = AutoModel.from_pretrained(graph_folder)
    assert type(loaded) is ExportedModel
    ner = SpanNERPipeline(model=loaded, tokenizer=AutoTokenizer.from_pretrained(graph_folder))
    for made in (ner, pipeline("span-ner", model=str(graph_folder))):
        assert words_of(made(TEXT)) == TEXT.split()
        assert made([TEXT, ""], threshold=0.8) == [[], []]
        assert words_of(made(["Oslo", "York"], pretokenized=True)) == ["Oslo", "York"]


def test_a_long_text_is_read_in_windows_and_each_word_is_found_once(graph_folder: Path) -> None:
    text = " ".join(["Oslo"] * 50)
    assert words_of(pipeline("span-ner", model=str(graph_folder))(text)) == text.split()


def test_a_setting_that_acts_inside_the_graph_is_refused_by_another_value(graph_folder: Path) -> None:
    model = AutoModel.from_pretrained(graph_folder)
    assert model.decoding({"overlap": "flat", "threshold": 0.5})["threshold"] == 0.5
    with pytest.raises(ValueError, match="overlap acts inside the exported graph, where it is 'flat', got 'nested'"):
        model.decoding({"overlap": "nested"})
    with pytest.raises(ValueError, match="unknown decoding parameter depth"):
        model.decoding({"depth": 1})


def test_it_runs_on_the_cpu_and_says_so(graph_folder: Path) -> None:
    model = AutoModel.from_pretrained(graph_folder)
    assert model.to("cpu") is model.eval() is model
    with pytest.raises(ValueError, match="an exported model runs on the CPU; give device='cpu', got meta"):
        model.to(torch.device("meta"))


def test_a_pipeline_that_was_used_can_be_pickled(graph_folder: Path) -> None:
    ner = pipeline("span-ner", model=str(graph_folder))
    assert pickle.loads(pickle.dumps(ner))(TEXT) == ner(TEXT) == pickle.loads(pickle.dumps(ner))(TEXT)


def test_it_is_saved_with_its_graph_and_the_configuration_as_it_is_now(graph_folder: Path, tmp_path: Path) -> None:
    model = AutoModel.from_pretrained(graph_folder)
    model.config.threshold = 0.8
    model.save_pretrained(tmp_path / "again")
    assert pipeline("span-ner", model=str(tmp_path / "again"))(TEXT) == []
    assert words_of(pipeline("span-ner", model=str(graph_folder))(TEXT)) == TEXT.split()


def test_it_takes_the_place_of_an_earlier_export_but_not_of_weights(graph_folder: Path, tmp_path: Path) -> None:
    for name in (GRAPH_FACTS, "README.md"):
        (tmp_path / name).write_text("of an earlier one")
    (graph_folder / "README.md").write_text("of this one")
    model = AutoModel.from_pretrained(graph_folder)
    model.save_pretrained(tmp_path)
    model.save_pretrained(graph_folder)
    assert [(tmp_path / name).read_text() for name in (GRAPH_FACTS, "README.md")] == [
        (graph_folder / GRAPH_FACTS).read_text(),
        "of this one",
    ]
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ValueError, match=r"must hold no weights, .*, got model\.safetensors"):
        model.save_pretrained(tmp_path)


def test_a_graph_of_another_folder_is_never_read(graph_folder: Path) -> None:
    (graph_folder.parent / "model.onnx").write_bytes(b"another")
    facts = json.loads((graph_folder / GRAPH_FACTS).read_text())
    (graph_folder / GRAPH_FACTS).write_text(json.dumps(facts | {"files": ["../model.onnx"]}))
    assert words_of(pipeline("span-ner", model=str(graph_folder))(TEXT)) == TEXT.split()


@pytest.mark.parametrize("kind", ["onnx", "openvino"])
def test_without_the_library_that_runs_it_the_error_names_the_extra(
    graph_folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = json.loads((graph_folder / GRAPH_FACTS).read_text())
    (graph_folder / GRAPH_FACTS).write_text(json.dumps(facts | {"format": kind}))
    monkeypatch.setattr(exported_model, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=rf"pip install 'hf_spanner\[{kind}\]' brings it"):
        AutoModel.from_pretrained(graph_folder)


def test_a_folder_without_weights_and_without_a_graph_is_refused_as_before(graph_folder: Path) -> None:
    (graph_folder / GRAPH_FACTS).unlink()
    with pytest.raises(OSError, match=r"model\.safetensors"):
        AutoModel.from_pretrained(graph_folder)


@pytest.mark.slow
def test_a_graph_is_loaded_where_the_package_is_not_installed(graph_folder: Path, bare_process: BareProcess) -> None:
    assert "['Ana', 'met', 'Bo']" in bare_process.run(BARE_PROGRAM, graph_folder, cwd=graph_folder.parent)


def test_the_graph_reads_what_it_names_and_nothing_else(graph_folder: Path) -> None:
    mask = np.array([[True, False], [True, True]])
    table = onnx_graph(graph_folder / "model.onnx")({"word_mask": mask, "input_ids": mask})
    np.testing.assert_array_equal(table[:, :4], [[0, 0, 1, 0], [1, 0, 1, 0], [1, 1, 2, 0]])
