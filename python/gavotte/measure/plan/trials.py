"""Choose the pairs that send at once, so that few experiments cover every shared link (Choreo section 3.3.2).

Choreo's rules 1 and 2 say which pairs of connections a bottleneck makes interfere: exactly those that cross it. One
experiment per link is therefore enough, and there are about four links per host, not N^4 pairs of pairs. A host's link
needs two connections out of it (or into it). A rack's link needs as many pairs with ends of their own as there are
hosts. Each experiment fills no other link if that is possible, so that a drop has one explanation.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from gavotte.formats.history import Floats
from gavotte.measure.plan.pair_rates import PairRates, rates_between
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


def plan_trials(tree: Hierarchy, rate: PairRates, *, hosts: Collection[int], seed: int) -> list[Trial]:
    """Return one experiment for each link that two pairs can share.

    Args:
        tree: tree of all hosts.
        rate: rate of each pair alone, any unit; NaN = unknown, such pairs are not used.
        hosts: usable hosts.
        seed: decides between equals.
    """
    pairs = UsablePairs(tree, rate, hosts)
    trials = (choose(pairs, link, seed=seed) for link in range(len(tree.links)))
    return [trial for trial in trials if trial is not None]


@dataclass(frozen=True)
class UsablePairs:
    """Pairs from which those of an experiment are chosen.

    Attributes:
        tree: tree of all hosts.
        rate: rate of each pair alone; NaN = not to be used.
        hosts: usable hosts.
        link_bps: by link, the rate of those whose rate is known. Pairs that would fill one of these do not show what
            another one carries, and are chosen last.
    """

    tree: Hierarchy
    rate: PairRates
    hosts: Collection[int]
    link_bps: Mapping[int, float] = field(default_factory=dict)


def choose(
    usable: UsablePairs,
    link: int,
    *,
    seed: int,
    attempt: int = 0,
    used: Iterable[Pair] = (),
    crowd: bool = False,
) -> Trial | None:
    """Choose the pairs that load one link and, if possible, share no other.

    Args:
        usable: pairs to choose from.
        link: index of the tree's `links`.
        seed: decides between equals.
        attempt: number of this try of the link.
        used: pairs of earlier tries; others are preferred.
        crowd: let several sources share a target if there are more of them; only then can all of them send.

    Returns:
        None when fewer than two pairs cross the link.
    """
    pairs = _Picker(usable, link, random.Random(f"{seed} {link} {attempt}"), set(used), crowd).pick()
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
    """Greedy algorithm that chooses the pairs of one experiment, and its state.

    Pairs are rows of arrays: a pod's link has 100,000, and each next pair is the best of thousands.
    """

    def __init__(self, usable: UsablePairs, link: int, rng: random.Random, used: set[Pair], crowd: bool) -> None:
        tree, hosts = usable.tree, set(usable.hosts)
        it = tree.links[link]
        sources, targets = sorted(it.sources & hosts), sorted(it.targets & hosts)
        sources, targets = _some(sources, targets, rng), _some(targets, sources, rng)
        self.one_source, self.one_target = len(sources) == 1, len(targets) == 1
        self.shares_targets = crowd
        rates = rates_between(usable.rate, sources, targets)
        machine = np.array(tree.machine)
        crosses = (machine[sources][:, None] != machine[targets][None, :]) & (rates > 0)
        places = [(int(i), int(j)) for i, j in np.argwhere(crosses)]
        rng.shuffle(places)
        row, column = np.array(places, dtype=np.intp).reshape(len(places), 2).T
        fastest = np.where(crosses, rates, 0.0).max(axis=1, initial=0.0)
        self.most = float(fastest.max(initial=0.0)) or 1.0
        self.pairs = np.stack([np.array(sources, dtype=np.intp)[row], np.array(targets, dtype=np.intp)[column]], axis=1)
        self.rates = rates[row, column]
        # Fast sources first: if there are fewer targets, the slow ones are left out.
        order = np.argsort(self._slowness(fastest[row]), kind="stable")
        if (self.one_source or self.one_target) and len(order):
            fast = order[self.rates[order] >= FAST_SHARE * self.rates.max()]
            order = fast if len(fast) >= HOST_PAIRS else order
        self.pairs, self.rates = self.pairs[order], self.rates[order]
        slow = self.rates < FAST_SHARE * fastest[row[order]]
        known = np.array([(s, t) in used for s, t in self.pairs.tolist()], dtype=np.bool_)
        self.paths = tree.paths(self.pairs[:, 0], self.pairs[:, 1])
        self.paths[self.paths == link] = len(tree.links)
        others = (self.paths < len(tree.links)).sum(axis=1)
        # What does not change while pairs are chosen, the most important last.
        self.costs = (self._slowness(self.rates), others, known, slow)
        self.crowd = np.zeros(len(tree.links) + 1, dtype=np.int64)
        self.load_bps = np.zeros(len(tree.links) + 1)
        self.most_bps = np.full(len(tree.links) + 1, np.inf)
        self.most_bps[list(usable.link_bps)] = list(usable.link_bps.values())
        self.most_bps[-1] = np.inf
        self.busy = np.zeros(tree.size, dtype=np.int64)
        self.free = np.ones(len(self.pairs), dtype=np.bool_)

    def pick(self) -> tuple[Pair, ...]:
        """Return the pairs of the experiment."""
        chosen: list[Pair] = []
        while len(chosen) < (HOST_PAIRS if self.one_source or self.one_target else MOST_PAIRS):
            left = self._left()
            if not left.size:
                break
            crowds = self.crowd[self.paths[left]]
            keys = [*(cost[left] for cost in self.costs), crowds.sum(axis=1), crowds.max(axis=1)]
            best = int(left[np.lexsort(keys)[0]])
            source, target = self.pairs[best].tolist()
            chosen.append((source, target))
            self.free[best] = False
            self.crowd[self.paths[best]] += 1
            self.load_bps[self.paths[best]] += self.rates[best]
            self.crowd[-1] = self.load_bps[-1] = 0
            self.busy[[source, target]] += 1
        return tuple(chosen)

    def _left(self) -> npt.NDArray[np.intp]:
        """Return pairs that may be next: of hosts without a part so far, or whose target has as few sources as any.

        Those that would fill another link are among them only if there are no others.
        """
        sources = self.pairs[:, 0]
        rows = np.flatnonzero(self.free & (self.one_source | (self.busy[sources] == 0)))
        if np.isfinite(self.most_bps).any():
            paths = self.paths[rows]
            fits = (self.load_bps[paths] + self.rates[rows, None] <= self.most_bps[paths]).all(axis=1)
            if not self.one_target:
                fits &= self.busy[self.pairs[rows, 1]] == 0
            rows = rows[fits] if fits.any() else rows
        if not rows.size:
            return rows
        _, first = np.unique(sources[rows], return_index=True)
        tried = sources[rows[np.sort(first)[:SOURCES_TRIED]]]
        rows = rows[np.isin(sources[rows], tried)]
        # One source after the other, as they were first met.
        rank = np.zeros(len(self.busy), dtype=np.intp)
        rank[tried] = np.arange(len(tried))
        rows = rows[np.argsort(rank[sources[rows]], kind="stable")]
        if self.one_target:
            return rows
        busy = self.busy[self.pairs[rows, 1]]
        least = int(busy.min())
        if least > 0 and (self.one_source or not self.shares_targets):
            return rows[:0]
        return np.asarray(rows[busy == least], dtype=np.intp)

    def _slowness(self, rates: Floats) -> npt.NDArray[np.int64]:
        """Return how many times rates are relevantly below the fastest: 0 for all that count as equal."""
        return np.asarray((np.log(rates / self.most) / math.log(ALIKE)).astype(np.int64))


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
