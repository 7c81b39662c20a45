"""Which paths to measure again because they do not fit what the snapshot before said of them."""

from __future__ import annotations

import numpy as np

from gavotte.measure.results import Results
from gavotte.terms import Pair

TOLERANCE = 0.02
"""Intervals this near to each other agree: twice the largest error of a proven rate."""

MAX_SHARE = 0.25
"""At most this share of all paths is measured again for it: where more have changed, the network has."""


def changed(results: Results, snapshot: int) -> list[Pair]:
    """Finds the paths of one snapshot whose interval and that of the snapshot before do not meet.

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
    """Relative distance between two intervals, 0 where they meet; unknown ends never disagree."""
    if not np.isfinite([low, high, other_low, other_high]).all():
        return 0.0
    return max(0.0, max(low, other_low) / min(high, other_high) - 1)
