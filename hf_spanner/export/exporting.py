"""Export a model: its graph, and all that a folder needs to give the same answers without the weights."""

import json
import shutil
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

import numpy as np
from transformers import AutoModel, AutoTokenizer

from hf_spanner.core.checkpoint_folder import UNFINISHED, WEIGHTS, move_finished
from hf_spanner.core.checkpoint_weights import found_file
from hf_spanner.core.exported_model import GRAPH_FACTS, ExportedModel
from hf_spanner.core.features import token_rules
from hf_spanner.core.pipeline_span_ner import SpanNERPipeline
from hf_spanner.data.predicted import predicted_entities
from hf_spanner.export.check import Comparison, Rows, compared, fitted_again
from hf_spanner.export.exported_card import exported_card
from hf_spanner.export.graph import CandidateGraph, write_onnx
from hf_spanner.export.quantisation import (
    NUM_RANGE_ROWS,
    openvino_model,
    quantised_onnx,
    quantised_openvino,
    save_openvino,
)
from hf_spanner.export.runner_source import runner_source

Format = Literal["onnx", "openvino"]
Precision = Literal["fp32", "int8"]
PACKAGES = {"onnx": ("torch", "onnx", "onnxruntime"), "openvino": ("torch", "onnx", "openvino")}
RUNNER = "ort_span_ner.py"
MAX_LOSS = 0.5  # points of F1


def export_model(
    source: str | Path,
    output: str | Path,
    *,
    to: Format = "onnx",
    precision: Precision = "fp32",
    check: Rows | None = None,
    check_name: str = "rows",
    max_loss: float = MAX_LOSS,
    decoding: Mapping[str, Any] | None = None,
    batch_size: int = 32,
) -> Comparison | None:
    """Export a saved model into a folder that `SpanNERPipeline` and `pipeline("span-ner", model=folder)` take.

    Args:
        source: Folder or Hub name of the model.
        output: Folder, made if absent.
        to: `onnx` or `openvino`.
        precision: `fp32` gives the same scores, `int8` is smaller and faster.
        check: Held-out rows that both models read. A calibration is fitted again on the exported model's scores, and
            for `openvino` with `int8` they set the ranges of the values.
        check_name: What stands for these rows in the model card and the configuration.
        max_loss: Most points of F1 that may be lost on them.
        decoding: Settings of inference by name, which become the exported model's own.
        batch_size: Windows run through the models at once.

    Returns:
        The scores of both on the rows, before a calibration is fitted again; None without rows.

    Raises:
        ValueError: If more is lost, the model cannot be exported, or an argument is not allowed; nothing is written.
    """
    refuse_unfit(to, precision, check, Path(output))
    ner = loaded_pipeline(source, decoding)
    folder = Path(output)
    unfinished = folder / UNFINISHED
    shutil.rmtree(unfinished, ignore_errors=True)  # left by a process that was killed
    unfinished.mkdir(parents=True)
    try:
        fixed = write_folder(unfinished, ner, to, precision, check)
        config, comparison, notes = ner.model.config, None, []
        if check is not None:
            after = SpanNERPipeline(model=ExportedModel(config, unfinished), tokenizer=ner.tokenizer, device="cpu")
            comparison = checked(ner, after, check, max_loss, batch_size)
            notes = calibrated_again(after, check, check_name, batch_size)
            config.save_pretrained(unfinished)
        elif config.calibration is not None and precision == "int8":
            notes = ["The calibration was fitted on float32 scores; give rows to the export to fit it again."]
        place = {"to": to, "precision": precision, "decoding": fixed, "rows": check_name}
        place["runs_alone"] = (unfinished / RUNNER).exists()
        card = exported_card(card_of(source), **place, comparison=comparison, notes=notes)
        (unfinished / "README.md").write_text(card, encoding="utf-8")
        move_finished(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return comparison


def loaded_pipeline(source: str | Path, decoding: Mapping[str, Any] | None) -> SpanNERPipeline:
    """The model with weights, whose own settings of inference are overlaid by those given."""
    model, tokenizer = AutoModel.from_pretrained(source), AutoTokenizer.from_pretrained(source)
    if isinstance(model, ExportedModel):
        raise ValueError(f"source must be a model with weights, got an exported one: {source}")
    for name, value in model.decoding(decoding).items():
        setattr(model.config, name, value)
    return SpanNERPipeline(model=model, tokenizer=tokenizer, device="cpu")


def card_of(source: str | Path) -> str:
    """The text of a model's card; empty if it has none."""
    path = found_file(source, "README.md", {})
    return "" if path is None else path.read_text(encoding="utf-8")


def refuse_unfit(to: str, precision: str, check: Rows | None, output: Path) -> None:
    """Raise a ValueError for arguments that are not allowed, before work is done."""
    for name, value, allowed in (("to", to, get_args(Format)), ("precision", precision, get_args(Precision))):
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
    if to == "openvino" and precision == "int8" and check is None:
        raise ValueError("check must be rows for int8 with OpenVINO, since they set the ranges of the values, got None")
    if output.is_dir() and any(WEIGHTS.fullmatch(path.name) for path in output.iterdir()):
        raise ValueError(f"output must be a folder without weights, which would be read in place of a graph: {output}")


def write_folder(
    folder: Path, ner: SpanNERPipeline, to: Format, precision: Precision, check: Rows | None
) -> dict[str, Any]:
    """Write graph, facts, configuration, tokenizer and, for ONNX, the runner; the settings fixed in the graph."""
    graph = CandidateGraph(ner.model)
    facts = {
        "format": to,
        "precision": precision,
        "files": write_graph(folder, graph, ner, to, precision, check),
        "decoding": graph.decoding,
        "token_rules": token_rules(ner.tokenizer)._asdict(),
        "versions": {package: version(package) for package in PACKAGES[to]},
    }
    (folder / GRAPH_FACTS).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    ner.model.config.save_pretrained(folder)
    ner.tokenizer.save_pretrained(folder)
    if to == "onnx" and graph.head.runs_alone:
        (folder / RUNNER).write_text(runner_source(), encoding="utf-8")
    return graph.decoding


def write_graph(
    folder: Path,
    graph: CandidateGraph,
    ner: SpanNERPipeline,
    to: Format,
    precision: Precision,
    check: Rows | None,
) -> list[str]:
    """Write the graph in its format; the names of its files, first the one that is opened."""
    if (to, precision) == ("onnx", "fp32"):
        write_onnx(graph, ner.reader, folder / "model.onnx")
    else:
        with TemporaryDirectory() as elsewhere:
            whole = Path(elsewhere, "model.onnx")
            write_onnx(graph, ner.reader, whole)
            if to == "onnx":
                quantised_onnx(whole, folder / "model_quantized.onnx")
            else:
                network = openvino_model(whole)
                if precision == "int8":
                    network = quantised_openvino(network, single_batches(ner, check or []))
                save_openvino(network, folder / "openvino_model.xml")
    names = [path.name for path in folder.iterdir()]
    return sorted(names, key=lambda name: (not name.endswith((".onnx", ".xml")), name))


def single_batches(ner: SpanNERPipeline, rows: Rows) -> list[dict[str, np.ndarray]]:
    """A batch of its own for the first window of each row."""
    texts = ner.reader.texts([row["tokens"] for row in rows][:NUM_RANGE_ROWS])
    return [ner.reader.batch([(text, text.windows[0])]) for text in texts if text.tokens.ids]


def checked(
    before: SpanNERPipeline, after: SpanNERPipeline, rows: Rows, max_loss: float, batch_size: int
) -> Comparison:
    """The scores of both models on rows.

    Raises:
        ValueError: If the exported one loses more than it may.
    """
    first, second = (list(predicted_entities(ner, rows, batch_size)) for ner in (before, after))
    comparison = compared(first, second, [list(row["entities"]) for row in rows])
    if comparison.loss > max_loss:
        raise ValueError(
            f"the exported model loses {comparison.loss:.2f} points of F1 on the rows, which is more than max_loss = "
            f"{max_loss:g}, so nothing was written\n{comparison}"
        )
    return comparison


def calibrated_again(ner: SpanNERPipeline, rows: Rows, name: str, batch_size: int) -> list[str]:
    """Fit the calibration again, where there is one; what the model card says of it."""
    config = ner.model.config
    if config.calibration is None:
        return []
    fitted = fitted_again(config.calibration, ner, rows, name, batch_size)
    if fitted is None:
        return [f"The calibration is that of the weights: {name} gave too few predictions to fit it again."]
    has_promises = "promises" in config.calibration
    config.calibration = fitted
    notes = [f"The calibration was fitted again on the exported model's scores, on {len(rows):,} rows of {name}."]
    if has_promises:
        notes.append("Promised thresholds belonged to other scores and were left out; hf-spanner calibrate makes them.")
    return notes
