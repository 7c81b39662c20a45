"""Compute how unequally TCP flows share a full link, because their round-trip times differ.

Competing TCP flows get shares in inverse proportion to their round-trip times: each raises its rate once per round trip
(Chiu and Jain, 1989; Lakshman and Madhow, 1997). If the network's own latency is small, a round trip is the sum of the
full queues that the data and its acknowledgements pass.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.formats.network import Network
from gavotte.formats.topology import Topology
from gavotte.simulate.flows import Floats, Flows
from gavotte.simulate.platform import build_platform

QUEUE_S = 0.05
"""Default delay of a full queue: that of the lab's queues."""
BASE_S = 0.0005
"""Default round trip through empty queues: within a data centre."""

Indices = npt.NDArray[np.int64]

_FULL = 0.999
_ROUNDS = 12
"""Most iterations. Shares and full queues decide each other. Halving each step converges long before."""


def tcp_weights(
    network: Topology | Network,
    flows: Flows,
    *,
    queue_s: float = QUEUE_S,
    base_s: float = BASE_S,
    payload_share: float = 1.0,
    seed: int = 0,
) -> Floats:
    """Return weights with which `simulate` shares links as long TCP connections do.

    Each weight is inverse to the flow's round-trip time. All flows are assumed to be active at once; weights do not
    change as flows end.

    Args:
        network: hosts and the links between them.
        flows: sources and targets; the flows' own weights multiply the result.
        queue_s: delay that a full queue adds to a round trip, in seconds.
        base_s: shortest round trip without queues, in seconds; larger where the network's latencies are larger.
        payload_share: as in `simulate`.
        seed: as in `simulate`.

    Returns:
        (F,) from 0.001 to 1000, 1 in the geometric mean unless `flows` has weights.

    Raises:
        GavotteError: when the flows are invalid on this network.
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
    forward, backward, limit_bps = _incidence(platform, flows)
    idle_s = [platform.latency_s(m, n) + platform.latency_s(n, m) for m, n in flows.pairs]
    for _ in range(_ROUNDS):
        share_bps = platform.rates(replace(flows, weight=weight))
        load_bps = np.bincount(forward[0], share_bps[forward[1]], len(limit_bps))
        delay_s = np.where(load_bps >= _FULL * limit_bps, queue_s, 0.0)
        trip_s = np.maximum(base_s, idle_s)
        for link, flow in (forward, backward):
            trip_s += np.bincount(flow, delay_s[link], len(flows))
        wanted = own * np.exp(np.log(trip_s).mean()) / trip_s
        weight = np.clip((weight + wanted) / 2, 1e-3, 1e3)
    return weight


def _incidence(
    platform: _core.Platform, flows: Flows
) -> tuple[tuple[Indices, Indices], tuple[Indices, Indices], Floats]:
    """Return which links each flow crosses, and the rate of each link in bit/s.

    Returns:
        Numbers of links and flows, one pair for each crossing by data; the same for acknowledgements; rates of links.
    """
    number: dict[int, int] = {}
    limit_bps: list[float] = []
    pairs: list[list[tuple[int, int]]] = [[], []]
    for flow, ends in enumerate(zip(flows.source.tolist(), flows.target.tolist(), strict=True)):
        for crossings, (source, target) in zip(pairs, (ends, ends[::-1]), strict=True):
            for link, bps in platform.links(source, target):
                if link not in number:
                    number[link] = len(number)
                    limit_bps.append(bps)
                crossings.append((number[link], flow))
    forward, backward = (np.array(crossings, np.int64).reshape(-1, 2) for crossings in pairs)
    return (forward[:, 0], forward[:, 1]), (backward[:, 0], backward[:, 1]), np.array(limit_bps)
