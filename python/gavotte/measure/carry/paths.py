"""Traces the routers between hosts by UDP probes with rising time to live, which need no privileges (Choreo 3.3.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from gavotte.agents import Fleet
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.losses import Losses
from gavotte.agents.schedule import OUT_OF_TOUCH, Answer, Step, carry_out
from gavotte.formats.history import Ints, Texts
from gavotte.measure.plan.round_trips import RoundTrips
from gavotte.measure.plan.rounds import disjoint_rounds

MAX_HOPS = 16
TRIES = 2
TIMEOUT_S = 0.3
SECONDS_PER_ROUND = MAX_HOPS * TRIES * TIMEOUT_S
"""Longest time of a round, if every router is silent; some milliseconds if routers answer."""

_GLANCE = pb.Probe(burst_train=pb.BurstTrain(bursts=1, packets=2, payload_bytes=64))
GLANCE_S = 1.0
"""Longest time of a glance: usually some milliseconds, or 0.2 s if every packet is lost."""


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


def path_lengths(
    fleet: Fleet,
    names: Sequence[str],
    *,
    seed: int = 0,
    round_trips: RoundTrips | None = None,
    blocked: set[tuple[int, int]] | None = None,
    cut: set[frozenset[int]] | None = None,
    losses: Losses | None = None,
) -> Ints:
    """Count the routers between any two hosts by the time to live of two small packets, N/2 pairs at a time.

    Args:
        fleet: enrolled agents.
        names: hosts in matrix order; those not in the fleet stay unknown.
        seed: seed of the order, and of which end sends.
        round_trips: receives the round trip of each pair that answers.
        blocked: receives the (source, target) indices on which TCP passes, but UDP does not.
        cut: receives the pairs of indices that could not connect in at least one direction.
        losses: what this fleet has found about hosts that vanish and directions that are closed; None = nothing.

    Returns:
        (N, N) path lengths (routers + 1), the same in both directions; 0 = unknown.
    """
    index = {name: i for i, name in enumerate(names)}
    hops = np.zeros((len(names), len(names)), dtype=np.int64)
    firewalled: set[tuple[int, int]] = set()
    apart: set[frozenset[int]] = set()
    losses = losses or Losses()
    for back in (False, True):
        for answer in _between_any_two(fleet, names, _GLANCE, round_s=GLANCE_S, seed=seed, back=back, losses=losses):
            i, j = index[answer.source], index[answer.target]
            if answer.failure in OUT_OF_TOUCH:
                apart.add(frozenset((i, j)))
            if answer.reply is None:
                continue
            if answer.failure == pb.FAILURE_NO_UDP:
                firewalled.add((i, j))
            if answer.reply.hops:
                hops[i, j] = hops[j, i] = answer.reply.hops
            if round_trips is not None:
                round_trips.take((i, j), answer.reply.rtt_s)
        # One direction shows the length. If one has a firewall, the other may have one too.
        if not firewalled and not apart:
            break
    if blocked is not None:
        blocked |= firewalled
    if cut is not None:
        cut |= apart
    return hops


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
    for answer in _between_any_two(fleet, names, trace, round_s=SECONDS_PER_ROUND, seed=seed):
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


def _between_any_two(
    fleet: Fleet,
    names: Sequence[str],
    probe: pb.Probe,
    *,
    round_s: float,
    seed: int,
    back: bool = False,
    losses: Losses | None = None,
) -> Iterator[Answer]:
    """Probe each pair of hosts once, in one direction; with `back` in the other."""
    here = {host.name for host in fleet.hosts}
    usable = [name for name in names if name in here]
    schedule = [
        [Step(usable[b if back else a], usable[a if back else b], probe) for a, b in pairs]
        for pairs in disjoint_rounds(len(usable), seed=seed)
    ]
    return carry_out(fleet, schedule, round_s=round_s, losses=losses)
