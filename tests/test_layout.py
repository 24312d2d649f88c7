"""The rules of layout: mirrored tests, what shipped files may import, names, and sizes."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "hf_spanner"
TESTS = ROOT / "tests"
STARTERS = ("__init__.py", "__main__.py")
PACKAGE = sorted(SOURCE.rglob("*.py"))
MODULES = [path for path in PACKAGE if path.name not in STARTERS]
METHOD_FOLDERS = [path for path in (SOURCE / "methods").iterdir() if (path / "__init__.py").exists()]
IN_CORE_OR_METHOD = [path for path in MODULES if path.relative_to(SOURCE).parts[0] in ("core", "methods")]
SHIPPED = [path for path in IN_CORE_OR_METHOD if not path.name.startswith("trainer_")]
THIRD_PARTY = {"torch", "transformers", "huggingface_hub", "numpy"}
GUARDED = {
    "scipy": "is_scipy_available",
    "onnxruntime": "is_onnxruntime_available",
    "openvino": "is_openvino_available",
}
# What a folder may import of ours; a trainer counts as training, though it lies beside its method.
FOUNDATION = {"core", "methods", "data", "metrics", "quickstart"}
FOUNDATION_ARROWS = {"core": set(), "methods": {"core"}, "data": {"core"}, "metrics": set(), "quickstart": set()}

MAX_FILE_LINES, MAX_FUNCTION_LINES = 400, 40
MAX_BYTES = 4_000_000  # of all that a clone fetches
IMPORT_LINE = re.compile(r"^\s*(from\s+\S+\s+import\b|import\s+\.?\w)")


def short(path: Path) -> str:
    """A path as messages and test ids show it."""
    return path.relative_to(ROOT).as_posix()


def imports(path: Path) -> Iterator[tuple[ast.Import | ast.ImportFrom, list[str]]]:
    """Import statements of a file, each with the conditions of the `if` blocks around it."""

    def walk(node: ast.AST, conditions: list[str]) -> Iterator[tuple[ast.Import | ast.ImportFrom, list[str]]]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, conditions
        inner = [*conditions, ast.unparse(node.test)] if isinstance(node, ast.If) else conditions
        for child in ast.iter_child_nodes(node):
            yield from walk(child, inner)

    yield from walk(ast.parse(path.read_text(encoding="utf-8")), [])


def imported_modules(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Full names of imported modules, with the conditions around them."""
    for node, conditions in imports(path):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        for name in names:
            yield name, conditions


def defined_names(path: Path) -> set[str]:
    """Names that a module makes itself at its top level, imports not counted."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return names


def code_lines(function: ast.FunctionDef, lines: list[str]) -> int:
    """The lines of a function that hold code, and no docstring, blank or comment."""
    doc = function.body[0]
    is_doc = isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant) and isinstance(doc.value.value, str)
    in_doc = range(doc.lineno, (doc.end_lineno or doc.lineno) + 1) if is_doc else range(0)
    body = [row for row in range(function.lineno, (function.end_lineno or 0) + 1) if row not in in_doc]
    return sum(1 for row in body if lines[row - 1].strip() and not lines[row - 1].strip().startswith("#"))


def folder_of(parts: Sequence[str]) -> str:
    """The folder of a module of ours, given the parts of its name after `hf_spanner`; "hf_spanner" for the top."""
    if parts[-1:] and parts[-1].startswith("trainer_"):
        return "training"
    return parts[0] if parts and (SOURCE / parts[0]).is_dir() else "hf_spanner"


def arrows() -> dict[str, set[str]]:
    """For each folder the other folders that it imports, wherever in a file the import stands.

    What an `__init__` names for type checkers alone is imported by whoever uses the name.
    """
    folders: dict[str, set[str]] = {}
    for path in PACKAGE:
        folder = folder_of(path.relative_to(SOURCE).with_suffix("").parts)
        targets = [
            name.split(".")[1:]
            for name, conditions in imported_modules(path)
            if name.split(".")[0] == "hf_spanner"
            and not (path.name == "__init__.py" and folder == "methods" and "TYPE_CHECKING" in conditions)
        ]
        folders.setdefault(folder, set()).update({folder_of(parts) for parts in targets} - {folder})
    return folders


def test_there_are_files_to_check() -> None:
    names = {path.name for path in SHIPPED}
    assert {"spans.py", "modeling_span_ner.py", "modeling_boundary_smoothing.py"} <= names


def test_every_source_file_has_its_test_file() -> None:
    missing = []
    for path in MODULES:
        top, *inner = path.relative_to(SOURCE).parent.parts
        wanted = [TESTS / top / f"test_{path.name}", TESTS / Path(top, *inner) / f"test_{path.name}"]
        if not any(test.exists() for test in wanted):
            missing.append(f"{short(path)} needs {short(wanted[-1])}")
    assert not missing


def test_every_file_that_is_no_code_travels_in_the_wheel() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"][
        "package-data"
    ]
    travelling = {
        path
        for package, patterns in declared.items()
        for pattern in patterns
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    assert SOURCE / "py.typed" in travelling
    others = {path for path in SOURCE.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert {short(path) for path in others - travelling if path.name != "README.md"} == set()


def test_names_of_test_files_are_unique() -> None:
    counts = Counter(path.name for path in TESTS.rglob("test_*.py"))
    assert [name for name, count in counts.items() if count > 1] == []


def test_names_of_shipped_files_are_unique() -> None:
    counts = Counter(path.name for path in IN_CORE_OR_METHOD)
    assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("folder", METHOD_FOLDERS, ids=lambda path: path.name)
def test_a_method_folder_holds_the_five_files(folder: Path) -> None:
    parts = ("configuration", "modeling", "loss", "trainer")
    wanted = {"README.md", "__init__.py", *(f"{part}_{folder.name}.py" for part in parts)}
    assert wanted <= {path.name for path in folder.iterdir()}
    extra = {path.name for path in folder.glob("*.py")} - wanted
    assert all(name.endswith(f"_{folder.name}.py") for name in extra)


def test_arrows_between_folders_only_point_down() -> None:
    """Nothing but `commands` and `__main__` imports the top, and the top itself leads to what it gives out."""
    imported = arrows()
    assert {"analysis", "calibration", "commands", "training"} <= imported.keys()
    for folder, allowed in FOUNDATION_ARROWS.items():
        assert imported[folder] <= allowed, folder
    for folder in imported.keys() - FOUNDATION - {"commands", "hf_spanner"}:
        assert not imported[folder] & {"commands", "hf_spanner"}, folder
    assert imported.pop("hf_spanner") >= {"core", "methods"}
    assert list(TopologicalSorter(imported).static_order())[-1] == "commands"


def test_the_import_of_the_package_reads_no_data_and_trains_nothing() -> None:
    """So that it stays light: it reaches only what ships, and the folder of the quickstart."""
    reached, waiting = set(), [SOURCE / "__init__.py"]
    while waiting:
        path = waiting.pop()
        reached.add(path)
        for name, conditions in imported_modules(path):
            file = ROOT / (name.replace(".", "/") + ".py")
            target = file if file.exists() else ROOT / name.replace(".", "/") / "__init__.py"
            if "TYPE_CHECKING" not in conditions and target in PACKAGE and target not in reached:
                waiting.append(target)
    assert {folder_of(path.relative_to(SOURCE).with_suffix("").parts) for path in reached} == {
        "hf_spanner",
        "core",
        "methods",
        "quickstart",
    }


def test_every_public_name_is_there_and_no_other() -> None:
    import hf_spanner

    assert {name: type(getattr(hf_spanner, name)) for name in hf_spanner.__all__}.keys() <= set(dir(hf_spanner))
    with pytest.raises(AttributeError, match="module 'hf_spanner' has no attribute 'SpanNerModel'"):
        _ = hf_spanner.SpanNerModel


@pytest.mark.parametrize("path", SHIPPED, ids=short)
def test_imports_of_ours_name_the_defining_module(path: Path) -> None:
    for node, conditions in imports(path):
        if isinstance(node, ast.Import):
            assert not any(alias.name.split(".")[0] == "hf_spanner" for alias in node.names), ast.unparse(node)
            continue
        assert node.level == 0, ast.unparse(node)
        module = node.module or ""
        if module.split(".")[0] != "hf_spanner":
            continue
        assert not conditions, ast.unparse(node)
        target = ROOT / (module.replace(".", "/") + ".py")
        assert target in SHIPPED, ast.unparse(node)
        unknown = {alias.name for alias in node.names} - defined_names(target)
        assert not unknown, f"{module} does not define {unknown}"


@pytest.mark.parametrize("path", SHIPPED, ids=short)
def test_third_parties_are_few(path: Path) -> None:
    for name, conditions in imported_modules(path):
        top = name.split(".")[0]
        if top in GUARDED:
            assert f"{GUARDED[top]}()" in conditions, f"{name} outside of if {GUARDED[top]}()"
        else:
            assert top in THIRD_PARTY | {"hf_spanner"} | set(sys.stdlib_module_names), name


@pytest.mark.parametrize("path", IN_CORE_OR_METHOD, ids=short)
def test_no_method_imports_another(path: Path) -> None:
    folder, *below = path.relative_to(SOURCE).parts
    for name, _ in imported_modules(path):
        if name.startswith("hf_spanner.methods."):
            assert folder == "methods", name
            assert name.split(".")[2] == below[0], name


@pytest.mark.parametrize("path", SHIPPED, ids=short)
def test_no_import_line_outside_of_code(path: Path) -> None:
    """The loader finds imports by a pattern over lines, docstrings and comments included."""
    in_code = {row for node, _ in imports(path) for row in range(node.lineno, (node.end_lineno or 0) + 1)}
    for row, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        assert row in in_code or not IMPORT_LINE.match(line), f"{short(path)}:{row}: {line}"


@pytest.mark.parametrize("path", IN_CORE_OR_METHOD, ids=short)
def test_shipped_files_are_ascii(path: Path) -> None:
    assert path.read_bytes().isascii()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a clone")
def test_the_files_of_a_clone_stay_small() -> None:
    """Results of runs are what grows: keep scores, and few predictions."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    sizes = {name: (ROOT / name).stat().st_size for name in listed.split("\0") if name and (ROOT / name).exists()}
    assert sum(sizes.values()) < MAX_BYTES, sorted(sizes, key=lambda name: -sizes[name])[:10]


@pytest.mark.parametrize("path", PACKAGE, ids=short)
def test_files_and_functions_stay_short(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MAX_FILE_LINES
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.FunctionDef):
            assert code_lines(node, lines) <= MAX_FUNCTION_LINES, f"{node.name} in line {node.lineno}"


def test_every_method_is_registered_under_the_name_of_its_folder() -> None:
    from hf_spanner import METHODS

    assert sorted(METHODS) == sorted(folder.name for folder in METHOD_FOLDERS)


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=short)
def test_test_files_stay_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES
