"""Shuffles and broadcasts over paths that lose packets, which no measurement has shown."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.builders import MBIT

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.formats.network import Network
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.transfer import BroadcastResult, broadcast, shuffle

pytestmark = [pytest.mark.lab, pytest.mark.rare]

LATENCY_S = 0.0004
"""A round trip is 1.6 ms: a path of 100 Mbit/s needs no second connection unless it loses packets."""

COUNT = """
import glob, select, sys
most = 0
while not select.select([sys.stdin], [], [], 0.02)[0]:
    lines = [line.split() for path in glob.glob("/proc/net/tcp*") for line in open(path)]
    most = max(most, sum(each[1].endswith(":1CF3") and each[3] == "01" for each in lines))
print(most)
"""
"""Prints the most connections to the agent's data port, 7411, at a time."""


def two_hosts(wire_mbit: float, latency_s: float, **keys: Any) -> AbstractContextManager[lab.Session]:
    """Return a lab of the hosts `a` and `b`.

    Args:
        wire_mbit: rate of the shaper of `a`.
        latency_s: latency of each host's link.
        **keys: further keys of both hosts.
    """
    hosts = [{"name": name, "latency": f"{latency_s}s", **keys} for name in "ab"]
    hosts[0]["egress"] = f"{wire_mbit}mbit"
    return lab.session(builders.topology(hosts), source="tests")


def known(mbit: float, latency_s: float) -> Network:
    """Return a Network of these hosts without any loss. `mbit` is the rate of the shaper that it knows."""
    one_way_s = [[0.0, 2 * latency_s], [2 * latency_s, 0.0]]
    rate_bps = mbit * MBIT * GOODPUT_PER_WIRE
    return builders.network([{"name": name, "egress_bps": rate_bps} for name in "ab"], latency_s=one_way_s)


def counting(session: lab.Session, host: str) -> subprocess.Popen[str]:
    """Count the connections to a host's agent until a line arrives."""
    words = [sys.executable, "-I", "-S", "-c", COUNT]
    return session.exec(host, words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def most_connections(wire_mbit: float, known_mbit: float, **keys: Any) -> int:
    """Return how many connections a flow over an empty path has at a time, with those of its checks.

    Args:
        wire_mbit: rate of the sender's shaper.
        known_mbit: rate that the Network has.
        **keys: keys of both hosts.
    """
    size = int(wire_mbit * MBIT / 8 * 1.5)
    with two_hosts(wire_mbit, LATENCY_S, **keys) as session, counting(session, "b") as count:
        flows = [HostBytes("a", "b", size)]
        done = shuffle(flows, read_inventory(session.hosts_file), known(known_mbit, LATENCY_S))
        assert [flow.bytes for flow in done.flows] == [size]
        return int(count.communicate(timeout=30)[0])


def sent(folder: Path, session: lab.Session, size: int, network: Network) -> BroadcastResult:
    """Broadcast an object from `a` to `b`, and check the copy."""
    source = folder / "object"
    source.write_bytes(bytes(range(250)) * (size // 250))
    inventory = read_inventory(session.hosts_file)
    done = broadcast(str(source), inventory, "a", f"{folder}/copy-{{host}}", network=network, mechanism="chain")
    assert [each.ok for each in done.receivers] == [True]
    assert (folder / "copy-b").read_bytes() == source.read_bytes()
    return done


def most_connections_of_broadcast(folder: Path, wire_mbit: float, known_mbit: float, **keys: Any) -> int:
    """Return how many connections a receiver of a broadcast has to its parent, as `most_connections` does."""
    size = int(wire_mbit * MBIT / 8 * 1.5)
    with two_hosts(wire_mbit, LATENCY_S, **keys) as session, counting(session, "a") as count:
        sent(folder, session, size, known(known_mbit, LATENCY_S))
        return int(count.communicate(timeout=30)[0])


def test_a_flow_opens_connections_when_it_loses_packets_at_random() -> None:
    assert most_connections(100, 100, loss=0.015) >= most_connections(100, 100) + 2


# Next to other labs, an agent without a processor for some milliseconds may miss how long the queue is.
@pytest.mark.flaky(reruns=5)
def test_a_flow_opens_none_when_a_queue_overflows() -> None:
    assert most_connections(50, 100) <= most_connections(50, 50) + 1


# At 1.5 % a single connection keeps up on a quiet machine. Next to other labs, round trips look like those of a queue.
@pytest.mark.flaky(reruns=5)
def test_a_receiver_opens_connections_when_its_parent_loses_packets(tmp_path: Path) -> None:
    assert most_connections_of_broadcast(tmp_path, 100, 100, loss=0.05) >= 2


@pytest.mark.flaky(reruns=5)
def test_a_receiver_opens_none_when_a_queue_overflows(tmp_path: Path) -> None:
    assert most_connections_of_broadcast(tmp_path, 50, 100) == 1


def test_the_last_blocks_of_a_lossy_path_are_sent_again_at_once(tmp_path: Path) -> None:
    size, latency_s = 1_000_000, 0.01
    with two_hosts(20, latency_s, loss=0.01) as session:
        done = sent(tmp_path, session, size, known(20, latency_s))
    # A timeout of TCP would cost 0.24 s at the end. What is under way at a time is a tenth of the object.
    assert size < done.source_sent_bytes < 1.5 * size
    with two_hosts(20, latency_s) as session:
        assert sent(tmp_path, session, size, known(20, latency_s)).source_sent_bytes <= 1.05 * size
