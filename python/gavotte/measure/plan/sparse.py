"""Choose few pairs of many hosts, whose rates show those of all pairs (`--scale structure`).

A pair is as fast as the slowest of its sender, its receiver and the racks' links between them. All pairs of 1,024 hosts
take 2,046 rounds; the limits of the hosts and links take some twenty.

1. Within each rack, every host sends to `WITHIN` others and receives from as many. One of these partners is usually at
   least as fast as the host, so the host's fastest pair shows its own limit.
2. Every host also sends to `ACROSS` hosts of other racks, rack by rack, so that many pairs cross a rack's link at once.
   Only their rates together count: none of them is measured alone.
3. `HELD_OUT` further pairs of each host, chosen at random, check what the others predict.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import cycle

from gavotte.terms import Pair
from gavotte.terms.hierarchy import Hierarchy

WITHIN = 16
ACROSS = 4
"""Partners of a host within its rack, and in other racks. In simulated racks, 8 within left 2.5 % of the pairs off by
more than 5 %, and 4 left 8 %."""

HELD_OUT = 2
"""Held-out pairs out of each host."""

POOL_HOSTS = 4
"""Hosts of smaller racks have too few partners there: they are paired with those of other small racks."""


@dataclass(frozen=True)
class SparsePairs:
    """Pairs to measure.

    Attributes:
        shown: pairs whose rates show the limits of hosts.
        crossing: pairs that cross the links of racks together, to show whether links limit them.
        held_out: pairs that check what the others predict.
    """

    shown: frozenset[Pair]
    crossing: frozenset[Pair]
    held_out: frozenset[Pair]


def racks_of(tree: Hierarchy) -> list[list[int]]:
    """Return the hosts of each innermost cluster that is more than a machine."""
    left = set(range(tree.size))
    racks = []
    for cluster in reversed(tree.clusters):
        if cluster.kind != "machine" and (members := sorted(left.intersection(cluster.members))):
            racks.append(members)
            left.difference_update(members)
    return racks


def mates_of(tree: Hierarchy) -> set[Pair]:
    """Return the pairs of hosts on one machine, whose rates no other pair shows."""
    machines: dict[int, list[int]] = {}
    for host, machine in enumerate(tree.machine):
        machines.setdefault(machine, []).append(host)
    return {(i, j) for hosts in machines.values() for i in hosts for j in hosts if i != j}


def sparse_pairs(
    hosts: Collection[int], racks: Sequence[Sequence[int]] = (), *, mates: Collection[Pair] = (), seed: int = 0
) -> SparsePairs:
    """Choose the pairs to measure.

    Args:
        hosts: hosts that take part.
        racks: hosts of each known rack; others have none.
        mates: pairs of hosts on one machine, all of which are measured.
        seed: seed of the choice.
    """
    chooser = random.Random(f"sparse {seed}")
    here = sorted(hosts)
    in_racks = [kept for rack in racks if (kept := [host for host in rack if host in set(here)])]
    rest = sorted(set(here).difference(*in_racks))
    shown = {pair for pair in mates if pair[0] in set(here) and pair[1] in set(here)}
    within = WITHIN if in_racks else WITHIN + ACROSS
    for pool in _pools(in_racks, rest):
        shown |= _rotated(pool, within, chooser)
    areas = [*in_racks, *([rest] if in_racks and rest else [])]
    crossing = set[Pair]()
    for _ in range(ACROSS if len(areas) > 1 else 0):
        crossing |= _crossing(areas, chooser)
    held_out = set[Pair]()
    for host in here:
        others = [other for other in here if other != host and (host, other) not in shown]
        held_out.update((host, other) for other in chooser.sample(others, min(HELD_OUT, len(others))))
    return SparsePairs(frozenset(shown), frozenset(crossing - shown - held_out), frozenset(held_out))


def _pools(racks: Sequence[Sequence[int]], rest: Sequence[int]) -> list[list[int]]:
    """Return the hosts that are paired with each other to show their limits."""
    pools = [list(rack) for rack in racks if len(rack) >= POOL_HOSTS]
    left = sorted({*rest, *(host for rack in racks if len(rack) < POOL_HOSTS for host in rack)})
    if pools and len(left) in range(1, POOL_HOSTS):
        pools[0] += left
    elif left:
        pools.append(left)
    return pools


def _rotated(pool: Sequence[int], most: int, chooser: random.Random) -> set[Pair]:
    """Return pairs in which each host sends to the same number of others and receives from as many."""
    order, count = chooser.sample(list(pool), len(pool)), len(pool)
    steps = chooser.sample(range(1, count), min(most, count - 1)) if count > 1 else []
    return {(order[at], order[(at + step) % count]) for step in steps for at in range(count)}


def _crossing(areas: Sequence[Sequence[int]], chooser: random.Random) -> set[Pair]:
    """Return pairs in which all hosts of each area send to hosts of another, and each area receives from one other."""
    order = chooser.sample(list(areas), len(areas))
    pairs = set[Pair]()
    for sending, receiving in zip(order, [*order[1:], order[0]], strict=True):
        sources, targets = (chooser.sample(list(area), len(area)) for area in (sending, receiving))
        count = max(len(sources), len(targets))
        pairs.update(
            pair for pair, _ in zip(zip(cycle(sources), cycle(targets), strict=False), range(count), strict=False)
        )
    return pairs


def sparse_pairs_of(tree: Hierarchy, hosts: Collection[int], *, seed: int) -> SparsePairs:
    """Choose the pairs to measure by the machines and racks of a tree."""
    return sparse_pairs(hosts, racks_of(tree), mates=mates_of(tree), seed=seed)
