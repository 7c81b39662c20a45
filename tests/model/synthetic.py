"""Histories with a known truth."""

from __future__ import annotations

import numpy as np

from gavotte.formats.history import Floats


def truth(size: int, rng: np.random.Generator) -> Floats:
    """Return (N, N) seconds for 8 MB: two racks, hosts and pairs of their own speed."""
    rack = np.arange(size) % 2
    rate = np.where(rack[:, None] == rack[None, :], 100e6, 40e6)
    rate = rate * rng.lognormal(0, 0.2, size)[:, None] * rng.lognormal(0, 0.2, (size, size))
    times = 8e6 / rate
    np.fill_diagonal(times, np.nan)
    return times


def disturbed(
    times: Floats,
    count: int,
    rng: np.random.Generator,
    *,
    spikes: float = 0.1,
    band: float = 0.05,
    load: float = 0.0,
) -> Floats:
    """Return (n, N, N) snapshots: a band, rare slow-downs of each pair, and a load of each snapshot."""
    shape = (count, *times.shape)
    slow = 1 + (rng.random(shape) < spikes) * rng.exponential(2.0, shape)
    loads: Floats = np.exp(rng.normal(0, load, count))
    return np.asarray(times * rng.lognormal(0, band, shape) * slow * loads[:, None, None])


def hot(times: Floats, count: int, rng: np.random.Generator, *, share: float = 0.3) -> Floats:
    """Return (n, N, N) snapshots; this share of the pairs takes 2.5 times as long, each third time."""
    shape = (count, *times.shape)
    slow = (rng.random(times.shape) < share) & (rng.random(shape) < 1 / 3)
    return np.asarray(times * rng.lognormal(0, 0.02, shape) * np.where(slow, 2.5, 1.0))


def error(result: Floats, wanted: Floats) -> float:
    """Return the root mean square of relative errors, one factor for all removed."""
    ratio = (result / wanted)[np.isfinite(wanted)]
    return float(np.sqrt(np.mean((ratio / np.median(ratio) - 1) ** 2)))
