"""Trace the routers between hosts by UDP probes with rising time to live, which need no privileges (Choreo 3.3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gavotte.agents import Fleet
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.routers import between_any_two
from gavotte.agents.schedule import carry_out
from gavotte.formats.history import Ints, Texts

MAX_HOPS = 16
TRIES = 2
TIMEOUT_S = 0.3
SECONDS_PER_ROUND = MAX_HOPS * TRIES * TIMEOUT_S
"""Longest time of a round, if every router is silent; some milliseconds if routers answer."""


@dataclass(frozen=True)
class Paths:
    """Traced paths. Each pair is traced in one direction.

    Attributes:
        hops: (N, N) path length (routers + 1) if the target answered, else 0.
        addresses: (N, N, H) address of each router, "" = silent or beyond the last.
        failures: (source, target) names to the reason why nothing is known.
    """

    hops: Ints
    addresses: Texts
    failures: dict[tuple[str, str], str] = field(default_factory=dict)


def trace_paths(fleet: Fleet, names: Sequence[str], *, seed: int = 0) -> Paths:
    """Trace a path between any two hosts: N/2 at a time, some packets of 60 bytes each.

    Args:
        fleet: enrolled agents.
        names: hosts in matrix order; those not in the fleet stay unknown.
        seed: seed of the order, and of which end traces.

    Returns:
        for `History.hops` if the measurement has none, and for `History.hop_addresses`.
    """
    trace = pb.Probe(traceroute=pb.Traceroute(max_hops=MAX_HOPS, tries=TRIES, timeout_s=TIMEOUT_S))
    index = {name: i for i, name in enumerate(names)}
    size = len(names)
    hops = np.zeros((size, size), dtype=np.int64)
    routers: dict[tuple[int, int], list[str]] = {}
    failures: dict[tuple[str, str], str] = {}
    schedule = between_any_two({host.name for host in fleet.hosts}, names, trace, seed=seed)
    for answer in carry_out(fleet, schedule, round_s=SECONDS_PER_ROUND):
        at = index[answer.source], index[answer.target]
        if answer.reply is None or answer.error:
            failures[answer.source, answer.target] = answer.error
            continue
        route = answer.reply.traceroute
        if route.reached:
            hops[at] = len(route.hops)
        else:
            failures[answer.source, answer.target] = "the target does not answer, or its answers are filtered"
        routers[at] = [hop.address for hop in route.hops[: len(route.hops) - route.reached]]
    longest = max((len(each) for each in routers.values()), default=0)
    addresses = np.full((size, size, longest), "", dtype="<U45")
    for (i, j), each in routers.items():
        addresses[i, j, : len(each)] = each
    return Paths(hops, addresses, failures)
