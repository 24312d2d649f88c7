import ast
import sys

import pytest

from hf_spanner.export import runner_source as bundling
from hf_spanner.export.runner_source import Collected, runner_source

ALLOWED = {"numpy", "onnxruntime", "tokenizers"}


def test_the_runner_imports_three_libraries_and_nothing_of_the_package() -> None:
    tree = ast.parse(runner_source())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} - set(sys.stdlib_module_names) == ALLOWED


def test_each_name_is_defined_before_it_is_used_at_the_top() -> None:
    """The source runs as a module, with the libraries that it needs in place."""
    pytest.importorskip("onnxruntime")
    namespace = {"__name__": "ort_span_ner"}
    exec(compile(runner_source(), "ort_span_ner.py", "exec"), namespace)  # noqa: S102
    assert namespace["split_words"]("Don't go") == [(0, 2), (2, 5), (6, 8)]


def test_two_definitions_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {
        "hf_spanner.one": "from hf_spanner.two import b\nsize = 1\ndef a(): return size + b()",
        "hf_spanner.two": "size = 2\ndef b(): return size",
        "hf_spanner.three": "from hf_spanner.two import b as c\ndef a(): return c()",
    }
    monkeypatch.setattr(bundling, "source_of", sources.__getitem__)
    bundling.bindings.cache_clear()
    with pytest.raises(ValueError, match=r"hf_spanner.one and hf_spanner.two both define size"):
        Collected().take("hf_spanner.one", "a")
    with pytest.raises(ValueError, match=r"hf_spanner.three must import b by its own name"):
        Collected().take("hf_spanner.three", "a")
    bundling.bindings.cache_clear()
