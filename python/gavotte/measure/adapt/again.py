"""Select the paths to measure again because they do not fit the snapshot before."""

from __future__ import annotations

import numpy as np

from gavotte.measure.adapt.results import Results
from gavotte.terms import Pair

TOLERANCE = 0.02
"""Largest distance of intervals that agree: twice the largest error of a proven rate."""

MAX_SHARE = 0.25
"""Largest share of all paths that is measured again for this reason. If more have changed, the network has."""


def changed(results: Results, snapshot: int) -> list[Pair]:
    """Return the paths of one snapshot whose interval does not meet that of the snapshot before.

    Returns:
        (source, target) pairs, the most doubtful first, at most `MAX_SHARE` of all.
    """
    size = len(results.inventory.host)
    doubts: dict[Pair, float] = {}
    for (number, i, j), path in results.paths.items():
        before = results.paths.get((snapshot - 1, i, j))
        if number == snapshot and path.answered and before is not None and before.answered:
            doubts[i, j] = _gap(
                path.reading.low_bps, path.reading.high_bps, before.reading.low_bps, before.reading.high_bps
            )
    worst = sorted(
        (pair for pair, doubt in doubts.items() if doubt > TOLERANCE), key=lambda pair: (-doubts[pair], pair)
    )
    return worst[: max(1, int(MAX_SHARE * size * (size - 1)))]


def _gap(low: float, high: float, other_low: float, other_high: float) -> float:
    """Return the relative distance between two intervals, 0 if they meet. Unknown ends never disagree."""
    if not np.isfinite([low, high, other_low, other_high]).all():
        return 0.0
    return max(0.0, max(low, other_low) / min(high, other_high) - 1)
