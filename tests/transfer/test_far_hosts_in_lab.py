"""Transfers between hosts that are far from each other use as many connections as fill their paths at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import builders
from tests.builders import MBIT

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.formats.network import Network
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.transfer import BroadcastQuestion, broadcast, send, shuffle

pytestmark = pytest.mark.lab

RATE_BPS = 20 * MBIT * GOODPUT_PER_WIRE


@pytest.fixture(scope="module")
def cloud() -> Iterator[lab.Session]:
    """Return a lab whose host `a` is 100 ms from `b` and `c`."""
    hosts = [{"name": name, "egress": "20mbit", "ingress": "20mbit"} for name in "abc"]
    hosts[0]["latency"] = "50ms"
    with lab.session(builders.topology(hosts), source="tests") as session:
        yield session


def truth() -> Network:
    one_way_s = [[0.0, 0.05, 0.05], [0.05, 0.0, 1e-4], [0.05, 1e-4, 0.0]]
    hosts = [{"name": name, "egress_bps": RATE_BPS, "ingress_bps": RATE_BPS} for name in "abc"]
    return builders.network(hosts, latency_s=one_way_s)


def accepted(cloud: lab.Session, host: str) -> int:
    """Return how many TCP connections a host has accepted."""
    text = cloud.run(host, ["cat", "/proc/net/snmp"], capture_output=True, text=True).stdout
    names, values = (line.split() for line in text.splitlines() if line.startswith("Tcp:"))
    return int(dict(zip(names, values, strict=True))["PassiveOpens"])


@pytest.mark.parametrize("mode", ["paced", "standard"])
def test_a_flow_of_a_shuffle_has_connections_for_its_round_trip(cloud: lab.Session, mode: str) -> None:
    before = {host: accepted(cloud, host) for host in "bc"}
    flows = [HostBytes("a", "b", 400_000), HostBytes("b", "c", 400_001)]
    done = shuffle(flows, read_inventory(cloud.hosts_file), truth(), mode=mode)
    assert [flow.bytes for flow in done.flows] == [400_000, 400_001]
    opened = {host: accepted(cloud, host) - before[host] for host in "bc"}
    # 240 kB are on their way to `b` at a time: 17 first windows of ten packets. Agents also check peers.
    assert (opened["b"] >= 17) == (mode == "paced")
    assert 1 <= opened["c"] < 17


def test_a_flow_has_more_connections_where_its_path_loses_packets(cloud: lab.Session) -> None:
    before, lossy = accepted(cloud, "b"), truth().model_copy(update={"loss": [[0.0, 0.01, 0.0], [0.0] * 3, [0.0] * 3]})
    done = shuffle([HostBytes("a", "b", 400_000)], read_inventory(cloud.hosts_file), lossy)
    assert [flow.bytes for flow in done.flows] == [400_000]
    # 17 without loss, and twice as many with it, but at most one for each first window of the flow.
    assert accepted(cloud, "b") - before >= 28


def test_a_broadcast_starts_with_connections_that_fill_its_paths(cloud: lab.Session, tmp_path: Path) -> None:
    source, before = tmp_path / "object", accepted(cloud, "a")
    source.write_bytes(bytes(range(256)) * 4000)
    done = broadcast(
        str(source),
        read_inventory(cloud.hosts_file),
        "a",
        f"{tmp_path}/copy-{{host}}",
        network=truth(),
        mechanism="chain",
    )
    assert {each.host: Path(each.path).read_bytes() for each in done.receivers if each.ok} == dict.fromkeys(
        "bc", source.read_bytes()
    )
    # As above; and the only round trips before the start are three to connect and to prove the secret.
    assert accepted(cloud, "a") - before >= 17
    assert done.setup_s >= 3 * 0.1


def test_a_far_broadcast_starts_without_a_receiver_that_does_not_answer(cloud: lab.Session, tmp_path: Path) -> None:
    source = tmp_path / "object"
    source.write_bytes(bytes(300_000))
    inventory = read_inventory(cloud.hosts_file)
    address = next(host.address for host in inventory.host if host.name == "c")
    for host in "ab":
        cloud.run(host, ["ip", "route", "add", "blackhole", f"{address}/32"])
    try:
        output = f"{tmp_path}/copy-{{host}}"
        question = BroadcastQuestion(
            str(source), inventory, "a", output, network=truth(), mechanism="mesh", max_seconds=4.0
        )
        done = send(question)
    finally:
        for host in "ab":
            cloud.run(host, ["ip", "route", "del", "blackhole", f"{address}/32"])
    assert [each.host for each in done.receivers if each.ok] == ["b"]
    assert done.lost.keys() == {"c"}
