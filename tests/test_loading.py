"""Packages that load their public names on first use give the same names as if they had imported them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from tests.front_doors import SOURCES, shown, tree

DOORS = sorted(
    ".".join(path.parent.relative_to(SOURCES).parts)
    for path in (SOURCES / "gavotte").rglob("__init__.py")
    if "load_on_first_use(" in path.read_text()
)


def run(script: str) -> str:
    """Run Python in a process of its own, since other tests may have loaded what is loaded on first use."""
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("door", DOORS)
def test_a_package_loads_the_names_that_it_imports_for_type_checkers(door: str) -> None:
    typed: dict[str, tuple[str, ...]] = {}
    for block in (node for node in tree(door).body if isinstance(node, ast.If)):
        for node in block.body:
            assert isinstance(node, ast.ImportFrom)
            assert node.module
            typed[node.module.removeprefix(f"{door}.")] = tuple(alias.name for alias in node.names)
    (call,) = [node for node in ast.walk(tree(door)) if isinstance(node, ast.Call) and len(node.args) == 2]
    assert ast.literal_eval(call.args[1]) == typed
    assert sorted(name for names in typed.values() for name in names) == sorted(shown(door))


def test_most_rooms_load_their_names_on_first_use() -> None:
    assert len(DOORS) > 30


def test_a_name_that_is_also_a_module_is_the_function_however_it_was_loaded() -> None:
    for line in ("import gavotte.place", "import gavotte.place.worth", "from gavotte.place.worth import Worth"):
        assert run(f"{line}\nimport gavotte\nprint(gavotte.place.worth.__name__)") == "worth\n"
        assert run(f"{line}\nfrom gavotte.place import worth\nprint(type(worth).__name__)") == "function\n"


def test_one_name_loads_no_other_modules() -> None:
    script = "from gavotte.place import Effort\nimport sys\nprint('gavotte.place.worth' in sys.modules)"
    assert run(script) == "False\n"


def test_an_unknown_name_is_an_attribute_error() -> None:
    import gavotte.place

    with pytest.raises(AttributeError, match=r"module 'gavotte\.place' has no attribute 'nothing'"):
        _ = gavotte.place.nothing  # type: ignore[attr-defined]
    assert "worth" in dir(gavotte.place)


@pytest.mark.parametrize(
    "module", ["agents.asking", "agents.calls", "agents.fleet", "agents.reach.keys", "agents.reach", "transfer.service"]
)
def test_grpc_is_loaded_quietly_whoever_loads_it_first(module: str) -> None:
    script = (
        "import sys\nnames = []\n"
        "sys.addaudithook(lambda event, values: names.append(values[0]) if event == 'import' else None)\n"
        f"import gavotte.{module}\nfrom gavotte.agents.reach import reaching\n"
        "print(names.index('gavotte.agents.quiet') < names.index('grpc'))"
    )
    assert run(script) == "True\n"


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        ("config", "numpy grpc sqlalchemy gavotte._core"),
        ("hosts list --hosts a,b", "numpy grpc sqlalchemy gavotte._core"),
        ("schema network", "numpy grpc sqlalchemy gavotte._core gavotte.formats.app gavotte.formats.topology"),
        ("transfers list", "numpy sqlalchemy gavotte._core gavotte.transfer.control gavotte.transfer.packing"),
        ("history list --store empty.sqlite3", "gavotte.store.stability gavotte.store.longform gavotte._core grpc"),
    ],
)
def test_a_command_loads_what_it_uses(words: str, absent: str, tmp_path: Path) -> None:
    """The libraries and modules that take most time to load, for commands that need none of them."""
    script = (
        "import sys\nfrom gavotte.cli import main\n"
        f"sys.argv = ['gavotte', *{words.split()!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print('loaded:', *sorted(set({absent.split()!r}) & set(sys.modules)), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ran.stderr.splitlines()[-1] == "loaded:"
