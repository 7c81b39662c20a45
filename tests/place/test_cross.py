"""Measured cross traffic on a path (Choreo section 3.2), and the traffic of your own running applications."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.builders import MB, MBIT, app, network, placement
from typer.testing import CliRunner

from gavotte.cli import verbs
from gavotte.collective import plan
from gavotte.formats.network import Network, read_network, write_network
from gavotte.place import Running, evaluate, place
from gavotte.simulate import simulate_placement

PAIR = app("pair", ("x", "y", 150 * MB), tasks=("x", "y"), cpus=0.5)
METHODS = ("auto", "optimal", "ilp", "search", "greedy")


def loaded(**fields: Any) -> Network:
    """Three hosts: a to b is the fastest path when idle, and one other connection was found on it."""
    rates = [[None, 1200 * MBIT, 800 * MBIT], [1.0, None, 1.0], [1.0, 1.0, None]]
    cross = [[None, 1.0, None], [None] * 3, [None] * 3]
    return network(["a", "b", "c"], rates, sharing="pipe", cross=cross, **fields)


@pytest.mark.parametrize("method", METHODS)
def test_a_new_connection_is_priced_beside_the_load(method: str) -> None:
    asked = app("pair", ("x", "y", 150 * MB), tasks=("x", "y"), constraints={"pin": {"x": "a"}})
    cloud = loaded(cpus=1.0)
    # 1200 / (1 + 1) is less than 800: without the load, b would be the better half.
    assert place(cloud.model_copy(update={"cross": []}), [asked], method).assignment["y"] == "b"
    result = place(cloud, [asked], method)
    assert result.assignment["y"] == "c"
    beside = evaluate(cloud, [asked], {"x": "a", "y": "b"})
    assert beside.completion_s == pytest.approx(2.0)
    assert simulate_placement(cloud, [asked], beside) == pytest.approx(2.0, rel=0.01)


def test_trees_see_the_load() -> None:
    cloud = network(["a", "b", "c"], 100 * MBIT, 1e-4)
    slow = cloud.with_cross("a", "b", 3.0).with_cross("c", "b", 3.0)
    alone, beside = (plan(each, "broadcast", size_bytes=MB, root="a").predicted_s for each in (cloud, slow))
    assert beside > 1.5 * alone


def running(where: str = "b") -> Running:
    own = app("own", ("p", "q", 75 * MB), tasks=("p", "q"), cpus=0.1)
    return Running([own], placement({"p": "a", "q": where}, "own"))


def on_b(cloud: Network, present: Running) -> float:
    return evaluate(cloud, [PAIR], {"x": "a", "y": "b"}, running=[present]).completion_s


def test_what_the_load_contains_is_not_counted_twice() -> None:
    cloud = loaded()
    # The bytes next to the load: (150 + 75) MB at 600 Mbit/s.
    assert on_b(cloud, running()) == pytest.approx(3.0)
    # The one connection found was our own, so its bytes are all there is: 225 MB at 1200.
    fresh = cloud.model_copy(update={"cross_beside": ["own"]})
    assert on_b(fresh, running()) == pytest.approx(1.5)
    # Of two connections found, one belongs to another user.
    two = cloud.with_cross("a", "b", 2.0, beside=["own"])
    assert on_b(two, running()) == pytest.approx(3.0)
    # Applications that run elsewhere were not part of it.
    assert on_b(fresh, running("c")) == pytest.approx(2.0)


def test_a_connection_that_shares_a_cap_is_part_of_the_load() -> None:
    cloud = loaded(cross_beside=["own"], egress_bps=1200 * MBIT)
    # From a to c it fills a's egress, which the path from a to b shares.
    evaluated = evaluate(cloud, [PAIR], {"x": "a", "y": "b"}, sharing="hose", running=[running("c")])
    assert evaluated.completion_s == pytest.approx(1.5)
    assert "egress" in evaluated.bottleneck


def test_rates_measured_beside_an_application_contain_it() -> None:
    cloud = loaded(beside=["own"]).model_copy(update={"cross": []})
    assert on_b(cloud, running()) == pytest.approx(1.0)
    # Its tasks still hold their cores.
    full = Running([app("own", ("p", "q", 1), tasks=("p", "q"), cpus=1.0)], placement({"p": "a", "q": "b"}, "own"))
    assert set(place(cloud, [PAIR], running=[full]).assignment.values()) == {"c"}


def test_a_load_that_nobody_spoke_for_is_warned_of(tmp_path: Path) -> None:
    files = {
        name: tmp_path / name for name in ("n.network.json", "pair.app.json", "own.app.json", "own.placement.json")
    }
    write_network(files["n.network.json"], loaded())
    files["pair.app.json"].write_text(PAIR.model_dump_json())
    present = running()
    files["own.app.json"].write_text(present.apps[0].model_dump_json())
    files["own.placement.json"].write_text(present.placement.model_dump_json())
    words = ["place", str(files["n.network.json"]), str(files["pair.app.json"]), "--running"]
    words.append(f"{files['own.placement.json']}:{files['own.app.json']}")
    result = CliRunner().invoke(verbs.app, words)
    assert result.exit_code == 0, result.output
    assert "`own`" in result.output
    assert "--beside own" in result.output
    write_network(files["n.network.json"], loaded(cross_beside=["own"]))
    assert "--beside" not in CliRunner().invoke(verbs.app, words).output


def test_loads_are_kept_and_cut(tmp_path: Path) -> None:
    write_network(tmp_path / "n.network.json", loaded(cross_beside=["own"]))
    cloud = read_network(tmp_path / "n.network.json")
    assert cloud.cross[0][1] == 1.0
    assert cloud.of_hosts([1, 0]).cross == [[None, None], [1.0, None]]
    assert cloud.cross_beside == ["own"]
