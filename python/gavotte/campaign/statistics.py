"""Intervals and tests that running, reporting and comparing share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

CONFIDENCE = 0.95


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and its 95 % confidence interval by Student's t; the interval of fewer than two values is infinite."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, -math.inf, math.inf
    half = float(quantile(len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return mean, mean - half, mean + half


def quantile(freedom: float) -> float:
    """Student's t for a two-sided interval. `scipy.stats` would load for a second."""
    return float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2))


def relative_half_width(values: Sequence[float]) -> float:
    """Half the width of the interval of the mean, by the mean; infinite where there is none."""
    mean, low, high = mean_interval(values)
    return (high - low) / 2 / abs(mean) if mean else math.inf


def variation(values: Sequence[float]) -> float:
    """Coefficient of variation: standard deviation by mean; NaN of fewer than two."""
    return float(np.std(values, ddof=1) / np.mean(values)) if len(values) > 1 and np.mean(values) else math.nan


def more_than(one: Sequence[float], other: Sequence[float], margin: float) -> float:
    """How sure two means differ by more than a margin of the first: p of Welch's t test of that (smaller = surer).

    Two runs of anything differ by something; with enough samples a plain test calls every difference real. So the null
    hypothesis is that the means are within the margin.

    Args:
        one: two or more values.
        other: two or more.
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
    # Either sign would be reported, so both tails count.
    return float(min(1.0, 2 * special.stdtr(freedom, -beyond / error)))


def holm(chances: Sequence[float]) -> list[float]:
    """Holm's correction: p values of many tests at once, each as if it were the only one."""
    corrected = [1.0] * len(chances)
    least = 0.0
    for rank, index in enumerate(sorted(range(len(chances)), key=lambda i: chances[i])):
        least = max(least, min(1.0, (len(chances) - rank) * chances[index]))
        corrected[index] = least
    return corrected
