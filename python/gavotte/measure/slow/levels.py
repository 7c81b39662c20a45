"""Estimate how fast each host sends and receives, from the rates of pairs of hosts.

A pair is as fast as the slower of two *ends*: the sending side of one host and the receiving side of another. Ends are
numbered: 0 to N - 1 send, N to 2N - 1 receive. A *level* is the natural logarithm of a rate in bit/s.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gavotte.formats.history import Floats
from gavotte.terms import Pair

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

PASSES = 4
"""Times that levels, and the probes that show them, are computed from each other."""

OUTLYING = 4.0
"""A probe that differs from its end's median by more standard deviations than this is disturbed, and is left out."""

LEAST_SPREAD = 0.005
"""Least relative standard deviation of a probe: a simulated network may have none."""

NORMAL_PER_MAD = 1.4826
"""Standard deviation of a normal distribution as a multiple of its median absolute deviation."""

MOST_LEVEL = 700.0
"""Largest level whose exponential is a float."""

OWN_PROBES, OWN_SPREAD = 6, 1.6
"""An end with this many probes, whose spread is this many times the usual one, has its own spread."""


@dataclass(frozen=True)
class Probed:
    """Rates of pairs of hosts.

    Attributes:
        size: number of hosts N.
        source: (k,) sending host of each answered probe.
        target: (k,) receiving host.
        level: (k,) natural logarithm of the rate in bit/s.
        asked: (m, 2) hosts of each probe, answered or not.
    """

    size: int
    source: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    target: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    level: Floats = field(default_factory=lambda: np.zeros(0))
    asked: Ints = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))

    @cached_property
    def answered(self) -> Ints:
        """(2N,) number of probes of each end that have a rate."""
        return np.bincount(np.concatenate([self.source, self.size + self.target]), minlength=2 * self.size)

    @cached_property
    def tried(self) -> Ints:
        """(2N,) number of probes of each end whose partner has answered another host, or this one."""
        source, target = self.asked[:, 0], self.size + self.asked[:, 1]
        ends = np.concatenate([source[self.answered[target] > 0], target[self.answered[source] > 0]])
        return np.bincount(ends, minlength=2 * self.size)

    def more(self, pairs: Collection[Pair], rates_bps: Mapping[Pair, float]) -> Probed:
        """Return the state after the probes of one round.

        Args:
            pairs: pairs that were probed.
            rates_bps: rate of each pair that answered, in bit/s; a rate that is not above 0 counts as no answer.
        """
        answers = {pair: rate for pair in pairs if 0 < (rate := rates_bps.get(pair, math.nan)) < math.inf}
        ends = np.array(list(answers), dtype=np.int64).reshape(-1, 2)
        return replace(
            self,
            source=np.concatenate([self.source, ends[:, 0]]),
            target=np.concatenate([self.target, ends[:, 1]]),
            level=np.concatenate([self.level, np.log(np.fromiter(answers.values(), dtype=np.float64))]),
            asked=np.concatenate([self.asked, np.array(list(pairs), dtype=np.int64).reshape(-1, 2)]),
        )


@dataclass(frozen=True)
class Levels:
    """Estimated levels of all ends.

    Attributes:
        level: (2N,) mean of the probes that show the end's own limit; NaN = no answer.
        probes: (2N,) number of these. 0 = the level is a lower bound, since all partners were slower.
        headroom: (2N,) number of answered probes whose partner is faster than the end.
        spread: (2N,) relative standard deviation of one probe.
        freedom: degrees of freedom of the usual spread.
    """

    level: Floats
    probes: Ints
    headroom: Ints
    spread: Floats
    freedom: float


def exp(level: float) -> float:
    """Return the number with a natural logarithm; infinity for one that is too large for a float."""
    return math.exp(level) if level < MOST_LEVEL else math.inf


def estimate(probed: Probed, tolerance: float) -> Levels:
    """Estimate the level of each end, and the spread of probes.

    1. Each probe is compared with what else its partner has reached. A single rate that is too high therefore raises no
       level.
    2. A probe shows the limit of an end if its partner is at least as fast by its other probes. A slow host therefore
       lowers no partner.
    3. Probes far from their end's median are left out: other traffic disturbed them.
    4. Steps 2 and 3 are repeated with the new levels.

    Args:
        probed: the rates of pairs.
        tolerance: difference of two levels that counts as none.
    """
    count, ends = len(probed.level), 2 * probed.size
    end = np.concatenate([probed.source, probed.size + probed.target])
    partner = np.concatenate([probed.size + probed.target, probed.source])
    level = np.concatenate([probed.level, probed.level])
    twin = np.roll(np.arange(2 * count), count)
    rest_most = _most_of_others(end, level, ends)[twin]
    estimates = np.full(ends, -np.inf)
    np.maximum.at(estimates, end, np.where(np.isfinite(rest_most), np.minimum(level, rest_most), level))
    used = np.ones(2 * count, dtype=bool)
    partner_level = np.where(np.isfinite(rest_most), rest_most, estimates[partner])
    spread, freedom = math.inf, 1.0
    for _ in range(PASSES):
        used = partner_level >= estimates[end] - tolerance
        middle = _medians(end[used], level[used], ends)
        near = np.abs(level - middle[end]) <= OUTLYING * spread
        used &= near
        sums, probes = _sums(end, level, used, ends)
        estimates = np.where(probes > 0, sums / np.maximum(probes, 1), estimates)
        spread, freedom = _usual_spread(end, level - estimates[end], used, probes)
        # What the partner reached without this probe.
        own = used[twin]
        alone = own & (probes[partner] < 2)
        rest = np.where(own, (sums[partner] - level) / np.maximum(probes[partner] - 1, 1), estimates[partner])
        partner_level = np.where(alone, np.where(np.isfinite(rest_most), rest_most, -np.inf), rest)
    headroom = np.bincount(end[partner_level >= estimates[end] + tolerance], minlength=ends)
    return Levels(
        level=np.where(np.isfinite(estimates), estimates, np.nan),
        probes=np.bincount(end[used], minlength=ends),
        headroom=headroom,
        spread=_spreads(end, level - estimates[end], used, spread, ends),
        freedom=freedom,
    )


def _most_of_others(end: Ints, level: Floats, ends: int) -> Floats:
    """Return the largest level of each probe's end without this probe; minus infinity = it has no other."""
    order = np.lexsort((level, end))
    last = np.searchsorted(end[order], np.arange(ends), side="right") - 1
    first = np.searchsorted(end[order], np.arange(ends), side="left")
    ranked = np.append(level[order], [-np.inf, -np.inf])
    most = np.where(last >= first, ranked[last], -np.inf)
    second = np.where(last > first, ranked[last - 1], -np.inf)
    largest = np.full(ends, -1)
    held = last >= first
    largest[held] = order[last[held]]
    return np.where(largest[end] == np.arange(len(end)), second[end], most[end])


def _medians(end: Ints, level: Floats, ends: int) -> Floats:
    """Return the median of each end's levels; NaN = it has none."""
    order = np.lexsort((level, end))
    first = np.searchsorted(end[order], np.arange(ends), side="left")
    last = np.searchsorted(end[order], np.arange(ends), side="right") - 1
    ranked = np.append(level[order], np.nan)
    middle = (ranked[(first + last) // 2] + ranked[(first + last + 1) // 2]) / 2
    return np.asarray(np.where(last >= first, middle, np.nan))


def _sums(end: Ints, level: Floats, used: Bools, ends: int) -> tuple[Floats, Ints]:
    """Return the sum and the number of the used levels of each end."""
    sums = np.asarray(np.bincount(end[used], weights=level[used], minlength=ends), dtype=np.float64)
    return sums, np.bincount(end[used], minlength=ends)


def _usual_spread(end: Ints, residual: Floats, used: Bools, probes: Ints) -> tuple[float, float]:
    """Return the relative standard deviation of a probe, over all ends, and its degrees of freedom."""
    several = used & (probes[end] > 1)
    if not several.any():
        return math.inf, 1.0
    fitted = 1 - 1 / probes[end[several]]
    scaled = residual[several] / np.sqrt(fitted)
    rough = max(NORMAL_PER_MAD * float(np.median(np.abs(scaled))), LEAST_SPREAD)
    near = np.abs(scaled) <= OUTLYING * rough
    spread = math.sqrt(float(np.mean(scaled[near] ** 2))) if near.any() else rough
    # Each probe counts at two ends.
    return max(spread, LEAST_SPREAD), max(1.0, float(fitted.sum()) / 2)


def _spreads(end: Ints, residual: Floats, used: Bools, usual: float, ends: int) -> Floats:
    """Return the spread of each end: the usual one, unless its own probes differ much more."""
    squares = np.bincount(end[used], weights=residual[used] ** 2, minlength=ends)
    probes = np.bincount(end[used], minlength=ends)
    own = np.sqrt(squares / np.maximum(probes - 1, 1))
    return np.where((probes >= OWN_PROBES) & (own > OWN_SPREAD * usual), own, usual)
