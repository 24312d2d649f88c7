"""A model whose scores come from an exported graph: ONNX Runtime or OpenVINO in the place of torch."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from hf_spanner.core.checkpoint_weights import DOWNLOAD_ARGUMENTS, found_file
from hf_spanner.core.configuration_span_ner import SpanNERConfig
from hf_spanner.core.decoding import Decoding
from hf_spanner.core.prediction import CandidateFunction, graph_tables

GRAPH_FACTS = "span_ner_graph.json"  # what an exported folder says of its graph
EXTRAS = {"onnx": "onnxruntime", "openvino": "openvino"}  # the package that runs a format, whose extra has its name

# From padded inputs to (P, 5) float32: sentence, start, end, label and score, ordered by sentence.
Graph = Callable[[Mapping[str, np.ndarray]], np.ndarray]


def is_onnxruntime_available() -> bool:
    """Whether graphs of ONNX can be run here."""
    return find_spec("onnxruntime") is not None


def is_openvino_available() -> bool:
    """Whether graphs of OpenVINO can be run here."""
    return find_spec("openvino") is not None


class ExportedModel:
    """What a pipeline needs of a model, by a graph that `hf-spanner export` has made; it runs on the CPU.

    Everything but the scores is the same as with the weights. Settings of inference that act inside the graph are fixed
    by the export. The graph is read at its first use and left out when the model is pickled.

    Args:
        config: The configuration of the model that was exported.
        folder: The exported folder.

    Raises:
        ImportError: If the library that runs the graph is not installed; the message names the extra that brings it.
    """

    device = torch.device("cpu")
    dtype = torch.float32

    def __init__(self, config: SpanNERConfig, folder: str | Path) -> None:
        self.config, self.folder = config, Path(folder)
        self.facts = json.loads((self.folder / GRAPH_FACTS).read_text(encoding="utf-8"))
        kind = self.facts["format"]
        if not {"onnx": is_onnxruntime_available, "openvino": is_openvino_available}[kind]():
            raise ImportError(
                f"the model was exported for {EXTRAS[kind]}, which is not installed; pip install 'hf_spanner[{kind}]' "
                "brings it"
            )
        self._graph: Graph | None = None

    @classmethod
    def found(cls, source: str | Path, config: SpanNERConfig, arguments: Mapping[str, Any]) -> Self | None:
        """The exported model of a folder or of a repository on the Hub; None if there is no graph.

        Args:
            source: Folder or Hub name.
            config: Its configuration.
            arguments: Those of `from_pretrained`, of which those of the download are used.
        """
        asked = {name: arguments[name] for name in DOWNLOAD_ARGUMENTS if arguments.get(name) is not None}
        facts = found_file(source, GRAPH_FACTS, asked)
        if facts is None:
            return None
        for name in json.loads(facts.read_text(encoding="utf-8"))["files"]:
            found_file(source, name, asked)
        return cls(config, facts.parent)

    def decoding(self, overrides: Mapping[str, Any] | None = None) -> Decoding:
        """Settings of inference, as those of a model with weights.

        Raises:
            ValueError: If one is unknown or out of range, or acts inside the graph and has another value there.
        """
        settings = self.config.decoding(overrides)
        for name, value in self.facts["decoding"].items():
            if settings[name] != value:
                raise ValueError(
                    f"{name} acts inside the exported graph, where it is {value!r}, got {settings[name]!r}; export the "
                    "model again with that value"
                )
        return settings

    def candidate_function(self, decoding: Mapping[str, Any] | None = None) -> CandidateFunction:
        """What `predicted_spans` needs of a model: from a padded batch of arrays to a table for each window."""
        settings = self.decoding(decoding)

        def candidates(batch: dict[str, np.ndarray]) -> list[np.ndarray]:
            return [self.config.sifted(table, settings) for table in graph_tables(self.graph, batch)]

        return candidates

    @property
    def graph(self) -> Graph:
        """The graph as a function."""
        if self._graph is None:
            path = self.folder / Path(self.facts["files"][0]).name  # never of another folder
            is_onnx = self.facts["format"] == "onnx"
            self._graph = onnx_graph(path) if is_onnx else openvino_graph(path, self.facts["precision"])
        return self._graph

    def save_pretrained(self, save_directory: str | Path) -> None:
        """Write the graph and the configuration, as it is now, into a folder, over what an earlier export left there.

        Raises:
            ValueError: If the folder holds weights, which would be read in place of the graph.
        """
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        weights = sorted(path.name for path in folder.glob("*.safetensors"))
        if weights:
            raise ValueError(f"the folder must hold no weights, which are read before a graph, got {weights[0]}")
        for path in [] if folder.samefile(self.folder) else self.folder.iterdir():
            if path.is_file():
                shutil.copyfile(path, folder / path.name)
        self.config.save_pretrained(folder)

    def eval(self) -> Self:
        """Itself: a graph is never trained."""
        return self

    def to(self, device: str | torch.device) -> Self:
        """Itself, on the CPU.

        Raises:
            ValueError: If another device is asked for.
        """
        if torch.device(device).type != "cpu":
            raise ValueError(f"an exported model runs on the CPU; give device='cpu', got {device}")
        return self

    def __getstate__(self) -> dict[str, Any]:
        """State to pickle, without the graph, which is read again."""
        return vars(self) | {"_graph": None}


def onnx_graph(path: Path) -> Graph:
    """A graph of ONNX as a function, on as many threads as torch has."""
    if is_onnxruntime_available():
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read at import; it would tell its maker of its use
        import onnxruntime

    options = onnxruntime.SessionOptions()
    options.enable_mem_pattern = False  # it would keep a plan for each size of a batch, and few sizes come twice
    options.intra_op_num_threads = torch.get_num_threads()
    slower = ["SkipLayerNormFusion"]  # one node for a sum and its norm takes longer than the two
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"], disabled_optimizers=slower
    )
    names = [entry.name for entry in session.get_inputs()]
    return lambda batch: np.asarray(session.run(None, {name: batch[name] for name in names})[0])


def openvino_graph(path: Path, precision: str) -> Graph:
    """A graph of OpenVINO as a function, on as many threads as torch has.

    With float32 numbers nothing is rounded; with int8 ones the rest is computed in the type that the CPU prefers.
    """
    if is_openvino_available():
        import openvino  # type: ignore[import-not-found]  # an extra of its own

    settings = {"INFERENCE_NUM_THREADS": torch.get_num_threads(), "PERFORMANCE_HINT": "LATENCY"}
    if precision == "fp32":
        settings["INFERENCE_PRECISION_HINT"] = "f32"
    request = openvino.Core().compile_model(path, "CPU", settings).create_infer_request()
    names = [entry.any_name for entry in request.model_inputs]
    return lambda batch: request.infer({name: batch[name] for name in names})[0].copy()
