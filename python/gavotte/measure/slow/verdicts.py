"""Decide which ends are below the others, which are certainly not, and which need more probes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gavotte._core import student_quantile
from gavotte.errors import GavotteError
from gavotte.measure.slow.classes import HostClass, classes_of, reference_of
from gavotte.measure.slow.levels import Bools, Levels, Probed, estimate, exp

Direction = Literal["sends", "receives"]
DIRECTIONS: tuple[Direction, Direction] = ("sends", "receives")

Verdict = Literal["fine", "below", "cannot tell", "no answer"]

FASTER_SHARE = 0.1
"""If at least this share of the opposite ends is faster than an end, the end has to meet one of them.

Before that, its partners may be what limits it. The first rounds of a host in the faster of two classes may all go to
the slower one.
"""

MEDIAN_VARIANCE = math.pi / 2
"""Variance of the median of many values as a multiple of that of their mean."""

SILENT_PROBES = 2
"""An end that answers none of this many probes, whose partners answer others, is not probed again."""


@dataclass(frozen=True)
class Threshold:
    """When a host counts as slow.

    Attributes:
        below: share of the others' median by which its rate is lower, 0 to 1.
        error: chance, 0 to 1, that any verdict of the whole search is false.
    """

    below: float = 0.10
    error: float = 0.01

    def __post_init__(self) -> None:
        if not 0.01 <= self.below <= 0.9:
            raise GavotteError(
                f"cannot look for hosts {100 * self.below:g} % below the others", hint="use 1 to 90 percent"
            )
        if not 0 < self.error <= 0.5:
            raise GavotteError(
                f"verdicts cannot be false with a chance of {self.error:g}", hint="use more than 0 and at most 0.5"
            )

    @property
    def width(self) -> float:
        """The same difference of two levels, positive."""
        return -math.log1p(-self.below)

    @property
    def tolerance(self) -> float:
        """Difference of two levels that counts as none when two ends are compared."""
        return 0.6 * self.width


@dataclass(frozen=True)
class End:
    """One direction of one host.

    Attributes:
        host: number of the host.
        direction: whether it sends or receives.
        rate_bps: estimated rate of the direction in bit/s; NaN = no answer.
        median_bps: median rate of the hosts that it is compared with, in bit/s; NaN likewise.
        share: the rate divided by that median; NaN likewise.
        low: lower end of the share's interval.
        high: upper end of it.
        probes: probes that show it.
        verdict: `cannot tell` = the interval contains the threshold.
        certain: whether the interval holds; false if all partners were slower, so that the rate is a lower bound.
    """

    host: int
    direction: Direction
    rate_bps: float
    median_bps: float
    share: float
    low: float
    high: float
    probes: int
    verdict: Verdict
    certain: bool = True


@dataclass(frozen=True)
class Judged:
    """What all probes so far show.

    Attributes:
        ends: all ends, by their number.
        classes: classes of the senders and of the receivers, the fastest first.
        levels: the estimates behind them.
        spread: usual relative standard deviation of a probe.
    """

    ends: Sequence[End]
    classes: tuple[Sequence[HostClass], Sequence[HostClass]]
    levels: Levels
    spread: float

    def numbers(self, verdict: Verdict) -> list[int]:
        """Return the numbers of the ends with a verdict."""
        return [number for number, end in enumerate(self.ends) if end.verdict == verdict]


def judge(probed: Probed, threshold: Threshold, looks: int) -> Judged:
    """Judge each end by a sequential test: at each look, by an interval that holds for all ends and all looks.

    The error is divided by the ends, the looks and the two sides of an interval (Bonferroni's correction).

    Args:
        probed: rates of pairs.
        threshold: when a host counts as slow.
        looks: most times that the search judges.
    """
    levels, size = estimate(probed, threshold.tolerance), probed.size
    quantile = student_quantile(1 - threshold.error / (2 * 2 * size * looks), levels.freedom)
    classes = (classes_of(levels.level[:size], threshold.width), classes_of(levels.level[size:], threshold.width))
    # The median of the others is uncertain, too.
    typical = float(np.median(levels.probes[levels.probes > 0])) if levels.probes.any() else 1.0
    medians = [
        {each: quantile * math.sqrt(MEDIAN_VARIANCE / (typical * each.hosts)) for each in own} for own in classes
    ]
    capped = capped_by_partners(levels, threshold)
    ends = []
    for number in range(2 * size):
        end = _compared(number, probed, levels, medians[number >= size], (quantile, threshold.width))
        end = replace(end, certain=end.certain and not capped[number])
        ends.append(replace(end, verdict=_verdict(end, threshold)))
    finite = levels.spread[np.isfinite(levels.spread)]
    return Judged(ends, classes, levels, float(np.median(finite)) if len(finite) else math.nan)


def capped_by_partners(levels: Levels, threshold: Threshold) -> Bools:
    """Return for each end whether it has met no faster one, although there are enough; see `FASTER_SHARE`."""
    size = len(levels.level) // 2
    capped = np.zeros(2 * size, dtype=bool)
    for own, other in ((slice(0, size), slice(size, 2 * size)), (slice(size, 2 * size), slice(0, size))):
        opposite = np.sort(levels.level[other][np.isfinite(levels.level[other])])
        faster = len(opposite) - np.searchsorted(opposite, levels.level[own] + threshold.tolerance)
        capped[own] = (faster >= max(1.0, FASTER_SHARE * len(opposite))) & (levels.headroom[own] == 0)
    return capped


def _compared(
    number: int, probed: Probed, levels: Levels, medians: Mapping[HostClass, float], limits: tuple[float, float]
) -> End:
    """Compare one end with its class.

    Args:
        number: number of the end.
        probed: rates of pairs.
        levels: levels of all ends.
        medians: how much the median of each class may be off, in spreads; the fastest class first.
        limits: half the width of an interval, in standard errors, and the width of a class.
    """
    quantile, width = limits
    host, direction = number % probed.size, DIRECTIONS[number >= probed.size]
    level, probes, spread = float(levels.level[number]), int(levels.probes[number]), float(levels.spread[number])
    if not probed.answered[number]:
        silent: Verdict = "no answer" if probed.tried[number] >= SILENT_PROBES else "cannot tell"
        return End(host, direction, math.nan, math.nan, math.nan, 0.0, math.inf, 0, silent, certain=False)
    half = quantile * spread / math.sqrt(probes) if probes else math.inf
    reference, certain = reference_of(level, half, list(medians), width)
    half = math.hypot(half, spread * medians[reference])
    middle = level - reference.level
    shares = (exp(middle), exp(middle - half), exp(middle + half))
    return End(host, direction, exp(level), reference.rate_bps, *shares, probes, "cannot tell", certain)


def _verdict(end: End, threshold: Threshold) -> Verdict:
    """Return the verdict on an end: the interval of its share has to be on one side of the threshold."""
    if not end.certain:
        return end.verdict
    if end.high < 1 - threshold.below:
        return "below"
    return "fine" if end.low > 1 - threshold.below else "cannot tell"
