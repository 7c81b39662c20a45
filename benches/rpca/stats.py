"""Means with standard errors of paired differences, and distributions as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gavotte.formats.history import Floats, Ints

DECILES = (5, 10, 25, 50, 75, 90, 95)


def saved(seconds: Floats, against: Floats, clusters: Ints | None = None) -> str:
    """Return how much less time than another it took, in percent of the other's, with the standard error.

    Each repetition is one pair; the error is that of the ratio of means (delta method), in which a quick repetition
    counts less than a slow one. Repetitions in one cluster (a cloud, its calibration and its trees) count as one.
    """
    ratio = seconds.mean() / against.mean()
    residual = (seconds - ratio * against) / against.mean()
    _, of = np.unique(np.arange(len(seconds)) if clusters is None else clusters, return_inverse=True)
    sums = np.bincount(of, weights=residual)
    error = np.sqrt((sums**2).sum() * len(sums) / (len(sums) - 1)) / len(seconds) if len(sums) > 1 else np.nan
    return f"{100 * (1 - ratio):+6.1f} ±{100 * error:4.1f}"


def table(times: Mapping[str, Floats], baseline: str, heuristic: str, clusters: Ints | None = None) -> str:
    """Print one line a method: mean seconds, and the saving over the baseline and over the heuristic."""
    lines = [f"    {'':<16} {'mean s':>9} {'% less than ' + baseline:>24} {'% less than ' + heuristic:>24}"]
    for name, seconds in times.items():
        over = ["", ""]
        if name != baseline:
            over[0] = saved(seconds, times[baseline], clusters)
        if name not in (baseline, heuristic):
            over[1] = saved(seconds, times[heuristic], clusters)
        lines.append(f"    {name:<16} {seconds.mean():>9.4f} {over[0]:>24} {over[1]:>24}")
    return "\n".join(lines)


def cdf(times: Mapping[str, Floats], baseline: str, methods: Sequence[str]) -> str:
    """Print quantiles of the times, as shares of the baseline's mean (the paper's Fig. 7b, 11b, 13b)."""
    lines = [f"    {'CDF of time':<16} " + " ".join(f"{share:>5} %" for share in DECILES)]
    for name in methods:
        values = np.percentile(times[name] / times[baseline].mean(), DECILES)
        lines.append(f"    {name:<16} " + " ".join(f"{value:>7.2f}" for value in values))
    return "\n".join(lines)
