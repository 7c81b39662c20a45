"""Labs with IPv6 or both families, and several equal links between switches, with real packets."""

from __future__ import annotations

import ipaddress
import shutil
import sys
from pathlib import Path

import pytest
from tests.builders import Named, topology
from tests.lab.goodput import ATTEMPTS, assert_goodput, goodput_bps
from tests.lab.test_mtu import SEND_DATAGRAM

from gavotte import lab
from gavotte.formats.inventory import read_inventory

pytestmark = [pytest.mark.lab, pytest.mark.rare, pytest.mark.skipif(shutil.which("iperf3") is None, reason="no iperf3")]

IPV6_PER_WIRE = (1500 - 72) / 1514
"""TCP goodput over IPv6 of a wire rate."""
IPV4_PER_WIRE = (1500 - 52) / 1514


def test_caps_hold_over_ipv6(runtime_folder: Path) -> None:
    hosts: list[Named] = [
        {"name": "a", "egress": "100mbit"},
        {"name": "b", "ingress": "60mbit", "switch": "tor"},
        {"name": "c", "machine": "m"},
        {"name": "d", "machine": "m"},
    ]
    machines = [{"name": "m", "switch": "core", "rate": "200mbit", "machine_rate": "150mbit"}]
    described = topology(hosts, switches=["core", "tor"], machine=machines, addresses="ipv6")
    with lab.session(described, agents=False) as session:
        assert {ipaddress.ip_address(host.address).version for host in session.status().hosts} == {6}
        assert read_inventory(session.hosts_file).host[0].address == session.status().hosts[0].address
        for source, target, mbit in (("a", "c", 100), ("a", "b", 60), ("c", "b", 60), ("c", "d", 150), ("d", "a", 200)):
            assert_goodput(session, source, target, mbit * 1e6 * IPV6_PER_WIRE)
        assert session.run("a", ["sh", "-c", "grep -q 0a01 /proc/net/fib_trie"], capture_output=True).returncode


def test_one_cap_holds_for_both_families(runtime_folder: Path) -> None:
    hosts = [{"name": "a", "egress": "100mbit"}, {"name": "b"}]
    with lab.session(topology(hosts, addresses="dual"), agents=False) as session:
        assert {ipaddress.ip_address(host.address).version for host in session.status().hosts} == {4}
        assert_goodput(session, "a", "b", 100e6 * IPV4_PER_WIRE, "-4")
        assert_goodput(session, "a", "b", 100e6 * IPV6_PER_WIRE, "-6")


@pytest.mark.parametrize("icmp", [True, False])
def test_packet_too_big_is_sent_unless_icmp_is_dropped(runtime_folder: Path, icmp: bool) -> None:
    hosts: list[Named] = [{"name": "a", "mtu": 9000}, {"name": "b", "switch": "tor", "mtu": 9000}]
    switches: list[Named] = [{"name": "core", "icmp": icmp}, {"name": "tor", "mtu": 1400, "icmp": icmp}]
    described = topology(hosts, switches=switches, addresses="ipv6")
    with lab.session(described, agents=False) as session:
        sent = session.run("a", [sys.executable, "-c", SEND_DATAGRAM, "b", "3000"], capture_output=True)
        assert sent.stdout.decode() == ("EMSGSIZE 1400\n" if icmp else "nothing 9000\n"), sent.stderr
        sent = session.run("a", [sys.executable, "-c", SEND_DATAGRAM, "b", "1200"], capture_output=True)
        assert "9000" in sent.stdout.decode() if not icmp else "1400" in sent.stdout.decode()


@pytest.mark.parametrize("addresses", ["ipv4", "ipv6"])
def test_flows_spread_over_equal_uplinks(runtime_folder: Path, addresses: str) -> None:
    """One connection has one uplink; sixteen have both, unless all of them hash to one (1 in 32,768)."""
    switches: list[Named] = ["core", {"name": "tor", "up": "40mbit", "uplinks": 2}]
    described = topology([{"name": "a", "switch": "tor"}, {"name": "b"}], switches=switches, addresses=addresses)
    per_wire = IPV6_PER_WIRE if addresses == "ipv6" else IPV4_PER_WIRE
    with lab.session(described, agents=False) as session:
        for source, target in (("a", "b"), ("b", "a")):
            assert_goodput(session, source, target, 40e6 * per_wire)
            for _attempt in range(ATTEMPTS):
                got = goodput_bps(session, source, target, "-P", "16")
                if got > 1.9 * 40e6 * per_wire:
                    break
            assert 1.9 * 40e6 * per_wire < got < 2.05 * 40e6 * per_wire
