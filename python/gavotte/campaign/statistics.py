"""Compute the confidence intervals and tests that running, reporting and comparing campaigns share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

CONFIDENCE = 0.95
"""Confidence level of all intervals."""


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of values and the lower and upper end of its 95 % confidence interval, by Student's t.

    The interval of a single value is infinite.
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, -math.inf, math.inf
    half = float(quantile(len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return mean, mean - half, mean + half


def quantile(freedom: float) -> float:
    """Return the quantile of Student's t for a two-sided 95 % interval with these degrees of freedom.

    `scipy.special` is used, since `scipy.stats` takes a second to load.
    """
    return float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2))


def relative_half_width(values: Sequence[float]) -> float:
    """Return half the width of the mean's 95 % interval, divided by the mean; infinite for one value or a mean of 0."""
    mean, low, high = mean_interval(values)
    return (high - low) / 2 / abs(mean) if mean else math.inf


def variation(values: Sequence[float]) -> float:
    """Return the coefficient of variation: standard deviation divided by mean.

    The result is NaN for fewer than two values or a mean of 0.
    """
    return float(np.std(values, ddof=1) / np.mean(values)) if len(values) > 1 and np.mean(values) else math.nan


def more_than(one: Sequence[float], other: Sequence[float], margin: float) -> float:
    """Return the p value of Welch's t test for two means that differ by more than a margin of the first.

    A smaller p value is stronger evidence of such a difference. Two runs of anything differ a little, and with enough
    samples a plain test calls every difference real. The null hypothesis is therefore that the means are within the
    margin.

    Args:
        one: two or more values of the first campaign.
        other: two or more values of the second campaign.
        margin: the smallest difference that matters, as a share of the first mean.
    """
    first, second = float(np.mean(one)), float(np.mean(other))
    beyond = abs(second - first) - margin * abs(first)
    spread = [float(np.var(values, ddof=1)) / len(values) for values in (one, other)]
    error = math.sqrt(sum(spread))
    if error == 0:
        return 0.0 if beyond > 0 else 1.0
    freedom = sum(spread) ** 2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(spread, (one, other), strict=True)
    )
    # A difference of either sign is reported, so both tails count.
    return float(min(1.0, 2 * special.stdtr(freedom, -beyond / error)))


def holm(chances: Sequence[float]) -> list[float]:
    """Return the p values of several tests after Holm's correction, in the same order.

    Each corrected value can be compared with the significance level of all tests together.
    """
    corrected = [1.0] * len(chances)
    least = 0.0
    for rank, index in enumerate(sorted(range(len(chances)), key=lambda i: chances[i])):
        least = max(least, min(1.0, (len(chances) - rank) * chances[index]))
        corrected[index] = least
    return corrected
