"""Links without a limit, and links that only limit single flows: the rate of one connection, and of several."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.shell import gavotte

from gavotte import lab
from gavotte.formats.history import read_history

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

FLOW_BPS = 2.5e9
CLASSES = 64


@pytest.fixture
def cloud() -> Iterator[lab.Session]:
    """Two hosts whose links have no limit."""
    with lab.session(builders.topology([{"name": name} for name in "ab"]), source="tests") as made:
        yield made


def limit_flows(cloud: lab.Session, host: str) -> None:
    """Give each flow that leaves a host a rate of its own, by the source port's last bits."""
    lines = ["qdisc add dev eth0 root handle 1: htb default 1"]
    for number in range(1, CLASSES + 1):
        lines += [f"class add dev eth0 parent 1: classid 1:{number:x} htb rate {FLOW_BPS:.0f}bit burst 128kb"]
        match = f"match ip sport {number - 1} {CLASSES - 1:#06x}"
        lines += [f"filter add dev eth0 parent 1: protocol ip u32 {match} flowid 1:{number:x}"]
    done = cloud.run(host, ["tc", "-batch", "-"], input="\n".join(lines), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def measured(cloud: lab.Session, *words: str) -> dict[str, Any]:
    done = gavotte("measure", "--hosts", str(cloud.hosts_file), "--json", *words)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_links_without_a_limit_are_more_than_lower_bounds(cloud: lab.Session, tmp_path: Path) -> None:
    result = measured(cloud, "-o", str(tmp_path / "h.npz"))
    assert result["answered"] == 2
    # On a loaded machine, trains without a limit are too unsteady even for a lower bound.
    assert {path["reason"] for path in result["by_tcp"]} <= {"fast", "refused"}
    for path in result["several"]:
        assert path["one_bps"] > 1e9
        assert path["several_bps"] >= path["one_bps"]
        assert path["connections"] >= 1
    history = read_history(tmp_path / "h.npz")
    assert history.several_Bps is not None
    assert sorted(history.measured_by_tcp("fast") + history.measured_by_tcp("refused")) == [(0, 1), (1, 0)]
    network = json.loads(gavotte("model", str(tmp_path / "h.npz"), "--json").stdout)
    assert not any("at least" in note for note in network["notes"])
    assert network["several_bps"][0][1] == pytest.approx(result["several"][0]["several_bps"])
    assert network["connections"][0][1] == result["several"][0]["connections"]


def test_a_limit_of_single_flows_is_told_from_the_hosts(cloud: lab.Session) -> None:
    limit_flows(cloud, "a")
    path = next(path for path in measured(cloud)["several"] if path["source"] == "a")
    assert path["one_bps"] < 1.02 * FLOW_BPS
    assert path["connections"] >= 2
    assert path["several_bps"] > 1.2 * path["one_bps"]
