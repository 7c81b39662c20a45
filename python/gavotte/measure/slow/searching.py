"""Search for slow hosts by random permutations. It sends nothing itself: an oracle returns the rates of pairs.

1. All hosts are probed in `FIRST_ROUNDS` rounds. In each round every host sends to one and receives from one.
2. Ends that are certainly fine, or certainly below the others, are done. The others are probed in further rounds,
   against hosts that are known to be fine, until all are done or the most rounds have passed.
3. Suspects are confirmed against hosts that are known to be fine, and slow pairs are probed again. This shows whether
   the sender, the receiver or only the pair is slow, and that the fault was not a passing one.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from gavotte._core import student_quantile
from gavotte.measure.plan.rounds import packed
from gavotte.measure.slow.levels import Probed, exp
from gavotte.measure.slow.verdicts import End, Judged, Threshold, judge
from gavotte.terms import Pair

Round = Sequence[Pair]
"""Pairs of hosts, in which each host sends at most once and receives at most once."""

Oracle = Callable[[Sequence[Round]], Sequence[Mapping[Pair, float]]]
"""Returns the rate of each pair that answers, in bit/s, for each of some rounds."""

FEWEST = 3
"""Fewest hosts of which one can be slower than the others."""

FIRST_ROUNDS, NEXT_ROUNDS = 4, 4
CONFIRMING_ROUNDS = 3

ODD_HOSTS = 8
"""With an odd number of more hosts than this, one host rests in each round: it would take a turn of its own."""

MANY = 0.5
"""If more than this share of the ends is undecided, all hosts are probed again."""

MOST_PAIRS = 20
"""Most slow pairs that are probed again."""


def most_rounds(size: int) -> int:
    """Return the most rounds of a search, without the confirmation: O(log N).

    The quantile of an interval that holds for N hosts grows with the square root of log N, and so the probes of each
    host grow with log N.

    Args:
        size: number of hosts N.
    """
    return FIRST_ROUNDS + NEXT_ROUNDS * (6 + math.ceil(math.log2(max(size, 2))))


@dataclass(frozen=True)
class SlowPair:
    """A pair that is slow although its hosts are not.

    Attributes:
        source: sending host.
        target: receiving host.
        rate_bps: its mean rate in bit/s.
        share: that rate divided by what the slower of its hosts reaches with others.
        low: lower end of the share's interval.
        high: upper end of it.
        probes: number of probes.
    """

    source: int
    target: int
    rate_bps: float
    share: float
    low: float
    high: float
    probes: int

    @property
    def values(self) -> tuple[float, float, float, float, int]:
        """Rate, share, its interval and the number of probes."""
        return self.rate_bps, self.share, self.low, self.high, self.probes


@dataclass(frozen=True)
class SearchResult:
    """Result of a search.

    Attributes:
        judged: the verdict on each end.
        pairs: slow pairs of hosts that are fine.
        passing: ends that were below the others at first and were not when they were confirmed.
        rounds: number of rounds, with the confirmation.
        probes: number of probes.
        hit: number of different pairs that answered.
        alive: number of hosts that answered.
        spread: usual relative standard deviation of a probe.
        stopped: whether `proceed` ended the search.
    """

    judged: Judged
    pairs: Sequence[SlowPair]
    passing: Sequence[End]
    rounds: int
    probes: int
    hit: int
    alive: int
    spread: float
    stopped: bool = False

    @property
    def pair_chance(self) -> float:
        """Chance that a single slow pair was probed at all, 0 to 1."""
        return self.hit / max(self.alive * (self.alive - 1), 1)


@dataclass
class _Search:
    """State of a search."""

    probed: Probed
    oracle: Oracle
    threshold: Threshold
    pools: Sequence[Sequence[int]]
    random: random.Random
    rounds: int = 0
    probes: int = 0
    stopped: bool = False
    seen: dict[Pair, list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def looks(self) -> int:
        """Most times that the search judges, the confirmation included."""
        return (most_rounds(self.probed.size) - FIRST_ROUNDS) // NEXT_ROUNDS + 3

    @property
    def may_continue(self) -> bool:
        """Whether further rounds may help: some host has answered, and there may be more rounds."""
        return len(self.probed.level) > 0 and self.rounds < most_rounds(self.probed.size)

    def judge(self) -> Judged:
        """Judge all ends by the probes so far."""
        return judge(self.probed, self.threshold, self.looks)

    def decide(self, proceed: Callable[[], bool]) -> Judged:
        """Probe until every end is certainly fine or below the others, or no further round is allowed."""
        judged = self.judge()
        while self.may_continue and (open_ends := judged.numbers("cannot tell")):
            if not proceed():
                self.stopped = True
                break
            self.send(_next_rounds(self, judged, open_ends))
            judged = self.judge()
        return judged

    def send(self, rounds: Sequence[Round], apart: Collection[Pair] = ()) -> None:
        """Let the oracle probe some rounds, and keep the rates.

        Args:
            rounds: the rounds.
            apart: pairs whose rates show nothing about their hosts.
        """
        for pairs, rates in zip(rounds, self.oracle(rounds), strict=True):
            self.probed = self.probed.more([pair for pair in pairs if pair not in apart], rates)
            for pair, rate in rates.items():
                if 0 < rate < math.inf:
                    self.seen[pair].append(math.log(rate))
            self.probes += len(pairs)
        self.rounds += len(rounds)

    def silent(self, judged: Judged) -> set[int]:
        """Return hosts that answer in neither direction."""
        ends = set(judged.numbers("no answer"))
        return {end for end in ends if end + self.probed.size in ends}


def find_slow(
    size: int,
    oracle: Oracle,
    *,
    threshold: Threshold | None = None,
    pools: Sequence[Sequence[int]] | None = None,
    proceed: Callable[[], bool] = lambda: True,
    seed: int = 0,
) -> SearchResult:
    """Find the hosts that send or receive more slowly than the others, and by how much.

    Args:
        size: number of hosts N, at least `FEWEST`.
        oracle: returns the rates of pairs. A pair without a rate did not answer.
        threshold: when a host counts as slow.
        pools: hosts that are probed with each other, such as those of one rack; None = all.
        proceed: asked before further rounds; false ends the search, as a limit of cost does.
        seed: seed of the permutations.
    """
    everything = list(range(size))
    search = _Search(Probed(size), oracle, threshold or Threshold(), pools or [everything], random.Random(seed))
    search.send([_permutation(search, set()) for _ in range(FIRST_ROUNDS)])
    before = search.decide(proceed)
    begun = {pair: len(levels) for pair, levels in search.seen.items()}
    suspects, doubtful = before.numbers("below"), _doubtful_pairs(search, before)
    judged, passing = before, list[int]()
    if suspects or doubtful:
        search.stopped = search.stopped or not proceed()
    if (suspects or doubtful) and not search.stopped:
        search.send(_confirming_rounds(search, before, suspects, doubtful), apart=doubtful)
        judged = search.decide(proceed)
        passing = [number for number in suspects if not _confirmed(search, judged, number, begun)]
    verdicts = [
        replace(end, verdict="cannot tell") if number in set(passing) and end.verdict == "below" else end
        for number, end in enumerate(judged.ends)
    ]
    return SearchResult(
        judged=replace(judged, ends=verdicts),
        pairs=_slow_pairs(search, judged, doubtful),
        passing=[before.ends[number] for number in passing],
        rounds=search.rounds,
        probes=search.probes,
        hit=len(search.seen),
        alive=size - len(search.silent(judged)),
        spread=judged.spread,
        stopped=search.stopped,
    )


def _permutation(search: _Search, silent: Collection[int]) -> list[Pair]:
    """Return one random round of all hosts: in each pool a circle, in which each host sends to the next."""
    pairs: list[Pair] = []
    for pool in search.pools:
        hosts = [host for host in pool if host not in silent]
        search.random.shuffle(hosts)
        circle = list(zip(hosts, [*hosts[1:], *hosts[:1]], strict=True)) if len(hosts) > 1 else []
        if len(hosts) % 2 and len(hosts) > ODD_HOSTS:
            circle.pop()
        # Every other pair first, so that the round is carried out in two turns.
        pairs += circle[::2] + circle[1::2]
    return pairs


def _next_rounds(search: _Search, judged: Judged, open_ends: Sequence[int]) -> list[list[Pair]]:
    """Return further rounds: of the undecided ends against others that are fine, or of all hosts."""
    silent = search.silent(judged)
    rounds = min(NEXT_ROUNDS, most_rounds(search.probed.size) - search.rounds)
    if len(open_ends) > MANY * len(judged.ends):
        return [_permutation(search, silent) for _ in range(rounds)]
    return [_matched(search, judged, open_ends) or _permutation(search, silent) for _ in range(rounds)]


def _matched(search: _Search, judged: Judged, wanted: Sequence[int], met: Collection[Pair] = ()) -> list[Pair]:
    """Return one round in which ends meet opposite ends of other hosts that are known to be fine and fast.

    Args:
        search: state of the search.
        judged: verdicts so far.
        wanted: ends to probe.
        met: pairs that other pairs are preferred to.
    """
    size = search.probed.size
    busy: set[int] = set()
    pairs: list[Pair] = []
    for pool in search.pools:
        members = set(pool)
        own = [end for end in wanted if end % size in members]
        search.random.shuffle(own)
        partners = {sends: _partners(search, judged, pool, sends=sends) for sends in (True, False)} if own else {}
        everyone = {sends: _answered(search, pool, sends=sends) for sends in (True, False)} if own else {}
        for end in own:
            host, sends = end % size, end < size
            if end in busy:
                continue
            choice = partners[not sends]
            # An end that has met no faster one needs one.
            if not judged.ends[end].certain and search.probed.answered[end]:
                least = judged.levels.level[end] + search.threshold.tolerance
                choice = [each for each in everyone[not sends] if judged.levels.level[each] >= least] or choice
            free = (each for each in choice if each not in busy and each % size != host)
            partner = _first(free, {each for each in choice if _pair(end, each, size) in met} if met else ())
            if partner is None:
                continue
            busy |= {end, partner}
            pairs.append(_pair(end, partner, size))
    return [pair for turn in packed(pairs, {}) for pair in turn]


def _first(choice: Iterable[int], avoided: Collection[int]) -> int | None:
    """Return the first that is not avoided, else the first; None = there is none."""
    first = None
    for each in choice:
        if each not in avoided:
            return each
        first = each if first is None else first
    return first


def _pair(end: int, other: int, size: int) -> Pair:
    """Return the pair of hosts of two opposite ends."""
    return (end, other - size) if end < size else (other, end - size)


def _partners(search: _Search, judged: Judged, pool: Sequence[int], *, sends: bool) -> list[int]:
    """Return the ends of a pool that others may be compared with, the best ones first and otherwise in random order.

    They are fine and in the fastest class. Where a pool has none, the fastest that answered take their place.
    """
    classes, answered = judged.classes[not sends], _answered(search, pool, sends=sends)
    top = classes[0].level - search.threshold.tolerance if classes else -math.inf
    best = [end for end in answered if judged.ends[end].verdict == "fine" and judged.levels.level[end] >= top]
    return best or sorted(answered, key=lambda end: -judged.levels.level[end])[: max(1, len(answered) // 2)]


def _answered(search: _Search, pool: Sequence[int], *, sends: bool) -> list[int]:
    """Return the ends of a pool that have answered, in random order."""
    ends = [host if sends else search.probed.size + host for host in pool]
    answered = [end for end in ends if search.probed.answered[end]]
    search.random.shuffle(answered)
    return answered


def _confirming_rounds(
    search: _Search, judged: Judged, suspects: Sequence[int], doubtful: Sequence[Pair]
) -> list[list[Pair]]:
    """Return the rounds that confirm: suspects against partners that they have not met, and slow pairs again."""
    rounds = []
    met = set(search.seen)
    for _ in range(CONFIRMING_ROUNDS):
        matched = _matched(search, judged, suspects, met)
        met |= set(matched)
        sending, receiving = {s for s, _ in matched}, {t for _, t in matched}
        again = []
        for source, target in doubtful:
            if source not in sending and target not in receiving:
                again.append((source, target))
                sending.add(source)
                receiving.add(target)
        rounds.append([*matched, *again])
    return rounds


def _confirmed(search: _Search, judged: Judged, number: int, begun: Mapping[Pair, int]) -> bool:
    """Return whether a suspect's later probes are nearer to the threshold, or below it, than to the others' median."""
    end, size = judged.ends[number], search.probed.size
    later = [
        level
        for pair, levels in search.seen.items()
        if pair[number >= size] == number % size
        for level in levels[begun.get(pair, 0) :]
    ]
    if not later:
        return False
    return fmean(later) < math.log(end.median_bps) - search.threshold.width / 2


def _expected(judged: Judged, pair: Pair) -> float:
    """Return the level of a pair by what its hosts reach with others; NaN = unknown."""
    size = len(judged.ends) // 2
    return min(float(judged.levels.level[pair[0]]), float(judged.levels.level[size + pair[1]]))


def _doubtful_pairs(search: _Search, judged: Judged) -> list[Pair]:
    """Return pairs that were slow while both hosts are fine, the slowest first."""
    size, seen = search.probed.size, search.seen
    quantile = student_quantile(1 - search.threshold.error / max(len(seen), 1), judged.levels.freedom)
    limit = search.threshold.width + quantile * judged.spread
    behind = {
        pair: _expected(judged, pair) - fmean(levels)
        for pair, levels in seen.items()
        if judged.ends[pair[0]].verdict == judged.ends[size + pair[1]].verdict == "fine"
    }
    return sorted((pair for pair, by in behind.items() if by > limit), key=lambda pair: -behind[pair])[:MOST_PAIRS]


def _slow_pairs(search: _Search, judged: Judged, doubtful: Sequence[Pair]) -> list[SlowPair]:
    """Return the doubtful pairs that were slow again, each time that they were probed again."""
    quantile = student_quantile(1 - search.threshold.error / (2 * max(len(search.seen), 1)), judged.levels.freedom)
    pairs = []
    for pair in doubtful:
        levels = search.seen[pair]
        middle, expected = fmean(levels), _expected(judged, pair)
        half = quantile * judged.spread / math.sqrt(len(levels))
        again = fmean(levels[1:]) if len(levels) > 1 else math.inf
        if again - expected < -search.threshold.width and middle - expected + half < -search.threshold.width:
            by = middle - expected
            pairs.append(SlowPair(*pair, exp(middle), exp(by), exp(by - half), exp(by + half), len(levels)))
    return pairs
