"""The command that shows models in a browser."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def test_models_and_settings_of_the_command_line_reach_the_page(
    program: Callable[[str], ModuleType], saved_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo, shown, launched = program("demo"), {}, {}
    monkeypatch.setitem(sys.modules, "gradio", ModuleType("gradio"))

    class Page:
        def launch(self, **options: Any) -> None:
            launched.update(options)

    monkeypatch.setattr(demo, "make_page", lambda pipelines: shown.update(pipelines) or Page())
    demo.main([str(saved_model), "--threshold", "0.3", "--port", "9000"])
    assert list(shown) == [saved_model.name]
    assert shown[saved_model.name].settings == {"threshold": 0.3}
    assert launched == {"server_name": "127.0.0.1", "server_port": 9000, "share": False}


def test_a_missing_gradio_is_said_before_models_are_loaded(
    program: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gradio", None)
    with pytest.raises(ImportError, match="gradio"):
        program("demo").main(["no such model"])


def test_models_are_named_by_what_tells_them_apart(program: Callable[[str], ModuleType]) -> None:
    assert program("demo").shown_names(["runs/a", "hub/b"]) == ["a", "b"]
    assert program("demo").shown_names(["one/a", "two/a"]) == ["one/a", "two/a"]
    with pytest.raises(ValueError, match="models must be different, got a, a"):
        program("demo").shown_names(["a", "a"])
