"""Real transfers: every byte arrives, in its phase, and no faster than the shapers let it."""

from __future__ import annotations

from functools import partial

import pytest
from tests import builders
from tests.builders import placement

from gavotte import lab
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.inventory import read_inventory
from gavotte.run import run
from gavotte.terms.goodput import GOODPUT_PER_WIRE

pytestmark = pytest.mark.lab


app = partial(builders.app, tasks="xyz")


def test_phases_tasks_and_loopback(small_cloud: lab.Session) -> None:
    inventory = read_inventory(small_cloud.hosts_file)
    one = app("one", ("x", "y", 2_500_000, 0), ("y", "x", 1_000_000, 1), ("x", "z", 30_000_000, 0))
    seen: list[tuple[int, int]] = []
    placed = placement({"x": "a", "y": "c", "z": "a"}, "one")
    result = run(placed, [one], inventory, progress=lambda *step: seen.append(step))
    assert result.bytes == 33_500_000
    assert seen[-1] == (33_500_000, 33_500_000)
    # 2.5 MB at 100 Mbit/s, then 1 MB at 150 Mbit/s; each bucket lets 32 kB through at once.
    least_s = 8 * (2_500_000 - 65_536) / (100e6 * GOODPUT_PER_WIRE) + 8 * (1_000_000 - 65_536) / (
        150e6 * GOODPUT_PER_WIRE
    )
    assert result.completion_s > 0.99 * least_s
    assert result.tasks["x"] == result.tasks["y"] == result.completion_s
    assert result.tasks["z"] < result.completion_s
    rows = {(row["source_host"], row["target_host"], row["bytes"]) for row in result.to_records()}
    assert rows == {("a", "c", 2_500_000), ("c", "a", 1_000_000), ("a", "a", 30_000_000)}
    records = result.records(placed)
    assert [r.metric for r in records] == ["completion_s", "app_completion_s", *["task_completion_s"] * 3]


def test_a_task_that_moves_takes_its_state_with_it(small_cloud: lab.Session) -> None:
    inventory = read_inventory(small_cloud.hosts_file)
    one = app("one", ("x", "y", 20_000_000, 0), ("z", "y", 20_000_000, 1))
    moves = [{"task": "y", "phase": 1, "host": "c", "bytes": 1_000_000}]
    placed = placement({"x": "a", "y": "a", "z": "c"}, "one", moves=moves)
    result = run(placed, [one], inventory)
    rows = {(row["source_host"], row["target_host"], row["bytes"]) for row in result.to_records()}
    assert rows == {("a", "a", 20_000_000), ("a", "c", 1_000_000), ("c", "c", 20_000_000)}
    assert result.completion_s > 8 * (1_000_000 - 65_536) / 100e6


def test_two_applications_overlap(small_cloud: lab.Session) -> None:
    inventory = read_inventory(small_cloud.hosts_file)
    apps = [app("one", ("x", "y", 3_000_000, 0)), app("two", ("x", "y", 1_000_000, 0), arrival_s=0.1)]
    keys = {f"{name}/{task}": host for name in ("one", "two") for task, host in (("x", "a"), ("y", "c"), ("z", "b"))}
    result = run(placement(keys, "one", "two"), apps, inventory)
    assert set(result.apps) == {"one", "two"}
    assert result.completion_s == pytest.approx(max(result.apps["one"], 0.1 + result.apps["two"]))
    assert result.tasks["one/z"] == 0.0


def test_an_unknown_host_and_a_missing_agent(small_cloud: lab.Session) -> None:
    inventory = read_inventory(small_cloud.hosts_file)
    one = app("one", ("x", "y", 1000, 0))
    with pytest.raises(GavotteError, match="not a host of the inventory"):
        run(placement({"x": "a", "y": "q", "z": "a"}, "one"), [one], inventory)
    gone = inventory.host[2].model_copy(update={"agent": "unix:/nonexistent.sock"})
    partly = inventory.model_copy(update={"host": [*inventory.host[:2], gone]})
    with pytest.raises(AgentError, match="host c"):
        run(placement({"x": "a", "y": "c", "z": "a"}, "one"), [one], partly)


def test_a_deadline_ends_a_phase(small_cloud: lab.Session) -> None:
    inventory = read_inventory(small_cloud.hosts_file)
    with pytest.raises(AgentError):
        run(
            placement({"x": "a", "y": "c", "z": "a"}, "one"),
            [app("one", ("x", "y", 500_000_000, 0))],
            inventory,
            max_seconds=0.5,
        )
    # and the agents are free again
    assert run(placement({"x": "a", "y": "c", "z": "a"}, "one"), [app("one", ("x", "y", 1, 0))], inventory).bytes == 1
