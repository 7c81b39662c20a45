"""Infer racks from block transfer times (CornetClustering, Orchestra section 7.2).

1. A non-negative factorisation fills missing times.
2. Non-metric multidimensional scaling places the hosts in the plane.
3. A mixture of spherical Gaussians of one fixed width groups the points; BIC chooses the number of groups.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

WORTH = 0.05
"""Partitions are used only if blocks within them take this much less time than blocks between any two hosts."""

RANK = 3
FILLING_STEPS = 300
SCALING_STEPS = 200
MIXING_STEPS = 100
STARTS = 8
MOST_GROUPS = 8

INTRA_QUANTILE = 0.1
"""Quantile of all times taken as the time within a rack: with few racks, each holds at least a tenth of all pairs."""


def infer_partitions(times_s: Floats, *, seed: int) -> list[int]:
    """Group hosts that are near each other.

    Args:
        times_s: (N, N) time of a block from row to column; NaN = unknown.
        seed: seed of all random choices.

    Returns:
        a number for each host's group, 0 for the first host's. All 0 if too little is known.
    """
    size, random = len(times_s), np.random.default_rng(seed)
    placed = _projected(times_s, random)
    if placed is None:
        return [0] * size
    distances, points = placed
    width = float(np.quantile(distances[np.triu_indices(size, 1)], INTRA_QUANTILE))
    best: tuple[float, npt.NDArray[np.int64]] | None = None
    for count in range(1, min(MOST_GROUPS, size // 2) + 1):
        likelihood, groups = max(
            (_mixture(points, count, width, random) for _ in range(STARTS)), key=lambda mixture: mixture[0]
        )
        # Each group has two coordinates and a weight; the weights add up to 1.
        bic = (3 * count - 1) * np.log(size) - 2 * likelihood
        if best is None or bic < best[0]:
            best = bic, groups
    assert best is not None
    numbers = {group: number for number, group in enumerate(dict.fromkeys(best[1].tolist()))}
    return [numbers[group] for group in best[1].tolist()]


def projected(times_s: Floats, *, seed: int) -> Floats | None:
    """Return the plane in which `infer_partitions` groups hosts, shape (N, 2); None if too little is known.

    Distances have the order of the block times, as far as possible, and their unit.

    Args:
        times_s: as for `infer_partitions`.
        seed: seed of all random choices.
    """
    placed = _projected(times_s, np.random.default_rng(seed))
    return None if placed is None else placed[1]


def _projected(times_s: Floats, random: np.random.Generator) -> tuple[Floats, Floats] | None:
    """Return symmetric distances and points; None if too little is known."""
    size = len(times_s)
    both = np.stack([times_s, times_s.T])
    known: npt.NDArray[np.bool_] = np.asarray(np.isfinite(both).any(axis=0))
    np.fill_diagonal(known, False)
    if size < 4 or known.sum() < 2 * size:
        return None
    with np.errstate(invalid="ignore"):
        mean = np.where(known, np.nansum(both, axis=0) / np.maximum(np.isfinite(both).sum(axis=0), 1), 0.0)
    distances = _filled(mean, known, random)
    return distances, _scaled(distances, random)


def worth_it(times_s: Floats, partitions: list[int]) -> bool:
    """Return whether blocks within partitions are sufficiently faster than blocks between any hosts."""
    same = np.equal.outer(partitions, partitions)
    known = np.isfinite(times_s) & ~np.eye(len(times_s), dtype=bool)
    if len(set(partitions)) < 2 or not (known & same).any():
        return False
    return bool(times_s[known & same].mean() < (1 - WORTH) * times_s[known].mean())


def _filled(times: Floats, known: npt.NDArray[np.bool_], random: np.random.Generator) -> Floats:
    """Return symmetric distances, the unknown ones from a factorisation of the known (Lee and Seung's updates)."""
    size = len(times)
    scale = times[known].mean()
    left, right = random.uniform(0.5, 1.0, (size, RANK)), random.uniform(0.5, 1.0, (RANK, size))
    weights, target = known.astype(np.float64), np.where(known, times / scale, 0.0)
    for _ in range(FILLING_STEPS):
        right *= (left.T @ target) / np.maximum(left.T @ (weights * (left @ right)), 1e-12)
        left *= (target @ right.T) / np.maximum((weights * (left @ right)) @ right.T, 1e-12)
    whole = np.where(known, times, scale * (left @ right))
    whole = (whole + whole.T) / 2
    np.fill_diagonal(whole, 0.0)
    return whole


def _scaled(distances: Floats, random: np.random.Generator) -> Floats:
    """Return (N, 2) points whose distances have the order of the given ones, as far as possible (Kruskal; SMACOF)."""
    size = len(distances)
    upper = np.triu_indices(size, 1)
    order = np.argsort(distances[upper], kind="stable")
    points = _classical(distances) + random.normal(0, 1e-6 * distances.mean(), (size, 2))
    for _ in range(SCALING_STEPS):
        now = np.linalg.norm(points[:, None] - points[None], axis=2)
        targets = np.empty(len(order))
        targets[order] = _rising(now[upper][order])
        targets *= np.sqrt(len(order) / max(float((targets**2).sum()), 1e-300)) * distances[upper].mean()
        ratio = np.zeros_like(distances)
        ratio[upper] = targets / np.maximum(now[upper], 1e-12)
        ratio += ratio.T
        pull = -ratio
        np.fill_diagonal(pull, ratio.sum(axis=1))
        points = pull @ points / size
    # In the units of the distances.
    now = np.linalg.norm(points[:, None] - points[None], axis=2)[upper]
    return np.asarray(points * (distances[upper] @ now / max(float(now @ now), 1e-300)))


def _classical(distances: Floats) -> Floats:
    size = len(distances)
    centring = np.eye(size) - 1 / size
    values, vectors = np.linalg.eigh(-0.5 * centring @ distances**2 @ centring)
    return np.asarray(vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0)))


def _rising(values: Floats) -> Floats:
    """Return the nearest sequence that never falls (pool adjacent violators)."""
    means: list[float] = []
    counts: list[int] = []
    for value in values:
        means.append(float(value))
        counts.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            both = counts[-2] + counts[-1]
            means[-2:] = [(means[-2] * counts[-2] + means[-1] * counts[-1]) / both]
            counts[-2:] = [both]
    return np.repeat(means, counts)


def _mixture(
    points: Floats, count: int, width: float, random: np.random.Generator
) -> tuple[float, npt.NDArray[np.int64]]:
    """Return log-likelihood and groups of a mixture of equal spherical Gaussians, by expectation maximisation."""
    centres = points[[int(random.integers(len(points)))]]
    while len(centres) < count:
        # The next centre is probably far from those before (k-means++).
        far = ((points[:, None] - centres[None]) ** 2).sum(axis=2).min(axis=1)
        chosen = random.choice(len(points), p=far / far.sum() if far.sum() > 0 else None)
        centres = np.vstack([centres, points[chosen]])
    weights = np.full(count, 1 / count)
    likelihood, shares = 0.0, np.zeros((len(points), count))
    for _ in range(MIXING_STEPS):
        squares = ((points[:, None] - centres[None]) ** 2).sum(axis=2)
        logs = np.log(weights) - squares / (2 * width**2) - np.log(2 * np.pi * width**2)
        most = logs.max(axis=1, keepdims=True)
        sums = most + np.log(np.exp(logs - most).sum(axis=1, keepdims=True))
        likelihood, shares = float(sums.sum()), np.exp(logs - sums)
        held = np.maximum(shares.sum(axis=0), 1e-9)
        weights, centres = held / held.sum(), (shares.T @ points) / held[:, None]
    return likelihood, shares.argmax(axis=1)
