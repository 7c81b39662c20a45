"""Guarantees of tasks that are not placed yet: what each link can guarantee, and the guarantees of hosts afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gavotte.errors import GavotteError
from gavotte.formats.guarantee import DIRECTIONS, Guarantee
from gavotte.formats.network import Network
from gavotte.formats.parts.names import meant
from gavotte.guarantee.planning import members
from gavotte.terms.goodput import network_goodput


@dataclass(frozen=True)
class LinkRoom:
    """Rate that a link can guarantee to tasks on the hosts that it serves, in wire bit/s.

    Attributes:
        link: in words: `egress of vm0`, `up link of rack1`.
        hosts: hosts that it serves.
        needs_bps: task to its guarantee in the link's direction.
        most_bps: part of its rate that may be guaranteed.
        sends: whether hosts send over it, not receive.
    """

    link: str
    hosts: list[str]
    needs_bps: Mapping[str, float]
    most_bps: float
    sends: bool


def rooms(guarantee: Guarantee, network: Network, task_keys: list[str]) -> list[LinkRoom]:
    """Return what each link of a network can guarantee, for guarantees whose `host` names a task.

    A placement that keeps within all of them is one that `plan` admits. A hose leads to any other host, so a host can
    guarantee no more than its slowest path carries.

    Args:
        guarantee: guarantees of tasks. A task name that several applications share stands for the task of each.
        network: caps, groups and pair rates. Unknown ones limit nothing.
        task_keys: `task`, or `app/task`.

    Raises:
        GavotteError: for a guarantee whose name is not a task, or of a tenant.
    """
    if guarantee.tenant:
        raise GavotteError(
            "place accepts guarantees of tasks, not of tenants",
            hint="leave out [[tenant]], and apply it later",
        )
    tasks = {key: key.rpartition("/")[2] for key in task_keys}
    own = {each.host: each for each in guarantee.guarantee}
    for name in own.keys() - set(tasks.values()):
        raise GavotteError(f"a guarantee names `{name}`, which is not a task", hint=meant(name, list(tasks.values())))
    needs: dict[str, dict[str, float]] = {
        way: {key: getattr(own[task], way) or 0.0 for key, task in tasks.items() if task in own} for way in DIRECTIONS
    }
    links = []
    for link, way, hosts, rate_bps in _links(network):
        if any(needs[way].values()):
            sends = way == "egress"
            ends = (hosts, network.names) if sends else (network.names, hosts)
            most_bps = rate_bps * (1 - guarantee.headroom) / network_goodput(network, *ends)
            links.append(LinkRoom(link, hosts, needs[way], most_bps, sends))
    return links


def on_hosts(guarantee: Guarantee, assignment: Mapping[str, str]) -> Guarantee:
    """Return the guarantee of each host as the sum over its tasks, for `plan` and `apply`.

    Args:
        guarantee: guarantees of tasks.
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
    header = {"format": guarantee.format, "headroom": guarantee.headroom, "mode": guarantee.mode}
    return Guarantee.model_validate(header | {"guarantee": entries})


def _links(network: Network) -> Iterator[tuple[str, str, list[str], float]]:
    """Yield each limited link in words, its direction, the hosts that it serves, and its rate in goodput."""
    names, rows = network.names, network.rate_bps
    for m, host in enumerate(network.hosts):
        row = rows[m] if rows else []
        out = [(rate, f"path from {host.name} to {names[n]}") for n, rate in enumerate(row) if n != m]
        into = [(each[m], f"path from {names[n]} to {host.name}") for n, each in enumerate(rows) if n != m]
        for way, cap_bps, paths in (("egress", host.egress_bps, out), ("ingress", host.ingress_bps, into)):
            limits = [(rate, link) for rate, link in [(cap_bps, f"{way} of {host.name}"), *paths] if rate is not None]
            if limits:
                least_bps, link = min(limits, key=lambda each: each[0])
                yield link, way, [host.name], least_bps
    inside = members(network)
    for group in network.groups:
        for word, rate_bps, way in (("up", group.up_bps, "egress"), ("down", group.down_bps, "ingress")):
            if rate_bps is not None:
                yield f"{word} link of {group.name}", way, sorted(inside[group.name]), rate_bps
