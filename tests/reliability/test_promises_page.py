"""Every test that docs/reliability.md names is there, and is slow where the page says so."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "reliability.md"
FILES = {path.name: path for path in TESTS.rglob("test_*.py")}  # their names are unique
NAMED = re.findall(r"`(?:tests/[\w/]*)?(test_\w+\.py)(?:::(\w+))?`(\*?)", PAGE.read_text(encoding="utf-8"))


def slow_by_name(path: Path) -> dict[str, bool]:
    """The names of the tests of a file, each with whether it is slow."""
    functions = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)]
    return {
        function.name: "pytest.mark.slow" in map(ast.unparse, function.decorator_list)
        for function in functions
        if function.name.startswith("test_")
    }


def test_every_test_of_the_page_is_there() -> None:
    assert len(NAMED) > 20
    for file, name, star in NAMED:
        tests = slow_by_name(FILES[file])
        chosen = [tests[name]] if name else list(tests.values())
        assert all(is_slow == bool(star) for is_slow in chosen), f"{file}::{name}"


def test_every_path_and_name_of_the_page_is_read() -> None:
    """A name in another form would go unseen."""
    text = PAGE.read_text(encoding="utf-8")
    assert text.count("`test_") + text.count("`tests/") == len(NAMED) + text.count("`tests/cases`")
    assert (TESTS / "cases").is_dir()
