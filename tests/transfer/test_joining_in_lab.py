"""Hosts that are not there when a broadcast begins: they have it too, at nobody's cost, and the result names them."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests import builders
from tests.faults import kill_agent, start_agent
from tests.shell import gavotte

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.transfer import broadcast
from gavotte.transfer.planning import Mechanism

pytestmark = [pytest.mark.lab, pytest.mark.patient]

HOSTS = [f"h{i}" for i in range(5)]
RATE = 20e6
CLOUD = builders.topology([{"name": name, "egress": "20mbit", "ingress": "20mbit"} for name in HOSTS])
BELIEVED = builders.network([{"name": name, "egress_bps": 0.95 * RATE, "ingress_bps": 0.95 * RATE} for name in HOSTS])
MOST_S = 60.0


@pytest.fixture
def cloud() -> Iterator[lab.Session]:
    """Five hosts of 20 Mbit/s. One a test: agents are killed in it."""
    with lab.session(CLOUD, source="tests") as session:
        yield session


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Under way for two seconds."""
    path = tmp_path / "object"
    path.write_bytes(os.urandom(5_000_000))
    return path


def when(share: float, what: Callable[[], None], *, host: str) -> Callable[[str, int, int], None]:
    """Does something once, in a thread of its own, when a receiver has this share."""
    done = threading.Event()

    def watch(name: str, held: int, total: int) -> None:
        if name == host and held >= share * total and not done.is_set():
            done.set()
            threading.Thread(target=what).start()

    return watch


@pytest.mark.parametrize("mechanism", ["chain", "mesh", "cornet"])
def test_a_host_that_comes_late_has_it_and_costs_nobody(
    cloud: lab.Session, file: Path, tmp_path: Path, mechanism: Mechanism
) -> None:
    kill_agent(cloud, "h2")
    result = broadcast(
        str(file),
        read_inventory(cloud.hosts_file),
        "h0",
        str(tmp_path / "out-{host}"),
        network=BELIEVED,
        mechanism=mechanism,
        times=tmp_path / "times.json",
        wait_s=MOST_S,
        watch=when(0.1, lambda: start_agent(cloud, "h2"), host="h1"),
    )
    assert result.lost == {}
    for each in result.receivers:
        assert Path(each.path).read_bytes() == file.read_bytes()
    assert [each.host for each in result.receivers if each.joined_s is not None] == ["h2"]
    told = " ".join(result.changes)
    assert "h2 is not there" in told
    assert "h2 joins after" in told
    if mechanism == "chain":
        # It has it from one whose uplink was idle, not from the source.
        assert result.source_sent_bytes < 1.1 * 5_000_000


def test_an_agent_that_is_started_again_goes_on_from_what_it_has(
    cloud: lab.Session, file: Path, tmp_path: Path
) -> None:
    def again() -> None:
        kill_agent(cloud, "h2")
        start_agent(cloud, "h2")

    result = broadcast(
        str(file),
        read_inventory(cloud.hosts_file),
        "h0",
        str(tmp_path / "out-{host}"),
        network=BELIEVED,
        mechanism="chain",
        wait_s=MOST_S,
        watch=when(0.3, again, host="h2"),
    )
    assert result.lost == {}
    assert {Path(each.path).read_bytes() == file.read_bytes() for each in result.receivers} == {True}
    assert [each.host for each in result.receivers if each.joined_s is not None] == ["h2"]


def test_who_never_comes_is_named_and_nobody_waits(cloud: lab.Session, file: Path, tmp_path: Path) -> None:
    kill_agent(cloud, "h3")
    done = gavotte(
        *("broadcast", file, "--hosts", "lab", "--from", "h0", "-o", tmp_path / "out-{host}", "--json"),
        env={**os.environ, **cloud.environment()},
    )
    told = {each["host"]: each for each in json.loads(done.stdout)["receivers"]}
    assert done.returncode == 1
    assert {host for host, each in told.items() if each["ok"]} == {"h1", "h2", "h4"}
    assert "nothing listens" in told["h3"]["error"]
    assert "1 of 4 receivers do not have it: h3" in done.stderr
    assert (tmp_path / "out-h4").read_bytes() == file.read_bytes()
