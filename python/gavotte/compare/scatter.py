"""Estimate how far the mean of each pair's values can be trusted, from the scatter of all pairs over time. No I/O."""

from __future__ import annotations

import math
import warnings

import numpy as np

from gavotte.extras import needs
from gavotte.formats.history import Floats
from gavotte.terms.equivalence import Means

LEAST_PAIRS = 3
"""Least number of pairs from which the usual scatter of a pair is learnt."""

FLOOR = 1e-5
"""Least variance of a pair, as a share of the median pair's: a variance of 0 has no logarithm (Smyth 2004)."""


def means_over_time(values: Floats) -> Means:
    """Return the mean over time of each pair's values, with its standard error.

    Few snapshots show little about one pair's scatter, but all pairs together show much. The error therefore has two
    parts:

    1. The pair's own scatter, drawn towards the usual scatter of all pairs: empirical Bayes, as Smyth (2004) does with
       few repetitions of many quantities. If pairs scatter alike, all of them together count; if not, each alone.
    2. The load that is common to all pairs of a snapshot. More pairs do not show it better, only more snapshots do.

    Args:
        values: (n, P) measurements of P pairs, NaN = not measured.
    """
    known = np.isfinite(values)
    count = known.sum(axis=0)
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # pairs and snapshots without a value
        mean = np.nanmean(values, axis=0) if len(values) else np.full(values.shape[1], np.nan)
        relative = np.where(count > 1, values / mean - 1, np.nan)
        load = np.nanmedian(relative, axis=1)
        rest = relative - load[:, None]
        freedom = np.where(mean > 0, count - 1.0, 0.0)
        variance = np.nansum((rest - np.nanmean(rest, axis=0)) ** 2, axis=0) / freedom
        seen = load[np.isfinite(load)]
        if len(seen) < 2:
            unknown = np.full(mean.shape, np.nan)
            return Means(mean, unknown, np.zeros_like(mean), count)
        usual, weight = _usual(variance, freedom)
        own = np.where(freedom > 0, (weight * usual + freedom * np.nan_to_num(variance)) / (weight + freedom), usual)
        common = float(np.var(seen, ddof=1))
        own_freedom = np.where(weight + freedom > 0, weight + freedom, np.nan)
        total = own + common
        spread = own**2 / own_freedom + common**2 / (len(seen) - 1)
        return Means(
            mean=mean,
            error=mean * np.sqrt(total / count),
            freedom=np.where(spread > 0, total**2 / spread, own_freedom),
            count=count,
        )


def _usual(variance: Floats, freedom: Floats) -> tuple[float, float]:
    """Return the usual variance of a pair, and the degrees of freedom with which it counts.

    The logarithms of the variances of equal pairs scatter by a known amount. Further scatter shows that pairs differ,
    and then the usual variance counts for less.
    """
    measured = (freedom > 0) & np.isfinite(variance)
    values, free = variance[measured], freedom[measured]
    if len(values) < LEAST_PAIRS:
        return (float(np.median(values)) if len(values) else math.nan), 0.0
    pooled, whole = float((values * free).sum() / free.sum()), float(free.sum())
    if pooled == 0:
        return 0.0, whole
    values = np.fmax(values, FLOOR * (float(np.median(values)) or pooled))
    with needs("statistics"):
        from scipy import special
    logarithms = np.log(values) - special.digamma(free / 2) + np.log(free / 2)
    excess = float(np.var(logarithms, ddof=1) - special.polygamma(1, free / 2).mean())
    if excess <= 0:
        return pooled, whole
    weight = 2 * _inverse_trigamma(excess)
    usual = math.exp(float(logarithms.mean()) + float(special.digamma(weight / 2)) - math.log(weight / 2))
    return usual, min(weight, whole)


def _inverse_trigamma(value: float) -> float:
    """Return x with trigamma(x) = value, by Newton's method on 1 / trigamma, which is convex (Smyth 2004)."""
    from scipy import special

    x = 0.5 + 1 / value
    for _ in range(50):
        slope = float(special.polygamma(1, x))
        step = slope * (1 - slope / value) / float(special.polygamma(2, x))
        x += step
        if -step < 1e-8 * x:
            break
    return x
