"""The limited links of an instance, and which places of sender and receiver load each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gavotte.place.columns import Instance


@dataclass(frozen=True)
class Trigger:
    """A transfer loads a link when one end is on `host` and the other is on none of `spared`.

    Attributes:
        host: where the end is.
        spared: hosts of the other end from or to which the link is not used.
        sends: whether `host` is the sender's.
    """

    host: int
    spared: frozenset[int]
    sends: bool


@dataclass(frozen=True)
class Limited:
    """A link with a finite rate.

    Attributes:
        key: kind and number: unique.
        rate_bps: its rate.
        triggers: any of them loads it.
    """

    key: tuple[str, int, int]
    rate_bps: float
    triggers: list[Trigger]


def machines(instance: Instance) -> list[frozenset[int]]:
    """For each host, the hosts of its machine, itself among them."""
    members: dict[int, set[int]] = {}
    for host, machine in enumerate(instance.machine):
        members.setdefault(int(machine), set()).add(host)
    return [frozenset(members[int(machine)]) for machine in instance.machine]


def limited_links(instance: Instance) -> Iterator[Limited]:
    """Yields every link that can decide the completion time."""
    hosts = range(len(instance.hosts))
    everywhere, mates = frozenset(hosts), machines(instance)
    caps = instance.sharing != "pipe"
    for m in hosts:
        for n in hosts:
            rate_bps = float(instance.rate_bps[m, n])
            cap_bps = min(instance.egress_bps[m], instance.ingress_bps[n]) if caps else math.inf
            # All that is on the pair is on both caps too, so a pair as fast as either never decides.
            if m != n and math.isfinite(rate_bps) and (n in mates[m] or rate_bps < cap_bps):
                yield Limited(("pair", m, n), rate_bps, [Trigger(m, everywhere - {n}, True)])
    if not caps:
        return
    for m in hosts:
        if math.isfinite(instance.egress_bps[m]):
            yield Limited(("out", m, 0), float(instance.egress_bps[m]), [Trigger(m, mates[m], True)])
        if math.isfinite(instance.ingress_bps[m]):
            yield Limited(("in", m, 0), float(instance.ingress_bps[m]), [Trigger(m, mates[m], False)])
    if instance.sharing != "groups":
        return
    for g, (inside, up_bps, down_bps) in enumerate(instance.groups):
        for kind, rate_bps, sends in (("up", up_bps, True), ("down", down_bps, False)):
            if math.isfinite(rate_bps):
                yield Limited(
                    (kind, g, 0), rate_bps, [Trigger(host, inside | mates[host], sends) for host in sorted(inside)]
                )


def load_on(instance: Instance, phase: int) -> Counter[tuple[str, int, int]]:
    """Bytes of running applications on each link in the phase at this position."""
    mates = machines(instance)
    found: Counter[tuple[str, int, int]] = Counter()
    for m, n, size, number in instance.loads:
        if number != instance.phases[phase]:
            continue
        found["pair", m, n] += size
        if n in mates[m]:
            continue
        found["out", m, 0] += size
        found["in", n, 0] += size
        for g, (inside, _, _) in enumerate(instance.groups):
            if m in inside and n not in inside:
                found["up", g, 0] += size
            if n in inside and m not in inside:
                found["down", g, 0] += size
    return found
