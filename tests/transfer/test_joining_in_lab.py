"""Hosts that are missing when a broadcast begins: they get it too, at no cost to others, and the result names them."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.faults import kill_agent, start_agent, to_agent
from tests.running import running
from tests.shell import gavotte, until

from gavotte import lab
from gavotte.errors import GavotteError
from gavotte.formats.inventory import read_inventory
from gavotte.formats.network import Network
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.formats.parts.transfer import Copies, MemoryQueue
from gavotte.transfer import (
    BroadcastQuestion,
    BroadcastSession,
    Client,
    Controller,
    broadcast,
    broadcasting,
    probing,
    send,
    serving,
)
from gavotte.transfer.planning import Mechanism

pytestmark = pytest.mark.lab

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
    """It takes two seconds."""
    path = tmp_path / "object"
    path.write_bytes(os.urandom(5_000_000))
    return path


def question(cloud: lab.Session, file: Path, folder: Path, mechanism: Mechanism) -> BroadcastQuestion:
    """Ask for copies at all hosts. Missing hosts are waited for."""
    hosts, output = read_inventory(cloud.hosts_file), str(folder / "out-{host}")
    return BroadcastQuestion(str(file), hosts, "h0", output, network=BELIEVED, mechanism=mechanism, wait_s=MOST_S)


def when(share: float, what: Callable[[], None], *, host: str) -> Callable[[str, int, int], None]:
    """Do something once, in a thread of its own, when a receiver has this share."""
    done = threading.Event()

    def watch(name: str, held: int, total: int) -> None:
        if name == host and held >= share * total and not done.is_set():
            done.set()
            threading.Thread(target=what).start()

    return watch


@pytest.mark.parametrize("mechanism", ["chain", "mesh", "packing", "cornet"])
def test_a_host_that_comes_late_has_it_and_costs_nobody(
    cloud: lab.Session, file: Path, tmp_path: Path, mechanism: Mechanism
) -> None:
    kill_agent(cloud, "h2")
    watch = when(0.1, lambda: start_agent(cloud, "h2"), host="h1")
    session = BroadcastSession(watch=watch, times=tmp_path / "times.json")
    result = send(question(cloud, file, tmp_path, mechanism), session)
    assert result.lost == {}
    for each in result.receivers:
        assert Path(each.path).read_bytes() == file.read_bytes()
    assert [each.host for each in result.receivers if each.joined_s is not None] == ["h2"]
    changes = " ".join(result.changes)
    assert "h2 is missing" in changes
    assert "h2 joins after" in changes
    if mechanism == "chain":
        # It got it from a host whose uplink was idle, not from the source.
        assert result.source_sent_bytes < 1.1 * 5_000_000


def test_an_agent_that_is_started_again_goes_on_from_what_it_has(
    cloud: lab.Session, file: Path, tmp_path: Path
) -> None:
    def again() -> None:
        kill_agent(cloud, "h2")
        start_agent(cloud, "h2")

    result = send(question(cloud, file, tmp_path, "chain"), BroadcastSession(watch=when(0.3, again, host="h2")))
    assert result.lost == {}
    assert {Path(each.path).read_bytes() == file.read_bytes() for each in result.receivers} == {True}
    assert [each.host for each in result.receivers if each.joined_s is not None] == ["h2"]


def test_who_never_comes_is_named_and_nobody_waits(cloud: lab.Session, file: Path, tmp_path: Path) -> None:
    kill_agent(cloud, "h3")
    done = gavotte(
        *("broadcast", file, "--hosts", "lab", "--from", "h0", "-o", tmp_path / "out-{host}", "--json"),
        env={**os.environ, **cloud.environment()},
    )
    receivers = {each["host"]: each for each in json.loads(done.stdout)["receivers"]}
    assert done.returncode == 1
    assert {host for host, each in receivers.items() if each["ok"]} == {"h1", "h2", "h4"}
    assert "nothing listens" in receivers["h3"]["error"]
    assert "1 of 4 receivers did not get the file: h3" in done.stderr
    assert (tmp_path / "out-h4").read_bytes() == file.read_bytes()


@pytest.mark.rare
def test_who_hangs_before_it_begins_is_named_and_nobody_waits(
    cloud: lab.Session, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hanging(*given: Any, **named: Any) -> Network:
        to_agent(cloud, "h3", signal.SIGSTOP)
        return probing.look(*given, **named)

    monkeypatch.setattr(broadcasting, "look", hanging)
    result = broadcast(str(file), read_inventory(cloud.hosts_file), "h0", str(tmp_path / "out-{host}"))
    assert list(result.lost) == ["h3"]
    assert {each.host for each in result.receivers if each.ok} == {"h1", "h2", "h4"}


@pytest.mark.parametrize("mechanism", ["chain", "mesh"])
def test_a_host_that_nobody_named_joins_a_broadcast_of_the_queue(
    cloud: lab.Session, file: Path, tmp_path: Path, mechanism: str
) -> None:
    controller = Controller(read_inventory(cloud.hosts_file), BELIEVED, MemoryQueue())
    # The command takes a second to start.
    file.write_bytes(2 * file.read_bytes())
    copies, at = Copies(str(file), "h0", str(tmp_path / "out-{host}"), mechanism), tmp_path / "t.sock"
    with running(controller), serving(controller, at), Client(at) as client:
        asked = controller.submit([HostBytes("h0", name, 0) for name in ("h1", "h2")], copies=copies)
        until(lambda: controller.get(asked.id).moved_bytes > 1_000_000)
        assert client.join(asked.id, "h3")["state"] == "running"
        mine = ("transfers", "join", str(asked.id), "h4", "-o", tmp_path / "mine", "--socket", at)
        done = gavotte(*mine)
        assert done.returncode == 0, done.stderr
        report = client.wait(asked.id, MOST_S)
        for host, why in (("h4", "is done"), ("h9", "not a host of inventory")):
            with pytest.raises(GavotteError, match=why):
                client.join(asked.id, host)
    assert (report["state"], report["error"], report["moved_bytes"]) == ("done", "", 4 * 10_000_000)
    receivers = {each["host"]: each for each in report["receivers"]}
    assert all(each["ok"] for each in receivers.values())
    assert [name for name, each in receivers.items() if each["joined_s"] is not None] == ["h3", "h4"]
    assert receivers["h3"]["joined_s"] < receivers["h3"]["finish_s"]
    for name in ("out-h1", "out-h2", "out-h3", "mine"):
        assert (tmp_path / name).read_bytes() == file.read_bytes()


def test_one_that_joins_and_does_not_answer_is_named(cloud: lab.Session, file: Path, tmp_path: Path) -> None:
    kill_agent(cloud, "h3")
    controller = Controller(read_inventory(cloud.hosts_file), BELIEVED, MemoryQueue())
    with running(controller):
        copies = Copies(str(file), "h0", str(tmp_path / "out-{host}"), "chain")
        asked = controller.submit([HostBytes("h0", "h1", 0)], copies=copies)
        controller.join(asked.id, "h3")
        done = controller.wait(asked.id, MOST_S)
    assert done.state == "failed"
    assert "1 of 2 receivers did not get the file: h3: " in done.error
    assert "nothing listens" in done.error
    assert (tmp_path / "out-h1").read_bytes() == file.read_bytes()
