"""Find the racks of many hosts by round trips, where the network hides its routers.

Within a rack, round trips are shorter than between racks: 30 us and 55 us, for example. How much shorter depends on the
cloud, and every host adds a delay of its own. So the network itself has to show which round trips are short:

1. All hosts ping the first pivots. A short round trip is one below a break: a range of times that few round trips have,
   between two that many have. Without a break, nothing is known about racks.
2. Hosts without a rack ping further pivots, and join the rack of one that is near (`gavotte.agents.pivots`).
3. A round trip is the least of several, since waiting only adds to it. One near a break is measured again with more
   pings. If it stays there, the host's rack is unknown.
4. Two random pairs of each host, in its rack and outside, check the result. If it is wrong for more than `MOST_WRONG`,
   round trips show no racks.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.pivots import Splitting, split_by_pivots, spread
from gavotte.agents.routers import Routers, Send
from gavotte.agents.schedule import Step
from gavotte.agents.tier_scale import Scale, fitted_scale
from gavotte.formats.history import Floats, Ints
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.lengths import Lengths
from gavotte.terms import Pair
from gavotte.terms.hierarchy import RACK_HOPS

PINGS, MOST_PINGS = 10, 90
"""Fewest and most pings of a pair at a time. One more comes first and does not count."""

SURE = 14.0
"""Logarithm of the odds against a short round trip that looks long, because every ping of it waited, if waits are
exponential. With uniform waits, the odds are lower."""

FEWEST_HOSTS = 16
"""With fewer hosts, too few round trips are short to distinguish a break from chance."""

MOST_LOST, MOST_UNKNOWN = 0.1, 0.01
"""Largest share of hosts whose rack may be unknown, and of the pairs of others whose tier may be."""

MOST_WRONG = 0.02
"""Largest share of checked pairs that may be wrong."""

FIRST = 6
"""Pivots that all hosts ping, in which a break must show."""

PIVOTS = 3
"""Most further pivots of a group in one turn. With more, hosts also ping pivots after the one of their rack. With six,
1,024 hosts in 32 racks ping 2.8 instead of 2.4 % of the pairs, in 6 instead of 8 turns."""

DRAWN = 256
"""Hosts from which a pair that checks the result is drawn. Some of them have pinged the host before."""

PING_S = 0.002
"""Time that one ping may take, while others ping the same host."""


@dataclass
class Tiers:
    """Racks by round trips.

    Attributes:
        lengths: path lengths as if routers had been counted: `RACK_HOPS` within a rack, and 2 more for each tier above.
        breaks_s: round trips between two tiers; empty = there are no tiers.
        round_trips_s: least round trip of each pair that was probed.
        checked: number of pairs that checked the result.
        wrong: number of those that contradict it.
        unknown: hosts, by index, whose rack is unknown.
    """

    lengths: Lengths
    breaks_s: tuple[float, ...] = ()
    round_trips_s: dict[Pair, float] = field(default_factory=dict)
    checked: int = 0
    wrong: int = 0
    unknown: tuple[int, ...] = ()

    @property
    def note(self) -> str:
        """What a reader should know: how racks were found, or that they were not."""
        if not self.breaks_s:
            return "the network hides its routers, and round trips do not show racks"
        times = " and ".join(f"{1e6 * each:.0f} us" for each in self.breaks_s)
        lost = f"; those of {counted(len(self.unknown), 'host')} are unknown" if self.unknown else ""
        return f"the network hides its routers, so racks are those that round trips show, with breaks at {times}{lost}"


def find_tiers(send: Send, hosts: Iterable[str], names: Sequence[str], *, seed: int = 0) -> Tiers:
    """Find racks, and the tiers above them, by the round trips between each host and a few others.

    Args:
        send: sends a schedule.
        hosts: usable hosts.
        names: hosts in matrix order; those that are not usable stay unknown.
        seed: seed of the choice of pivots and of the check.
    """
    here = set(hosts)
    usable = [index for index, name in enumerate(names) if name in here]
    unknown = Tiers(Lengths(len(names)))
    if len(usable) < FEWEST_HOSTS:
        return unknown
    pings = _Pings(send, names)
    chooser = random.Random(f"tiers {seed}")
    first = chooser.sample(usable, min(FIRST, len(usable) // 2))
    while pings.usual <= MOST_PINGS:
        pings.take(spread(usable, first))
        scale = fitted_scale(pings.table(usable, first), first, len(names))
        if scale is not None:
            # With as many, no tier reaches into the next one by chance.
            needed = math.ceil(SURE * pings.wait_s() / scale.step_s)
            if needed > pings.usual:
                pings.usual = min(needed, MOST_PINGS)
                pings.take(spread(usable, first))
                scale = fitted_scale(pings.table(usable, first), first, len(names)) or scale
            tiers = _split(pings, usable, scale, Splitting(seed, PIVOTS, tuple(first), machines=False, gaps=True))
            if _holds(tiers, pings, usable, scale, chooser):
                return tiers
        pings.usual *= 3
    unknown.round_trips_s = dict(pings.least_s)
    return unknown


class _Pings:
    """Round trips that were measured, the least of each pair."""

    def __init__(self, send: Send, names: Sequence[str]) -> None:
        self._send = send
        self._names = names
        self._index = {name: number for number, name in enumerate(names)}
        self._waits_s: list[float] = []
        self.least_s: dict[Pair, float] = {}
        self.usual = PINGS

    def wait_s(self) -> float:
        """Return how long a ping usually waits: the mean of a pair above its least one, of three quarters of pairs."""
        return float(np.quantile(self._waits_s, 0.75)) if self._waits_s else 0.0

    def take(self, rounds: Sequence[Sequence[Pair]], pings: int = 0) -> None:
        """Ping the pairs of each round, the usual number of times if none is given."""
        pings = pings or self.usual
        probe = pb.Probe(ping_pong=pb.PingPong(bytes=[1], repetitions=pings))
        schedule = [[Step(self._names[i], self._names[j], probe) for i, j in pairs] for pairs in rounds if pairs]
        if not schedule:
            return
        crowd = max(Counter(j for _, j in pairs).most_common(1)[0][1] for pairs in rounds if pairs)
        for answer in self._send(schedule, 1.0 + PING_S * pings * crowd):
            if answer.reply is None:
                continue
            times_s = [second for size in answer.reply.ping_pong.sizes for second in size.seconds if second > 0]
            if times_s:
                pair = self._index[answer.source], self._index[answer.target]
                self._waits_s.append((sum(times_s) - len(times_s) * min(times_s)) / max(len(times_s) - 1, 1))
                least_s = min(min(times_s), self.least_s.get(pair, math.inf))
                self.least_s[pair] = self.least_s[pair[::-1]] = least_s

    def settle(self, rounds: Sequence[Sequence[Pair]], scale: Scale) -> None:
        """Ping pairs near a break again, more often each time."""
        count = 3 * self.usual
        while count <= 3 * MOST_PINGS:
            near = [
                [pair for pair in pairs if pair in self.least_s and not scale.tier(pair, self.least_s[pair])]
                for pairs in rounds
            ]
            if not any(near):
                return
            self.take(near, count)
            count *= 3

    def table(self, hosts: Sequence[int], pivots: Sequence[int]) -> tuple[Ints, Floats]:
        """Return hosts, and (len(hosts), len(pivots)) round trips with pivots; NaN = unknown."""
        rows = [[self.least_s.get((host, pivot), math.nan) for pivot in pivots] for host in hosts]
        return np.array(hosts), np.array(rows)


def _split(pings: _Pings, hosts: Sequence[int], scale: Scale, splitting: Splitting) -> Tiers:
    """Return the tiers that hosts are in by their round trips with pivots."""
    size = len(scale.offsets_s)
    routers = Routers(Lengths(size))

    def look(rounds: Sequence[Sequence[Pair]], routers: Routers) -> None:
        pings.take([[pair for pair in pairs if pair not in pings.least_s] for pairs in rounds])
        pings.settle(rounds, scale)
        for pair in (pair for pairs in rounds for pair in pairs if pair in pings.least_s):
            if length := scale.tier(pair, pings.least_s[pair]):
                routers.lengths.note(pair, length)

    split_by_pivots(look, hosts, routers, splitting)
    lost = tuple(host for host in hosts if not routers.lengths.is_known(host))
    return Tiers(routers.lengths, scale.breaks_s, dict(pings.least_s), unknown=lost)


def _holds(tiers: Tiers, pings: _Pings, hosts: Sequence[int], scale: Scale, chooser: random.Random) -> bool:
    """Check two random pairs of each host, one of them in its rack, and note the result. Return whether it holds."""
    lengths = tiers.lengths
    chosen = []
    gaps, inside = 0, False
    known = np.array([host for host in hosts if host not in tiers.unknown], dtype=np.int64)
    for host in hosts:
        row = lengths.row(host)
        if host not in tiers.unknown:
            gaps += int((row[known] == 0).sum()) - 1
            inside = inside or bool((row[known] == RACK_HOPS).any())
        for others in (np.flatnonzero(row == RACK_HOPS), np.flatnonzero(row > RACK_HOPS)):
            # Most have not pinged the host: to list all of those would take N x N steps.
            drawn = others if len(others) <= DRAWN else others[chooser.sample(range(len(others)), DRAWN)]
            left = [int(other) for other in drawn if (host, int(other)) not in pings.least_s]
            if left:
                chosen.append((host, chooser.choice(left)))
    rounds = _disjoint_sources(chosen)
    pings.take(rounds)
    pings.settle(rounds, scale)
    compared = [
        (lengths[pair], tier)
        for pair in chosen
        if pair in pings.least_s and (tier := scale.tier(pair, pings.least_s[pair]))
    ]
    tiers.checked = len(compared)
    tiers.wrong = sum(length != tier for length, tier in compared)
    tiers.round_trips_s = dict(pings.least_s)
    enough = len(tiers.unknown) <= MOST_LOST * len(hosts) and gaps <= MOST_UNKNOWN * len(known) ** 2
    return inside and enough and tiers.wrong <= MOST_WRONG * max(tiers.checked, 1)


def _disjoint_sources(pairs: Sequence[Pair]) -> list[list[Pair]]:
    """Return rounds in which each host sends once at most."""
    rounds: list[list[Pair]] = []
    taken: list[set[int]] = []
    for pair in pairs:
        for each, sources in zip(rounds, taken, strict=True):
            if pair[0] not in sources:
                each.append(pair)
                sources.add(pair[0])
                break
        else:
            rounds.append([pair])
            taken.append({pair[0]})
    return rounds
