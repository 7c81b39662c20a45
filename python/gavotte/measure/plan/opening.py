"""First rounds of a measurement, in which as many pairs as possible cross each link that they may share at once.

Rounds in random order need not do that: of four hosts in two racks, the only two pairs of a round may always go
opposite ways. Even if they meet, a link that the first of them fills delays the handshake of the second until the first
is done. Both then read their rates alone, and nothing shows that they share a link.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gavotte.measure.plan.concurrency import Concurrency
from gavotte.measure.plan.rounds import packed
from gavotte.terms import Pair

PAUSE_S = 0.05
"""Delay of the trains of these rounds after their round's beginning.

Connecting takes 3 to 15 ms, or 80 behind a full link.
"""

_Ways = Mapping[frozenset[str], list[Pair]]
"""Pairs that cross a link, by all links that they cross."""


@dataclass(frozen=True)
class Opening:
    """Rounds of a measurement: first those that show hosts' rates and shared links, then the rest.

    Attributes:
        ends: rounds that measure the rates of hosts; their pairs share no link.
        tests: rounds whose pairs cross links together.
        rest: all other rounds.
        aims: each tested link, with its pairs in the test round that has most of them.
    """

    ends: list[list[Pair]]
    tests: list[list[Pair]]
    rest: list[list[Pair]]
    aims: dict[str, list[Pair]]


def opening(rounds: Sequence[Sequence[Pair]], concurrency: Concurrency) -> Opening:
    """Choose the first rounds of a measurement.

    Args:
        rounds: all rounds of the measurement.
        concurrency: known facts about links.
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
    """A round under construction, whose pairs cross as many of the same links as possible at once."""

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
