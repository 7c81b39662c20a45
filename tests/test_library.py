"""The result of `import gavotte`: complete, fast, loaded on first use, and described on one page."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from tests.builders import app, network
from tests.front_doors import SOURCES, defined, documented, exported, shown

import gavotte
from gavotte.place import Question, explain
from gavotte.tables import Tabular

ROOT = Path(__file__).parents[1]


def test_each_front_door_has_a_page() -> None:
    doors = {".".join(door.parent.relative_to(SOURCES).parts) for door in (SOURCES / "gavotte").rglob("__init__.py")}
    inside = {
        "gavotte.agents.reach",
        "gavotte.agents.sources",
        "gavotte.agents.sources.listings",
        "gavotte.campaign.drivers",
        "gavotte.launch.launchers",
        "gavotte.measure.sharing",
    }
    public = {door for door in doors if shown(door)} - inside - {"gavotte.agents", "gavotte.cli"}
    assert set(documented()) == public


@pytest.mark.slow
def test_each_public_function_tells_all_its_arguments() -> None:
    silent = []
    for room in documented():
        for name, where in exported(room):
            node = defined(where, name)
            if not isinstance(node, ast.FunctionDef):
                continue
            text = ast.get_docstring(node) or ""
            if "those of `" in text:
                continue
            names = [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]
            silent += [f"{room}.{name}: {each}" for each in names if f"\n    {each}: " not in text and len(names) > 2]
    assert silent == []


def test_the_glossary_names_what_there_is() -> None:
    """Its third column names where each word is defined."""
    for line in (ROOT / "docs" / "reference" / "glossary.md").read_text().splitlines():
        cells = line.split(" | ")
        for name in re.findall(r"`([a-z]+(?:\.\w+)+)`", cells[2]) if len(cells) == 4 else ():
            if not name.endswith(".proto"):
                address = pkgutil.resolve_name(f"gavotte.{name.rpartition('.')[0]}")
                own = name.rpartition(".")[2]
                fields = getattr(address, "model_fields", {})
                assert own in fields or hasattr(address, own) or pkgutil.resolve_name(f"gavotte.{name}"), name


def test_the_glossary_has_each_word_once() -> None:
    rows = re.findall(r"^\| ([^|]+) \|(?:[^|]*\|){3}$", (ROOT / "docs/reference/glossary.md").read_text(), re.MULTILINE)
    words = Counter(word for word in rows if word not in ("word", "---"))
    assert len(words) > 80
    assert [word for word, times in words.items() if times > 1] == []


@pytest.mark.slow
def test_a_public_class_has_its_name_to_itself() -> None:
    """A name that two front doors show is one class."""

    def defining(module: str, name: str) -> str | None:
        if isinstance(defined(module, name), ast.ClassDef):
            return module
        where = dict(exported(module)).get(name)
        return where and defining(where, name)

    homes: defaultdict[str, set[str]] = defaultdict(set)
    for door in sorted((ROOT / "python" / "gavotte").rglob("__init__.py")):
        module = ".".join(door.parent.relative_to(ROOT / "python").parts)
        for name in shown(module):
            homes[name] |= {where} if (where := defining(module, name)) else set()
    assert sum(map(bool, homes.values())) > 100
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


def test_all_is_there_on_first_use() -> None:
    for name in set(gavotte.__all__) - {"mpi"}:  # importing that starts MPI
        assert getattr(gavotte, name) is not None
    assert set(gavotte.__all__) <= set(dir(gavotte))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = gavotte.nothing


def test_each_module_with_a_function_of_its_name_is_a_verb() -> None:
    rooms = [name for name in gavotte.__all__ if name not in gavotte._DOORS and name in gavotte._ROOMS]
    verbs = {room for room in rooms if inspect.isfunction(getattr(getattr(gavotte, room), room, None))}
    assert verbs == gavotte._VERBS
    assert {room for room in rooms if callable(getattr(gavotte, room))} == verbs


@pytest.mark.parametrize(
    "line",
    [
        "import gavotte",
        "import gavotte; import gavotte.model",
        "import gavotte.model.constant",
        "from gavotte.model import METHODS; import gavotte",
    ],
)
def test_a_verb_is_called_and_is_a_module_however_it_was_loaded(line: str) -> None:
    script = (
        f"{line}\nimport inspect\nprint(*inspect.signature(gavotte.model).parameters)\nprint(gavotte.model.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "history method sharing seed constant\ngavotte.model\n"


def test_importing_it_loads_nothing_heavy() -> None:
    heavy = "{'numpy', 'pydantic', 'grpc', 'pandas', 'matplotlib'} & set(sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", f"import gavotte, sys; print({heavy})"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


def test_results_turn_into_numpy_and_pandas() -> None:
    rates = np.array([[np.nan, 1e9, 2e9], [3e9, np.nan, 4e9], [5e9, 6e9, np.nan]])
    cloud = network(3, rates, 1e-4)
    job = app("job", ("a", "b", 10), ("b", "a", 20, 1), ("a", "b", 5, 1))
    assert np.array_equal(
        cloud.to_numpy(), [[np.nan, 1e9, 2e9], [3e9, np.nan, 4e9], [5e9, 6e9, np.nan]], equal_nan=True
    )
    assert np.isnan(cloud.to_numpy("excess")).all()
    assert np.array_equal(job.to_numpy(), [[0, 15], [20, 0]])
    placed = gavotte.place(cloud, [job], "greedy")
    explained = explain(Question(cloud, [job]), placed)
    tables: list[tuple[Tabular, list[str]]] = [
        (cloud, ["source", "target", "rate_bps", "latency_s"]),
        (job, ["source", "target", "bytes", "phase"]),
        (placed, ["task", "host"]),
        (explained, ["link", "phase", "bytes", "load_bytes", "rate_bps", "seconds", "slack_s"]),
    ]
    for each, columns in tables:
        frame = each.to_frame()
        assert len(frame) == len(each.to_records())
        assert list(frame.columns) == columns or len(frame) == 0


def test_what_a_room_is_asked_and_answers_is_frozen() -> None:
    """As ARCHITECTURE.md says of questions, efforts, sessions and answers, which it names in a table."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8").partition("## How a room is asked")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    names = {name for row in rows for name in re.findall(r"`([A-Z]\w+)`", row)}
    rooms = (gavotte.place, gavotte.watch, gavotte.measure, gavotte.transfer, gavotte.launch)
    values = {name: next(getattr(room, name) for room in rooms if hasattr(room, name)) for name in names}
    assert len(values) == 18
    assert [name for name, value in values.items() if not value.__dataclass_params__.frozen] == []


@pytest.mark.slow
def test_dir_of_each_public_module_lists_its_names() -> None:
    """In a process of its own, since other tests may have loaded what is loaded on first use."""
    rooms = [room for room in documented() if room != "gavotte.mpi"]
    script = (
        "import importlib\n"
        f"modules = [importlib.import_module(name) for name in {rooms!r}]\n"
        "lacking = {m.__name__: sorted(set(m.__all__) - set(dir(m))) for m in modules}\n"
        "print({name: names for name, names in lacking.items() if names})\n"
        "print([f'{m.__name__}.{name}' for m in modules for name in m.__all__ if not hasattr(m, name)])\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["{}", "[]"]
