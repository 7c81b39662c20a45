"""Shuffles over real connections: all bytes arrive, none faster than the network, and mistakes are one line."""

from __future__ import annotations

import csv
import json
import os
import signal
from pathlib import Path

import pytest
from tests import builders
from tests.builders import MBIT
from tests.shell import gavotte, processes_of

from gavotte import lab
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.inventory import read_inventory
from gavotte.formats.network import Network, write_network
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.transfer import MODES, shuffle
from gavotte.transfer.carrying import MOST_CONNECTIONS, numbers_of_connections

SHARE = GOODPUT_PER_WIRE * MBIT
MATRIX = [
    HostBytes("a", "c", 4_000_000),
    HostBytes("b", "c", 2_000_000),
    HostBytes("c", "a", 0),
    HostBytes("a", "a", 9),
]


def small() -> Network:
    """The true Network of the small cloud."""
    hosts = [("a", 100, "pm0"), ("b", 200, "pm0"), ("c", 150, "pm1")]
    return builders.network([{"name": n, "egress_bps": rate * SHARE, "machine": pm} for n, rate, pm in hosts])


def test_connections_are_in_proportion_to_the_bytes() -> None:
    sizes = [HostBytes("a", "b", size) for size in (10, 0, 25, 10_000)]
    assert numbers_of_connections(sizes[:3]) == [1, 1, 2]
    assert numbers_of_connections(sizes) == [1, 1, 1, MOST_CONNECTIONS]
    assert numbers_of_connections(sizes[1:2]) == [1]


@pytest.mark.lab
@pytest.mark.parametrize("mode", MODES)
def test_every_byte_arrives(small_cloud: lab.Session, mode: str) -> None:
    seen: list[tuple[int, int]] = []
    inventory = read_inventory(small_cloud.hosts_file)
    done = shuffle(MATRIX, inventory, small(), mode=mode, progress=lambda *step: seen.append(step))
    assert done.bytes == 6_000_009
    assert seen[-1] == (6_000_009, 6_000_009)
    assert [flow.bytes for flow in done.flows] == [flow.bytes for flow in MATRIX]
    assert done.bound_s == pytest.approx(8 * 4e6 / (100 * SHARE))
    assert done.bottleneck == "egress of a"
    # The bucket lets 32 kB through at once.
    assert done.elapsed_s > 8 * (4e6 - 65_536) / (100 * SHARE)
    assert done.elapsed_s == max(flow.finish_s for flow in done.flows)


@pytest.mark.lab
def test_the_command(small_cloud: lab.Session, tmp_path: Path) -> None:
    matrix, network = tmp_path / "bytes.csv", tmp_path / "n.network.json"
    with matrix.open("w", newline="") as file:
        csv.writer(file).writerows([("source", "target", "bytes"), ("a", "c", 1_000_000), ("c", "b", 500_000)])
    write_network(network, small())
    hosts = ("--hosts", small_cloud.hosts_file)
    report = json.loads(gavotte("shuffle", matrix, *hosts, "--json").stdout)
    assert {"bytes", "bound_s", "elapsed_s", "ratio", "flows"} <= report.keys()
    assert report["bytes"] == 1_500_000
    assert [{"source", "target", "bytes", "finish_s"} - flow.keys() for flow in report["flows"]] == [set(), set()]
    dry = gavotte("shuffle", matrix, *hosts, "--network", network, "--dry-run", "--json")
    assert json.loads(dry.stdout)["bottleneck"] == "egress of a"
    assert gavotte("shuffle", matrix, *hosts, "--mode", "fast").returncode == 2
    matrix.write_text("source,target,bytes\na,q,5\n")
    wrong = gavotte("shuffle", matrix, *hosts)
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "the inventory has no host `q`" in wrong.stderr


@pytest.mark.lab
def test_a_host_that_dies_is_named(runtime: Path) -> None:
    topology = builders.topology([{"name": name, "egress": "8mbit"} for name in "abc"])
    truth = builders.network([{"name": name, "egress_bps": 8 * SHARE} for name in "abc"])
    with lab.session(topology, source="tests") as cloud:
        inventory = read_inventory(cloud.hosts_file)
        (victim,) = [pid for pid, line in processes_of(runtime).items() if f"{cloud.folder}/b.sock" in line]

        def kill(moved: int, _: int) -> None:
            if moved > 0 and victim in processes_of(runtime):
                os.kill(victim, signal.SIGKILL)

        flows = [HostBytes("a", "c", 3_000_000), HostBytes("b", "c", 3_000_000)]
        with pytest.raises(AgentError, match=r"\bb\b"):
            shuffle(flows, inventory, truth, progress=kill)
        with pytest.raises(GavotteError, match="unknown mode `fast`"):
            shuffle(flows, inventory, truth, mode="fast")


@pytest.mark.lab
def test_too_little_time_is_named(small_cloud: lab.Session, tmp_path: Path) -> None:
    (tmp_path / "bytes.csv").write_text("source,target,bytes\na,c,90MB\n")
    line = ("shuffle", tmp_path / "bytes.csv", "--hosts", small_cloud.hosts_file, "--max-seconds", "1")
    done = gavotte(*line)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "error: a to c: not done within 1 s; give the shuffle more time with --max-seconds"
    )
