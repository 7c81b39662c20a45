"""What paths share, learnt while they are measured: which probes may go at the same time, and which readings count.

A path is to be told by what it carries alone, but alone each would take a round of its own. So pairs go in company
until one of them is seen to carry more by itself. The links of the tree that it shared then count as full, and only so
many pairs cross such a link at once as it has room for: one, until an experiment has told what it carries.

A train is paced by what comes back to it, which waits behind a link that others fill the other way. So a pair uses the
links of its way back, too, though it puts no load on them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from gavotte.measure.rounds import Links
from gavotte.terms import Pair
from gavotte.terms.hierarchy import Hierarchy, Link

EVERYTHING = "the network"
"""A link that all pairs cross: what disturbs pairs that share no link of the tree."""

ROOM = 0.85
"""Pairs go together up to this share of what a link carries: a train is for some milliseconds faster than its path."""

SAME = 0.02
SURE = 3
"""A host's limit is known when so many of its pairs reached the same rate and none more."""

TESTED = 0.9
"""A link that carried this share of what its hosts send at most will not be full."""

BRIEF_ABOVE_BPS = 20e6
"""Slower trains need up to a second to be sure of their rate."""

ALWAYS = 0.8
"""Who sent for this share of a probe's time was beside it nearly always."""

MORE = 1.25
"""All pairs together may carry so much more than was seen to disturb nobody before they are doubted again."""

LOOK_AHEAD = 8
"""Pairs looked at for a round's next place, in multiples of the hosts."""


@dataclass(frozen=True)
class Sent:
    """One probe among those of its schedule.

    Attributes:
        pair: source and target.
        round: of its schedule.
        start_s: since the schedule began.
        end_s: the same.
        rate_bps: what it read; NaN = no rate.
        load_bps: what it put on its path at most: its rate, or without one all its bytes over its time.
        bits: TCP goodput that came in each bin from its start on; empty = not told.
        bin_s: their width.
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
class Beside:
    """What one probe read, and beside whom.

    Attributes:
        rate_bps: NaN = refused.
        load_bps: link on its way that others crossed meanwhile to the load of all on it.
        back_bps: the same of its way back.
        borne_bps: link, there or back, to what certainly crossed it nearly all of the time. Links on which others
            carried more are left out: where such a link is full, they lose and it may not.
    """

    rate_bps: float
    load_bps: Mapping[str, float] = field(default_factory=dict)
    back_bps: Mapping[str, float] = field(default_factory=dict)
    borne_bps: Mapping[str, float] = field(default_factory=dict)

    @property
    def links(self) -> set[str]:
        """Links of the tree, there and back, that others were on."""
        return {*self.load_bps, *self.back_bps} - {EVERYTHING}


class _Ends:
    """What each host was seen to send, or to receive, at most."""

    def __init__(self, size: int) -> None:
        self.most_bps = [0.0] * size
        self.alone_bps = [math.inf] * size
        self._times = [0] * size

    def take(self, host: int, rate_bps: float) -> None:
        """Notes one pair of a host."""
        most_bps = self.most_bps[host]
        if rate_bps > (1 + SAME) * most_bps:
            self._times[host] = 0
        self._times[host] += rate_bps >= (1 - SAME) * most_bps
        self.most_bps[host] = max(most_bps, rate_bps)

    def take_alone(self, host: int, rate_bps: float) -> None:
        """Notes one that had nothing beside it on a link that pairs can share."""
        known_bps = self.alone_bps[host]
        self.alone_bps[host] = rate_bps if math.isinf(known_bps) else max(known_bps, rate_bps)

    def sure(self, host: int) -> bool:
        """Whether that is its own limit: so many partners do not happen to have the same."""
        return self._times[host] >= SURE


class Company:
    """What is known of the links that pairs share.

    Attributes:
        full: links found to carry less than what wants to cross them, with what may cross them at once, bit/s.
        carried: what links were seen to carry while nobody lost, bit/s.
        found: bumped by each new full link.
    """

    def __init__(self, size: int, known: Links, *, tolerance: float) -> None:
        """Starts with what an earlier Network knows.

        Args:
            size: number of hosts.
            known: the shared links of pairs: of these only one is ever used at once.
            tolerance: two readings this near to each other agree.
        """
        self.full: dict[str, float] = {link: 0.0 for links in known.values() for link in links}
        self.carried: defaultdict[str, float] = defaultdict(float)
        self.found = 0
        self._together, self._disturbed = 0, 0
        self._known = known
        self._tolerance = tolerance
        self._shared: dict[Pair, frozenset[str]] = {}
        self._machine: Sequence[int] = range(size)
        self._ends: dict[str, Link] = {}
        self._out, self._into = _Ends(size), _Ends(size)
        self._size = size

    def see(self, tree: Hierarchy) -> bool:
        """Takes the links of a tree that pairs without a common host can share. Returns whether there are any."""
        shareable = {n for n, link in enumerate(tree.links) if min(len(link.sources), len(link.targets)) > 1}
        self._machine = tree.machine
        hosts = range(tree.size)
        crossed = {
            (i, j): shareable.intersection(tree.path(i, j)) for i in hosts for j in hosts if i != j and shareable
        }
        unknown = shareable - _alike(crossed, self._known)
        self._ends = {tree.label(link): tree.links[link] for link in sorted(unknown)}
        self._shared = {
            pair: frozenset(tree.label(link) for link in links & unknown) for pair, links in crossed.items()
        }
        return bool(shareable)

    def links(self, pair: Pair) -> frozenset[str]:
        """The links that a pair loads, but for `EVERYTHING`."""
        return self._shared.get(pair, frozenset()) | self._known.get(pair, frozenset())

    def untested(self) -> dict[str, float]:
        """Once a link of the tree is full: the others that carried less so far than may want to cross them at once.

        Returns:
            them, with what the full ones carry, bit/s: theirs are often alike.
        """
        full = [room_bps / ROOM for link, room_bps in self.full.items() if link in self._ends and room_bps > 0]
        if not full:
            return {}
        wanted = {
            link: min(
                sum(self._out.most_bps[host] for host in ends.sources),
                sum(self._into.most_bps[host] for host in ends.targets),
            )
            for link, ends in self._ends.items()
            if link not in self.full
        }
        return {link: max(full) for link, bps in wanted.items() if self.carried[link] < TESTED * bps}

    def patient(self, pair: Pair) -> bool:
        """Whether a probe may take its time: it shares no links, or its ends are slow."""
        return not self.links(pair) or 0 < self.reached_bps(pair) < BRIEF_ABOVE_BPS

    def mates(self, pair: Pair) -> bool:
        """Whether both are known to be on one machine."""
        return self._machine[pair[0]] == self._machine[pair[1]]

    def tells_ends(self, pair: Pair) -> bool:
        """Whether it leaves its machine and shares no link of the tree: then only its hosts can limit it."""
        return not self.links(pair) and not self.mates(pair)

    def as_alone(self, pair: Pair, told: Beside) -> bool:
        """Whether a pair read as much as its source was seen to send with nothing beside it."""
        return told.rate_bps >= (1 - self._tolerance) * self._out.alone_bps[pair[0]]

    def reached_bps(self, pair: Pair) -> float:
        """What both ends of a pair were seen to reach with others; 0 = nothing is known."""
        if self.mates(pair):
            return 0.0
        return min(self._out.most_bps[pair[0]], self._into.most_bps[pair[1]])

    def wants_bps(self, pair: Pair) -> float:
        """What a pair may carry alone at most, by what is known of its ends; infinite where that is too little."""
        out, into = self._out, self._into
        return min(
            out.most_bps[pair[0]] if out.sure(pair[0]) else math.inf,
            into.most_bps[pair[1]] if into.sure(pair[1]) else math.inf,
        )

    def take(self, sent: Sequence[Sent]) -> dict[Pair, Beside]:
        """Notes what probes of one schedule read, and tells beside whom each was."""
        on: dict[tuple[str, int], list[Sent]] = defaultdict(list)
        for probe in sent:
            source, target = probe.pair
            if probe.rate_bps > 0 and not self.mates(probe.pair):
                self._out.take(source, probe.rate_bps)
                self._into.take(target, probe.rate_bps)
            for link in (*self.links(probe.pair), EVERYTHING):
                on[link, probe.round].append(probe)
        self._together += sum(link == EVERYTHING and len(probes) > 1 for (link, _), probes in on.items())
        told = {probe.pair: self._beside(probe, on) for probe in sent}
        for pair, beside in told.items():
            if beside.rate_bps > 0 and not beside.links and not self.mates(pair):
                self._out.take_alone(pair[0], beside.rate_bps)
        return told

    def _beside(self, probe: Sent, on: Mapping[tuple[str, int], list[Sent]]) -> Beside:
        def others(link: str) -> list[Sent]:
            # Pairs that are done run ahead into the next round.
            return [
                other
                for number in (probe.round - 1, probe.round, probe.round + 1)
                for other in on.get((link, number), ())
                if other.pair != probe.pair and other.start_s < probe.end_s and probe.start_s < other.end_s
            ]

        def nearly_always(each: Sequence[Sent]) -> list[float]:
            least_s = ALWAYS * (probe.end_s - probe.start_s)
            return [
                other.rate_bps
                for other in each
                if other.rate_bps > 0 and min(other.end_s, probe.end_s) - max(other.start_s, probe.start_s) >= least_s
            ]

        load_bps, back_bps, borne_bps = {}, {}, {}
        for link in self.links(probe.pair) | {EVERYTHING}:
            if each := others(link):
                load_bps[link] = sum(other.load_bps for other in each) + probe.load_bps
                above = sum(other.load_bps > (1 + SAME) * probe.load_bps for other in each)
                if above <= (len(each) / 2 if link == EVERYTHING else 0):
                    borne_bps[link] = sum(nearly_always(each)) + probe.load_bps
        for link in self.links(probe.pair[::-1]):
            if each := others(link):
                back_bps[link] = sum(other.load_bps for other in each)
                borne_bps.setdefault(_back(link), sum(nearly_always(each)))
        return Beside(probe.rate_bps, load_bps, back_bps, borne_bps)

    def doubtful(self, pair: Pair, told: Beside) -> bool:
        """Whether a pair may carry more than it read: it fell short of its ends, on links not known to have room."""
        if not math.isfinite(told.rate_bps):
            return True
        if told.rate_bps >= (1 - self._tolerance) * self.reached_bps(pair):
            return False
        return bool(self._untried(told))

    def _untried(self, told: Beside) -> set[str]:
        """Links that had more on them than they are known to carry."""

        def most_bps(link: str) -> float:
            slack = MORE if link == EVERYTHING else 1 + self._tolerance
            return slack * max(self.carried[link], self.full.get(link, 0.0))

        there = {link for link, load_bps in told.load_bps.items() if load_bps > most_bps(link)}
        back = {
            link
            for link, load_bps in told.back_bps.items()
            if load_bps > max(most_bps(link), (1 + self._tolerance) * self.carried[_back(link)])
        }
        return there | back

    def compare(self, told: Beside, alone_bps: float) -> dict[str, float]:
        """Learns from a pair measured in company and then with nothing on any link that it shared.

        Returns:
            links that may have been full, which count as full from now on, with what was on them, bit/s.
        """
        if not math.isfinite(alone_bps):
            return {}
        if math.isfinite(told.rate_bps) and alone_bps <= (1 + self._tolerance) * told.rate_bps:
            for link, borne_bps in told.borne_bps.items():
                self.carried[link] = max(self.carried[link], borne_bps)
            return {}
        untried = self._untried(told)
        if not told.links and EVERYTHING in untried:
            self._disturbed += 1
            # Going by halves costs another round for each, and who is disturbed one of its own: a lost time slice must
            # not take apart all rounds to come. (One of 30 trains of choreo: 2.5 instead of 1.2 s.)
            if self._disturbed > self._together:
                # Nobody knows where: by halves, until nobody is disturbed.
                self.full[EVERYTHING] = told.load_bps[EVERYTHING] / 2
                self.found += 1
                self._together, self._disturbed = 0, 0
        blamed = {
            link: told.load_bps.get(link, told.back_bps.get(link, 0.0))
            for link in untried
            if link != EVERYTHING and link not in self.full
        }
        self.full |= dict.fromkeys(blamed, 0.0)
        self.found += len(blamed)
        return blamed

    def settle(self, link: str, sum_bps: float, *, shared: bool) -> None:
        """Takes what an experiment told: what a link carries, or that so much did not fill it."""
        if shared:
            self.full[link] = max(self.full.get(link, 0.0), ROOM * sum_bps)
        else:
            self.full.pop(link, None)
            self.carried[link] = max(self.carried[link], sum_bps)

    def rounds(self, rounds: Sequence[Sequence[Pair]]) -> list[list[Pair]]:
        """Lays the pairs of some rounds out anew, so that no link has more on it at once than it has room for."""
        if not self.full:
            return [list(pairs) for pairs in rounds]
        return self._lay([pair for pairs in rounds for pair in pairs], alone=False)

    def apart(self, pairs: Sequence[Pair], told: Mapping[Pair, Beside]) -> list[list[Pair]]:
        """Rounds in which nothing else is on any link of the tree that a pair uses.

        Args:
            pairs: each once.
            told: of pairs measured in company; one that shared no link of the tree then goes by itself.
        """
        lone = [pair for pair in pairs if pair in told and not told[pair].links]
        others = [p for p in pairs if p not in set(lone)]
        return [*self._lay(others, alone=True), *([pair] for pair in lone)]

    def _lay(self, pairs: Sequence[Pair], *, alone: bool) -> list[list[Pair]]:
        """First fit, round by round, those whose links have most left to do first."""
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


def _alike(crossed: Mapping[Pair, Set[int]], known: Links) -> set[int]:
    """Links of the tree that the same pairs cross as some link that an earlier Network knows: they are the same."""
    by_link: dict[int, set[Pair]] = defaultdict(set)
    by_name: dict[str, set[Pair]] = defaultdict(set)
    for pair, links in crossed.items():
        for link in links:
            by_link[link].add(pair)
    for pair, names in known.items():
        for name in names:
            by_name[name].add(pair)
    told = {frozenset(pairs) for pairs in by_name.values()}
    return {link for link, pairs in by_link.items() if pairs in told}


def _back(link: str) -> str:
    """The same link on the way back, in `Company.carried`."""
    return f"back: {link}"


class _Round:
    """Pairs that go at the same time."""

    def __init__(self, company: Company, *, alone: bool) -> None:
        self.pairs: list[Pair] = []
        self._company = company
        self._alone = alone
        self._hosts: set[int] = set()
        self._load_bps: dict[str, float] = {}
        self._back: set[str] = set()

    def add(self, pair: Pair) -> bool:
        """Takes a pair, if it fits."""
        if not self._hosts.isdisjoint(pair):
            return False
        company = self._company
        out, back = company.links(pair), company.links(pair[::-1])
        if self._alone:
            if any(link in self._load_bps or link in self._back for link in out | back):
                return False
            mine_bps = 0.0
        else:
            mine_bps = company.wants_bps(pair)
            out = (out | {EVERYTHING}) & company.full.keys()
            back = back & company.full.keys()
            if any(not self._fits(link, mine_bps) for link in out) or any(self._is_full(link) for link in back):
                return False
        self._hosts.update(pair)
        for link in out:
            self._load_bps[link] = self._load_bps.get(link, 0.0) + mine_bps
        self._back |= back
        self.pairs.append(pair)
        return True

    def _fits(self, link: str, mine_bps: float) -> bool:
        """One pair always does, if it is not in others' way back; more do as far as there is room."""
        room_bps = self._company.full[link]
        before_bps = self._load_bps.get(link)
        if before_bps is None:
            return mine_bps <= room_bps or link not in self._back
        return before_bps + mine_bps <= room_bps

    def _is_full(self, link: str) -> bool:
        return self._load_bps.get(link, 0.0) > self._company.full[link]
