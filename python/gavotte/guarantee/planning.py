"""Check the admission of guarantees: whether each link of a network can carry the sum of the guarantees over it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from gavotte.formats.guarantee import DIRECTIONS, Guarantee
from gavotte.formats.network import Network
from gavotte.formats.parts.names import unknown_host
from gavotte.terms.goodput import network_goodput

ROUNDING = 1e-9
"""Share by which the computed sum of rates may exceed their sum."""


Ends = tuple[Collection[str], Collection[str]]
"""Hosts that send over a link and hosts that receive; none = any."""


@dataclass(frozen=True)
class LinkSum:
    """Sum of the guarantees over one link, in TCP goodput as in the Network.

    Attributes:
        link: in words: `egress of vm0`, `up link of rack1`.
        sum_bps: guarantees that may cross it at the same time.
        rate_bps: what it carries.
        capacity_bps: part of it that may be guaranteed: `rate_bps` x (1 - headroom).
    """

    link: str
    sum_bps: float
    rate_bps: float
    capacity_bps: float

    @property
    def over(self) -> bool:
        """Whether the link cannot keep its guarantees."""
        return self.sum_bps > self.capacity_bps * (1 + ROUNDING)

    @property
    def use(self) -> float:
        """Sum of the link's guarantees as a share of the rate that may be guaranteed, from 0."""
        return self.sum_bps / self.capacity_bps


@dataclass(frozen=True)
class Admission:
    """Whether links can keep what is guaranteed over them.

    Attributes:
        links: all links with guarantees, the fullest first.
        unlimited: hosts of which the Network knows no limit.
        unknown_pairs: number of pairs of the other hosts without a rate.
        unkept: hosts whose `ingress` agents cannot keep, since no sender has a guarantee.
        lone: the only host of the Guarantee, which `apply` refuses; empty = it has several.
    """

    links: list[LinkSum]
    unlimited: list[str]
    unknown_pairs: int = 0
    unkept: tuple[str, ...] = ()
    lone: str = ""

    @property
    def over(self) -> list[LinkSum]:
        """Links that cannot keep the guarantees over them."""
        return [link for link in self.links if link.over]

    @property
    def warnings(self) -> list[str]:
        """Limits that the Network does not know, and guarantees that agents cannot keep, one line each."""
        warnings = [
            f"what {host} may receive cannot be kept: no other host of the file has an `egress` that agents limit"
            for host in self.unkept
        ]
        if self.lone:
            warnings.append(f"what {self.lone} may send cannot be kept: the file has no other host to make a pair with")
        warnings += [
            f"the Network has no limit for {host}; whether its guarantee can be kept is unknown"
            for host in self.unlimited
        ]
        if unknown := self.unknown_pairs:
            count = f"{unknown} pairs of its hosts have" if unknown > 1 else "1 pair of its hosts has"
            warnings.append(f"{count} no rate; whether such a path can keep its guarantee is unknown")
        return warnings


def plan(guarantee: Guarantee, network: Network) -> Admission:
    """Add up what is guaranteed over each link of a network.

    A link may have to carry all guarantees of the hosts behind it, wherever they send. A path has to carry at most the
    lower of what its source may send and what its target may receive (hose model). Between hosts of one machine only
    their path is loaded.

    Args:
        guarantee: wire rates; they are compared as the goodput that they carry. Guarantees of containers load the links
            of their host.
        network: caps, groups and pair rates. Unknown ones limit nothing.

    Raises:
        GavotteError: for a host that the network does not have.
    """
    names = set(network.names)
    unkept = tuple(guarantee.spelled_as(names).unlimited_receivers)
    lone = guarantee.hosts[0] if len(guarantee.hosts) == 1 else ""
    guarantee = guarantee.folded.spelled_as(names)
    for host in guarantee.hosts:
        if host not in names:
            raise unknown_host(host, network.names, "the network")
    links: list[LinkSum] = []
    limited: set[str] = set()
    for link, rate_bps, sum_bps, (senders, receivers) in _links(guarantee, network):
        if rate_bps is not None and sum_bps > 0:
            goodput_bps = sum_bps * network_goodput(network, senders or names, receivers or names)
            links.append(LinkSum(link, goodput_bps, rate_bps, rate_bps * (1 - guarantee.headroom)))
            limited.update(senders, receivers)
    links.sort(key=lambda link: (-link.use, link.link))
    at = {name: place for place, name in enumerate(network.names)}
    known = network.of_hosts([at[host] for host in guarantee.hosts if host in limited])
    return Admission(
        links, [host for host in guarantee.hosts if host not in limited], known.unknown_pairs, unkept, lone
    )


def _links(guarantee: Guarantee, network: Network) -> Iterator[tuple[str, float | None, float, Ends]]:
    """Yield each link in words, its rate in goodput, what is guaranteed over it in wire bit/s, and its ends."""
    at = {host.name: host for host in network.hosts}
    alone = {(way, host): _sum_bps(guarantee, way, {host}) for way in DIRECTIONS for host in guarantee.hosts}
    for (way, host), sum_bps in alone.items():
        yield f"{way} of {host}", getattr(at[host], f"{way}_bps"), sum_bps, _ends(way, {host})
    inside_of = members(network)
    for group in network.groups:
        inside = inside_of[group.name]
        for word, rate_bps, direction in (("up", group.up_bps, "egress"), ("down", group.down_bps, "ingress")):
            yield (
                f"{word} link of {group.name}",
                rate_bps,
                _sum_bps(guarantee, direction, inside),
                _ends(direction, inside),
            )
    index = {name: place for place, name in enumerate(network.names)}
    for source in guarantee.hosts:
        for target in guarantee.hosts:
            if source != target:
                rate_bps = network.pair_bps(index[source], index[target])
                lower_bps = min(alone["egress", source], alone["ingress", target])
                yield f"path from {source} to {target}", rate_bps, lower_bps, ({source}, {target})


def _ends(direction: str, hosts: Collection[str]) -> Ends:
    return (hosts, ()) if direction == "egress" else ((), hosts)


def _sum_bps(guarantee: Guarantee, direction: str, inside: Collection[str]) -> float:
    """Return what hosts may have together: their own guarantees, and what their tenants' totals add to those."""
    sum_bps = guarantee.sum_bps(direction, list(inside))
    for tenant in guarantee.tenant:
        total = getattr(tenant, direction)
        if total is not None and not set(inside).isdisjoint(tenant.hosts):
            sum_bps += total - guarantee.sum_bps(direction, tenant.hosts)
    return sum_bps


def members(network: Network) -> dict[str, set[str]]:
    """Return each group's hosts, including those of the groups below it."""
    inside: dict[str, set[str]] = {group.name: set() for group in network.groups}
    parents = {group.name: group.parent for group in network.groups}
    for group in network.groups:
        above: str | None = group.name
        while above is not None:
            inside[above].update(group.members)
            above = parents[above]
    return inside
