"""The page of environment variables has exactly those that what is installed reads or sets."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TREE = Path(__file__).parents[2]
PAGE = TREE / "docs" / "reference" / "environment.md"
OURS = re.compile(r"_?GAVOTTE_[A-Z_]+[A-Z]")
C_READ = re.compile(r'getenv\("(\w+)"\)')
RUST_READ = re.compile(r'env::var(?:_os)?\("(\w+)"\)|^const [A-Z]+: &str = "(GAVOTTE_\w+)"', re.MULTILINE)
RECEIVERS = ("environ", "os.environ", "self._environ")


def sources() -> list[Path]:
    """Return the sources of what is installed: the package with its C libraries, and the crates without their tests."""
    package = [*(TREE / "python").rglob("*.py"), *(TREE / "python").rglob("*.[ch]")]
    return package + [path for path in (TREE / "crates").rglob("*.rs") if "tests" not in path.parts]


def texts(path: Path) -> Iterator[str]:
    """Yield the strings of a module that are values, not documentation."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
            yield node.value


def own() -> set[str]:
    """Return our own variables in the sources."""
    names: set[str] = set()
    for path in sources():
        if path.suffix == ".py":
            names.update(text for text in texts(path) if OURS.fullmatch(text))
        elif path.suffix == ".rs":
            names.update(first or second for first, second in RUST_READ.findall(path.read_text("utf-8")))
        else:
            names.update(C_READ.findall(path.read_text("utf-8")))
    return {name for name in names if OURS.fullmatch(name)}


def foreign() -> set[str]:
    """Return the variables of others that the sources read by name."""
    names: set[str] = set()
    for path in sources():
        text = path.read_text("utf-8")
        if path.suffix == ".rs":
            names.update(first for first, _ in RUST_READ.findall(text) if first)
        elif path.suffix != ".py":
            names.update(C_READ.findall(text))
        else:
            for node in ast.walk(ast.parse(text)):
                names.update(name for name in read_in(node) if name)
    return {name for name in names if not OURS.fullmatch(name)}


def read_in(node: ast.AST) -> Iterator[str]:
    """Yield the name of a variable that an expression reads from an environment, if it is written out there."""
    key: ast.expr | None = None
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) in RECEIVERS:
        key = node.slice
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        key = node.args[0] if ast.unparse(node.func.value) in RECEIVERS else None
    if isinstance(key, ast.Constant) and isinstance(key.value, str):
        yield key.value


def documented() -> set[str]:
    return set(re.findall(r"`([A-Z_]+\*?)`", PAGE.read_text("utf-8")))


def test_the_page_has_exactly_our_variables() -> None:
    assert len(own()) > 20
    assert {name for name in documented() if OURS.fullmatch(name)} == own()


def test_the_page_has_the_variables_of_others() -> None:
    names = documented()
    prefixes = tuple(name[:-1] for name in names if name.endswith("*"))
    assert {"NO_COLOR", "XDG_DATA_HOME", "SLURM_JOB_ID", "STATE_DIRECTORY"} <= foreign()
    assert {name for name in foreign() if name not in names and not name.startswith(prefixes)} == set()


def test_other_pages_name_no_variable_that_is_missing() -> None:
    pages = [path for path in (TREE / "docs").rglob("*.md") if "results" not in path.parts]
    named = {name for path in pages for name in OURS.findall(path.read_text("utf-8"))}
    assert named <= own()
