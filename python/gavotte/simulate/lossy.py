"""Cap flows on a Topology that loses packets at the rate that one TCP connection reaches despite the losses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gavotte import _core
from gavotte.formats.topology import Topology
from gavotte.simulate.flows import Flows
from gavotte.terms.goodput import tcp_payload_bytes, topology_mtu_bytes
from gavotte.terms.loss import connection_bps


def capped_by_loss(topology: Topology, flows: Flows, platform: _core.Platform) -> Flows:
    """Return the flows with caps by RFC 9438, section 5.1, from the loss and the round trip of each path.

    Args:
        topology: hosts and switches, with the `loss` of each.
        flows: flows of one TCP connection each.
        platform: compiled form of the topology, which has the latencies.
    """
    lossy = any(host.loss for host in topology.host) or any(switch.loss for switch in topology.switch)
    if not lossy or not len(flows):
        return flows
    segment_bytes = tcp_payload_bytes(topology_mtu_bytes(topology), ipv6=topology.addresses == "ipv6")
    losses = _Losses(topology)
    caps: dict[tuple[int, int], float] = {}
    for m, n in set(flows.pairs):
        if loss := losses.of_path(m, n):
            round_trip_s = platform.latency_s(m, n) + platform.latency_s(n, m)
            caps[m, n] = float(connection_bps(loss, round_trip_s, segment_bytes))
    most_bps = np.array([caps.get(pair, np.inf) for pair in flows.pairs])
    return replace(flows, cap_bps=most_bps if flows.cap_bps is None else np.minimum(flows.cap_bps, most_bps))


def path_loss(topology: Topology, source: int, target: int) -> float:
    """Return the share of packets lost between two hosts, 0 to 1, given the hosts' indices in the topology."""
    return _Losses(topology).of_path(source, target)


class _Losses:
    """Shares of packets lost at a Topology's hosts, and on the links between each host and the root."""

    def __init__(self, topology: Topology) -> None:
        self._hosts = topology.host
        self._links = {switch.name: switch.loss for switch in topology.switch}
        parents = {switch.name: switch.parent for switch in topology.switch}
        machines = {machine.name: machine.switch for machine in topology.machine}
        self._above: list[frozenset[str]] = []
        for host in topology.host:
            place: str | None = host.switch or machines[host.machine or ""]
            names = set()
            while place is not None:
                names.add(place)
                place = parents[place]
            self._above.append(frozenset(names))

    def of_path(self, source: int, target: int) -> float:
        ends = self._hosts[source], self._hosts[target]
        if source == target or (ends[0].machine is not None and ends[0].machine == ends[1].machine):
            return 0.0
        # The links above switches that only one of the two hosts is below are on the path.
        crossed = self._above[source] ^ self._above[target]
        losses = [*(end.loss for end in ends), *(self._links[name] for name in crossed)]
        return 1 - math.prod(1 - loss for loss in losses)
