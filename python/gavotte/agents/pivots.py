"""Count the routers between many hosts by few pairs: each host and some pivots.

In a tree of switches, two hosts at unlike distances from a pivot are as far from each other as the farther one is from
the pivot. The distances to a pivot therefore show all distances between hosts at unlike ones. Only hosts at the same
distance need further pivots:

1. Each group of hosts whose distances are open draws up to `PIVOTS` pivots, and all its hosts are probed with them.
2. Each pivot splits its part of the group by distance. Parts without a pivot in them are groups of the next turn.
3. Hosts in one rack differ only by their machines: in a last turn, all pairs of each rack are probed.

1,024 hosts in 32 racks take 8 % of the pairs and 95 rounds instead of 1,023 (`make bench-scale`).
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from functools import partial

from gavotte.agents.routers import GLANCE, GLANCE_S, Routers, Send, count_routers, note_answer
from gavotte.agents.schedule import Step
from gavotte.formats.parts.lengths import Lengths
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


Look = Callable[[Sequence[Sequence[Pair]], Routers], None]
"""Measures the distances of the pairs of each round, and notes them."""


@dataclass(frozen=True)
class _Group:
    """Hosts whose distances from each other are open.

    Attributes:
        hosts: two or more, by index.
        near: whether they are in one rack.
    """

    hosts: tuple[int, ...]
    near: bool


@dataclass(frozen=True)
class Splitting:
    """How groups are split.

    Attributes:
        seed: seed of the choice of pivots.
        pivots: most pivots of a group in one turn.
        first: pivots of the first turn; empty = they are drawn, too.
        machines: whether hosts of one rack may be on one machine, which all pairs of the rack show.
        gaps: whether the distances of some pairs may stay unknown; otherwise, all pairs are needed then.
    """

    seed: int
    pivots: int = PIVOTS
    first: tuple[int, ...] = ()
    machines: bool = True
    gaps: bool = False


def count_by_pivots(send: Send, hosts: Iterable[str], names: Sequence[str], *, seed: int = 0) -> Routers:
    """Count the routers between any two of many hosts.

    If firewalls separate some hosts, or a host answers only some pivots, all pairs are probed after all.

    Args:
        send: sends a schedule.
        hosts: usable hosts.
        names: hosts in matrix order; those that are not usable stay unknown.
        seed: seed of the choice of pivots.
    """
    here = set(hosts)
    routers = Routers(Lengths(len(names)))
    usable = tuple(index for index, name in enumerate(names) if name in here)
    if split_by_pivots(partial(_probe, send, names), usable, routers, Splitting(seed)):
        return routers
    return count_routers(send, here, names, seed=seed)


def split_by_pivots(look: Look, hosts: Sequence[int], routers: Routers, splitting: Splitting) -> bool:
    """Find the distances between any two of many hosts.

    Args:
        look: measures distances.
        hosts: usable hosts, by index.
        routers: receives the distances.
        splitting: how groups are split.

    Returns:
        False if the answers show that few pairs do not suffice.
    """
    chooser, first = random.Random(f"pivots {splitting.seed}"), splitting.first
    far = _FarTrips()
    groups = [_Group(tuple(hosts), near=False)] if len(hosts) > 1 else []
    racks: list[_Group] = []
    seen = set[Pair]()
    while groups or racks:
        # Racks come last, all of them together: their rounds are as many as the largest one has hosts.
        turn, racks = (groups, racks) if groups else (racks, [])
        drawn = [() if group.near else first or _drawn(group, splitting.pivots, chooser) for group in turn]
        first = ()
        rounds = [_rounds(*each, seen, splitting.seed) for each in zip(turn, drawn, strict=True)]
        if together := _together(rounds):
            look(together, routers)
        asked = {pair for each in rounds for pairs in each for pair in pairs}
        seen |= asked
        if not splitting.gaps and (routers.blocked or routers.cut or _partial(asked, routers)):
            return False
        parts = [part for each in zip(turn, drawn, strict=True) for part in _split(*each, routers, far)]
        groups = [part for part in parts if len(part.hosts) > 1 and not part.near]
        racks += [part for part in parts if len(part.hosts) > 1 and part.near and splitting.machines]
        if not splitting.machines:
            for part in parts:
                if part.near:
                    routers.lengths.join(part.hosts, RACK_HOPS)
        # In a network that is no tree, a probed distance may contradict the others. Who builds the tree then notes it.
        routers.lengths.drop_shown(asked)
    routers.lengths.settle()
    far.tell(routers.round_trips_s)
    return True


class _FarTrips:
    """Round trips of far pairs that were not probed, estimated from a pivot's."""

    def __init__(self) -> None:
        self._blocks: list[tuple[tuple[int, ...], int, float]] = []

    def note(self, inner: Sequence[int], host: int, round_trip_s: float) -> None:
        """Note how far a host is from a pivot, and so from those next to the pivot."""
        if round_trip_s > LONG_S:
            self._blocks.append((tuple(inner), host, round_trip_s))

    def tell(self, round_trips_s: dict[Pair, float]) -> None:
        """Add the longest estimate of each pair that was not probed."""
        known, longest = set(round_trips_s), dict[Pair, float]()
        for inner, host, round_trip_s in self._blocks:
            for other in inner:
                longest[other, host] = max(round_trip_s, longest.get((other, host), 0.0))
        round_trips_s.update(each for each in longest.items() if not known & {each[0], each[0][::-1]})


def _drawn(group: _Group, most: int, chooser: random.Random) -> tuple[int, ...]:
    return tuple(chooser.sample(group.hosts, min(most, len(group.hosts) - 1)))


def _rounds(group: _Group, pivots: Sequence[int], seen: Set[Pair], seed: int) -> list[list[Pair]]:
    """Return the pairs of a group that are probed in each round of a turn; `seen` were probed before."""
    if group.near:
        rounds = disjoint_rounds(len(group.hosts), seed=seed)
        named = [[(group.hosts[a], group.hosts[b]) for a, b in pairs] for pairs in rounds]
        # Some hosts of a rack were pivots before.
        return [left for pairs in named if (left := [pair for pair in pairs if not seen & {pair, pair[::-1]}])]
    return spread(group.hosts, pivots)


def spread(hosts: Sequence[int], pivots: Sequence[int]) -> list[list[Pair]]:
    """Return rounds in which the hosts are spread over all pivots. Two pivots are one pair."""
    turns = [
        [(host, pivots[(place + turn) % len(pivots)]) for place, host in enumerate(hosts)]
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


def _split(group: _Group, pivots: Sequence[int], routers: Routers, far: _FarTrips) -> list[_Group]:
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
            if host != pivot and (length := lengths.noted((host, pivot))):
                by_length[length].append(host)
            elif host != pivot:
                lengths.leave_open(host, pivot)
        inner: list[int] = [pivot]
        for length, outer in sorted(by_length.items()):
            for host in outer:
                far.note(inner, host, routers.round_trips_s.get((host, pivot), 0.0))
            inner += outer
            lengths.join(inner, length)
            if MACHINE_HOPS < length <= RACK_HOPS:
                done.append(_Group(tuple(outer), near=True))
            elif length > RACK_HOPS:
                parts.append(tuple(outer))
    return [*done, *(_Group(part, near=False) for part in parts)]
