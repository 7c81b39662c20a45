"""Guarantees of tasks before they have hosts: what links have for them, and what hosts are to be given afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gavotte.errors import GavotteError
from gavotte.formats.guarantee import DIRECTIONS, Guarantee
from gavotte.formats.names import meant
from gavotte.formats.network import Network
from gavotte.guarantee.planning import members
from gavotte.terms.goodput import GOODPUT_PER_WIRE


@dataclass(frozen=True)
class LinkRoom:
    """What a link has for guarantees of tasks on the hosts that it serves, in wire bit/s.

    Attributes:
        link: in words: `egress of vm0`, `up link of rack1`.
        hosts: that it serves.
        needs_bps: task to its guarantee in the link's direction.
        most_bps: what of its rate may be guaranteed.
        sends: whether hosts send over it, not receive.
    """

    link: str
    hosts: list[str]
    needs_bps: Mapping[str, float]
    most_bps: float
    sends: bool


def rooms(guarantee: Guarantee, network: Network, task_keys: list[str]) -> list[LinkRoom]:
    """What each link of a network has for guarantees whose `host` names a task.

    A placement that keeps them all is one that `plan` admits. A hose leads to any other host, so a host has no more
    than its slowest path.

    Args:
        guarantee: of tasks; one of several applications is meant in each of them.
        network: caps, groups and pair rates; what it does not know limits nothing.
        task_keys: `task`, or `app/task`.

    Raises:
        GavotteError: for a guarantee of no task, or of a tenant.
    """
    if guarantee.tenant:
        raise GavotteError(
            "placement takes guarantees of single tasks, not of tenants",
            hint="leave out [[tenant]], and apply it later",
        )
    tasks = {key: key.rpartition("/")[2] for key in task_keys}
    own = {each.host: each for each in guarantee.guarantee}
    for name in own.keys() - set(tasks.values()):
        raise GavotteError(f"a guarantee names `{name}`, which is not a task", hint=meant(name, list(tasks.values())))
    needs: dict[str, dict[str, float]] = {
        way: {key: getattr(own[task], way) or 0.0 for key, task in tasks.items() if task in own} for way in DIRECTIONS
    }
    free = (1 - guarantee.headroom) / GOODPUT_PER_WIRE
    return [
        LinkRoom(link, hosts, needs[way], rate_bps * free, way == "egress")
        for link, way, hosts, rate_bps in _links(network)
        if any(needs[way].values())
    ]


def on_hosts(guarantee: Guarantee, assignment: Mapping[str, str]) -> Guarantee:
    """The guarantee of hosts that tasks on them add up to, for `plan` and `apply`.

    Args:
        guarantee: of tasks.
        assignment: task key to host.
    """
    own = {each.host: each for each in guarantee.guarantee}
    sums: dict[str, dict[str, float]] = {}
    for key, host in assignment.items():
        each = own.get(key.rpartition("/")[2])
        for way in DIRECTIONS if each is not None else ():
            rate = getattr(each, way)
            if rate is not None:
                sums.setdefault(host, dict.fromkeys(DIRECTIONS, 0.0))[way] += rate
    entries = [
        {"host": host, **{way: f"{rate:.0f}bit" for way, rate in rates.items() if rate}}
        for host, rates in sorted(sums.items())
    ]
    kept = {"format": guarantee.format, "headroom": guarantee.headroom, "mode": guarantee.mode}
    return Guarantee.model_validate(kept | {"guarantee": entries})


def _links(network: Network) -> Iterator[tuple[str, str, list[str], float]]:
    """Each limited link in words, its direction, the hosts that it serves, and its rate in goodput."""
    names, rows = network.names, network.rate_bps
    for m, host in enumerate(network.hosts):
        row = rows[m] if rows else []
        out = [(rate, f"path from {host.name} to {names[n]}") for n, rate in enumerate(row) if n != m]
        into = [(each[m], f"path from {names[n]} to {host.name}") for n, each in enumerate(rows) if n != m]
        for way, cap_bps, paths in (("egress", host.egress_bps, out), ("ingress", host.ingress_bps, into)):
            known = [(rate, link) for rate, link in [(cap_bps, f"{way} of {host.name}"), *paths] if rate is not None]
            if known:
                least_bps, link = min(known, key=lambda each: each[0])
                yield link, way, [host.name], least_bps
    inside = members(network)
    for group in network.groups:
        for word, rate_bps, way in (("up", group.up_bps, "egress"), ("down", group.down_bps, "ingress")):
            if rate_bps is not None:
                yield f"{word} link of {group.name}", way, sorted(inside[group.name]), rate_bps
