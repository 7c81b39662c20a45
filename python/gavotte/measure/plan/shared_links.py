"""The shared links that each pair's traffic crosses, according to an earlier Network."""

from __future__ import annotations

from collections.abc import Sequence

from gavotte.formats.network import Network
from gavotte.terms import Pair


def shared_links(network: Network, names: Sequence[str]) -> dict[Pair, frozenset[str]]:
    """Return the limited group links between hosts.

    A pair that leaves a group crosses its uplink; a pair that enters it crosses its downlink. Links that are as fast as
    all members together cannot be filled by probes of disjoint pairs, and are left out.

    Args:
        network: earlier belief; unknown hosts cross nothing.
        names: hosts in the order of the pairs' indices.

    Returns:
        (source, target) to names of links, for pairs that cross any.
    """
    egress = {host.name: host.egress_bps or float("inf") for host in network.hosts}
    ingress = {host.name: host.ingress_bps or float("inf") for host in network.hosts}
    links: dict[Pair, frozenset[str]] = {}
    members = {group.name: set(group.members) for group in network.groups}
    # A group also holds the members of the groups below it; from the leaves up.
    for _ in network.groups:
        for group in network.groups:
            if group.parent is not None:
                members[group.parent] |= members[group.name]
    tight_up = {g.name for g in network.groups if g.up_bps and g.up_bps < sum(egress[m] for m in members[g.name])}
    tight_down = {
        g.name for g in network.groups if g.down_bps and g.down_bps < sum(ingress[m] for m in members[g.name])
    }
    for i, source in enumerate(names):
        for j, target in enumerate(names):
            if i == j:
                continue
            crossed = {f"up {g}" for g in tight_up if source in members[g] and target not in members[g]}
            crossed |= {f"down {g}" for g in tight_down if target in members[g] and source not in members[g]}
            if crossed:
                links[i, j] = frozenset(crossed)
    return links


def narrow_links(network: Network) -> frozenset[str]:
    """Return names of group links that a single pair fills. On them, replies wait behind the other direction."""
    names = set[str]()
    inside = groups_of(network, network.names)
    egress = [host.egress_bps or float("inf") for host in network.hosts]
    for group in network.groups:
        within = [bps for bps, groups in zip(egress, inside, strict=True) if group.name in groups]
        without = [bps for bps, groups in zip(egress, inside, strict=True) if group.name not in groups]
        if group.up_bps and group.up_bps < max(within, default=0.0):
            names.add(f"up {group.name}")
        if group.down_bps and group.down_bps < max(without, default=0.0):
            names.add(f"down {group.name}")
    return frozenset(names)


def groups_of(network: Network, names: Sequence[str]) -> tuple[frozenset[str], ...]:
    """Return names of the groups around each host, including those above its own; none for unknown hosts."""
    parents = {group.name: group.parent for group in network.groups}
    inside: dict[str, set[str]] = {}
    for group in network.groups:
        above: str | None = group.name
        while above is not None:
            for member in group.members:
                inside.setdefault(member, set()).add(above)
            above = parents[above]
    return tuple(frozenset(inside.get(name, ())) for name in names)


def crossed(groups: Sequence[frozenset[str]], pair: Pair) -> frozenset[str]:
    """Return names of the group links that a pair crosses, limited or not.

    Args:
        groups: the result of `groups_of`.
        pair: source and target.
    """
    out, into = groups[pair[0]], groups[pair[1]]
    return frozenset([*(f"up {name}" for name in out - into), *(f"down {name}" for name in into - out)])


def untold(network: Network, names: Sequence[str]) -> list[int]:
    """Return how many pairs could fill each group link without experimental results, if other links are limited."""
    if not any(group.up_bps or group.down_bps for group in network.groups):
        return []
    unknown = {
        link for verdict in network.verdicts if verdict.verdict == "unknown" for link in verdict.link.split(", ")
    }
    groups = groups_of(network, names)
    counts = []
    for group in network.groups:
        inside = sum(group.name in each for each in groups)
        for label, rate_bps in ((f"out of {group.name}", group.up_bps), (f"into {group.name}", group.down_bps)):
            if not rate_bps and label in unknown:
                counts.append(min(inside, len(names) - inside))
    return [pairs for pairs in counts if pairs > 1]
