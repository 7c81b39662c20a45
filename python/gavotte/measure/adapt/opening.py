"""First rounds of a measurement, in which as many pairs as possible cross each link that they may share at once.

Rounds in random order need not do that: of four hosts in two racks, the only two pairs of a round may always go
opposite ways. Even if they meet, a link that the first of them fills delays the handshake of the second until the first
is done. Both then read their rates alone, and nothing shows that they share a link.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gavotte.formats.history import Floats
from gavotte.measure.adapt.concurrency import Concurrency, Sent
from gavotte.measure.adapt.overlap import Series
from gavotte.measure.plan.methods import Method
from gavotte.measure.plan.rounds import packed
from gavotte.terms import Pair

PAUSE_S = 0.05
"""Delay of the trains of these rounds after their round's beginning.

Connecting takes 3 to 15 ms, or 80 behind a full link.
"""

FULL = 1 / 3
"""Share of its load at which a link is first filled, if as many pairs as can cross it lose."""

STRETCHED = 1.5
"""These trains end after this multiple of their usual time."""

MET = 0.65
"""Two pairs ran together if each did for this share of its time.

Of trains alone, one took 1.4 times as long as another. A train that waited for another, or was starved by it, continues
after it. """

CAME = 0.8
"""Share of the rates that must arrive. Trains that lost nothing brought 0.9 of their rates, in bins of 10 ms."""

ENOUGH = 0.75
"""A link is tested when this share of the pairs that were to cross it did so together, at least two."""


_Ways = Mapping[frozenset[str], list[Pair]]
"""Pairs that cross a link, by all links that they cross."""


@dataclass
class Opening:
    """The first rounds of a measurement.

    Attributes:
        ends: rounds that measure the rates of hosts; their pairs share no link.
        tests: rounds whose pairs cross links together.
        rest: all other rounds.
        aims: links to their pairs in the test round that has most of them.
    """

    ends: list[list[Pair]]
    tests: list[list[Pair]]
    rest: list[list[Pair]]
    aims: dict[str, list[Pair]]
    _sent: list[dict[Pair, Sent]] = field(default_factory=list)

    def take(self, sent: Iterable[Sent]) -> None:
        """Record the readings of one test round's probes, and when."""
        self._sent.append({probe.pair: probe for probe in sent})

    def untested(self, rate: Floats, method: Method) -> dict[str, list[Pair]]:
        """Return links that too few pairs crossed together, or on which some fell short.

        Args:
            rate: (N, N) bit/s, rates of pairs alone; NaN = unknown.
            method: the method of the paths.

        Returns:
            them, with the pairs that were to cross them.
        """
        return {
            link: pairs
            for link, pairs in self.aims.items()
            if max((_met(sent, pairs, rate, method) for sent in self._sent), default=0)
            < max(2, math.ceil(ENOUGH * len(pairs)))
        }

    def by_test(self, links: Mapping[str, list[Pair]]) -> list[dict[str, list[Pair]]]:
        """Group untested links whose pairs were in the same round."""
        parts = ({link: pairs for link, pairs in links.items() if set(pairs) <= set(test)} for test in self.tests)
        return [part for part in parts if part]


def opening(rounds: Sequence[Sequence[Pair]], concurrency: Concurrency) -> Opening:
    """Choose the first rounds.

    Args:
        rounds: all that is to be measured.
        concurrency: what is known about links.
    """
    pairs = [pair for each in rounds for pair in each]
    by_link: dict[str, _Ways] = defaultdict(lambda: defaultdict(list))
    for pair in pairs:
        for link in (links := concurrency.links(pair)):
            by_link[link][links].append(pair)
    tests: list[list[Pair]] = []
    aims: dict[str, list[Pair]] = {}
    taken: set[Pair] = set()
    # The upper links have the most pairs, which can be chosen so that they fill the lower links too.
    left = sorted(by_link, key=lambda link: (-sum(map(len, by_link[link].values())), link))
    while left:
        laid = _Crossing(concurrency, taken)
        for link in left:
            laid.fill(by_link[link], set(left))
        crossed = {link: [pair for pair in laid.pairs if link in concurrency.links(pair)] for link in left}
        full = {link for link in left if len(crossed[link]) >= _most(by_link[link])} | {left[0]}
        aims |= {link: crossed[link] for link in left if link in full and len(crossed[link]) > 1}
        if any(link in aims for link in full):
            tests.append(laid.pairs)
            taken.update(laid.pairs)
        left = [link for link in left if link not in full]
    ends = each_end_once(pair for pair in pairs if concurrency.tells_ends(pair))
    taken.update(pair for each in ends for pair in each)
    return Opening(ends, tests, _left(rounds, taken), aims)


def each_end_once(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """Return rounds in which each host sends once and receives once if possible, from the first pairs that fit."""
    sources, targets = set[int](), set[int]()
    chosen = []
    for source, target in pairs:
        if source not in sources and target not in targets:
            sources.add(source)
            targets.add(target)
            chosen.append((source, target))
    return packed(chosen, {})


def _left(rounds: Sequence[Sequence[Pair]], taken: Collection[Pair]) -> list[list[Pair]]:
    """Return the pairs that are not taken, in the same order. A round's rest joins the one before it if it fits."""
    rounds_left: list[list[Pair]] = []
    busy: set[int] = set()
    for pairs in rounds:
        left = [pair for pair in pairs if pair not in taken]
        hosts = {host for pair in left for host in pair}
        if rounds_left and busy.isdisjoint(hosts):
            rounds_left[-1] += left
            busy |= hosts
        elif left:
            rounds_left.append(left)
            busy = hosts
    return rounds_left


def _most(ways: _Ways) -> int:
    """Return the largest number of pairs that may cross a link at once."""
    return min(len({pair[end] for pairs in ways.values() for pair in pairs}) for end in (0, 1))


class _Crossing:
    """A round whose pairs cross links together."""

    def __init__(self, concurrency: Concurrency, taken: Collection[Pair]) -> None:
        self.pairs: list[Pair] = []
        self._concurrency = concurrency
        self._taken = taken
        self._hosts: set[int] = set()
        self._on: Counter[str] = Counter()
        self._back: set[str] = set()

    def fill(self, ways: _Ways, wanted: Collection[str]) -> None:
        """Add pairs of one link, each from and to a host of its own, that also help to fill other links.

        Args:
            ways: pairs of the link.
            wanted: links to be filled.
        """
        left = set(ways)
        while left:
            best = max(left, key=lambda links: (self._gain(links, wanted), sorted(links)))
            left.remove(best)
            for pair in ways[best]:
                if self._hosts.isdisjoint(pair) and self._fits(pair):
                    self._add(pair)

    def _gain(self, links: Collection[str], wanted: Collection[str]) -> tuple[int, int]:
        mine = [link for link in links if link in wanted]
        return sum(self._on[link] > 0 for link in mine), len(mine)

    def _fits(self, pair: Pair) -> bool:
        """Return whether a pair is in no round yet, and on no other pair's way back, which would slow trains."""
        out, back = self._concurrency.links(pair), self._concurrency.links(pair[::-1])
        return pair not in self._taken and self._back.isdisjoint(out) and not any(self._on[link] for link in back)

    def _add(self, pair: Pair) -> None:
        self.pairs.append(pair)
        self._hosts.update(pair)
        self._on.update(self._concurrency.links(pair))
        self._back |= self._concurrency.links(pair[::-1])


def _met(sent: Mapping[Pair, Sent], pairs: Sequence[Pair], rate: Floats, method: Method) -> int:
    """Return how many of a link's pairs ran together in one round; 0 if any of them fell short."""
    probes = [sent[pair] for pair in pairs if pair in sent]
    if any(not probe.rate_bps >= (1 - method.tolerance) * rate[probe.pair] for probe in probes):
        return 0

    def beside(one: Sent, other: Sent) -> bool:
        both_s = min(one.end_s, other.end_s) - max(one.start_s, other.start_s)
        # A slower train takes longer.
        usual = [method.typical(each.rate_bps)[1] for each in (one, other)]
        stretched = max((each.end_s - each.start_s) / s for each, s in zip((one, other), usual, strict=True))
        return one is other or both_s >= MET * stretched * min(usual)

    together = [[other for other in probes if beside(one, other)] for one in probes]
    return max((len(each) for each in together if _all_came(each)), default=0)


def _all_came(probes: Sequence[Sent]) -> bool:
    """Return whether nearly all that pairs carry arrived while all of them sent, if receivers report it.

    Hosts much faster than a link each fill its queue alone. One after the other, all pass it at its full rate.
    """
    if not all(probe.bits for probe in probes):
        return True
    begin = max(probe.start_s for probe in probes)
    end = min(probe.start_s + len(probe.bits) * probe.bin_s for probe in probes)
    if end <= begin:
        return False
    series = (Series(probe.start_s, probe.bin_s, np.array(probe.bits)) for probe in probes)
    came = sum(float(np.diff(each.until(np.array([begin, end])))[0]) for each in series)
    return came >= CAME * (end - begin) * sum(probe.rate_bps for probe in probes)
