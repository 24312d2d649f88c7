"""Saved tiny models, and programs that run in a process of their own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from method_facts import facts_of

from hf_spanner import METHODS, SpanNERPipeline

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=sorted(METHODS))
def method(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def saved_by_method(
    random_tagger: Callable[..., SpanNERPipeline], rows: list[dict[str, Any]], tmp_path: Path
) -> Callable[[str], Path]:
    """Saves a tiny model that finds entities in `<folder>/<method>`, beside it rows and arguments; gives the folder."""

    def save(method: str) -> Path:
        folder = tmp_path / "work"
        tagger = random_tagger(method)
        tagger.model.save_pretrained(folder / method)
        tagger.tokenizer.save_pretrained(folder / method)
        (folder / "rows.json").write_text(json.dumps(rows * 2), encoding="utf-8")
        (folder / f"{method}.json").write_text(json.dumps(facts_of(method).short_training), encoding="utf-8")
        return folder

    return save


@pytest.fixture
def run_recipe() -> Callable[..., Callable[[list[str]], None]]:
    """Gives the `main` of a command, loaded anew with some of its constants changed."""

    def load(name: str, **constants: Any) -> Callable[[list[str]], None]:
        spec = spec_from_file_location(f"reliability_{name}", ROOT / "hf_spanner" / "commands" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        vars(module).update(constants)
        return module.main

    return load


@pytest.fixture
def run_python() -> Callable[..., str]:
    """Runs Python in a process of its own with one thread and no network, and gives its standard output."""

    def run(*arguments: str | Path, timeout: float = 300, check: bool = True, **environment: str) -> str:
        finished = subprocess.run(
            [sys.executable, *map(str, arguments)],
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert finished.returncode == 0 or not check, finished.stderr[-3000:]
        return finished.stdout if check else finished.stderr

    return run
