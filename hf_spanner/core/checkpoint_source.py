"""Put the source that a checkpoint needs beside its weights, as one flat folder."""

import ast
from collections.abc import Collection
from functools import cache
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path
from types import MappingProxyType

from transformers import PreTrainedConfig

from hf_spanner.core.own_encoders import own_classes, shipped_encoder

PACKAGE = "hf_spanner"
SHIPPED_FOLDERS = ("core", "methods")


def write_source(module_name: str, folder: str | Path, encoder: PreTrainedConfig | None = None) -> list[str]:
    """Write the file of an imported module, and of every module it needs of its own package or ours, into a folder.

    The same goes for the code of an encoder that the library does not have.

    Files lie flat, since the loader of custom code follows only imports within one folder; so import lines of ours
    become relative to the folder and nothing else changes.

    Args:
        module_name: Name of the module that defines the model.
        folder: An existing folder.
        encoder: Configuration of the encoder.

    Returns:
        Names of the files written, sorted.

    Raises:
        ValueError: If the source cannot be shipped, see `shipped_sources`.
    """
    sources = shipped_sources(module_name, encoder)
    for name, text in sources.items():
        (Path(folder) / name).write_text(text, encoding="utf-8")
    return sorted(sources)


def check_source(model_class: type, encoder: PreTrainedConfig | None) -> None:
    """Raise a ValueError if no checkpoint can hold the source of a class: better before training than after it."""
    module_name, name = model_class.__module__, model_class.__qualname__
    if module_name.startswith(f"{PACKAGE}.") and (encoder is None or own_classes(encoder) is None):
        return
    if module_name in ("__main__", "__mp_main__"):
        raise ValueError(
            f"{name} is defined in a notebook or in the script that runs, whose source no checkpoint can hold; put it "
            f"into a module of its own, such as my_model.py, and write from my_model import {name}"
        )
    if "." in name:
        raise ValueError(f"{name} must stand at the top level of its module, where a checkpoint's loader finds it")
    shipped_sources(module_name, encoder)


def shipped_sources(module_name: str, encoder: PreTrainedConfig | None) -> dict[str, str]:
    """Text by file name of everything that loads a model and its encoder without this package.

    Raises:
        ValueError: If the encoder's code has a file with a name of ours, and as in `flat_sources`.
    """
    sources = dict(flat_sources(module_name))
    classes = None if encoder is None else own_classes(encoder)
    for encoder_class in classes or ():
        for name, text in flat_sources(encoder_class.__module__).items():
            if sources.setdefault(name, text) != text:
                raise ValueError(f"the encoder's code has a file {name}, and so has every saved model: rename it")
    if classes is not None:
        sources["shipped_encoder.py"] = shipped_encoder(*classes)
    return sources


@cache
def flat_sources(module_name: str) -> MappingProxyType[str, str]:
    """Text by file name of a module and of every module it needs of its own package or ours.

    Names that a package hands on are taken from the modules that define them.

    Raises:
        ValueError: If two modules share a file name, or one imports in a way that cannot be followed or what never
            ships, such as a trainer.
    """
    packages = {PACKAGE, module_name.partition(".")[0]}
    sources: dict[str, str] = {}
    origin: dict[str, str] = {}
    pending = [module_name]
    while pending:
        name = pending.pop()
        module = import_module(name)
        path = Path(str(module.__file__))
        if origin.setdefault(path.name, name) != name:
            raise ValueError(f"{origin[path.name]} and {name} would both be shipped as {path.name}")
        if path.name in sources:
            continue
        try:
            sources[path.name], needed = _flattened(path.read_text(encoding="utf-8"), str(module.__package__), packages)
        except ValueError as error:
            raise ValueError(f"{name} cannot be shipped in a checkpoint: {error}") from error
        pending.extend(needed)
    return MappingProxyType(sources)


def defining_module(module_name: str, name: str) -> tuple[str, str]:
    """The module that defines what another one gives out under a name, and its name there.

    Raises:
        ValueError: If a package gives out what it does not import by name, or it is no part of a checkpoint.
    """
    path = Path(str(import_module(module_name).__file__))
    if path.name == "__init__.py":
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for node in (node for node in nodes if isinstance(node, ast.ImportFrom)):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    source = resolve_name("." * node.level + (node.module or ""), module_name)
                    return defining_module(source, alias.name)
        raise ValueError(f"{module_name} is a package; import from the module that defines {name}")
    package, *folders = module_name.split(".")
    if package == PACKAGE and (folders[0] not in SHIPPED_FOLDERS or folders[-1].startswith("trainer_")):
        raise ValueError(f"{name} of {module_name} is no part of a checkpoint; keep what trains in a file of its own")
    return module_name, name


def _flattened(text: str, package: str, packages: Collection[str]) -> tuple[str, list[str]]:
    """A module's text with imports of ours made relative to one folder, and the names of the modules they need."""
    lines = text.splitlines(keepends=True)
    needed = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import) and any(alias.name.partition(".")[0] in packages for alias in node.names):
            raise ValueError(f"in place of `{ast.unparse(node)}` write from ... import ... of each name")
        if not isinstance(node, ast.ImportFrom):
            continue
        written = "." * node.level + (node.module or "")
        target = resolve_name(written, package)
        if node.level == 0 and target.partition(".")[0] not in packages:
            continue
        if node.level > 1 or (node.level and "." in str(node.module)):
            raise ValueError(f"in place of `{ast.unparse(node)}` write the full name of the module")
        homes = [defining_module(target, alias.name) for alias in node.names]
        needed.extend(module for module, _ in homes)
        _rewrite(lines, node, written, target, homes)
    return "".join(lines), needed


def _rewrite(lines: list[str], node: ast.ImportFrom, written: str, target: str, homes: list[tuple[str, str]]) -> None:
    """Change an import in place; the number of lines in the list stays."""
    row = node.lineno - 1
    if all(module == target for module, _ in homes):
        lines[row] = lines[row].replace(f"from {written} import", f"from {_flat(target)} import", 1)
        return
    given = [alias.asname or alias.name for alias in node.names]
    statements = [
        f"from {_flat(module)} import {name}" + ("" if name == alias else f" as {alias}")
        for (module, name), alias in zip(homes, given, strict=True)
    ]
    last = (node.end_lineno or node.lineno) - 1
    indent, rest = lines[row][: node.col_offset], lines[last][node.end_col_offset :]
    lines[row : last + 1] = [f"\n{indent}".join(statements) + rest, *[""] * (last - row)]
    lines[row] = indent + lines[row]


def _flat(module_name: str) -> str:
    return "." + module_name.rpartition(".")[2]
