"""What the hosts and groups of a Network say about pairs: any of them, or all as matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gavotte.formats.parts.network_parts import Group, Host, PairException, Sharing

Floats = npt.NDArray[np.float64]
Masks = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Tree:
    """The parts of a Network that have no matrix."""

    hosts: Sequence[Host]
    groups: Sequence[Group]
    exceptions: Sequence[PairException] = ()
    sharing: Sharing = "groups"

    @property
    def names(self) -> list[str]:
        """Names of the hosts in order."""
        return [host.name for host in self.hosts]


def inside_groups(tree: Tree) -> Masks:
    """Return (G, N): whether each host is in each group, or in a group inside it."""
    place = {group.name: number for number, group in enumerate(tree.groups)}
    host_at = {name: number for number, name in enumerate(tree.names)}
    inside = np.zeros((len(place), len(host_at)), dtype=np.bool_)
    for group in tree.groups:
        hosts = [host_at[name] for name in group.members]
        around: int | None = place[group.name]
        while around is not None:
            inside[around, hosts] = True
            parent = tree.groups[around].parent
            around = None if parent is None else place[parent]
    return inside


def machine_numbers(tree: Tree) -> Indices:
    """Return (N,) the number of each host's machine."""
    machines = [host.machine or f"\0{number}" for number, host in enumerate(tree.hosts)]
    return np.asarray(np.unique(machines, return_inverse=True)[1])


def every_pair(size: int) -> tuple[Indices, Indices]:
    """Return the sources and targets of all pairs, for the (N, N) result of a function of pairs."""
    hosts = np.arange(size)
    return hosts[:, None], hosts[None, :]


def latencies_s(tree: Tree, source: Indices, target: Indices) -> Floats:
    """Return the one-way latencies of pairs by hosts, groups and exceptions; NaN = unknown, and within a host.

    Args:
        tree: the Network's parts.
        source: index of each pair's sender.
        target: index of its receiver, in the same shape or one that is broadcast.
    """
    host_s = np.array([np.nan if host.latency_s is None else host.latency_s for host in tree.hosts])
    sums_s = np.asarray(host_s[source] + host_s[target])
    for group, inside in zip(tree.groups, inside_groups(tree), strict=True):
        sums_s[inside[source] & ~inside[target]] += np.nan if group.latency_s is None else group.latency_s
    own_s = {(each.source, each.target): each.latency_s for each in tree.exceptions if each.latency_s is not None}
    which, values_s = _of_exceptions(tree, own_s, source, target)
    sums_s[which] = values_s
    sums_s[np.broadcast_to(source == target, sums_s.shape)] = np.nan
    return sums_s


def limits_bps(tree: Tree, source: Indices, target: Indices) -> Floats:
    """Return the rates of pairs alone: the least of the caps, the groups' links and exceptions; inf = no limit.

    Hosts of one machine reach each other without caps. With sharing `pipe` only exceptions limit, with `hose` groups
    do not. The rate within a host is NaN.

    Args:
        tree: the Network's parts.
        source: index of each pair's sender.
        target: index of its receiver, in the same shape or one that is broadcast.
    """
    rates = np.full(np.broadcast_shapes(source.shape, target.shape), np.inf)
    if tree.sharing != "pipe":
        out, into = (
            np.array([cap_bps or np.inf for cap_bps in caps])
            for caps in zip(*((host.egress_bps, host.ingress_bps) for host in tree.hosts), strict=True)
        )
        rates = np.minimum(out[source], into[target])
    if tree.sharing == "groups":
        for group, inside in zip(tree.groups, inside_groups(tree), strict=True):
            for cap_bps, crossing in (
                (group.up_bps, inside[source] & ~inside[target]),
                (group.down_bps, ~inside[source] & inside[target]),
            ):
                if cap_bps is not None:
                    rates[crossing] = np.minimum(rates[crossing], cap_bps)
    machine = machine_numbers(tree)
    rates[machine[source] == machine[target]] = np.inf
    own_bps = {(each.source, each.target): each.rate_bps for each in tree.exceptions if each.rate_bps is not None}
    which, values_bps = _of_exceptions(tree, own_bps, source, target)
    rates[which] = np.minimum(rates[which], values_bps)
    rates[np.broadcast_to(source == target, rates.shape)] = np.nan
    return np.asarray(rates)


def known_limits_bps(tree: Tree, source: Indices, target: Indices) -> Floats:
    """Return `limits_bps`, NaN where nothing is known to limit."""
    rates = limits_bps(tree, source, target)
    return np.asarray(np.where(np.isfinite(rates), rates, np.nan))


def _of_exceptions(
    tree: Tree, values: Mapping[tuple[str, str], float], source: Indices, target: Indices
) -> tuple[Masks, Floats]:
    """Return which of the pairs have a value of their own, and the values of those."""
    at = {name: number for number, name in enumerate(tree.names)}
    size = len(at)
    own = np.array([at[one] * size + at[other] for one, other in values], dtype=np.int64)
    order = np.argsort(own)
    own, known = own[order], np.array(list(values.values()), dtype=np.float64)[order]
    codes = source * size + target
    if not len(own):
        return np.zeros(codes.shape, dtype=np.bool_), known
    place = np.minimum(np.searchsorted(own, codes), len(own) - 1)
    which = own[place] == codes
    return np.asarray(which), known[place[which]]
