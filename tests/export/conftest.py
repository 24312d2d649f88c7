"""Tiny models of all methods and their exports, each made once."""

import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hf_spanner import SpanNERPipeline
from hf_spanner.export.exporting import export_model


class Exported(NamedTuple):
    """A pipeline on weights, and the folder of its export."""

    weights: SpanNERPipeline
    folder: Path


@pytest.fixture(scope="session", autouse=True)
def quiet_export() -> None:
    """Keeps the exporter's trace, which pytest would format line by line, out of the log."""
    for name in ("torch.__trace", "torch.onnx", "torch.export"):
        logging.getLogger(name).setLevel(logging.ERROR)


@pytest.fixture(scope="session")
def exported(
    random_tagger: Callable[..., SpanNERPipeline], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Exported]:
    """Exports a talkative random model: `exported(method, kind, fields as pairs, to=..., precision=...)`."""

    @cache
    def make(
        method: str, kind: str = "wordpiece", fields: tuple[tuple[str, Any], ...] = (), **arguments: Any
    ) -> Exported:
        pytest.importorskip("onnxscript")
        root = tmp_path_factory.mktemp(method)
        ner = random_tagger(method, kind, **dict(fields))
        ner.model.save_pretrained(root / "weights")
        ner.tokenizer.save_pretrained(root / "weights")
        export_model(root / "weights", root / "exported", **arguments)
        return Exported(ner, root / "exported")

    return make
