"""The names that `import gavotte` gives, read from the sources: importing `gavotte.mpi` would start MPI."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "python"
PAGES = ROOT / "docs" / "reference" / "python"

Defined = ast.FunctionDef | ast.ClassDef


def documented() -> list[str]:
    """Return the modules that have a page of the reference."""
    return sorted(page.stem for page in PAGES.glob("gavotte*.md"))


def tree(module: str) -> ast.Module:
    """Return the syntax tree of a module."""
    path = SOURCES / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text())


def shown(module: str) -> list[str]:
    """Return the names of `__all__`."""
    for node in tree(module).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


def exported(module: str) -> Iterator[tuple[str, str]]:
    """Return each name in a front door's `__all__` with the module that defines it."""
    origin = {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree(module))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gavotte.")
        for alias in node.names
    }
    yield from ((name, origin[name]) for name in shown(module) if name in origin)


def defined(module: str, name: str) -> Defined | None:
    """Return the function or class of that name; None for a constant."""
    for node in tree(module).body:
        if isinstance(node, Defined) and node.name == name:
            return node
    return None
