"""Count the routers between many hosts by few pairs: each host and some pivots.

In a tree of switches, two hosts at unlike distances from a pivot are as far from each other as the farther one is from
the pivot. The distances to a pivot therefore show all distances between hosts at unlike ones. Only hosts at the same
distance need further pivots:

1. Each group of hosts whose distances are open draws up to `PIVOTS` pivots, and all its hosts are probed with them.
2. Each pivot splits its part of the group by distance. Parts without a pivot in them are groups of the next turn.
3. Hosts in one rack differ only by their machines: all pairs of them are probed.

1,024 hosts in 32 racks take 8 % of the pairs and five turns with 178 rounds instead of 1,023 (`make bench-scale`).
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gavotte.agents.routers import GLANCE, GLANCE_S, Routers, Send, count_routers, note_answer
from gavotte.agents.schedule import Step
from gavotte.formats.history import Floats, Ints
from gavotte.terms import Pair
from gavotte.terms.hierarchy import MACHINE_HOPS, RACK_HOPS
from gavotte.terms.rounds import disjoint_rounds

PIVOTS = 12
"""Most pivots of a group in one turn. A turn costs a call to each agent, a pivot only a round of small packets."""

TRIES = 2
"""Probes of a pair that does not answer."""

EACH_S = 0.005
"""Time that a pivot may take for each host of a round: it receives from one after the other."""

LONG_S = 0.005
"""Round trips of unprobed pairs are estimated from here on. Shorter ones delay no probe."""


@dataclass(frozen=True)
class _Group:
    """Hosts whose distances from each other are open.

    Attributes:
        hosts: two or more, by index.
        near: whether they are in one rack.
    """

    hosts: tuple[int, ...]
    near: bool


def count_by_pivots(send: Send, hosts: Iterable[str], names: Sequence[str], *, seed: int = 0) -> Routers:
    """Count the routers between any two of many hosts.

    If firewalls separate some hosts, or a host answers only some pivots, all pairs are probed after all.

    Args:
        send: sends a schedule.
        hosts: usable hosts.
        names: hosts in matrix order; those that are not usable stay unknown.
        seed: seed of the choice of pivots.
    """
    here, chooser = set(hosts), random.Random(f"pivots {seed}")
    routers = Routers(np.zeros((len(names), len(names)), dtype=np.int64))
    trips_s = np.zeros((len(names), len(names)))
    groups = [_Group(tuple(index for index, name in enumerate(names) if name in here), near=False)]
    groups = [group for group in groups if len(group.hosts) > 1]
    seen: dict[Pair, int] = {}
    while groups:
        pivots = [() if group.near else _drawn(group, chooser) for group in groups]
        rounds = [_rounds(*each, routers.lengths, seed) for each in zip(groups, pivots, strict=True)]
        if together := _together(rounds):
            _probe(send, names, together, routers)
        asked = {pair for each in rounds for pairs in each for pair in pairs}
        if routers.blocked or routers.cut or _partial(asked, routers):
            return count_routers(send, here, names, seed=seed)
        seen |= {pair: int(routers.lengths[pair]) for pair in asked}
        parts = [part for each in zip(groups, pivots, strict=True) for part in _split(*each, routers, trips_s)]
        groups = [part for part in parts if len(part.hosts) > 1]
    for pair, length in seen.items():
        # In a network that is no tree, a probed distance may contradict the others. Who builds the tree then notes it.
        routers.lengths[pair] = routers.lengths[pair[::-1]] = length
    for i, j in zip(*np.nonzero(trips_s > LONG_S), strict=True):
        if (int(j), int(i)) not in routers.round_trips_s:
            routers.round_trips_s.setdefault((int(i), int(j)), float(trips_s[i, j]))
    return routers


def _drawn(group: _Group, chooser: random.Random) -> tuple[int, ...]:
    return tuple(chooser.sample(group.hosts, min(PIVOTS, len(group.hosts) - 1)))


def _rounds(group: _Group, pivots: Sequence[int], lengths: Ints, seed: int) -> list[list[Pair]]:
    """Return the pairs of a group that are probed in each round of a turn."""
    if group.near:
        rounds = disjoint_rounds(len(group.hosts), seed=seed)
        named = [[(group.hosts[a], group.hosts[b]) for a, b in pairs] for pairs in rounds]
        # Some hosts of a rack were pivots before.
        return [left for pairs in named if (left := [pair for pair in pairs if not lengths[pair]])]
    # In each round, the hosts are spread over all pivots. Two pivots are one pair.
    turns = [
        [(host, pivots[(place + turn) % len(pivots)]) for place, host in enumerate(group.hosts)]
        for turn in range(len(pivots))
    ]
    place = {pivot: number for number, pivot in enumerate(pivots)}
    return [[pair for pair in pairs if place.get(pair[0], len(pivots)) > place[pair[1]]] for pairs in turns]


def _together(rounds: Sequence[Sequence[Sequence[Pair]]]) -> list[list[Pair]]:
    """Return the rounds of all groups at the same time."""
    longest = max(map(len, rounds), default=0)
    merged = ([pair for each in rounds if number < len(each) for pair in each[number]] for number in range(longest))
    return [pairs for pairs in merged if pairs]


def _probe(send: Send, names: Sequence[str], rounds: Sequence[Sequence[Pair]], routers: Routers) -> None:
    """Probe pairs, and those that do not answer again."""
    index = {name: number for number, name in enumerate(names)}
    for _ in range(TRIES):
        schedule = [[Step(names[i], names[j], GLANCE) for i, j in pairs] for pairs in rounds]
        crowd = max(Counter(pair[1] for pair in pairs).most_common(1)[0][1] for pairs in rounds)
        for answer in send(schedule, GLANCE_S + EACH_S * crowd):
            note_answer(answer, index, routers)
        rounds = [left for pairs in rounds if (left := [pair for pair in pairs if not routers.lengths[pair]])]
        if not rounds or routers.blocked or routers.cut:
            return


def _partial(asked: Iterable[Pair], routers: Routers) -> bool:
    """Return whether a host answered some of these pairs, and others not."""
    answers = defaultdict[int, set[bool]](set)
    for pair in asked:
        answers[pair[0]].add(bool(routers.lengths[pair]))
    return any(len(each) > 1 for each in answers.values())


def _split(group: _Group, pivots: Sequence[int], routers: Routers, trips_s: Floats) -> list[_Group]:
    """Split a group by the distances to its pivots, and note the distances between the parts."""
    if group.near:
        return []
    lengths = routers.lengths
    parts = [group.hosts]
    done: list[_Group] = []
    for pivot in pivots:
        part = next((part for part in parts if pivot in part), ())
        if len(part) < 2:
            continue
        parts.remove(part)
        by_length = defaultdict[int, list[int]](list)
        for host in part:
            if host != pivot and lengths[host, pivot]:
                by_length[int(lengths[host, pivot])].append(host)
        inner: list[int] = [pivot]
        for length, outer in sorted(by_length.items()):
            inside, outside = np.ix_(inner, outer), np.ix_(outer, inner)
            lengths[inside] = lengths[outside] = length
            far_s = [routers.round_trips_s.get((host, pivot), 0.0) for host in outer]
            trips_s[inside] = np.maximum(trips_s[inside], far_s)
            if length == MACHINE_HOPS:
                lengths[np.ix_(outer, outer)] = length
                np.fill_diagonal(lengths, 0)
            elif length <= RACK_HOPS:
                done.append(_Group(tuple(outer), near=True))
            else:
                parts.append(tuple(outer))
            inner += outer
    return [*done, *(_Group(part, near=False) for part in parts)]
