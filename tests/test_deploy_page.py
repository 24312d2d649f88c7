import os
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from hf_spanner import SpanNERPipeline
from hf_spanner.commands.program import main

PAGE = Path(__file__).parent.parent / "docs" / "deploy.md"
ROWS = '{"tokens": ["Ana", "met", "Bo"], "entities": [{"start": 0, "end": 1, "label": "PER"}]}\n' * 4
OPTIONAL = {
    "--engine ray": "ray",
    "hf-spanner demo": "gradio",
    "pyspark": "pyspark",
}  # what a block needs that the tests' environment may lack
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_every_block_of_the_page_runs_in_its_order(
    random_tagger: Callable[..., SpanNERPipeline], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the folder of a trained model on, each block with at most six lines that do something."""
    pytest.importorskip("onnxscript")
    pytest.importorskip("fastapi")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")  # or the client of the Hub asks nobody, not even this machine
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    random_tagger("boundary_smoothing").save_pretrained("model")
    Path("dev.jsonl").write_text(ROWS, encoding="utf-8")
    Path("texts").mkdir()
    Path("texts", "a.txt").write_text("Ana met Bo in Oslo.\n", encoding="utf-8")
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert Counter(language for language, _ in blocks) == {"python": 6, "bash": 5}
    with ExitStack() as services:
        for language, text in blocks:
            lines = [line for line in text.splitlines() if line]
            assert len(lines) <= 6
            if any(sign in text and find_spec(package) is None for sign, package in OPTIONAL.items()):
                continue
            if language == "python":
                completed = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
                assert completed.returncode == 0, completed.stderr
                assert "entit" in completed.stdout or "EntityView" in text  # a notebook shows its last line
                continue
            for line in lines:
                run_line(line, services)
    assert Path("model", "handler.py").exists()


def run_line(line: str, services: ExitStack) -> None:
    """Run a line of a shell: a service in a process of its own, other commands of ours in this one."""
    program, *arguments = shlex.split(line)
    if program == "pip":
        return
    if program != "hf-spanner":
        subprocess.run(["bash", "-c", line], check=True)
    elif arguments[0] == "serve":
        services.enter_context(served(arguments, "ready"))
    elif arguments[0] == "demo":
        services.enter_context(served(arguments, ""))
    else:
        main([*arguments, *(["--max-loss", "100"] if arguments[0] == "export" else [])])


@contextmanager
def served(arguments: list[str], page: str) -> Iterator[None]:
    """A service that shows a page, at the port that is its last argument."""
    process = subprocess.Popen([sys.executable, "-m", "hf_spanner", *arguments])
    try:
        for _ in range(600):
            try:
                urlopen(f"http://127.0.0.1:{arguments[-1]}/{page}").close()
                break
            except URLError:
                assert process.poll() is None
                time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait()
