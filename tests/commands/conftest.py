"""The commands by name, and a tiny saved model for them."""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import transformers
from transformers import AutoTokenizer

from hf_spanner import SpanNERModel


@pytest.fixture(autouse=True)
def _on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")


@pytest.fixture(autouse=True)
def _restored_logging() -> Any:
    """The program silences libraries for its own process, but the tests go on in it."""
    ours, theirs = logging.getLogger("hf_spanner").level, transformers.logging.get_verbosity()
    yield
    logging.getLogger("hf_spanner").setLevel(ours)
    transformers.logging.set_verbosity(theirs)


@pytest.fixture(scope="session")
def program() -> Callable[[str], ModuleType]:
    """Imports a command by its name."""
    return lambda name: import_module(f"hf_spanner.commands.{name}")


@pytest.fixture(scope="session")
def saved_model(
    tiny_model: Callable[..., SpanNERModel], tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of a tiny random model that believes in many spans."""
    folder = tmp_path_factory.mktemp("saved")
    model = tiny_model(overlap="nested", lstm_layers=0)
    model.biaffine.linear_weight.data.mul_(40)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(folder)
    return folder


@pytest.fixture
def write_jsonl(tmp_path: Path) -> Callable[[str, Iterable[Mapping[str, Any]]], Path]:
    """Writes rows to a file of the test's own folder."""

    def write(name: str, rows: Iterable[Mapping[str, Any]]) -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write
