"""The limited links of an instance, and which places of sender and receiver load each."""

from __future__ import annotations

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
    of_host = instance.network.machine
    for host, machine in enumerate(of_host):
        members.setdefault(machine, set()).add(host)
    return [frozenset(members[machine]) for machine in of_host]


def limited_links(instance: Instance) -> Iterator[Limited]:
    """Yields every link that can decide the completion time."""
    network, mates = instance.network, machines(instance)
    everywhere = frozenset(range(len(instance.hosts)))
    for key, rate_bps in network.deciding():
        kind, at, target = key
        if kind == "pair":
            triggers = [Trigger(at, everywhere - {target}, True)]
        elif kind in ("out", "in"):
            triggers = [Trigger(at, mates[at], kind == "out")]
        else:
            inside = frozenset(network.inside(at))
            triggers = [Trigger(host, inside | mates[host], kind == "up") for host in sorted(inside)]
        yield Limited(key, rate_bps, triggers)


def load_on(instance: Instance, phase: int) -> Counter[tuple[str, int, int]]:
    """Bytes of running applications on each link in the phase at this position."""
    load_bytes: Counter[tuple[str, int, int]] = Counter()
    for m, n, size, number in instance.loads:
        if number == instance.phases[phase]:
            load_bytes.update(dict.fromkeys(instance.network.links(m, n), size))
    return load_bytes
