"""Select far paths whose rate only one probe has seen, and decide which of several readings counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gavotte.measure.adapt.results import PathResult, Results
from gavotte.measure.plan.methods.bulk import FAR_S
from gavotte.terms import Pair

SHORT = 0.9
"""A path below this share of the rate that both of its ends reach with others is an outlier."""

AGREE = 0.05
"""Largest relative difference of two readings that confirm each other: trains under jitter differ by up to 2 %."""

MOST_PROBES = 3
"""Most probes of an outlier, the first included."""

MAX_SHARE = 0.25
"""Largest share of all paths that are outliers. If more are slow, their hosts or links are."""


def outliers(results: Results, snapshot: int, reached_bps: Callable[[Pair], float]) -> list[Pair]:
    """Return the far paths of one snapshot that are slower than their ends are with others.

    Jitter and lost packets spoil a probe now and then on far paths. Near paths have no such outliers, and are not
    repeated.

    Args:
        results: all answers.
        snapshot: counted from 0.
        reached_bps: rate that both ends of a pair reach with others; 0 = unknown.

    Returns:
        (source, target) pairs, the slowest first; none if they are more than `MAX_SHARE` of all.
    """
    shares: dict[Pair, float] = {}
    for (number, i, j), path in results.paths.items():
        if number == snapshot and path.answered and path.gap is None and path.rtt_s >= FAR_S:
            reached = reached_bps((i, j))
            if path.reading.goodput_bps < SHORT * reached:
                shares[i, j] = path.reading.goodput_bps / reached
    size = len(results.inventory.host)
    most = max(1, int(MAX_SHARE * size * (size - 1)))
    return sorted(shares, key=lambda pair: (shares[pair], pair)) if len(shares) <= most else []


def confirmed(readings: Sequence[PathResult]) -> PathResult | None:
    """Return the newest of the readings of one path that an earlier one confirms; None = there is none."""
    for at in range(len(readings) - 1, 0, -1):
        rate_bps = readings[at].reading.goodput_bps
        if any(abs(each.reading.goodput_bps / rate_bps - 1) <= AGREE for each in readings[:at]):
            return readings[at]
    return None


def chosen(readings: Sequence[PathResult]) -> PathResult:
    """Return the reading that counts: one that is confirmed, or else the median, the faster of two."""
    by_rate = sorted(readings, key=lambda each: each.reading.goodput_bps)
    return confirmed(readings) or by_rate[len(by_rate) // 2]
