from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from transformers import pipeline

from hf_spanner.export.exporting import export_model
from hf_spanner.export.quantisation import head_nodes, openvino_model

ROWS = [{"tokens": ["Ana", "met", "Bo", "in", "Oslo"], "entities": []}, {"tokens": ["Mira", "Stone"], "entities": []}]
TEXTS = ["Ana met Bo in Oslo.", "The University of New York opened a laboratory. " * 3]


@pytest.mark.slow
def test_int8_weights_are_smaller_and_scores_stay_near(exported: Callable) -> None:
    whole, small = (exported("boundary_smoothing", precision=precision).folder for precision in ("fp32", "int8"))
    sizes = [(whole / "model.onnx").stat().st_size, (small / "model_quantized.onnx").stat().st_size]
    assert sizes[1] < sizes[0]
    scores = [
        {(e["start"], e["end"], e["entity_group"]): e["score"] for answer in ner(TEXTS, overlap="any") for e in answer}
        for ner in (pipeline("span-ner", model=str(folder)) for folder in (whole, small))
    ]
    shared = scores[0].keys() & scores[1].keys()
    assert len(shared) > 0.8 * len(scores[0])
    differences = np.array([abs(scores[0][span] - scores[1][span]) for span in shared])
    assert 0 < differences.max() < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_openvino_gives_nearly_the_same_scores(precision: str, exported: Callable, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    pytest.importorskip("nncf")
    made = exported("boundary_smoothing")
    export_model(made.folder.parent / "weights", tmp_path, to="openvino", precision=precision, check=ROWS, max_loss=100)
    assert {"openvino_model.xml", "openvino_model.bin"} <= {path.name for path in tmp_path.iterdir()}
    expected, found = made.weights(TEXTS), pipeline("span-ner", model=str(tmp_path))(TEXTS)
    tolerance = {"fp32": 1e-5, "int8": 0.1}[precision]
    for one, other in zip(expected, found, strict=True):
        spans = [{(e["start"], e["end"]): e["score"] for e in answer} for answer in (one, other)]
        shared = spans[0].keys() & spans[1].keys()
        assert len(shared) >= (1.0 if precision == "fp32" else 0.8) * len(spans[0])
        assert [spans[0][span] for span in shared] == pytest.approx([spans[1][span] for span in shared], abs=tolerance)


@pytest.mark.slow
def test_the_head_is_what_follows_from_the_words_of_tokens(exported: Callable) -> None:
    """It holds the BiLSTM and the search, and no layer of the encoder, whose matrices are 12 (6 a layer) or more."""
    pytest.importorskip("openvino")
    model = openvino_model(exported("boundary_smoothing").folder / "model.onnx")
    head = set(head_nodes(model))
    types = {node.get_friendly_name(): node.get_type_name() for node in model.get_ops()}
    kinds = [types[name] for name in head if name in types]
    assert {"LSTMSequence", "NonZero"} <= set(kinds)
    assert sum(kind == "MatMul" for name, kind in types.items() if name not in head) >= 12
