"""Transfer times with a known truth: a cloud of racks and pods, and disturbances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gavotte.formats.history import Floats

MESSAGE_BYTES = 8e6
"""As the RPCA paper, section IV-B."""
RACK_HOSTS = 4
POD_RACKS = 8
RATES_BPS = (950e6, 620e6, 420e6)
"""Rates in the same rack, in the same pod, and far; at most `CAP_BPS` after hosts and pairs have varied them."""
CAP_BPS = 1000e6


@dataclass(frozen=True)
class Cloud:
    """Hosts placed at random in racks.

    Attributes:
        truth_s: (N, N) undisturbed time of a transfer, NaN on the diagonal.
        rack: (N,) of each host.
        pod: (N,) of each host.
    """

    truth_s: Floats
    rack: np.ndarray[tuple[int], np.dtype[np.int64]]
    pod: np.ndarray[tuple[int], np.dtype[np.int64]]


def cloud(size: int, rng: np.random.Generator) -> Cloud:
    """Draw a cloud: lognormal senders and receivers of 0.10, pairs of 0.15."""
    rack = rng.integers(max(1, size // RACK_HOSTS), size=size)
    pod = rack // POD_RACKS
    rate = np.where(
        rack[:, None] == rack[None, :],
        RATES_BPS[0],
        np.where(pod[:, None] == pod[None, :], RATES_BPS[1], RATES_BPS[2]),
    )
    rate = rate * rng.lognormal(0, 0.10, size)[:, None] * rng.lognormal(0, 0.10, size)[None, :]
    rate = np.minimum(rate * rng.lognormal(0, 0.15, (size, size)), CAP_BPS)
    truth = 8 * MESSAGE_BYTES / rate
    np.fill_diagonal(truth, np.nan)
    return Cloud(truth, rack, pod)


Slow = Callable[[Cloud, int, np.random.Generator], Floats]
"""(n, N, N) share of time added."""


def pairs(probability: float, length: float = 2.0) -> Slow:
    """Slow down each time of each pair independently: x (1 + Exp(length)) with a probability."""

    def draw(cloud: Cloud, count: int, rng: np.random.Generator) -> Floats:
        shape = (count, *cloud.truth_s.shape)
        return np.asarray((rng.random(shape) < probability) * rng.exponential(length, shape))

    return draw


def racks(probability: float) -> Slow:
    """Slow down all traffic that leaves a rack at once."""

    def draw(cloud: Cloud, count: int, rng: np.random.Generator) -> Floats:
        number = int(cloud.rack.max()) + 1
        slow = (rng.random((count, number)) < probability) * rng.exponential(2.0, (count, number))
        return np.asarray(slow[:, cloud.rack][:, :, None] * (cloud.rack[:, None] != cloud.rack[None, :]))

    return draw


def hot_pairs(share: float, probability: float, seed: int = 1) -> Slow:
    """Slow down only some pairs, but those often."""

    def draw(cloud: Cloud, count: int, rng: np.random.Generator) -> Floats:
        size = len(cloud.truth_s)
        # Slow down the same pairs in each part of a series.
        hot = np.random.default_rng([seed, size]).random((size, size)) < share
        return np.asarray(pairs(probability)(cloud, count, rng) * hot)

    return draw


def hot_hosts(share: float, probability: float, *, both: bool = True, seed: int = 1) -> Slow:
    """Slow down all traffic from some hosts and, with `both`, to them, at once and often."""

    def draw(cloud: Cloud, count: int, rng: np.random.Generator) -> Floats:
        size = len(cloud.truth_s)
        hot = np.random.default_rng([seed, size]).random(size) < share
        slow = (rng.random((2, count, size)) < probability) * hot * rng.exponential(2.0, (2, count, size))
        return np.asarray(slow[0][:, :, None] + both * slow[1][:, None, :])

    return draw


@dataclass(frozen=True)
class Case:
    """One kind of disturbance.

    Attributes:
        name: in tables.
        slow: rare slow-downs.
        band: standard deviation of the logarithm of undisturbed times.
        load: of one factor a snapshot.
        missing: share of cells not measured.
        moved: share of hosts that move after 6 of 10 snapshots.
    """

    name: str
    slow: Slow
    band: float = 0.05
    load: float = 0.0
    missing: float = 0.0
    moved: float = 0.0


def drift(step: float) -> Slow:
    """Let each pair's time walk at random, by this standard deviation of its logarithm a snapshot."""

    def draw(cloud: Cloud, count: int, rng: np.random.Generator) -> Floats:
        return np.asarray(np.expm1(np.cumsum(rng.normal(0, step, (count, *cloud.truth_s.shape)), axis=0)))

    return draw


def daily(depth: float, day: int = 24) -> Slow:
    """Slow down each host for half of a day, by up to a share `depth`, at an hour of its own."""

    def draw(cloud: Cloud, count: int, rng: np.random.Generator) -> Floats:
        size = len(cloud.truth_s)
        hour, most = rng.uniform(0, 1, size), rng.uniform(0, depth, size)
        slow = most * np.maximum(0, np.sin(2 * np.pi * (np.arange(count)[:, None] / day + hour)))
        return np.asarray(slow[:, :, None] + slow[:, None, :])

    return draw


NOTES = [
    Case("p=.02", pairs(0.02)),
    Case("p=.10", pairs(0.10)),
    Case("p=.20", pairs(0.20)),
    Case("p=.35", pairs(0.35)),
    Case("p=.50", pairs(0.50)),
    Case("rack uplinks p=.2", racks(0.20)),
    Case("load sd .3, p=.1", pairs(0.10), load=0.3),
    Case("band sd .15, p=.1", pairs(0.10), band=0.15),
]
"""Return the eight cases of the table of recovery."""

MORE = [
    Case("asymmetric hosts", hot_hosts(0.15, 0.4, both=False)),
    Case("regime change", pairs(0.10), moved=0.10),
    Case("missing 20 %", pairs(0.10), missing=0.20),
]

CHANGING = [
    Case("drift 5 %", drift(0.05)),
    Case("drift 15 %", drift(0.15)),
    Case("day, up to twice", daily(1.0)),
    Case("day, up to four times", daily(3.0)),
    Case("step of 30 % of hosts", pairs(0.10), moved=0.30),
]

DECISIONS = [
    Case("p=.02", pairs(0.02)),
    Case("p=.10", pairs(0.10)),
    Case("p=.20", pairs(0.20)),
    Case("p=.30", pairs(0.30)),
    Case("15 % hot pairs", hot_pairs(0.15, 0.8)),
    Case("15 % hot hosts", hot_hosts(0.15, 0.6)),
    Case("band sd .4", pairs(0.0), band=0.4),
]


def series(case: Case, size: int, count: int, rng: np.random.Generator, later: int = 0) -> tuple[Cloud, Floats, Floats]:
    """Draw a cloud, `count` snapshots to learn from and `later` ones to score on, (n, N, N) seconds.

    If hosts move, the returned truth is that of the newer snapshots.
    """
    old = cloud(size, rng)
    new = old
    total = count + later
    if case.moved:
        fresh = cloud(size, rng)
        moved = rng.permutation(size)[: max(1, round(case.moved * size))]
        truth = old.truth_s.copy()
        truth[moved, :], truth[:, moved] = fresh.truth_s[moved, :], fresh.truth_s[:, moved]
        new = Cloud(truth, old.rack, old.pod)
    truths = np.where((np.arange(total) < 0.6 * count)[:, None, None], old.truth_s, new.truth_s)
    times = truths * rng.lognormal(0, case.band, truths.shape) * (1 + case.slow(new, total, rng))
    times *= np.exp(rng.normal(0, case.load, total))[:, None, None]
    if case.missing:
        times[:count][rng.random((count, size, size)) < case.missing] = np.nan
    return new, times[:count], times[count:]
