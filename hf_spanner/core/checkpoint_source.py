"""Put the source that a checkpoint needs beside its weights, as one flat folder."""

import ast
import sys
from importlib.util import resolve_name
from pathlib import Path

PACKAGE = "hf_spanner"


def write_source(module_name: str, folder: str | Path) -> list[str]:
    """Write the file of an imported module, and of every module of ours it needs, into a folder.

    Files lie flat, since the loader of custom code follows only imports within one folder; so import lines of ours
    become relative to the folder and nothing else changes.

    Args:
        module_name: Name in `sys.modules` of the module that defines the model.
        folder: An existing folder.

    Returns:
        Names of the files written, sorted.

    Raises:
        ValueError: If a needed name is imported from a package, or two modules share a file name.
    """
    sources: dict[str, str] = {}
    origin: dict[str, str] = {}
    pending = [module_name]
    while pending:
        module = sys.modules[pending.pop()]
        path = Path(str(module.__file__))
        if path.name == "__init__.py":
            raise ValueError(f"{module.__name__} is a package; import from the module that defines the name")
        if origin.setdefault(path.name, module.__name__) != module.__name__:
            raise ValueError(f"{origin[path.name]} and {module.__name__} would both be shipped as {path.name}")
        if path.name in sources:
            continue
        sources[path.name], needed = _flattened(path.read_text(encoding="utf-8"), str(module.__package__))
        pending.extend(needed)
    for name, text in sources.items():
        (Path(folder) / name).write_text(text, encoding="utf-8")
    return sorted(sources)


def _flattened(text: str, package: str) -> tuple[str, list[str]]:
    """A module's text with imports of ours made relative to one folder, and the names of the modules they need."""
    lines = text.splitlines(keepends=True)
    needed = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ImportFrom):
            continue
        written = "." * node.level + (node.module or "")
        target = resolve_name(written, package)
        if node.level or target.split(".")[0] == PACKAGE:
            flat = "." + target.rpartition(".")[2]
            row = node.lineno - 1
            lines[row] = lines[row].replace(f"from {written} import", f"from {flat} import", 1)
            needed.append(target)
    return "".join(lines), needed
