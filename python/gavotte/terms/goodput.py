"""Convert rates between network layers (wire, UDP payload, TCP goodput), and compute the times of transfers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gavotte.formats.network import Network
    from gavotte.formats.topology import Topology

ETHERNET_BYTES = 14
"""Size of Ethernet's header, which shapers count and MTUs do not."""
UDP_HEADER_BYTES = 8
TCP_HEADER_BYTES = 32
"""Size of TCP's header with timestamps, which every Linux connection uses unless they are turned off."""
MTU_BYTES = 1500
"""MTU that is assumed for a path of unknown MTU."""
LEAST_MTU_BYTES, MOST_MTU_BYTES = 576, 65_536
"""Least MTU that IPv4 hosts must accept, and the MTU of loopback."""


def wire_bytes(mtu_bytes: int = MTU_BYTES) -> int:
    """Return the bytes of a full Ethernet frame as a shaper counts them: the MTU and 14 bytes of header."""
    return mtu_bytes + ETHERNET_BYTES


def udp_payload_bytes(mtu_bytes: int = MTU_BYTES, *, ipv6: bool = False) -> int:
    """Return the UDP payload of a full packet: 1472 bytes at MTU 1500 over IPv4."""
    return mtu_bytes - _ip_header_bytes(ipv6=ipv6) - UDP_HEADER_BYTES


def tcp_payload_bytes(mtu_bytes: int = MTU_BYTES, *, ipv6: bool = False) -> int:
    """Return the TCP payload of a full packet with timestamps: 1448 bytes at MTU 1500 over IPv4."""
    return mtu_bytes - _ip_header_bytes(ipv6=ipv6) - TCP_HEADER_BYTES


def goodput_per_wire(mtu_bytes: float = MTU_BYTES, *, ipv6: bool = False) -> float:
    """Return the TCP goodput of a wire rate of 1: 1448/1514 at MTU 1500 over IPv4.

    Args:
        mtu_bytes: the path's MTU; 0 or NaN = unknown, taken for `MTU_BYTES`.
        ipv6: whether the path's packets are IPv6.
    """
    mtu = int(mtu_bytes) if mtu_bytes >= LEAST_MTU_BYTES else MTU_BYTES
    return tcp_payload_bytes(mtu, ipv6=ipv6) / wire_bytes(mtu)


def topology_mtu_bytes(topology: Topology) -> int:
    """Return the smallest MTU on any path between two hosts of a Topology.

    Hosts' interfaces count, and the links of switches that have hosts on both sides.
    """
    above = {switch.name: switch.parent for switch in topology.switch}
    leaf_of = {machine.name: machine.switch for machine in topology.machine}
    below = dict.fromkeys(above, 0)
    for host in topology.host:
        place: str | None = host.switch or leaf_of[host.machine or ""]
        while place is not None:
            below[place] += 1
            place = above[place]
    # The link above a switch is on a path if hosts are on both of its sides.
    crossed = [switch.mtu for switch in topology.switch if switch.mtu and 0 < below[switch.name] < len(topology.host)]
    return min(*(host.mtu for host in topology.host), *crossed, MOST_MTU_BYTES)


def topology_goodput(topology: Topology) -> float:
    """Return the TCP goodput of a Topology's wire rate of 1 on the paths with its smallest MTU.

    Dual-stack hosts are reached over IPv4.
    """
    return goodput_per_wire(topology_mtu_bytes(topology), ipv6=topology.addresses == "ipv6")


def path_goodput(network: Network, source: int, target: int) -> float:
    """Return the TCP goodput of a wire rate of 1 on a Network's path, by the path's MTU and its receiver's addresses.

    Args:
        network: hosts with the MTU of each path.
        source: index of the host that sends.
        target: index of the host that receives.
    """
    return goodput_per_wire(network.pair_mtu_bytes(source, target) or 0, ipv6=network.hosts[target].ipv6)


def path_goodput_per_udp_payload(network: Network, source: int, target: int) -> float:
    """Return the TCP goodput of a rate of 1 that counts UDP payload, on a Network's path.

    Args:
        network: hosts with the MTU of each path.
        source: index of the host that sends.
        target: index of the host that receives.
    """
    mtu_bytes, ipv6 = network.pair_mtu_bytes(source, target) or MTU_BYTES, network.hosts[target].ipv6
    return tcp_payload_bytes(mtu_bytes, ipv6=ipv6) / udp_payload_bytes(mtu_bytes, ipv6=ipv6)


def network_goodput(network: Network, senders: Iterable[str], receivers: Iterable[str]) -> float:
    """Return the TCP goodput of a wire rate of 1 on a link that joins hosts of a Network.

    The path with the largest goodput shows what a link carries, so it decides. Paths of unknown MTU count only if the
    MTU of no path is known.

    Args:
        network: hosts with the MTU of each path.
        senders: names of the hosts that send over the link.
        receivers: names of those that receive.
    """
    place = {name: number for number, name in enumerate(network.names)}
    pairs = product([place[name] for name in senders], [place[name] for name in receivers])
    paths = [(m, n) for m, n in pairs if m != n]
    known = [(m, n) for m, n in paths if network.pair_mtu_bytes(m, n)]
    return max((path_goodput(network, m, n) for m, n in known or paths), default=GOODPUT_PER_WIRE)


def _ip_header_bytes(*, ipv6: bool) -> int:
    return 40 if ipv6 else 20


WIRE_BYTES = wire_bytes()
TCP_PAYLOAD_BYTES = tcp_payload_bytes()
UDP_PAYLOAD_BYTES = udp_payload_bytes()
GOODPUT_PER_WIRE = goodput_per_wire()
"""TCP goodput of a wire rate where the MTU is unknown: 1448/1514, as at MTU 1500 over IPv4."""


def transfer_s(
    size_bytes: float, rate_bps: float, *, bucket_bytes: float = 0.0, peak_bps: float | None = None
) -> float:
    """Return the seconds that one bulk transfer takes over a path behind a token bucket.

    The bucket lets b + r t bytes pass by time t, at no more than C: the first b C / (C - r) bytes go at C, the rest
    at r. A single rate is wrong by b / r seconds for every transfer longer than that.

    Args:
        size_bytes: payload.
        rate_bps: sustained rate r, in the payload's layer.
        bucket_bytes: depth b of a full bucket, in the payload's layer.
        peak_bps: rate C while the bucket lasts; None = without limit.

    Returns:
        seconds.
    """
    after_bucket_s = max(0.0, (8 * size_bytes - 8 * bucket_bytes) / rate_bps)
    return after_bucket_s if peak_bps is None else max(after_bucket_s, 8 * size_bytes / peak_bps)
