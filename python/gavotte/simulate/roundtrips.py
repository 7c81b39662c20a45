"""How TCP departs from equal shares: by round trips, which full queues make, on the way there and on the way back.

Where TCP flows compete, shares go with the inverse of round-trip times: each raises its rate once in a round trip (Chiu
and Jain, 1989; Lakshman and Madhow, 1997). Where the network's own latency is small, a round trip is the sum of the
full queues that the data and its acknowledgements pass.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gavotte.errors import GavotteError
from gavotte.formats.network import Network
from gavotte.formats.topology import Topology
from gavotte.simulate.flows import Floats, Flows
from gavotte.simulate.platform import build_platform

QUEUE_S = 0.05
"""A full queue's delay, if not told: what the lab's queues hold."""
BASE_S = 0.0005
"""Round trip through empty queues, if not told: within a data centre."""

Indices = npt.NDArray[np.int64]

_FULL = 0.999
_ROUNDS = 12
"""Shares decide which queues are full, and these the shares; halving each step settles that well before."""

Link = tuple[Hashable, float]
"""What names a link, and its rate in bit/s."""


def tcp_weights(
    network: Topology | Network,
    flows: Flows,
    *,
    queue_s: float = QUEUE_S,
    base_s: float = BASE_S,
    payload_share: float = 1.0,
    seed: int = 0,
) -> Floats:
    """Weights that make `simulate` share as long TCP connections do: inverse to each flow's round-trip time.

    All flows are taken to be there at once; weights do not change as flows end.

    Args:
        network: hosts and what joins them.
        flows: who sends to whom; their own weights multiply these.
        queue_s: what a full queue adds to a round trip.
        base_s: the rest of it.
        payload_share: as in `simulate`.
        seed: as in `simulate`.

    Returns:
        (F,) from 0.001 to 1000, 1 in the geometric mean unless `flows` has weights.

    Raises:
        GavotteError: when the flows make no sense on this network.
    """
    own = np.ones(len(flows)) if flows.weight is None else flows.weight
    weight = own
    platform = build_platform(network, payload_share, seed)
    try:
        platform.rates(flows)  # checks them
    except ValueError as error:
        raise GavotteError(str(error)) from None
    if not len(flows):
        return own
    there, back, limit_bps = _incidence(network, flows, payload_share)
    for _ in range(_ROUNDS):
        share_bps = platform.rates(replace(flows, weight=weight))
        load_bps = np.bincount(there[0], share_bps[there[1]], len(limit_bps))
        delay_s = np.where(load_bps >= _FULL * limit_bps, queue_s, 0.0)
        trip_s = np.full(len(flows), base_s)
        for link, flow in (there, back):
            trip_s += np.bincount(flow, delay_s[link], len(flows))
        wanted = own * np.exp(np.log(trip_s).mean()) / trip_s
        weight = np.clip((weight + wanted) / 2, 1e-3, 1e3)
    return weight


def _incidence(
    network: Topology | Network, flows: Flows, payload_share: float
) -> tuple[tuple[Indices, Indices], tuple[Indices, Indices], Floats]:
    """Pairs of link and flow: those that data pass, those that acknowledgements pass; and the links' rates."""
    path = _topology_path(network, payload_share) if isinstance(network, Topology) else _network_path(network)
    number: dict[Hashable, int] = {}
    limit_bps: list[float] = []
    pairs: list[list[tuple[int, int]]] = [[], []]
    for flow, ends in enumerate(zip(flows.source.tolist(), flows.target.tolist(), strict=True)):
        for found, (source, target) in zip(pairs, (ends, ends[::-1]), strict=True):
            if source == target:
                continue
            for name, bps in path(source, target):
                if name not in number:
                    number[name] = len(number)
                    limit_bps.append(bps)
                found.append((number[name], flow))
    there, back = (np.array(found, np.int64).reshape(-1, 2) for found in pairs)
    return (there[:, 0], there[:, 1]), (back[:, 0], back[:, 1]), np.array(limit_bps)


Path = Callable[[int, int], Sequence[Link]]


def _limited(links: Iterator[tuple[Hashable, float | None]], share: float = 1.0) -> list[Link]:
    return [(name, bps * share) for name, bps in links if bps is not None]


def _topology_path(topology: Topology, payload_share: float) -> Path:
    switches = {switch.name: switch for switch in topology.switch}
    machines = {machine.name: machine for machine in topology.machine}

    def above(name: str | None) -> list[str]:
        """The switch and those above it."""
        names = []
        while name is not None:
            names.append(name)
            name = switches[name].parent
        return names

    def links(source: int, target: int) -> Iterator[tuple[Hashable, float | None]]:
        a, b = topology.host[source], topology.host[target]
        if a.machine is not None and a.machine == b.machine:
            yield ("inside", source, target), machines[a.machine].machine_rate
            return
        near, far = (machines[host.machine].switch if host.machine else host.switch for host in (a, b))
        up, down = above(near), above(far)
        yield ("egress", source), a.egress
        yield ("nic up", a.machine or a.name), machines[a.machine].rate if a.machine else a.rate
        for name in up:
            if name not in down:
                yield ("up", name), switches[name].up
        for name in down:
            if name not in up:
                yield ("down", name), switches[name].down_bps
        yield ("nic down", b.machine or b.name), machines[b.machine].rate if b.machine else b.rate
        yield ("ingress", target), b.ingress

    return lambda source, target: _limited(links(source, target), payload_share)


def _network_path(network: Network) -> Path:
    parent = {group.name: group.parent for group in network.groups}
    around: dict[str, set[str]] = {name: set() for name in network.names}
    for group in network.groups:
        for member in group.members:
            name: str | None = group.name
            while name is not None:
                around[member].add(name)
                name = parent[name]

    def links(source: int, target: int) -> Iterator[tuple[Hashable, float | None]]:
        a, b = network.hosts[source], network.hosts[target]
        yield ("pair", source, target), network.rate_bps[source][target]
        if network.sharing == "pipe" or (a.machine is not None and a.machine == b.machine):
            return
        yield ("egress", source), a.egress_bps
        yield ("ingress", target), b.ingress_bps
        if network.sharing == "groups":
            for group in network.groups:
                if group.name in around[a.name] - around[b.name]:
                    yield ("up", group.name), group.up_bps
                if group.name in around[b.name] - around[a.name]:
                    yield ("down", group.name), group.down_bps

    return lambda source, target: _limited(links(source, target))
