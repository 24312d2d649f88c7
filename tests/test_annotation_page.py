"""The page about annotation: its commands and its Python run on small files, one after the other."""

import json
import re
import shlex
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from hf_spanner import SpanNERModel, load_rows
from hf_spanner.commands import program
from hf_spanner.data.formats.table import FORMATS

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "annotation.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(bash|python)\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def folder(
    tiny_model: Callable[..., SpanNERModel], tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder with an export of Label Studio, new texts, held-out rows and a model that finds something in them."""
    model = tiny_model(overlap="nested", lstm_layers=0)
    model.biaffine.linear_weight.data.mul_(40)
    model.save_pretrained(tmp_path / "my_model")
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(tmp_path / "my_model")
    export = ROOT / "tests" / "fixtures" / "formats" / "label_studio.json"
    (tmp_path / "export.json").write_bytes(export.read_bytes())
    (tmp_path / "new_texts.txt").write_text("Ana met Bo in Oslo.\nIt rained.\n", encoding="utf-8")
    words, entities = ["Ana", "met", "Bo", "in", "Oslo"], [{"start": 4, "end": 5, "label": "LOC"}]
    held_out = [{"tokens": words[start:] + words[:start], "entities": entities} for start in range(5)]
    lines = "".join(json.dumps(row) + "\n" for row in held_out * 5)
    (tmp_path / "held_out.jsonl").write_text(lines, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_command_and_every_block_runs(folder: Path, capsys: pytest.CaptureFixture) -> None:
    for language, block in BLOCKS:
        if language == "python":
            if "import spacy" in block:
                if find_spec("spacy") is None:
                    continue
                import_module(
                    "hf_spanner.integrations.spacy_component"
                )  # as the entry point of an installed package does
            exec(compile(block, "docs/annotation.md", "exec"), {})
            continue
        for line in filter(None, block.splitlines()):
            command, _, output = line.partition(" > ")
            if command.startswith("hf-spanner "):
                program.main(shlex.split(command)[1:])
                printed = capsys.readouterr().out
                if output:
                    (folder / output).write_text(printed, encoding="utf-8")
    assert len(load_rows("rows.jsonl")) == 4
    assert "<Labels" in (folder / "interface.xml").read_text(encoding="utf-8")
    assert list(load_rows("suggested.jsonl")) == list(load_rows("predictions.jsonl"))
    assert len(json.loads((folder / "next" / "tasks.json").read_text(encoding="utf-8"))) == 2
    changes = (folder / "corrected.jsonl.changes.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(changes) == 1
    differing = [old != new for old, new in zip(load_rows("rows.jsonl"), load_rows("corrected.jsonl"), strict=True)]
    assert sum(differing) == 1


def test_the_table_names_every_format_with_what_it_can() -> None:
    named = {}
    for names, read, write in re.findall(r"^\| (`[^|]*`) \| [^|]* \|([^|]*)\|([^|]*)\|", PAGE, flags=re.MULTILINE):
        for name in re.findall(r"`([\w-]+)`", names):
            named[name] = (read.strip() == "yes", write.strip() == "yes")
    assert named == {name: (format.is_read, format.write is not None) for name, format in FORMATS.items()}
