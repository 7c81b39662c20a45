"""Compute the confidence intervals that running, reporting and comparing campaigns share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gavotte.terms.equivalence import quantile


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of values and the lower and upper end of its 95 % confidence interval, by Student's t.

    The interval of a single value is infinite.
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, -math.inf, math.inf
    half = float(quantile(len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return mean, mean - half, mean + half


def relative_half_width(values: Sequence[float]) -> float:
    """Return half the width of the mean's 95 % interval, divided by the mean; infinite for one value or a mean of 0."""
    mean, low, high = mean_interval(values)
    return (high - low) / 2 / abs(mean) if mean else math.inf


def variation(values: Sequence[float]) -> float:
    """Return the coefficient of variation: standard deviation divided by mean.

    The result is NaN for fewer than two values or a mean of 0.
    """
    return float(np.std(values, ddof=1) / np.mean(values)) if len(values) > 1 and np.mean(values) else math.nan
