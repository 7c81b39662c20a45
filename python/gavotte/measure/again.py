"""Which paths to measure again, alone: those that do not fit what the others say."""

from __future__ import annotations

import numpy as np

from gavotte.measure.results import Results
from gavotte.terms import Pair

TOLERANCE = 0.02
"""Rates this near to each other agree: twice the largest error of a proven rate."""

MAX_SHARE = 0.25
"""At most this share of all paths is measured again; measuring alone takes one round a path."""

SAME_MACHINE_HOPS = 1


def doubtful(results: Results, snapshot: int) -> list[Pair]:
    """Finds the paths of one snapshot that are worth another probe with nothing else of ours on the network.

    A path is doubtful when it was refused; when its interval and that of the snapshot before do not meet; or when
    its proven rate is below what both its ends are known to reach with others: then either it is a slow path, or
    another probe met it on a link that nobody knew to be shared. Measured alone, the two differ.

    Returns:
        (source, target) pairs, the most doubtful first, at most `MAX_SHARE` of all.
    """
    size = len(results.inventory.host)
    rate = np.full((size, size), np.nan)
    doubts: dict[Pair, float] = {}
    outside = np.zeros((size, size), dtype=bool)
    for (number, i, j), path in results.paths.items():
        if number != snapshot:
            continue
        if not path.answered:
            doubts[i, j] = np.inf
            continue
        rate[i, j] = path.reading.goodput_bps
        outside[i, j] = path.hops != SAME_MACHINE_HOPS
        before = results.paths.get((snapshot - 1, i, j))
        if before is not None and before.answered:
            doubts[i, j] = _gap(
                path.reading.low_bps, path.reading.high_bps, before.reading.low_bps, before.reading.high_bps
            )
    known = np.where(outside & np.isfinite(rate), rate, 0.0)
    egress, ingress = known.max(axis=1, initial=0.0), known.max(axis=0, initial=0.0)
    for i, j in np.argwhere(outside & np.isfinite(rate)):
        if results.paths[snapshot, int(i), int(j)].reading.verdict == "unproven":
            continue
        shortfall = 1 - rate[i, j] / min(egress[i], ingress[j])
        pair = (int(i), int(j))
        doubts[pair] = max(doubts.get(pair, 0.0), float(shortfall))
    worst = sorted(
        (pair for pair, doubt in doubts.items() if doubt > TOLERANCE), key=lambda pair: (-doubts[pair], pair)
    )
    return worst[: max(1, int(MAX_SHARE * size * (size - 1)))]


def _gap(low: float, high: float, other_low: float, other_high: float) -> float:
    """Relative distance between two intervals, 0 where they meet; unknown ends never disagree."""
    if not np.isfinite([low, high, other_low, other_high]).all():
        return 0.0
    return max(0.0, max(low, other_low) / min(high, other_high) - 1)
