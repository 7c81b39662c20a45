"""Decide when to stop calibrating: as soon as another snapshot would not change decisions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gavotte.formats.history import Floats
from gavotte.model.choosing import MAX_HOSTS, ROOTS, estimate
from gavotte.model.decisions import broadcast_s, earliest_first
from gavotte.model.subset import reached

REGRET = 0.01
"""Additional cost, as a share of the newest decision's, up to which an earlier decision counts as the same."""

AGREEING = 2
"""Number of snapshots in a row that must not change the decision. A single one may agree by chance."""


@dataclass(frozen=True)
class Settled:
    """Decision whether to stop measuring.

    Attributes:
        stop: whether to stop, because more snapshots would not change the decision.
        regrets: the additional cost of the decisions made after each of the last `AGREEING` earlier snapshots, as a
            share of the newest decision's cost, newest first. The newest constant prices all of them. Empty while there
            are too few snapshots.
    """

    stop: bool
    regrets: tuple[float, ...]


def settled(times: Floats, *, method: str = "mode", seed: int = 0) -> Settled:
    """Decide whether calibration may end, because recent snapshots did not change broadcast trees.

    Hosts without any measured pair do not count.

    Args:
        times: (n, N, N) transfer times, row = source, NaN = not measured.
        method: estimator, as in `estimate`.
        seed: seed of the roots, and of the hosts if there are more than `MAX_HOSTS`.
    """
    rng = np.random.default_rng(seed)
    measured = np.asarray(np.isfinite(times).any(axis=0))
    present = np.flatnonzero(measured.any(axis=0) | measured.any(axis=1))
    times, measured = times[:, present][:, :, present], measured[present][:, present]
    size = len(present)
    # If only some pairs were measured, a part of the hosts may not reach each other.
    if size > MAX_HOSTS and measured.sum() >= size * (size - 1):
        kept = np.sort(rng.permutation(size)[:MAX_HOSTS])
        times, size = np.ascontiguousarray(times[:, kept][:, :, kept]), MAX_HOSTS
        measured = measured[kept][:, kept]
    snapshots = len(times)
    first = times[: max(0, snapshots - AGREEING)]
    # What is never measured is not used; what the first snapshots lack cannot be compared.
    if (
        snapshots <= AGREEING
        or size < 2
        or bool((np.isnan(first).all(axis=0) & measured).any())
        or not reached(measured)
    ):
        return Settled(False, ())
    roots = rng.permutation(size)[:ROOTS].tolist()
    newest = estimate(times, method)

    def cost(constant: Floats) -> float:
        return float(np.mean([broadcast_s(earliest_first(constant, root), newest) for root in roots]))

    best = cost(newest)
    earlier = [cost(estimate(times[: snapshots - back], method)) for back in range(1, AGREEING + 1)]
    regrets = tuple(value / best - 1 for value in earlier)
    return Settled(max(regrets) <= REGRET, regrets)
