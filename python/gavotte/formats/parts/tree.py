"""What the hosts and groups of a Network say about all pairs, as matrices with one row and one column per host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gavotte.formats.parts.network_parts import Group, Host, PairException, Sharing

Floats = npt.NDArray[np.float64]
Masks = npt.NDArray[np.bool_]


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


def same_machine(tree: Tree) -> Masks:
    """Return (N, N): whether two hosts share a machine; a host does with itself."""
    machines = [host.machine or f"\0{number}" for number, host in enumerate(tree.hosts)]
    numbers = np.unique(machines, return_inverse=True)[1]
    return np.asarray(numbers[:, None] == numbers[None, :])


def latencies_s(tree: Tree) -> Floats:
    """Return (N, N) one-way latencies by hosts, groups and exceptions; NaN = unknown, and on the diagonal."""
    host_s = np.array([np.nan if host.latency_s is None else host.latency_s for host in tree.hosts])
    sums_s = host_s[:, None] + host_s[None, :]
    for group, inside in zip(tree.groups, inside_groups(tree), strict=True):
        left = inside[:, None] & ~inside[None, :]
        sums_s[left] += np.nan if group.latency_s is None else group.latency_s
    at = {name: number for number, name in enumerate(tree.names)}
    for each in tree.exceptions:
        if each.latency_s is not None:
            sums_s[at[each.source], at[each.target]] = each.latency_s
    np.fill_diagonal(sums_s, np.nan)
    return np.asarray(sums_s)


def limits_bps(tree: Tree) -> Floats:
    """Return (N, N) rates of pairs alone: the least of the caps, the groups' links and exceptions; inf = no limit.

    Hosts of one machine reach each other without caps. With sharing `pipe` only exceptions limit, with `hose` groups
    do not. The diagonal is NaN.
    """
    size = len(tree.hosts)
    rates = np.full((size, size), np.inf)
    if tree.sharing != "pipe":
        out, into = (
            np.array([cap_bps or np.inf for cap_bps in caps])
            for caps in zip(*((host.egress_bps, host.ingress_bps) for host in tree.hosts), strict=True)
        )
        rates = np.minimum(out[:, None], into[None, :])
    if tree.sharing == "groups":
        for group, inside in zip(tree.groups, inside_groups(tree), strict=True):
            for cap_bps, crossing in (
                (group.up_bps, inside[:, None] & ~inside[None, :]),
                (group.down_bps, ~inside[:, None] & inside[None, :]),
            ):
                if cap_bps is not None:
                    rates[crossing] = np.minimum(rates[crossing], cap_bps)
    rates[same_machine(tree)] = np.inf
    at = {name: number for number, name in enumerate(tree.names)}
    for each in tree.exceptions:
        if each.rate_bps is not None:
            pair = at[each.source], at[each.target]
            rates[pair] = min(rates[pair], each.rate_bps)
    np.fill_diagonal(rates, np.nan)
    return np.asarray(rates)


def known_limits_bps(tree: Tree) -> Floats:
    """Return (N, N) `limits_bps`, NaN where nothing is known to limit."""
    rates = limits_bps(tree)
    return np.asarray(np.where(np.isfinite(rates), rates, np.nan))
