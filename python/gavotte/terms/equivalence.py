"""Compare two means: alike within a margin, different by more than the margin, or undecided.

The test is that of two one-sided tests (TOST), for the ratio of two means with unequal variances:

1. T(k) = second - k x first, divided by its standard error, follows Student's t if the true ratio is k (Sasabuchi
   1988). The degrees of freedom are Welch's.
2. The means are different if T rejects all ratios within the margin. Both tails count, and Holm's correction covers all
   comparisons together.
3. They are alike if T rejects both ends of the margin, each in its own direction. All comparisons are alike only if
   each of them is. The joint claim therefore needs no correction (Berger 1982).
4. Otherwise the data allow both, and the result is undecided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from gavotte.terms.student import chance_below, quantile_of

if TYPE_CHECKING:
    from typing_extensions import Self

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

Verdict = Literal["alike", "different", "cannot tell"]
VERDICTS: tuple[Verdict, ...] = ("alike", "different", "cannot tell")
"""Results of a comparison, by their code in `Judgement.verdict`."""
ALIKE, DIFFERENT, CANNOT_TELL = range(3)

SIGNIFICANCE = 0.05
"""Chance, 0 to 1, of at least one false `different`, and of a false `alike` of all comparisons together."""
CONFIDENCE = 0.95
"""Confidence level of all intervals."""
POWER = 0.8
"""Chance, 0 to 1, with which a difference counts as one that could have been seen."""
MOST_REPETITIONS = 10_000
"""Repetitions beyond which no number is given."""
COUNTS = np.unique(np.concatenate([np.arange(2.0, 100.0), np.geomspace(100, MOST_REPETITIONS, 200).round()]))
"""Numbers of repetitions among which the least sufficient one is chosen."""


@dataclass(frozen=True)
class Means:
    """Means of one side of comparisons: arrays of one shape.

    Attributes:
        mean: NaN = no value.
        error: standard error of each mean; 0 = exact, NaN = unknown.
        freedom: degrees of freedom of each error; infinite = the error is known, not estimated.
        count: number of values of each mean.
    """

    mean: Floats
    error: Floats
    freedom: Floats
    count: Ints

    @classmethod
    def of(cls, samples: Sequence[Sequence[float]]) -> Self:
        """Return the means of samples, with the errors that each sample's own scatter shows."""
        with np.errstate(invalid="ignore"):
            return cls(
                mean=np.array([np.mean(each) if len(each) else np.nan for each in samples], dtype=np.float64),
                error=np.array(
                    [np.std(each, ddof=1) / math.sqrt(len(each)) if len(each) > 1 else np.nan for each in samples],
                    dtype=np.float64,
                ),
                freedom=np.array([max(len(each) - 1, 0) for each in samples], dtype=np.float64),
                count=np.array([len(each) for each in samples], dtype=np.int64),
            )

    def joined(self, other: Means) -> Means:
        """Return the means of both, flat, these first."""
        return Means(
            *(np.concatenate([getattr(side, each.name).ravel() for side in (self, other)]) for each in fields(self))
        )


@dataclass(frozen=True)
class Judgement:
    """Results of comparisons: arrays of one shape. NaN = unknown.

    Attributes:
        relative: second mean divided by the first, minus 1.
        low: lower end of the 95 % interval of `relative`, of each comparison alone.
        high: upper end of it.
        chance: chance, after Holm's correction, of such a difference if the true one is within the margin.
        verdict: index into `VERDICTS`.
        detectable: smallest relative difference that would have been found different, with the chance `POWER` and the
            scatter that was measured.
        repetitions: values that each side needs for a verdict, where there was none; NaN also if that is more than
            `MOST_REPETITIONS`.
    """

    relative: Floats
    low: Floats
    high: Floats
    chance: Floats
    verdict: Ints
    detectable: Floats
    repetitions: Floats

    @property
    def whole(self) -> Verdict:
        """The verdict on all comparisons together."""
        return whole(self.verdict)


def whole(codes: Ints) -> Verdict:
    """Return the verdict on several comparisons: different if one is, alike only if all are."""
    if (codes == DIFFERENT).any():
        return "different"
    return "cannot tell" if (codes == CANNOT_TELL).any() else "alike"


def judge(first: Means, second: Means, margin: float | Floats, *, significance: float = SIGNIFICANCE) -> Judgement:
    """Compare means with means, and return for each pair whether it is alike, different or undecided.

    Args:
        first: the means to compare with.
        second: the later means, in the same order.
        margin: the largest relative difference that does not matter, 0.05 = 5 % of the first mean; one, or an array.
        significance: chance of a false `different` in all comparisons together, and of a false `alike`.
    """
    sign = np.where(first.mean < 0, -1.0, 1.0)
    one, two = first.mean * sign, second.mean * sign
    allowed = np.broadcast_to(np.asarray(margin, dtype=np.float64), one.shape)
    known = np.isfinite(one) & np.isfinite(two) & np.isfinite(first.error) & np.isfinite(second.error)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        above, above_freedom = _statistic(one, two, first, second, 1 + allowed)
        below, below_freedom = _statistic(one, two, first, second, 1 - allowed)
        beyond = 2 * np.fmin(chance_below(above_freedom, -above), chance_below(below_freedom, below))
        within = np.fmax(chance_below(above_freedom, above), chance_below(below_freedom, -below))
        chance = np.full(one.shape, np.nan)
        chance[known] = holm(np.minimum(beyond[known], 1.0))
        verdict = np.full(one.shape, CANNOT_TELL)
        verdict[known & (within < significance)] = ALIKE
        verdict[known & (chance < significance)] = DIFFERENT
        relative = np.where(one != 0, two / one - 1, np.nan)
        low, high = _interval(one, two, first, second)
        level = significance / max(1, int(known.sum()))
        error, freedom = _error(first, second, np.ones_like(one))
        reach = _reach(freedom, error, 1 - level / 2) + _reach(freedom, error, POWER)
        detectable = np.where(known & (one > 0), allowed + reach * error / one, np.nan)
    return Judgement(
        relative=relative,
        low=np.where(known, low, np.nan),
        high=np.where(known, high, np.nan),
        chance=chance,
        verdict=verdict,
        detectable=detectable,
        repetitions=_repetitions(first, second, allowed, (significance, level), verdict == CANNOT_TELL),
    )


def more_than(one: Sequence[float], other: Sequence[float], margin: float) -> float:
    """Return the p value of the test for two means that differ by more than a margin of the first.

    A smaller p value is stronger evidence of such a difference. Two runs of anything differ a little, and with enough
    samples a plain test calls every difference real. The null hypothesis is therefore that the means are within the
    margin. With a margin of 0 the test is Welch's.

    Args:
        one: two or more values of the first side.
        other: two or more values of the second side.
        margin: the smallest difference that matters, as a share of the first mean.
    """
    return float(judge(Means.of([one]), Means.of([other]), margin).chance[0])


def holm(chances: Sequence[float] | Floats) -> Floats:
    """Return the p values of several tests after Holm's correction, in the same order.

    Each corrected value can be compared with the significance level of all tests together.
    """
    values = np.asarray(chances, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    corrected = np.empty_like(values)
    corrected[order] = np.maximum.accumulate(np.minimum(1.0, values[order] * np.arange(len(values), 0, -1)))
    return corrected


def quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Return the quantile of Student's t for a two-sided interval with these degrees of freedom."""
    return float(quantile_of(freedom, (1 + confidence) / 2))


def _error(first: Means, second: Means, ratio: Floats) -> tuple[Floats, Floats]:
    """Return the standard error of second - ratio x first, and Welch's degrees of freedom of it."""
    parts = (ratio * first.error) ** 2, second.error**2
    total = parts[0] + parts[1]
    scatter = parts[0] ** 2 / first.freedom + parts[1] ** 2 / second.freedom
    return np.sqrt(total), np.where(scatter > 0, total**2 / scatter, np.inf)


def _statistic(one: Floats, two: Floats, first: Means, second: Means, ratio: Floats) -> tuple[Floats, Floats]:
    """Return T(ratio) and its degrees of freedom. Exact means are at an infinite distance from other ratios."""
    error, freedom = _error(first, second, ratio)
    distance = two - ratio * one
    # Rounding alone must not decide; a difference of exactly the margin is within it.
    touching = np.abs(distance) <= 1e-12 * np.fmax(np.abs(two), np.abs(ratio * one))
    inward = np.where(ratio >= 1, -np.inf, np.inf)
    exact = np.where(touching, inward, np.sign(distance) * np.inf)
    return np.where(error > 0, distance / error, exact), freedom


def _reach(freedom: Floats, error: Floats, chance: float) -> Floats:
    """Return quantiles of Student's t, to be multiplied by errors; zeros if no error is above 0."""
    return np.asarray(quantile_of(freedom, chance)) if (error > 0).any() else np.zeros_like(error)


def _interval(one: Floats, two: Floats, first: Means, second: Means) -> tuple[Floats, Floats]:
    """Return Fieller's interval of second / first - 1: all ratios that T does not reject; infinite if unbounded."""
    _, freedom = _error(first, second, np.where(one > 0, two / one, 1.0))
    reach = _reach(freedom, np.fmax(first.error, second.error), (1 + CONFIDENCE) / 2)
    square = one**2 - (reach * first.error) ** 2
    root = np.sqrt(np.fmax((one * two) ** 2 - square * (two**2 - (reach * second.error) ** 2), 0.0))
    bounded = square > 0
    return (
        np.where(bounded, (one * two - root) / square - 1, -np.inf),
        np.where(bounded, (one * two + root) / square - 1, np.inf),
    )


def _repetitions(
    first: Means, second: Means, margin: Floats, levels: tuple[float, float], wanted: npt.NDArray[np.bool_]
) -> Floats:
    """Return the values that each side needs: the fewer of two numbers, with the chance `POWER`.

    1. The repetitions that show the means to be alike, if they are equal.
    2. The repetitions that show them to be different, if they differ as much as they seem to.

    Args:
        first: the means to compare with.
        second: the later means.
        margin: the margin of each.
        levels: significance of `alike` and, after correction, of `different`.
        wanted: where the number is of use.
    """
    one = np.abs(first.mean)
    single = [each.error * np.sqrt(np.fmax(each.count, 1)) for each in (first, second)]
    seen = np.abs(second.mean - first.mean) - margin * one
    known = np.isfinite(single[0]) & np.isfinite(single[1]) & np.isfinite(seen)
    if not (wanted & known).any():
        return np.full(one.shape, np.nan)
    least = np.full(one.shape, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        for scatter, gap, tails in (
            (np.hypot(single[1], (1 + margin) * single[0]), margin * one, (levels[0], (1 - POWER) / 2)),
            (np.hypot(single[1], single[0]), seen, (levels[1] / 2, 1 - POWER)),
        ):
            first_enough = np.searchsorted(-_bridged(tails), -np.where(gap > 0, gap / scatter, 0.0))
            least = np.fmin(least, np.append(COUNTS, np.inf)[first_enough])
    # The data at hand had bad luck if they are no fewer.
    least = np.fmax(least, np.minimum(first.count, second.count) + 1)
    return np.where(wanted & known & (least <= MOST_REPETITIONS), least, np.nan)


@lru_cache(maxsize=16)
def _bridged(tails: tuple[float, float]) -> Floats:
    """Return the gap between a bound and a mean that is found beyond it, for each of `COUNTS` values a side.

    The gap is in standard deviations of one value. It falls as the number of values grows.
    """
    reach = sum(quantile_of(2 * COUNTS - 2, 1 - tail) for tail in tails)
    return np.asarray(reach / np.sqrt(COUNTS), dtype=np.float64)
