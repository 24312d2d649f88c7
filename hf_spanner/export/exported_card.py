"""The model card of an exported folder: that of the model, and what its export changed."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from huggingface_hub import ModelCard, ModelCardData

from hf_spanner.export.check import Comparison

FORMATS = {"onnx": "ONNX, run by ONNX Runtime", "openvino": "OpenVINO"}
PRECISIONS = {
    ("onnx", "fp32"): "float32 weights",
    ("onnx", "int8"): "int8 weights with one scale for each output of a layer, values scaled as they come",
    ("openvino", "fp32"): "float32 weights",
    ("openvino", "int8"): "int8 weights and values in the encoder, the head in the type that the CPU prefers",
}
NO_CARD = "---\npipeline_tag: token-classification\n---\n"
RUNNER_LINES = """
Without torch, by onnxruntime, tokenizers and numpy alone, in this folder:

```python
from ort_span_ner import SpanNER

SpanNER(".")(["Your text."])
```
"""


def exported_card(
    card: str,
    *,
    to: str,
    precision: str,
    decoding: Mapping[str, Any],
    rows: str,
    runs_alone: bool,
    comparison: Comparison | None,
    notes: Sequence[str],
) -> str:
    """The text of the card.

    Args:
        card: Text of the model's own card; empty if it has none.
        to: Format of the graph.
        precision: Precision of the graph.
        decoding: Settings of inference that act inside the graph.
        rows: Name of the rows of the comparison.
        runs_alone: Whether the folder holds the runner that needs no torch.
        comparison: Scores before and after; None if they were not compared.
        notes: Further sentences.
    """
    fixed = ", ".join(f"{name} {value!r}" for name, value in decoding.items())
    parts = [
        "## Export",
        f"This folder holds a graph in place of weights: {FORMATS[to]}, with {PRECISIONS[(to, precision)]}.",
        "With hf_spanner installed `pipeline('span-ner', model=FOLDER)` takes it as it takes weights.",
        f"Settings that act inside the graph and are fixed: {fixed}." if fixed else "",
        RUNNER_LINES.strip() if runs_alone else "",
        "Its scores were not compared with those of the weights."
        if comparison is None
        else f"On {rows}:\n\n{comparison}",
        *notes,
    ]
    parsed = ModelCard(card or NO_CARD, ignore_metadata_errors=True)
    data = cast(ModelCardData, parsed.data)
    data.tags = [*(data.tags or []), to]
    return f"{str(parsed).rstrip()}\n\n" + "\n\n".join(part for part in parts if part) + "\n"
