"""What a link costs on average above its constant, where congestion belongs to links or hosts.

A robust constant throws slow-downs away, and with them the true cost of a link that is slow every third time. The
mean keeps them, and all chance with them. Between the two: each host's and each pair's mean excess, shrunk by how much
of its spread is chance (empirical Bayes, in two steps).
"""

from __future__ import annotations

import warnings

import numpy as np

from gavotte.formats.history import Floats
from gavotte.model.estimators import Estimate

BEYOND = 3.0
"""Band widths above which a time counts as slowed down."""


def expected(times: Floats, estimate: Estimate, width: float) -> Floats:
    """Constant x (1 + expected excess).

    Args:
        times: (n, N, N), NaN = not measured.
        estimate: what lasts.
        width: of the band, as standard deviation of logarithms.

    Returns:
        (N, N) in the unit of `times`.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        above = times / (estimate.load[:, None, None] * estimate.constant) - 1
    above = np.where(np.isnan(above), np.nan, np.where(above > BEYOND * width, above, 0.0))
    with warnings.catch_warnings():  # pairs never measured stay NaN
        warnings.simplefilter("ignore", RuntimeWarning)
        return estimate.constant * (1 + _shrunk(above))


def _shrunk(above: Floats) -> Floats:
    """(N, N) expected excess from (n, N, N): hosts towards the mean of all, pairs towards their hosts."""
    snapshots = max(1, len(above))
    pair = np.nanmean(above, axis=0)
    grand = float(np.nanmean(pair))
    if not grand > 0 or snapshots < 2:
        return np.full(pair.shape, grand if grand > 0 else 0.0)
    base = np.full(pair.shape, grand)
    for axis in (1, 0):
        # Over snapshots, not pairs: slow-downs of a host strike its pairs at the same time.
        host = np.nanmean(above, axis=axis + 1)
        means = np.nanmean(host, axis=0)
        chance = float(np.nanmean(np.nanvar(host, axis=0, ddof=1))) / snapshots
        shift = _weight(chance, means) * (np.nan_to_num(means, nan=grand) - grand)
        base = base + (shift[:, None] if axis == 1 else shift[None, :])
    base = np.maximum(base, 0.0)
    chance = float(np.nanmean(np.nanvar(above, axis=0, ddof=1))) / snapshots
    rest = np.nan_to_num(pair - base)
    off = ~np.isnan(pair)
    return np.asarray(np.maximum(base + _weight(chance, rest[off]) * rest, 0.0))


def _weight(chance: float, means: Floats) -> float:
    """The share of the spread that is not chance."""
    spread = float(np.nanvar(means))
    return max(0.0, 1.0 - chance / spread) if spread > 0 else 0.0
