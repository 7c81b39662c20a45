"""Learn which links pairs share, and so which probes may run at the same time, and which readings count.

1. The result for a path is its rate alone, but measuring every path alone would take one round each. Pairs are
   therefore measured together, until one of them carries more alone.
2. The links of the tree that this pair shared then count as full. A full link carries one pair at a time.
3. An experiment measures the rate of a full link. From then on, as many pairs cross it at once as fit.

A train is paced by the replies to it, which wait behind a link that others fill in the other direction. A pair
therefore also occupies the links of its way back, though it puts no load on them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from gavotte.formats.history import Floats
from gavotte.measure.plan.rounds import Links
from gavotte.terms import Pair
from gavotte.terms.hierarchy import Hierarchy, Link

EVERYTHING = "the network"
"""A link that all pairs cross. It stands for disturbances between pairs that share no link of the tree."""

ROOM = 0.85
"""Share of a link's rate that pairs may use together: for some milliseconds a train is faster than its path."""

SAME = 0.02
SURE = 3
"""Number of a host's pairs that must reach the same rate, and none more, until it counts as the host's limit."""

TESTED = 0.9
"""A link that carried this share of what its hosts send at most will not be full."""

BRIEF_ABOVE_BPS = 20e6
"""Trains below this rate need up to a second to find their rate."""

ALWAYS = 0.8
"""A probe that sent for this share of another probe's time counts as having run nearly always with it."""

MORE = 1.25
"""All pairs together may carry this many times the rate known to disturb none, before their readings are doubted again.
"""

LOOK_AHEAD = 8
"""Number of pairs considered for a round's next place, in multiples of the hosts."""


@dataclass(frozen=True)
class Sent:
    """A probe that was carried out, with its times in its schedule, so that concurrent probes can be found.

    Attributes:
        pair: source and target.
        round: round of its schedule.
        start_s: start, in seconds since the schedule began.
        end_s: end, in seconds since the schedule began.
        rate_bps: the measured rate; NaN = no rate.
        load_bps: largest load on its path: its rate, or if there is none, all its bytes divided by its time.
        bits: TCP goodput that arrived in each bin from its start on; empty = unknown.
        bin_s: width of the bins.
    """

    pair: Pair
    round: int
    start_s: float
    end_s: float
    rate_bps: float
    load_bps: float
    bits: tuple[float, ...] = ()
    bin_s: float = 0.0


@dataclass(frozen=True)
class LoadedReading:
    """Reading of one probe, with the load of others at the same time.

    Attributes:
        rate_bps: NaN = refused.
        load_bps: link on its way that others also crossed, to the load of all on it.
        back_bps: the same for its way back.
        borne_bps: link, there or back, to the load that certainly crossed it nearly all of the time. Links on which
            others carried more are left out: if such a link is full, they lose and this probe may not.
    """

    rate_bps: float
    load_bps: Mapping[str, float] = field(default_factory=dict)
    back_bps: Mapping[str, float] = field(default_factory=dict)
    borne_bps: Mapping[str, float] = field(default_factory=dict)

    @property
    def links(self) -> set[str]:
        """Links of the tree, there and back, that others used at the same time."""
        return {*self.load_bps, *self.back_bps} - {EVERYTHING}


class _Ends:
    """Highest rate that each host was seen to send, or to receive."""

    def __init__(self, size: int) -> None:
        self.most_bps = [0.0] * size
        self.alone_bps = [math.inf] * size
        self._times = [0] * size

    def take(self, host: int, rate_bps: float) -> None:
        """Record the rate of one of a host's pairs."""
        most_bps = self.most_bps[host]
        if rate_bps > (1 + SAME) * most_bps:
            self._times[host] = 0
        self._times[host] += rate_bps >= (1 - SAME) * most_bps
        self.most_bps[host] = max(most_bps, rate_bps)

    def take_alone(self, host: int, rate_bps: float) -> None:
        """Record the rate of a pair that shared no link with another probe."""
        known_bps = self.alone_bps[host]
        self.alone_bps[host] = rate_bps if math.isinf(known_bps) else max(known_bps, rate_bps)

    def sure(self, host: int) -> bool:
        """Return whether the highest rate is the host's own limit: it is unlikely that many partners have the same."""
        return self._times[host] >= SURE


class Concurrency:
    """Known facts about the links that pairs share, which decide which pairs may be measured at the same time.

    Attributes:
        full: links that carry less than the pairs across them would, with the load that may cross them at once, bit/s.
        carried: load that links carried while no pair lost, bit/s.
        found: number of full links found so far.
    """

    def __init__(self, size: int, known: Links, *, tolerance: float) -> None:
        """Start with the shared links of an earlier Network.

        Args:
            size: number of hosts.
            known: the shared links of each pair. Only one pair ever uses such a link at once.
            tolerance: largest relative difference of two readings that agree.
        """
        self.full: dict[str, float] = {link: 0.0 for links in known.values() for link in links}
        self.carried: defaultdict[str, float] = defaultdict(float)
        self.limited_links = 0
        self._together, self._disturbed = 0, 0
        self._known = known
        self._tolerance = tolerance
        self._shared: dict[Pair, frozenset[str]] = {}
        self._labels: dict[int, str] = {}
        self._between: _Between | None = None
        self._machine: Sequence[int] = range(size)
        self._ends: dict[str, Link] = {}
        self._out, self._into = _Ends(size), _Ends(size)
        self._size = size

    def see(self, tree: Hierarchy) -> bool:
        """Use the links of a tree that pairs without a common host can share. Return whether there are any."""
        shareable = {n for n, link in enumerate(tree.links) if min(len(link.sources), len(link.targets)) > 1}
        self._machine = tree.machine
        between = _Between(tree)
        unknown = shareable - _alike(between.crossed(shareable), self._known) if self._known else shareable
        self._ends = {tree.label(link): tree.links[link] for link in sorted(unknown)}
        self._labels = {link: tree.label(link) for link in unknown}
        self._between, self._shared = between, {}
        return bool(shareable)

    def links(self, pair: Pair) -> frozenset[str]:
        """Return the links that a pair loads, except `EVERYTHING`."""
        if self._between is None:
            return self._known.get(pair, frozenset())
        way = self._between.way(pair)
        if (shared := self._shared.get(way)) is None:
            links = self._between.links(pair)
            shared = self._shared[way] = frozenset(self._labels[link] for link in links if link in self._labels)
        return shared | self._known[pair] if pair in self._known else shared

    def untested(self) -> dict[str, float]:
        """Return links that may be full too, once one is: those that carried less than their hosts can send.

        Returns:
            them, with the load that full links carry, bit/s, because links are often alike.
        """
        full = self.link_bps().values()
        if not full:
            return {}
        demand_bps = {
            link: min(
                sum(self._out.most_bps[host] for host in ends.sources),
                sum(self._into.most_bps[host] for host in ends.targets),
            )
            for link, ends in self._ends.items()
            if link not in self.full
        }
        return {link: max(full) for link, bps in demand_bps.items() if self.carried[link] < TESTED * bps}

    def link_bps(self) -> dict[str, float]:
        """Return the rates of the tree's full links, as far as they are known."""
        return {link: room_bps / ROOM for link, room_bps in self.full.items() if link in self._ends and room_bps > 0}

    def patient(self, pair: Pair) -> bool:
        """Return whether a probe may take its time: it shares no links, or its ends are slow."""
        return not self.links(pair) or 0 < self.reached_bps(pair) < BRIEF_ABOVE_BPS

    def mates(self, pair: Pair) -> bool:
        """Return whether both hosts are known to be on one machine."""
        return self._machine[pair[0]] == self._machine[pair[1]]

    def tells_ends(self, pair: Pair) -> bool:
        """Return whether only its hosts can limit the pair: it leaves its machine and shares no link of the tree."""
        return not self.links(pair) and not self.mates(pair)

    def as_alone(self, pair: Pair, reading: LoadedReading) -> bool:
        """Return whether a pair carried as much as its source was seen to send without other probes."""
        return reading.rate_bps >= (1 - self._tolerance) * self._out.alone_bps[pair[0]]

    def reached_bps(self, pair: Pair) -> float:
        """Return the rate that both ends of a pair were seen to reach with others; 0 = unknown."""
        if self.mates(pair):
            return 0.0
        return min(self._out.most_bps[pair[0]], self._into.most_bps[pair[1]])

    def expected_bps(self, pair: Pair) -> float:
        """Return `reached_bps`, but at most what the full links on a pair's way carry; 0 = unknown."""
        rooms_bps = (self.full.get(link, 0.0) for link in self.links(pair) if link in self._ends)
        return min([self.reached_bps(pair), *(room_bps / ROOM for room_bps in rooms_bps if room_bps > 0)])

    def expected_between(self, sources: Sequence[int], targets: Sequence[int]) -> Floats:
        """Return the (S, T) `expected_bps` from each source to each target."""
        out, into = np.array(self._out.most_bps)[list(sources)], np.array(self._into.most_bps)[list(targets)]
        expected = np.minimum(out[:, None], into[None, :])
        alike = [{} if self._between is None else self._between.alike(hosts) for hosts in (sources, targets)]
        for source, rows in alike[0].items():
            for target, columns in alike[1].items():
                links = self.links((source, target))
                rooms_bps = [self.full.get(link, 0.0) / ROOM for link in links if link in self._ends]
                if limits_bps := [room_bps for room_bps in rooms_bps if room_bps > 0]:
                    at = np.ix_(rows, columns)
                    expected[at] = np.minimum(expected[at], min(limits_bps))
        machine = np.array(self._machine)
        expected[machine[list(sources)][:, None] == machine[list(targets)][None, :]] = 0.0
        return np.asarray(expected)

    @property
    def known_ends(self) -> int:
        """The number of hosts whose limit on sending is known, and of those whose limit on receiving is."""
        return sum(ends.sure(host) for ends in (self._out, self._into) for host in range(self._size))

    def wants_bps(self, pair: Pair) -> float:
        """Return a pair's highest rate alone, from the limits of its ends; infinite if they are unknown."""
        out, into = self._out, self._into
        return min(
            out.most_bps[pair[0]] if out.sure(pair[0]) else math.inf,
            into.most_bps[pair[1]] if into.sure(pair[1]) else math.inf,
        )

    def take(self, sent: Sequence[Sent]) -> dict[Pair, LoadedReading]:
        """Record the readings of one schedule. Return each with the load of others at the same time."""
        on: dict[tuple[str, int], list[Sent]] = defaultdict(list)
        for probe in sent:
            source, target = probe.pair
            if probe.rate_bps > 0 and not self.mates(probe.pair):
                self._out.take(source, probe.rate_bps)
                self._into.take(target, probe.rate_bps)
            for link in (*self.links(probe.pair), EVERYTHING):
                on[link, probe.round].append(probe)
        self._together += sum(link == EVERYTHING and len(probes) > 1 for (link, _), probes in on.items())
        together = _ProbesOnLinks(on)
        readings = {probe.pair: self._under_load(probe, together) for probe in sent}
        for pair, reading in readings.items():
            if reading.rate_bps > 0 and not reading.links and not self.mates(pair):
                self._out.take_alone(pair[0], reading.rate_bps)
        return readings

    def _under_load(self, probe: Sent, together: _ProbesOnLinks) -> LoadedReading:
        """Return the reading of a probe with the load of those that ran at the same time, in bit/s."""
        load_bps, back_bps, borne_bps = {}, {}, {}
        for link in self.links(probe.pair) | {EVERYTHING}:
            if (each := together.others(link, probe)) is not None:
                load_bps[link] = each.load_bps + probe.load_bps
                if each.above <= (each.count / 2 if link == EVERYTHING else 0):
                    borne_bps[link] = each.steady_bps + probe.load_bps
        for link in self.links(probe.pair[::-1]):
            if (each := together.others(link, probe)) is not None:
                back_bps[link] = each.load_bps
                borne_bps.setdefault(_back(link), each.steady_bps)
        return LoadedReading(probe.rate_bps, load_bps, back_bps, borne_bps)

    def doubtful(self, pair: Pair, reading: LoadedReading) -> bool:
        """Return whether a pair may carry more than it read: it fell short of its ends, on links that may be full."""
        if not math.isfinite(reading.rate_bps):
            return True
        if reading.rate_bps >= (1 - self._tolerance) * self.reached_bps(pair):
            return False
        return bool(self._untried(reading))

    def _untried(self, reading: LoadedReading) -> set[str]:
        """Return links with a higher load than they are known to carry."""

        def most_bps(link: str) -> float:
            slack = MORE if link == EVERYTHING else 1 + self._tolerance
            return slack * max(self.carried[link], self.full.get(link, 0.0))

        ahead = {link for link, load_bps in reading.load_bps.items() if load_bps > most_bps(link)}
        back = {
            link
            for link, load_bps in reading.back_bps.items()
            if load_bps > max(most_bps(link), (1 + self._tolerance) * self.carried[_back(link)])
        }
        return ahead | back

    def compare(self, reading: LoadedReading, alone_bps: float) -> dict[str, float]:
        """Learn from a pair that was measured together with others and then without any on its links.

        Returns:
            links that may have been full, which count as full from now on, with their load at the time, bit/s.
        """
        if not math.isfinite(alone_bps):
            return {}
        if math.isfinite(reading.rate_bps) and alone_bps <= (1 + self._tolerance) * reading.rate_bps:
            for link, borne_bps in reading.borne_bps.items():
                self.carried[link] = max(self.carried[link], borne_bps)
            return {}
        untried = self._untried(reading)
        if not reading.links and EVERYTHING in untried:
            self._disturbed += 1
            # Halving costs every pair another round, but a disturbed pair costs only one of its own. A lost time slice
            # must not split all later rounds. (One of 30 trains of choreo: 2.5 instead of 1.2 s.)
            if self._disturbed > self._together:
                # The place is unknown: halve the load until no pair is disturbed.
                self.full[EVERYTHING] = reading.load_bps[EVERYTHING] / 2
                self.limited_links += 1
                self._together, self._disturbed = 0, 0
        blamed = {
            link: reading.load_bps.get(link, reading.back_bps.get(link, 0.0))
            for link in untried
            if link != EVERYTHING and link not in self.full
        }
        self.full |= dict.fromkeys(blamed, 0.0)
        self.limited_links += len(blamed)
        return blamed

    def settle(self, link: str, sum_bps: float, *, shared: bool) -> None:
        """Record an experiment's result: the rate of a link, or that this sum did not fill it."""
        if shared:
            self.full[link] = max(self.full.get(link, 0.0), ROOM * sum_bps)
        else:
            self.full.pop(link, None)
            self.carried[link] = max(self.carried[link], sum_bps)

    def rounds(self, rounds: Sequence[Sequence[Pair]]) -> list[list[Pair]]:
        """Rearrange the pairs of some rounds so that no link is loaded beyond its capacity at any time."""
        if not self.full:
            return [list(pairs) for pairs in rounds]
        return self._lay([pair for pairs in rounds for pair in pairs], alone=False)

    def apart(self, pairs: Sequence[Pair], readings: Mapping[Pair, LoadedReading]) -> list[list[Pair]]:
        """Return rounds in which no other pair uses any link of the tree that a pair uses.

        Args:
            pairs: each once.
            readings: of pairs that were measured together. A pair that shared no link of the tree gets a round of its
                own.
        """
        lone = [pair for pair in pairs if pair in readings and not readings[pair].links]
        others = [p for p in pairs if p not in set(lone)]
        return [*self._lay(others, alone=True), *([pair] for pair in lone)]

    def _lay(self, pairs: Sequence[Pair], *, alone: bool) -> list[list[Pair]]:
        """Fill round after round by first fit; pairs whose links have most left to do come first."""
        left = self._by_queue(pairs)
        rounds = []
        most = LOOK_AHEAD * self._size
        while left:
            laid = _Round(self, alone=alone)
            kept = [pair for pair in left[:most] if not laid.add(pair)]
            left = kept + left[most:]
            rounds.append(laid.pairs)
        return rounds

    def _by_queue(self, pairs: Sequence[Pair]) -> list[Pair]:
        waiting = Counter(link for pair in pairs for link in self.links(pair) if link in self.full)
        order: list[tuple[int, int, Pair]] = []
        for pair in pairs:
            mine = [link for link in self.links(pair) if link in self.full]
            order.append((-max((waiting[link] for link in mine), default=0), len(order), pair))
            waiting.subtract(mine)
        return [pair for *_, pair in sorted(order)]


@dataclass(frozen=True)
class _OtherProbes:
    """The other probes on a link while one ran.

    Attributes:
        count: number of them.
        load_bps: their load.
        above: number of those with a higher load than its own.
        steady_bps: rates of those that ran nearly all of its time.
    """

    count: int
    load_bps: float
    above: int
    steady_bps: float


class _ProbesOnLinks:
    """The probes on each link in each round of a schedule. In arrays: all 10,000 hosts' probes load `EVERYTHING`."""

    def __init__(self, on: Mapping[tuple[str, int], list[Sent]]) -> None:
        self._on = on
        self._near: dict[tuple[str, int], tuple[Floats, dict[Pair, list[int]]]] = {}

    def others(self, link: str, probe: Sent) -> _OtherProbes | None:
        """Return the other probes on a link that ran at the same time as one; None = there were none."""
        (start_s, end_s, loads_bps, rates_bps), places = self._around(link, probe.round)
        meets = (start_s < probe.end_s) & (end_s > probe.start_s)
        meets[places.get(probe.pair, [])] = False
        count = int(np.count_nonzero(meets))
        if not count:
            return None
        loads_bps = loads_bps[meets]
        overlap_s = np.minimum(end_s[meets], probe.end_s) - np.maximum(start_s[meets], probe.start_s)
        steady_bps = rates_bps[meets][overlap_s >= ALWAYS * (probe.end_s - probe.start_s)]
        above = int(np.count_nonzero(loads_bps > (1 + SAME) * probe.load_bps))
        return _OtherProbes(count, float(loads_bps.sum()), above, float(steady_bps[steady_bps > 0].sum()))

    def _around(self, link: str, number: int) -> tuple[Floats, dict[Pair, list[int]]]:
        """Return starts, ends, loads and rates of the probes on a link in a round and next to it, and their places."""
        if (known := self._near.get((link, number))) is None:
            # Pairs that are done run ahead into the next round.
            near = [other for at in (number - 1, number, number + 1) for other in self._on.get((link, at), ())]
            columns = [(other.start_s, other.end_s, other.load_bps, other.rate_bps) for other in near]
            places = defaultdict[Pair, list[int]](list)
            for place, other in enumerate(near):
                places[other.pair].append(place)
            known = np.array(columns, dtype=np.float64).reshape(len(near), 4).T, places
            self._near[link, number] = known
        return known


class _Between:
    """Links of a tree between two hosts, without those of only one host: they are the same for all hosts of two racks.

    Kept by pairs of racks and not of hosts, of which 1,024 have a million.
    """

    def __init__(self, tree: Hierarchy) -> None:
        self._tree = tree
        self._inner = [-1] * tree.size
        # Outer clusters come first.
        for number, cluster in enumerate(tree.clusters):
            for member in cluster.members:
                self._inner[member] = number

    def way(self, pair: Pair) -> Pair:
        """Return the innermost clusters that two hosts are in; -1 = in none."""
        return self._inner[pair[0]], self._inner[pair[1]]

    def alike(self, hosts: Sequence[int]) -> dict[int, list[int]]:
        """Return the places of hosts in the same innermost cluster, by the first of these hosts."""
        first: dict[int, int] = {}
        places: dict[int, list[int]] = {}
        for place, host in enumerate(hosts):
            places.setdefault(first.setdefault(self._inner[host], host), []).append(place)
        return places

    def links(self, pair: Pair) -> Sequence[int]:
        """Return the links between two hosts, and perhaps some of only one host."""
        source, target = self.way(pair)
        return () if source == target else self._tree.path(*pair)

    def crossed(self, links: set[int]) -> dict[Pair, Set[int]]:
        """Return which of some links each pair crosses."""
        hosts = range(self._tree.size)
        return {(i, j): links.intersection(self.links((i, j))) for i in hosts for j in hosts if i != j}


def _alike(crossed: Mapping[Pair, Set[int]], known: Links) -> set[int]:
    """Return links of the tree that the same pairs cross as a link of an earlier Network: they are the same link."""
    by_link: dict[int, set[Pair]] = defaultdict(set)
    by_name: dict[str, set[Pair]] = defaultdict(set)
    for pair, links in crossed.items():
        for link in links:
            by_link[link].add(pair)
    for pair, names in known.items():
        for name in names:
            by_name[name].add(pair)
    pair_sets = {frozenset(pairs) for pairs in by_name.values()}
    return {link for link, pairs in by_link.items() if pairs in pair_sets}


def _back(link: str) -> str:
    """Return the name of a link on the way back, in `Concurrency.carried`."""
    return f"back: {link}"


class _Round:
    """Pairs that are probed at the same time."""

    def __init__(self, concurrency: Concurrency, *, alone: bool) -> None:
        self.pairs: list[Pair] = []
        self._concurrency = concurrency
        self._alone = alone
        self._hosts: set[int] = set()
        self._load_bps: dict[str, float] = {}
        self._back: set[str] = set()

    def add(self, pair: Pair) -> bool:
        """Add a pair, if it fits."""
        if not self._hosts.isdisjoint(pair):
            return False
        concurrency = self._concurrency
        out, back = concurrency.links(pair), concurrency.links(pair[::-1])
        if self._alone:
            if any(link in self._load_bps or link in self._back for link in out | back):
                return False
            mine_bps = 0.0
        else:
            mine_bps = concurrency.wants_bps(pair)
            out = (out | {EVERYTHING}) & concurrency.full.keys()
            back = back & concurrency.full.keys()
            if any(not self._fits(link, mine_bps) for link in out) or any(self._is_full(link) for link in back):
                return False
        self._hosts.update(pair)
        for link in out:
            self._load_bps[link] = self._load_bps.get(link, 0.0) + mine_bps
        self._back |= back
        self.pairs.append(pair)
        return True

    def _fits(self, link: str, mine_bps: float) -> bool:
        """Return whether a pair fits a link. One fits unless it is on others' way back; more fit up to its rate."""
        room_bps = self._concurrency.full[link]
        before_bps = self._load_bps.get(link)
        if before_bps is None:
            return mine_bps <= room_bps or link not in self._back
        return before_bps + mine_bps <= room_bps

    def _is_full(self, link: str) -> bool:
        return self._load_bps.get(link, 0.0) > self._concurrency.full[link]
