"""Choose the pairs that send at once, so that few experiments cover every shared link (Choreo section 3.3.2).

Choreo's rules 1 and 2 say which pairs of connections a bottleneck makes interfere: exactly those that cross it. One
experiment per link is therefore enough, and there are about four links per host, not N^4 pairs of pairs. A host's link
needs two connections out of it (or into it). A rack's link needs as many pairs with ends of their own as there are
hosts. Each experiment fills no other link if that is possible, so that a drop has one explanation.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gavotte.formats.history import Floats
from gavotte.terms import Pair
from gavotte.terms.hierarchy import Hierarchy

MOST_PAIRS = 512
"""Most pairs of one experiment: as many as there are hosts, since a pod's link may carry most of what all of them send.
"""

SOURCES_TRIED = 8
"""Free sources considered for each next pair: all of a rack, but not all 100 hosts of a pod with all their targets."""

SIDE_TRIED = 256
"""Hosts considered on the larger side of a link, or twice as many as are on the smaller one. All pairs across the link
of a rack among 1,024 hosts are 25,000."""

HOST_PAIRS = 2
PAIRS_AT_ONCE = 48
"""Most pairs of one round, over all its experiments."""

FAST_SHARE = 0.7
"""Least share of a host's fastest path: slower ones could not fill its link together."""


ALIKE = 0.98
"""Rates that differ by less count as equal. The seed then decides, so that predicted experiments are those that run.

Before this, noise of a thousandth decided, and a predicted 25 s took 20 s.
"""

Way = Literal["disjoint", "fan-in", "fan-out"]
"""Whether in an experiment no host has two parts, some target has several sources, or some source several targets.

Each has its own way of sending.
"""

WAYS: tuple[Way, ...] = ("disjoint", "fan-in", "fan-out")


@dataclass(frozen=True)
class Trial:
    """Experiment that loads one link: pairs that send at the same time.

    Attributes:
        link: index of the link in the tree.
        pairs: source and target of each pair, as host indices.
        attempt: 0 for the first choice of pairs.
        way: how its pairs send; parts of an experiment send as the whole does.
    """

    link: int
    pairs: tuple[Pair, ...]
    attempt: int = 0
    way: Way = "disjoint"


def plan_trials(tree: Hierarchy, rate: Floats, *, hosts: Collection[int], seed: int) -> list[Trial]:
    """Return one experiment for each link that two pairs can share.

    Args:
        tree: tree of all hosts.
        rate: (N, N) rate of each pair alone, any unit; NaN = unknown, such pairs are not used.
        hosts: usable hosts.
        seed: decides between equals.
    """
    trials = (choose(tree, link, rate, hosts=hosts, seed=seed) for link in range(len(tree.links)))
    return [trial for trial in trials if trial is not None]


def choose(
    tree: Hierarchy,
    link: int,
    rate: Floats,
    *,
    hosts: Collection[int],
    seed: int,
    attempt: int = 0,
    used: Iterable[Pair] = (),
    crowd: bool = False,
) -> Trial | None:
    """Choose the pairs that load one link and, if possible, share no other.

    Args:
        tree: tree of all hosts.
        link: index of `tree.links`.
        rate: (N, N) rate of each pair alone; NaN = not to be used.
        hosts: usable hosts.
        seed: decides between equals.
        attempt: number of this try of the link.
        used: pairs of earlier tries; others are preferred.
        crowd: let several sources share a target if there are more of them; only then can all of them send.

    Returns:
        None when fewer than two pairs cross the link.
    """
    picker = _Picker(tree, link, rate, hosts, random.Random(f"{seed} {link} {attempt}"), set(used), crowd)
    pairs = picker.pick()
    return Trial(link, pairs, attempt, _way(pairs)) if len(pairs) > 1 else None


def _way(pairs: Sequence[Pair]) -> Way:
    if len({source for source, _ in pairs}) < len(pairs):
        return "fan-out"
    return "fan-in" if len({target for _, target in pairs}) < len(pairs) else "disjoint"


def _some(hosts: list[int], others: Sequence[int], rng: random.Random) -> list[int]:
    """Return the hosts of one side of a link, or some of them if they are many."""
    most = max(SIDE_TRIED, 2 * len(others))
    return hosts if len(hosts) <= most else sorted(rng.sample(hosts, most))


class _Picker:
    """Greedy algorithm that chooses the pairs of one experiment, and its state."""

    def __init__(
        self,
        tree: Hierarchy,
        link: int,
        rate: Floats,
        hosts: Collection[int],
        rng: random.Random,
        used: set[Pair],
        crowd: bool,
    ) -> None:
        self.tree = tree
        self.link = link
        self.rate = rate
        it = tree.links[link]
        sources, targets = sorted(it.sources & set(hosts)), sorted(it.targets & set(hosts))
        self.sources, self.targets = _some(sources, targets, rng), _some(targets, sources, rng)
        self.one_end = len(self.sources) == 1 or len(self.targets) == 1
        self.pairs = [p for p in ((s, t) for s in self.sources for t in self.targets) if self._crosses(p)]
        rng.shuffle(self.pairs)
        self.fastest: dict[int, float] = {}
        for pair in self.pairs:
            self.fastest[pair[0]] = max(self.fastest.get(pair[0], 0.0), float(rate[pair]))
        self.most = max(self.fastest.values(), default=1.0)
        self.used = used
        self.shares_targets = crowd
        self.crowd: Counter[int] = Counter()
        self.busy: Counter[int] = Counter()

    def _crosses(self, pair: Pair) -> bool:
        return bool(self.rate[pair] > 0) and self.link in self.tree.path(*pair)

    def pick(self) -> tuple[Pair, ...]:
        if self.one_end and self.pairs:
            fastest = max(self.rate[pair] for pair in self.pairs)
            fast = [pair for pair in self.pairs if self.rate[pair] >= FAST_SHARE * fastest]
            if len(fast) >= HOST_PAIRS:
                self.pairs = fast
        paths = {pair: self.tree.path(*pair) for pair in self.pairs}
        by_source: dict[int, list[Pair]] = defaultdict(list)
        # Fast sources first: if there are fewer targets, the slow ones are left out.
        for pair in sorted(self.pairs, key=lambda pair: self._slowness(self.fastest[pair[0]])):
            by_source[pair[0]].append(pair)
        chosen: list[Pair] = []
        while len(chosen) < (HOST_PAIRS if self.one_end else MOST_PAIRS):
            left = self._free(by_source)
            if not left:
                break
            best = min(left, key=lambda pair: self._cost(pair, paths[pair]))
            chosen.append(best)
            by_source[best[0]].remove(best)
            self.crowd.update(link for link in paths[best] if link != self.link)
            self.busy.update(best)
        return tuple(chosen)

    def _free(self, by_source: Mapping[int, Sequence[Pair]]) -> list[Pair]:
        """Return pairs of hosts without a part so far, or whose target has as few sources as any."""
        sources = [s for s in by_source if len(self.sources) == 1 or not self.busy[s]][:SOURCES_TRIED]
        pairs = [pair for source in sources for pair in by_source[source]]
        if len(self.targets) == 1:
            return pairs
        least = min((self.busy[target] for _, target in pairs), default=0)
        if least > 0 and (len(self.sources) == 1 or not self.shares_targets):
            return []
        return [pair for pair in pairs if self.busy[pair[1]] == least]

    def _cost(self, pair: Pair, path: Sequence[int]) -> tuple[int, int, bool, bool, int, int]:
        """Return the cost of a pair: links that it also fills; then whether it is slow, or not new; then a long way."""
        others = [self.crowd[link] for link in path if link != self.link]
        slow = float(self.rate[pair]) < FAST_SHARE * self.fastest[pair[0]]
        slowness = self._slowness(float(self.rate[pair]))
        return max(others, default=0), sum(others), slow, pair in self.used, len(others), slowness

    def _slowness(self, rate: float) -> int:
        """Return how many times a rate is relevantly below the fastest: 0 for all that count as equal."""
        return int(math.log(rate / self.most) / math.log(ALIKE))


def rounds_of(tree: Hierarchy, trials: Sequence[Trial]) -> list[list[Trial]]:
    """Put experiments that can never meet on a link, in either direction, into the same round, first fit.

    A sender is paced by the replies to it. Behind a link that another experiment fills in the other direction, they
    wait in its queue. Three trains through a rack's uplink of 140 Mbit/s then carried 118 instead of 140.

    Args:
        tree: tree of all hosts.
        trials: in any order; the largest go first.
    """
    rounds: list[tuple[set[int], int, list[Trial]]] = []
    for trial in sorted(trials, key=lambda trial: -len(trial.pairs)):
        links = {link for s, t in trial.pairs for link in (*tree.path(s, t), *tree.path(t, s))}
        for number, (taken, pairs, members) in enumerate(rounds):
            if not taken & links and pairs + len(trial.pairs) <= PAIRS_AT_ONCE:
                rounds[number] = (taken | links, pairs + len(trial.pairs), [*members, trial])
                break
        else:
            rounds.append((links, len(trial.pairs), [trial]))
    return [members for _, _, members in rounds]
