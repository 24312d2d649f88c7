"""Graphs with int8 weights, and graphs of OpenVINO."""

import os
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

NUM_RANGE_ROWS = 300  # rows whose values set the ranges of OpenVINO's int8
QUANTISED = ["Gather", "LSTM", "MatMul"]  # attention has no weights, and convolutions would be slower
HEAD_INPUTS = ("word_index", "word_mask")  # what depends on these is the head, all else the encoder


def quantised_onnx(source: Path, target: Path) -> None:
    """Write a graph of ONNX with int8 weights, one scale for each output of a layer; values are scaled as they come.

    Args:
        source: The graph in float32.
        target: File to write.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read at import; it would tell its maker of its use
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with TemporaryDirectory() as folder:
        prepared = Path(folder, "prepared.onnx")
        quant_pre_process(source, prepared, skip_symbolic_shape=True)
        quantize_dynamic(
            prepared, target, per_channel=True, weight_type=QuantType.QInt8, op_types_to_quantize=QUANTISED
        )


def openvino_model(source: Path) -> Any:
    """The model of OpenVINO of a graph of ONNX."""
    import openvino  # type: ignore[import-not-found]  # an extra of its own

    return openvino.convert_model(source)


def quantised_openvino(model: Any, batches: Iterable[dict[str, np.ndarray]]) -> Any:
    """The same model with int8 weights and values in the encoder; the head keeps its numbers.

    Args:
        model: A model of OpenVINO.
        batches: Inputs such as it will read, of which the first set the ranges of the values.

    Returns:
        A new model.
    """
    import nncf  # type: ignore[import-not-found]

    return nncf.quantize(
        model,
        nncf.Dataset(list(batches)),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=NUM_RANGE_ROWS,
        ignored_scope=nncf.IgnoredScope(names=head_nodes(model), validate=False),
    )


def head_nodes(model: Any) -> list[str]:
    """Names of the nodes of a model of OpenVINO that follow from which word a token belongs to.

    What follows from the shapes of these inputs alone does not count: the encoder may take its batch size from them.
    """
    found: set[str] = set()
    waiting = [entry.node for entry in model.inputs if entry.any_name in HEAD_INPUTS]
    while waiting:
        for output in waiting.pop().outputs():
            for reader in output.get_target_inputs():
                node = reader.get_node()
                if node.get_type_name() != "ShapeOf" and node.get_friendly_name() not in found:
                    found.add(node.get_friendly_name())
                    waiting.append(node)
    return sorted(found)


def save_openvino(model: Any, path: Path) -> None:
    """Write a model of OpenVINO as it is: XML, and the weights beside it."""
    import openvino  # type: ignore[import-not-found]  # an extra of its own

    openvino.save_model(model, path, compress_to_fp16=False)
