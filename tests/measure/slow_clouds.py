"""Simulated clouds with slow hosts, whose pairs are as fast as the slower of their two ends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gavotte.formats.history import Floats
from gavotte.measure.slow.searching import Round, SearchResult, find_slow
from gavotte.measure.slow.verdicts import Threshold
from gavotte.terms import Pair

RATE_BPS = 10e9
SLOWEST, FASTEST = 0.6, 0.85
"""Range of a slow host's rate as a share of what it should be. The least fault is 1.5 times the threshold."""

DEAD = 0.01
CLASS_RATE = 0.5


@dataclass
class SlowCloud:
    """A cloud, and the oracle that a search asks.

    Attributes:
        sends_bps: what each host sends at most.
        receives_bps: what each host receives at most.
        noise: relative standard deviation of a probe.
        random: source of the noise.
        dead: hosts that do not answer.
        slow: truth: (host, direction) of each fault.
        pairs: share of the rate that single slow pairs reach.
        asked: all rounds so far.
    """

    sends_bps: Floats
    receives_bps: Floats
    noise: float
    random: np.random.Generator
    dead: set[int] = field(default_factory=set)
    slow: set[tuple[int, str]] = field(default_factory=set)
    pairs: dict[Pair, float] = field(default_factory=dict)
    asked: list[list[Pair]] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.sends_bps)

    def probe(self, rounds: Sequence[Round]) -> list[Mapping[Pair, float]]:
        """Return the rates of pairs whose hosts both live."""
        self.asked += [list(pairs) for pairs in rounds]
        return [{(s, t): self.rate(s, t) for s, t in pairs if not {s, t} & self.dead} for pairs in rounds]

    def rate(self, source: int, target: int) -> float:
        limit_bps = min(self.sends_bps[source], self.receives_bps[target]) * self.pairs.get((source, target), 1.0)
        return float(limit_bps * math.exp(self.random.normal(0, self.noise)))


def random_cloud(size: int, noise: float, seed: int, *, classes: bool = False) -> SlowCloud:
    """Return a cloud with one slow host, which sends, receives or does both slowly.

    Args:
        size: number of hosts.
        noise: relative standard deviation of a probe.
        seed: seed of everything.
        classes: whether half of the hosts have half the rate by design.
    """
    random = np.random.default_rng([seed, size])
    rates = np.full((2, size), RATE_BPS)
    if classes:
        rates[:, random.permutation(size)[: size // 2]] *= CLASS_RATE
    bad = int(random.integers(size))
    kinds: list[tuple[str, ...]] = [("sends",), ("receives",), ("sends", "receives")]
    directions = kinds[int(random.integers(3))]
    share = random.uniform(SLOWEST, FASTEST)
    for row, direction in enumerate(("sends", "receives")):
        rates[row, bad] *= share if direction in directions else 1.0
    dead = set(np.flatnonzero(random.random(size) < DEAD).tolist()) - {bad}
    return SlowCloud(rates[0], rates[1], noise, random, dead, {(bad, direction) for direction in directions})


@dataclass(frozen=True)
class Outcome:
    """What a search of a cloud came to.

    Attributes:
        missed: whether a fault was not found.
        false: whether something was reported that is none.
        undecided: whether some verdict is missing.
        dead: whether exactly the dead hosts are reported as such.
        result: what the search returned.
    """

    missed: bool
    false: bool
    undecided: bool
    dead: bool
    result: SearchResult


def outcome(cloud: SlowCloud, seed: int, threshold: Threshold | None = None) -> Outcome:
    """Search a cloud, and compare the verdicts with the truth."""
    result = find_slow(cloud.size, cloud.probe, threshold=threshold, seed=seed)
    ends = result.judged.ends
    below = {(end.host, str(end.direction)) for end in ends if end.verdict == "below"}
    silent = {end.host for end in ends if end.verdict == "no answer"}
    undecided = any(end.verdict == "cannot tell" for end in ends)
    false = bool(below - cloud.slow or result.pairs)
    return Outcome(not cloud.slow <= below, false, undecided, silent == cloud.dead, result)
