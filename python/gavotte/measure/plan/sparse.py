"""Choose few pairs of many hosts, whose rates show those of all pairs (`--scale structure`).

A pair is as fast as the slowest of its sender, its receiver and the racks' links between them. All pairs of N hosts
take 2N - 2 rounds. The number of rounds for the limits of hosts and links grows with the size of racks, not with N.

1. Within each rack, every host sends to `WITHIN` others and receives from as many. One of these partners is usually at
   least as fast as the host, so the host's fastest pair shows its own limit.
2. Every host also sends to `ACROSS` hosts of other racks, rack by rack, so that many pairs cross a rack's link at once.
   Only their rates together count: none of them is measured alone.
3. `HELD_OUT` further pairs of each host, chosen at random, check what the others predict.
4. Where they show that pairs have limits of their own, `FURTHER` log2 N random pairs out of each host are measured too.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from gavotte.measure.plan.pools import pools_of
from gavotte.terms import Pair
from gavotte.terms.hierarchy import Hierarchy

WITHIN = 16
"""Partners that a host sends to within its rack, and receives from. With few, all may be slower than the host."""

ACROSS = 4
"""Partners of a host in other racks."""

HELD_OUT = 2
"""Held-out pairs out of each host."""

FURTHER = 2.0
"""Random pairs out of each host, as a multiple of log2 N, where the others do not predict the held-out ones."""

DRAWN = 64
"""Hosts from which these are drawn."""


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
    here = set(hosts)
    in_racks = [kept for rack in racks if (kept := [host for host in rack if host in here])]
    rest = sorted(here.difference(*in_racks))
    shown = {pair for pair in mates if here.issuperset(pair)}
    for pool in pools_of(in_racks, here):
        shown |= _rotated(pool, WITHIN if in_racks else WITHIN + ACROSS, chooser)
    areas = [*in_racks, *([rest] if in_racks and rest else [])]
    crossing = set[Pair]()
    for _ in range(ACROSS if len(areas) > 1 else 0):
        crossing |= _crossing(areas, chooser)
    held_out = set[Pair]()
    order = sorted(here)
    for host in order:
        # Drawn until they are enough: to list the others of each host would take N x N steps.
        drawn = {(host, other) for other in chooser.sample(order, min(DRAWN, len(order)))} - shown - {(host, host)}
        if len(drawn) < HELD_OUT:
            drawn = {(host, other) for other in order} - shown - {(host, host)}
        held_out.update(chooser.sample(sorted(drawn), min(HELD_OUT, len(drawn))))
    return SparsePairs(frozenset(shown), frozenset(crossing - shown - held_out), frozenset(held_out))


def sparse_pairs_of(tree: Hierarchy, hosts: Collection[int], *, seed: int) -> SparsePairs:
    """Choose the pairs to measure by the machines and racks of a tree."""
    return sparse_pairs(hosts, racks_of(tree), mates=mates_of(tree), seed=seed)


def further_pairs(hosts: Collection[int], *, seed: int) -> frozenset[Pair]:
    """Choose random pairs, as many into each host as out of it."""
    chooser = random.Random(f"further {seed}")
    return frozenset(_rotated(sorted(hosts), math.ceil(FURTHER * math.log2(max(2, len(hosts)))), chooser))


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
        pairs.update(islice(zip(cycle(sources), cycle(targets), strict=False), max(len(sources), len(targets))))
    return pairs
