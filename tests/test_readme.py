"""The front page has one screen of prose, links that work anywhere, and code that is there."""

import ast
import re
import shlex
from pathlib import Path

import pytest

from hf_spanner.commands.program import COMMANDS, main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
MAX_WORDS, MAX_NUMBERS = 900, 40


def prose() -> str:
    """The page without blocks of code, comments and the rules of tables."""
    text = re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"<!--.*?-->|\|[-| ]+\|$", "", text, flags=re.MULTILINE)


def code(language: str) -> list[str]:
    return [text for block_language, text in BLOCKS if block_language == language]


def test_the_page_is_one_screen() -> None:
    """The whole file counts, code and tables included; words are what stands between blanks."""
    assert len(README.split()) <= MAX_WORDS
    assert len(re.findall(r"\d+(?:[.,]\d+)*|\.\d+", README)) <= MAX_NUMBERS


def test_no_link_needs_the_repository() -> None:
    """A package index shows the page without the files beside it."""
    assert [target for target in re.findall(r"\]\(([^)]+)\)", README) if "://" not in target] == []


def test_every_path_of_the_prose_is_there() -> None:
    paths = re.findall(r"`((?:docs|recipes|hf_spanner|benchmarks)/[\w./*]+|[A-Z]+\.\w+)`", prose())
    assert len(paths) > 5
    assert [path for path in paths if not list(ROOT.glob(path))] == []


@pytest.mark.parametrize("text", code("python"))
def test_python_code_is_whole_and_its_imports_work(text: str) -> None:
    imports = [node for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
    exec(compile(ast.Module(imports, []), "README.md", "exec"), {})


def test_commands_take_the_options_that_are_shown(capsys: pytest.CaptureFixture) -> None:
    lines = [line for text in code("bash") for line in text.splitlines() if line.startswith("hf-spanner ")]
    assert {shlex.split(line)[1] for line in lines} == set(COMMANDS)
    for line in lines:
        command, *rest = shlex.split(line, comments=True)[1:]
        with pytest.raises(SystemExit):
            main([command, "--help"])
        options = [option for option in rest if option.startswith("--")]
        helped = capsys.readouterr().out
        assert [option for option in options if option not in helped] == []
