import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hf_spanner import SpanNERPipeline
from hf_spanner.commands.program import main

PAGE = Path(__file__).parent.parent / "docs" / "deploy.md"
ROWS = '{"tokens": ["Ana", "met", "Bo"], "entities": [{"start": 0, "end": 1, "label": "PER"}]}\n' * 4
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_every_block_of_the_page_runs_in_its_order(
    random_tagger: Callable[..., SpanNERPipeline], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the folder of a trained model on, each block with at most six lines that do something."""
    pytest.importorskip("onnxscript")
    monkeypatch.chdir(tmp_path)
    random_tagger("boundary_smoothing").save_pretrained("model")
    Path("dev.jsonl").write_text(ROWS, encoding="utf-8")
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert [language for language, _ in blocks] == ["python", "bash", "python", "python", "python"]
    for language, text in blocks:
        lines = [line for line in text.splitlines() if line]
        assert len(lines) <= 6
        if language == "python":
            completed = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
            assert completed.returncode == 0, completed.stderr
            assert "entity_group" in completed.stdout or "EntityView" in text  # a notebook shows its last line
            continue
        for line in lines:
            program, *arguments = shlex.split(line)
            if program == "hf-spanner":
                main([*arguments, "--max-loss", "100"])
