"""The cost of headers, and the time of a transfer."""

from __future__ import annotations

from typing import Any

import pytest
from tests import builders

from gavotte.terms.goodput import (
    GOODPUT_PER_WIRE,
    goodput_per_wire,
    network_goodput,
    path_goodput,
    tcp_payload_bytes,
    topology_goodput,
    topology_mtu_bytes,
    transfer_s,
    udp_payload_bytes,
    wire_bytes,
)


@pytest.mark.parametrize(
    ("mtu_bytes", "ipv6", "tcp_bytes", "udp_bytes"),
    [(1500, False, 1448, 1472), (1500, True, 1428, 1452), (9000, False, 8948, 8972), (1280, True, 1208, 1232)],
)
def test_headers_are_those_of_the_family(mtu_bytes: int, ipv6: bool, tcp_bytes: int, udp_bytes: int) -> None:
    assert tcp_payload_bytes(mtu_bytes, ipv6=ipv6) == tcp_bytes
    assert udp_payload_bytes(mtu_bytes, ipv6=ipv6) == udp_bytes
    assert goodput_per_wire(mtu_bytes, ipv6=ipv6) == tcp_bytes / wire_bytes(mtu_bytes) == tcp_bytes / (mtu_bytes + 14)


def test_an_unknown_mtu_is_taken_for_1500() -> None:
    assert goodput_per_wire(0) == goodput_per_wire(float("nan")) == GOODPUT_PER_WIRE == 1448 / 1514


def test_a_topology_has_the_least_mtu_on_the_way_between_its_hosts() -> None:
    hosts = [{"name": "x", "switch": "near", "mtu": 9000}, {"name": "y", "switch": "far", "mtu": 9000}]
    switches: list[dict[str, Any]] = [
        {"name": "core"},
        {"name": "near", "mtu": 1400},
        {"name": "far"},
        {"name": "empty", "mtu": 1280},
    ]
    assert topology_mtu_bytes(builders.topology(hosts, switches=switches)) == 1400
    together = [host | {"switch": "near"} for host in hosts]
    assert topology_mtu_bytes(builders.topology(together, switches=switches)) == 9000
    ipv6 = builders.topology(hosts, switches=switches, addresses="ipv6")
    assert topology_goodput(ipv6) == goodput_per_wire(1400, ipv6=True)


def test_a_network_counts_the_headers_that_each_receiver_gets() -> None:
    mtus = [[None, 1400, None], [9000, None, None], [None, None, None]]
    network = builders.network(["a", {"name": "b", "ipv6": True}, "c"], 1e9, mtu_bytes=mtus)
    assert path_goodput(network, 0, 1) == goodput_per_wire(1400, ipv6=True)
    assert path_goodput(network, 1, 0) == goodput_per_wire(9000)
    assert path_goodput(network, 0, 2) == GOODPUT_PER_WIRE
    # Unknown MTUs decide nothing next to known ones, although 1500 is above 1400.
    assert network_goodput(network, ["a"], network.names) == goodput_per_wire(1400, ipv6=True)
    assert network_goodput(network, ["c"], ["b"]) == goodput_per_wire(1500, ipv6=True)


def test_a_bucket_shortens_long_transfers_by_a_constant() -> None:
    # 20 MB at 100 Mbit/s behind 5 MB: the notes' own example, 1.2 s instead of 1.6.
    assert transfer_s(20e6, 100e6) == pytest.approx(1.6)
    assert transfer_s(20e6, 100e6, bucket_bytes=5e6) == pytest.approx(1.2)
    assert transfer_s(5e6, 100e6, bucket_bytes=5e6, peak_bps=2e9) == pytest.approx(0.02)
    assert transfer_s(20e6, 100e6, bucket_bytes=5e6, peak_bps=2e9) == pytest.approx(1.2)
