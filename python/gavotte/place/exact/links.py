"""Limited links of a placement problem, and the hosts of sender and receiver that load each link."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gavotte.place.columns import Instance


@dataclass(frozen=True)
class Trigger:
    """A condition for a transfer to load a link: one end is on `host` and the other end on none of `spared`.

    Attributes:
        host: host of the one end.
        spared: hosts of the other end for which the transfer does not use the link.
        sends: whether `host` is the sender's host; otherwise it is the receiver's.
    """

    host: int
    spared: frozenset[int]
    sends: bool


@dataclass(frozen=True)
class Limited:
    """A link with a finite rate, and the transfers that load it.

    Attributes:
        key: unique: kind, and numbers of the host, pair or group.
        rate_bps: rate of the link.
        triggers: conditions; a transfer that meets any of them loads the link.
    """

    key: tuple[str, int, int]
    rate_bps: float
    triggers: list[Trigger]


def machines(instance: Instance) -> list[frozenset[int]]:
    """Return, for each host, the hosts on its machine, including itself."""
    members: dict[int, set[int]] = {}
    of_host = instance.network.machine
    for host, machine in enumerate(of_host):
        members.setdefault(machine, set()).add(host)
    return [frozenset(members[machine]) for machine in of_host]


def limited_links(instance: Instance) -> Iterator[Limited]:
    """Yield every link that can decide the completion time."""
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
    """Return the bytes of running applications on each link, in the phase at this index of `instance.phases`."""
    load_bytes: Counter[tuple[str, int, int]] = Counter()
    for m, n, size, number in instance.loads:
        if number == instance.phases[phase]:
            load_bytes.update(dict.fromkeys(instance.network.links(m, n), size))
    return load_bytes
