"""Shuffles over paths that lose packets, which no measurement has shown."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from tests import builders
from tests.builders import MBIT

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.transfer import shuffle

pytestmark = pytest.mark.lab

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


def most_connections(wire_mbit: float, known_mbit: float, **keys: Any) -> int:
    """Return how many connections a flow over an empty path has at a time, with those of its checks.

    Args:
        wire_mbit: rate of the sender's shaper.
        known_mbit: rate that the Network has.
        **keys: keys of both hosts.
    """
    hosts = [{"name": name, "latency": f"{LATENCY_S}s", **keys} for name in "ab"]
    hosts[0]["egress"] = f"{wire_mbit}mbit"
    one_way_s = [[0.0, 2 * LATENCY_S], [2 * LATENCY_S, 0.0]]
    rate_bps = known_mbit * MBIT * GOODPUT_PER_WIRE
    known = builders.network([{"name": name, "egress_bps": rate_bps} for name in "ab"], latency_s=one_way_s)
    size = int(wire_mbit * MBIT / 8 * 1.5)
    words = [sys.executable, "-I", "-S", "-c", COUNT]
    with (
        lab.session(builders.topology(hosts), source="tests") as session,
        session.exec("b", words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as counting,
    ):
        done = shuffle([HostBytes("a", "b", size)], read_inventory(session.hosts_file), known)
        assert [flow.bytes for flow in done.flows] == [size]
        return int(counting.communicate(timeout=30)[0])


def test_a_flow_opens_connections_when_it_loses_packets_at_random() -> None:
    assert most_connections(100, 100, loss=0.015) >= most_connections(100, 100) + 2


# Next to other labs, an agent without a processor for some milliseconds may miss how long the queue is.
@pytest.mark.flaky(reruns=5)
def test_a_flow_opens_none_when_a_queue_overflows() -> None:
    assert most_connections(50, 100) <= most_connections(50, 50) + 1
