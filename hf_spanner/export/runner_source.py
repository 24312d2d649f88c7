"""The runner of an exported folder as one file: its own source, and of the package what it reaches."""

import ast
from functools import cache
from pathlib import Path

import hf_spanner.core as core

ROOT = Path(core.__path__[0]).parent.parent
ENTRY = ("hf_spanner.export.runner", "SpanNER")


def runner_source() -> str:
    """The source of the runner, which imports nothing of the package.

    Definitions are taken as they stand, each after those that it names.
    """
    collected = Collected()
    collected.take(*ENTRY)
    doc = ast.get_docstring(ast.parse(source_of(ENTRY[0])), clean=False)
    imports = "\n".join(sorted(collected.imports, key=lambda line: (line.startswith("from"), line)))
    parts = "\n\n\n".join(collected.parts)
    return f'"""{doc}"""\n\n{imports}\n\n{parts}\n'


class Collected:
    """Definitions by their place, and import lines of other packages, in the order in which they must stand."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.imports: set[str] = set()
        self._homes: dict[str, str] = {}  # of each name the module that defines it
        self._begun: set[ast.stmt] = set()

    def take(self, module: str, name: str) -> None:
        """Take a name of a module, and first the names that its definition uses.

        Raises:
            ValueError: If a name of ours is imported under another one, or two modules define the same.
        """
        node = bindings(module).get(name)
        if node is None:
            return
        if isinstance(node, ast.Import):
            self.imports.add(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom):
            alias = next(alias for alias in node.names if (alias.asname or alias.name) == name)
            if not str(node.module).startswith("hf_spanner."):
                self.imports.add(f"from {node.module} import {ast.unparse(alias)}")
                return
            if alias.asname is not None:
                raise ValueError(f"{module} must import {alias.name} by its own name")
            self.take(str(node.module), name)
        elif self._homes.setdefault(name, module) != module:
            raise ValueError(f"{self._homes[name]} and {module} both define {name}")
        elif node not in self._begun:
            self._begun.add(node)
            for used in used_names(node):
                self.take(module, used)
            self.parts.append(definition(module, node))


def definition(module: str, node: ast.stmt) -> str:
    """The lines of a definition as they stand."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    return "\n".join(source_of(module).splitlines()[first - 1 : node.end_lineno])


@cache
def source_of(module: str) -> str:
    """The text of a module of the package."""
    return (ROOT / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")


@cache
def bindings(module: str) -> dict[str, ast.stmt]:
    """The statement at the top of a module that gives each name its value."""
    found: dict[str, ast.stmt] = {}
    for node in ast.parse(source_of(module)).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name.partition(".")[0]: node for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            found |= {name.id: node for name in names}
    return found


def used_names(node: ast.AST) -> list[str]:
    """Names that a statement reads, in the order in which they stand."""
    return [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)]
