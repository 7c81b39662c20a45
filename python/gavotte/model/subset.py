"""Choose a subset of pairs to measure, and estimate the gain that measuring only those loses."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gavotte.errors import GavotteError
from gavotte.formats.history import Floats
from gavotte.model.choosing import ROOTS
from gavotte.model.decisions import binomial, broadcast_s, earliest_first

Mask = npt.NDArray[np.bool_]


def usual_degree(size: int) -> int:
    """Return the usual number of pairs to measure out of each host: 2 log2 N, at most N - 1."""
    return min(size - 1, math.ceil(2 * math.log2(max(2, size))))


def random_rings(size: int, degree: int, *, seed: int = 0) -> Mask:
    """Choose random pairs to measure, so that every host sends to `degree` others and receives from as many.

    Hosts are placed in a circle in random order, and each sends to those at `degree` random distances. Each distance is
    measured in two or three rounds of disjoint pairs. Distance 1 is always included, so every host reaches every other
    over measured pairs.

    Args:
        size: number of hosts.
        degree: number of pairs out of each host; `usual_degree` if in doubt.
        seed: seed of order and distances.

    Returns:
        (N, N), row = source.

    Raises:
        GavotteError: for a degree below 1, or of at least the number of hosts.
    """
    if not 0 < degree < size:
        raise GavotteError(f"{size} hosts cannot each send to {degree} others", hint=f"use 1 to {size - 1}")
    rng = np.random.default_rng(seed)
    ring = rng.permutation(size)
    distances = [1, *(2 + rng.permutation(size - 2)[: degree - 1]).tolist()]
    chosen = np.zeros((size, size), dtype=bool)
    for distance in distances:
        chosen[ring, np.roll(ring, -distance)] = True
    return chosen


def reached(usable: Mask) -> bool:
    """Return whether every host reaches every other over (N, N) usable pairs."""
    for matrix in (usable, usable.T):
        seen = np.zeros(len(usable), dtype=bool)
        seen[0] = True
        while (more := seen | matrix[seen].any(axis=0)).sum() > seen.sum():
            seen = more
        if not seen.all():
            return False
    return True


@dataclass(frozen=True)
class SubsetCost:
    """Gain of broadcasts with trees over only some pairs, next to that with trees over all pairs.

    Attributes:
        share: share of all pairs that are measured, 0 to 1.
        gain: share of the time of the binomial tree by rank that trees over the measured pairs save.
        full_gain: share of that time that trees over all pairs save.
    """

    share: float
    gain: float
    full_gain: float


def cost_of_subset(constant: Floats, measured: Mask, *, truth: Floats | None = None, seed: int = 0) -> SubsetCost:
    """Compare the times of broadcasts over only some pairs with those of broadcasts over all pairs.

    Args:
        constant: (N, N) transfer times as learnt, NaN on the diagonal.
        measured: (N, N) the pairs to use.
        truth: (..., N, N) transfer times to judge by; `constant` itself if None.
        seed: seed of the roots.

    Raises:
        ValueError: when the measured pairs do not reach every host.
    """
    judged = constant if truth is None else truth
    roots = np.random.default_rng(seed).permutation(len(constant))[:ROOTS].tolist()
    few = np.where(measured, constant, np.nan)
    plain = np.mean([broadcast_s(binomial(len(constant), root), judged).mean() for root in roots])
    subset = np.mean([broadcast_s(earliest_first(few, root), judged).mean() for root in roots])
    full = np.mean([broadcast_s(earliest_first(constant, root), judged).mean() for root in roots])
    off_diagonal = ~np.eye(len(constant), dtype=bool)
    return SubsetCost(float(measured[off_diagonal].mean()), float(1 - subset / plain), float(1 - full / plain))
