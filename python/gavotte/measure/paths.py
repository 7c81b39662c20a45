"""Traces the routers between hosts by UDP probes with rising time to live, which need no rights (Choreo 3.3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gavotte.agents import Fleet
from gavotte.agents import agent_pb2 as pb
from gavotte.errors import AgentError
from gavotte.formats.history import Ints, Texts
from gavotte.measure.rounds import disjoint_rounds

MAX_HOPS = 16
TRIES = 2
TIMEOUT_S = 0.3
WAIT_S = 10.0
SECONDS_PER_ROUND = MAX_HOPS * TRIES * TIMEOUT_S
"""Where every router is silent; some milliseconds where they answer."""


@dataclass(frozen=True)
class Paths:
    """What was traced. Each pair is traced in one direction.

    Attributes:
        hops: (N, N) path length (routers + 1) where the target answered, else 0.
        addresses: (N, N, H) address of each router, "" = silent or beyond the last.
        failures: (source, target) names to why nothing is known.
    """

    hops: Ints
    addresses: Texts
    failures: dict[tuple[str, str], str] = field(default_factory=dict)


def trace_paths(fleet: Fleet, names: Sequence[str], *, seed: int = 0) -> Paths:
    """Traces a path between any two hosts: N/2 at a time, some packets of 60 bytes each.

    Args:
        fleet: enrolled agents.
        names: hosts in matrix order; those not in the fleet stay unknown.
        seed: of the order, and of which end traces.

    Returns:
        for `History.hops` where the measurement tells none, and for `History.hop_addresses`.
    """
    here = {host.name for host in fleet.hosts}
    usable = [i for i, name in enumerate(names) if name in here]
    rounds = disjoint_rounds(len(usable), seed=seed)
    parts: dict[str, pb.MeasureRequest] = {
        names[i]: pb.MeasureRequest(run_id=fleet.run_id, wait_s=WAIT_S, rounds=len(rounds)) for i in usable
    }
    for number, pairs in enumerate(rounds):
        for a, b in pairs:
            source, target = names[usable[a]], names[usable[b]]
            trace = pb.Traceroute(max_hops=MAX_HOPS, tries=TRIES, timeout_s=TIMEOUT_S)
            parts[source].probes.append(pb.Probe(round=number, peer=target, traceroute=trace))
            parts[target].receives.append(pb.Expect(round=number, peer=source))
    index = {name: i for i, name in enumerate(names)}
    size = len(names)
    hops = np.zeros((size, size), dtype=np.int64)
    routers: dict[tuple[int, int], list[str]] = {}
    failures: dict[tuple[str, str], str] = {}
    deadline_s = 5.0 + len(rounds) * (WAIT_S + SECONDS_PER_ROUND)
    for name, reply in fleet.measure(parts, deadline_s=deadline_s) if rounds else ():
        if isinstance(reply, AgentError):
            failures.update({(name, probe.peer): reply.message for probe in parts[name].probes})
            continue
        at = index[name], index[reply.peer]
        if reply.error:
            failures[name, reply.peer] = reply.error
            continue
        found = reply.traceroute
        if found.reached:
            hops[at] = len(found.hops)
        else:
            failures[name, reply.peer] = "the target does not answer, or its answers are filtered"
        routers[at] = [hop.address for hop in found.hops[: len(found.hops) - found.reached]]
    longest = max((len(each) for each in routers.values()), default=0)
    addresses = np.full((size, size, longest), "", dtype="<U45")
    for (i, j), each in routers.items():
        addresses[i, j, : len(each)] = each
    failures = {pair: why for pair, why in failures.items() if not hops[index[pair[0]], index[pair[1]]]}
    return Paths(hops, addresses, failures)
