"""Many transfers of a file in columns: the same App, the same errors and the same placement problem as one by one."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import builders
from tests.examples import examples

from gavotte.errors import FormatError
from gavotte.formats.app import App, Task, read_app, write_app
from gavotte.formats.parts import app_transfers
from gavotte.formats.parts.app_tasks import MOST_KINDS, cut_tasks
from gavotte.formats.parts.app_transfers import TransferColumns
from gavotte.place.columns import build_instance

NAMES = ("a", "b", "c-1", "d.2")
ROWS = st.lists(
    st.fixed_dictionaries(
        {"source": st.sampled_from(NAMES), "target": st.sampled_from(NAMES), "bytes": st.integers(0, 1 << 62)},
        optional={"phase": st.integers(0, 65535), "messages": st.integers(1, 1 << 40)},
    ),
    min_size=2,
    max_size=6,
)


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_transfers, "MANY", 2)


def app_of(rows: list[dict[str, Any]]) -> App:
    return App.model_validate(
        {
            "format": "gavotte/app/1",
            "name": "many",
            "task": [{"name": name} for name in NAMES],
            "transfer": rows,
            "constraints": {"apart": [["a", "b"]]},
        }
    )


@examples(100)
@given(ROWS)
@pytest.mark.parametrize("ending", ["toml", "json"])
def test_a_file_gives_the_same_app(tmp_path_factory: pytest.TempPathFactory, ending: str, rows: Any) -> None:
    app, path = app_of(rows), tmp_path_factory.mktemp("apps") / f"many.app.{ending}"
    assert isinstance(app.transfer, list)
    write_app(path, app)
    read = read_app(path)
    assert isinstance(read.transfer, TransferColumns)
    assert read == app
    assert app == read
    assert read.transfer[1:] == app.transfer[1:]
    assert (read.total_bytes, read.has_messages, len(read.transfer)) == (
        app.total_bytes,
        app.has_messages,
        len(app.transfer),
    )
    assert read.model_dump() == app.model_dump()
    assert read.model_dump_json() == app.model_dump_json()
    assert read.to_records() == app.to_records()
    assert pickle.loads(pickle.dumps(read)) == app
    again = path.with_name(f"again.app.{ending}")
    write_app(again, read)
    assert again.read_text() == path.read_text()


@examples(60)
@given(ROWS)
def test_the_problem_to_place_is_the_same(tmp_path_factory: pytest.TempPathFactory, rows: Any) -> None:
    path = tmp_path_factory.mktemp("apps") / "many.app.toml"
    write_app(path, app_of(rows))
    network = builders.network("xyz", [[1e9] * 3] * 3, cpus=4.0)
    for others in ([], [builders.app("other", ("p", "q", 1))]):
        one, many = (build_instance(network, [app, *others], "hose") for app in (app_of(rows), read_app(path)))
        for column in ("source", "target", "bytes", "phase"):
            assert np.array_equal(getattr(one.transfers, column), getattr(many.transfers, column))


def outcome(path: Path, many: int, monkeypatch: pytest.MonkeyPatch) -> App | str:
    """Return the App of a file, or its error, with columns from this many transfers on."""
    monkeypatch.setattr(app_transfers, "MANY", many)
    try:
        return read_app(path)
    except FormatError as error:
        return str(error)


def changed(line: str, text: str) -> Callable[[str], str]:
    return lambda whole: whole.replace(line, text)


NEEDS = "cpus = 1.0, memory_bytes = 0, storage_bytes = 0 },\n"
FIRST = '    { source = "a", target = "b", bytes = 5, phase = 0 },\n'


@pytest.mark.parametrize(
    "damage",
    [
        changed('target = "b"', 'target = "z"'),
        changed('target = "b"', 'target = ""'),
        changed('target = "b"', 'target = "\\u0062"'),
        changed("bytes = 5", "bytes = 5.5"),
        changed("bytes = 5", "bytes = 05"),
        changed("bytes = 5", "bytes = -5"),
        changed("bytes = 5", "bytes = 9999999999999999999"),
        changed("bytes = 5", "bytes = 4611686018427387905"),
        changed("bytes = 5, phase = 0", "bytes = 5, phase = 65536"),
        changed("bytes = 5, phase = 0", "bytes = 5, phase = 0, messages = 0"),
        changed("bytes = 5, phase = 0", "bytes = 5, phase = 0, messages = 3"),
        changed("bytes = 5, phase = 0", "bytes = 5, phase = 0, colour = 3"),
        changed("bytes = 5, phase = 0", "bytes = 5"),
        changed(FIRST, FIRST + "# a remark\n"),
        changed(FIRST, FIRST + "\n"),
        changed(FIRST, FIRST + "    3,\n"),
        changed("\ntransfer = [\n", "\n[more]\ntransfer = [\n"),
        changed("\ntransfer = [\n", '\ntrace = """\ntransfer = [\n'),
        changed('name = "many"', 'name = "many'),
        changed('name = "a"', 'name = "e"'),
        changed('name = "a"', 'name = "a b"'),
        changed('name = "a"', 'name = "a\tb"'),
        changed('name = "a"', 'name = "\\u0061"'),
        changed('name = "a"', 'name = "\\x"'),
        changed('name = "a"', 'name = ""'),
        changed('name = "a"', "name = 'a'"),
        changed('name = "a"', 'names = "a"'),
        changed('name = "a", cpus = 1.0', 'name = "a", cpus = -1.0'),
        changed('name = "a", cpus = 1.0', 'name = "a", cpus = 2'),
        changed('name = "a", cpus = 1.0', 'name = "a", cpu = 1.0'),
        changed('name = "a", cpus = 1.0', 'name = "a", name = "a"'),
        changed('name = "a", cpus = 1.0', 'name = "a", cpus = 1.0 }, { name = "e"'),
        changed('name = "a", cpus = 1.0', 'name = "a", cpus = 1.0, resources = { gpu = 2 }'),
        changed('name = "a", cpus = 1.0', 'name = "a", cpus = 1.0, resources = { "nvidia.com/gpu" = 2 }'),
        changed('name = "a", cpus = 1.0', 'name = "a" }, # cpus = 1.0'),
        changed('name = "a", cpus = 1.0', 'name = "a", cpus ='),
        changed(NEEDS, NEEDS.replace("},", "}")),
        changed(NEEDS, NEEDS.replace("},", "} # },")),
        changed(NEEDS, NEEDS + "# a remark\n"),
        changed(NEEDS, NEEDS + "\n"),
        changed(NEEDS, NEEDS + "    3,\n"),
        changed("\ntask = [\n", "\n[more]\ntask = [\n"),
        changed("\ntask = [\n", "\ntask = []\ntask = [\n"),
        changed('name = "a"', 'name = "b"'),
        changed("task = [", "tasks = ["),
        changed("\n]\n", "\n"),
        lambda whole: whole + "\n[other]\nx = 1\n",
        lambda whole: whole.replace("[constraints]", "transfer = []\n[constraints]"),
        lambda whole: whole.replace("\n", "\r\n"),
        lambda whole: "\n\n" + whole,
    ],
)
def test_a_file_that_is_written_otherwise_is_read_as_few_transfers_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[str], str]
) -> None:
    path = tmp_path / "many.app.toml"
    ways = [{"source": a, "target": b, "bytes": 5} for a, b in (("a", "b"), ("b", "a"), ("c-1", "a"))]
    write_app(path, app_of(ways))
    whole = path.read_text()
    assert damage(whole) != whole
    path.write_text(damage(whole), newline="")
    in_columns, one_by_one = (outcome(path, many, monkeypatch) for many in (2, 1000))
    assert in_columns == one_by_one


@pytest.mark.parametrize(
    "change",
    [
        {"bytes": 5.0},
        {"bytes": True},
        {"bytes": "5"},
        {"bytes": None},
        {"bytes": -1},
        {"bytes": 1 << 63},
        {"source": 1},
        {"source": ["a"]},
        {"target": "z"},
        {"messages": 0},
        {"messages": 1.5},
        {"phase": None},
        {"other": 1},
    ],
)
def test_json_with_a_wrong_value_has_the_error_of_few_transfers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    document = app_of([{"source": "a", "target": "b", "bytes": 5}] * 3).model_dump(mode="json", exclude_none=True)
    document["transfer"][1].update(change)
    path = tmp_path / "many.app.json"
    path.write_text(json.dumps(document))
    in_columns, one_by_one = (outcome(path, many, monkeypatch) for many in (2, 1000))
    assert in_columns == one_by_one


def test_tasks_with_many_different_needs_are_read_as_toml(tmp_path: Path) -> None:
    whole = app_of([{"source": "a", "target": "b", "bytes": 5}] * 3)
    tasks = [Task(name=f"t{number}", cpus=number, resources={"gpu": number}) for number in range(2 * MOST_KINDS)]
    several = whole.model_copy(update={"task": [*whole.task, *tasks]})
    path = tmp_path / "many.app.toml"
    write_app(path, several)
    assert cut_tasks(path.read_text()) is None
    assert read_app(path) == several
    few = whole.model_copy(update={"task": [*whole.task, *tasks[:3]]})
    write_app(path, few)
    rest, cut = cut_tasks(path.read_text()) or ("", [])
    assert "task" not in rest
    assert [task["name"] for task in cut] == [task.name for task in few.task]
    assert read_app(path) == few
