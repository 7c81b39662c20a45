"""Labs whose MTU is not 1500: TCP's goodput, and packets that are too long for a link in the middle."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from tests.builders import Named, topology
from tests.lab.goodput import assert_goodput

from gavotte import lab

pytestmark = [pytest.mark.lab, pytest.mark.skipif(shutil.which("iperf3") is None, reason="no iperf3")]

SEND_DATAGRAM = """
import errno, socket, sys
family, _, _, _, address = socket.getaddrinfo(sys.argv[1], 7000, type=socket.SOCK_DGRAM)[0]
level, option, path_mtu = ((socket.IPPROTO_IP, 10, 14), (socket.IPPROTO_IPV6, 23, 24))[family == socket.AF_INET6]
sender = socket.socket(family, socket.SOCK_DGRAM)
sender.setsockopt(level, option, 2)  # IP_PMTUDISC_DO: do not fragment
sender.settimeout(2)
sender.connect(address)
try:
    sender.send(bytes(int(sys.argv[2])))
    sender.recv(1)
except TimeoutError:
    print("nothing", sender.getsockopt(level, path_mtu))
except OSError as error:
    print(errno.errorcode[error.errno], sender.getsockopt(level, path_mtu))
"""
"""Prints the ICMP error that a sender of one datagram gets within two seconds, and its new MTU of the path."""


def goodput_per_wire(mtu: int) -> float:
    """Return the share of a wire rate that TCP over IPv4 with time stamps delivers."""
    return (mtu - 52) / (mtu + 14)


@pytest.mark.parametrize("mtu", [1280, 1400, 9000])
def test_tcp_fills_a_shaper_at_any_mtu(runtime_folder: Path, mtu: int) -> None:
    hosts = [{"name": name, "mtu": mtu, "egress": "300mbit"} for name in "ab"]
    with lab.session(topology(hosts), agents=False) as session:
        assert_goodput(session, "a", "b", 300e6 * goodput_per_wire(mtu))


NARROW = [{"name": "a", "mtu": 9000}, {"name": "b", "switch": "tor", "mtu": 9000}]
"""Two hosts with a link of 1400 between them."""


def test_routers_say_what_fits_a_narrow_link(runtime_folder: Path) -> None:
    switches: list[Named] = ["core", {"name": "tor", "up": "200mbit", "mtu": 1400}]
    with lab.session(topology(NARROW, switches=switches), agents=False) as session:
        for source, target in (("a", "b"), ("b", "a")):
            sent = session.run(source, [sys.executable, "-c", SEND_DATAGRAM, target, "3000"], capture_output=True)
            assert sent.stdout.decode() == "EMSGSIZE 1400\n", sent.stderr
            assert_goodput(session, source, target, 200e6 * goodput_per_wire(1400))


def test_long_packets_vanish_where_icmp_is_dropped(runtime_folder: Path) -> None:
    switches = [{"name": "core", "icmp": False}, {"name": "tor", "up": "200mbit", "mtu": 1400, "icmp": False}]
    with lab.session(topology(NARROW, switches=switches), agents=False) as session:
        sent = session.run("a", [sys.executable, "-c", SEND_DATAGRAM, "b", "3000"], capture_output=True)
        assert sent.stdout.decode() == "nothing 9000\n", sent.stderr
        assert_goodput(session, "a", "b", 200e6 * goodput_per_wire(1400), "-M", "1360")
