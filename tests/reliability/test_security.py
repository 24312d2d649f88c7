"""No network at import or prediction, and nothing that runs code out of files."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hf_spanner import METHODS

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for folder in ("hf_spanner", "recipes", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
UNSAFE_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
UNSAFE_CALLS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "os.system",
    "os.popen",
    "torch.load",
    "torch.save",
    "torch.hub.load",
    "yaml.load",
    "yaml.unsafe_load",
    "yaml.full_load",
    "pandas.read_pickle",
    "typ='unsafe'",  # these are YAML's
}
UNSAFE_ARGUMENTS = {"allow_pickle", "shell"}
WITHOUT_NETWORK = """
import socket, sys

def refused(*arguments, **settings):
    raise AssertionError(f"network asked for {arguments}")

for name in ("connect", "connect_ex", "sendto"):
    setattr(socket.socket, name, refused)
socket.getaddrinfo = socket.create_connection = socket.gethostbyname = refused
import hf_spanner
from transformers import pipeline
for folder in sys.argv[1:]:
    ner = pipeline("span-ner", model=folder, device="cpu")
    assert ner("Ana met Bo in Oslo .") == ner(["Ana met Bo in Oslo ."])[0]
    assert ner(["Ana", "met", "Bo"], pretokenized=True) is not None
sys.stdout.write("offline")
"""


ASKED = {f"trust_remote_code={value}" for value in ("", "False", "given.trust_remote_code")}  # never by ourselves
TRUSTED = {"handler.py": {"trust_remote_code=True"}}  # it lies in the repository whose code it runs


def names_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of each imported module, called function and named argument, this also with its value."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, (node.module or "").split(".")[0]
        elif isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node.func)
            for keyword in node.keywords:
                yield node.lineno, f"{keyword.arg}="
                yield node.lineno, f"{keyword.arg}={ast.unparse(keyword.value)}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_runs_code_out_of_files(path: Path) -> None:
    """There is no pickle, no evaluated text and no shell, and YAML is read by its safe loader only.

    Remote code runs only where a caller asks for it.
    """
    forbidden = UNSAFE_MODULES | UNSAFE_CALLS | {f"{name}=" for name in UNSAFE_ARGUMENTS}
    names = list(names_of(path))
    findings = [f"line {line}: {name}" for line, name in names if name in forbidden]
    trusted = (
        {name for _, name in names if name.startswith("trust_remote_code=")} - ASKED - TRUSTED.get(path.name, set())
    )
    assert not [*findings, *trusted]


def test_the_search_for_unsafe_names_finds_them(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text(
        "import pickle as p\nfrom dill import x\ntorch.load(f, allow_pickle=True)\nYAML(typ='unsafe')\neval('1')\n"
        "f(trust_remote_code=True)\n"
    )
    assert {"pickle", "dill", "torch.load", "allow_pickle=", "typ='unsafe'", "eval", "trust_remote_code=True"} <= {
        name for _, name in names_of(path)
    }


@pytest.mark.slow  # a process of its own imports everything anew
def test_import_and_prediction_ask_for_no_network(saved_by_method: Callable, run_python: Callable) -> None:
    """This holds even where the offline switch of the Hub's library is off; the socket refuses whatever is asked."""
    folders = [saved_by_method(method) / method for method in METHODS]
    home = {"HF_HUB_OFFLINE": "0", "HF_HOME": str(folders[0].parent / "home")}
    assert run_python("-c", WITHOUT_NETWORK, *folders, **home) == "offline"
