"""Expected excess: the mean share by which congestion of a host or pair lengthens its times beyond the constant.

A robust constant ignores slow-downs, and so underestimates the cost of a link that is slow every third time. The mean
includes slow-downs, but also all chance. The expected excess is between the two: each host's and each pair's mean
excess, shrunk by the share of its spread that is chance (empirical Bayes, in two steps).
"""

from __future__ import annotations

import warnings

import numpy as np

from gavotte.formats.history import Floats
from gavotte.model.estimators import Estimate

BEYOND = 3.0
"""Band widths above which a time counts as slowed down."""


def expected(times: Floats, estimate: Estimate, width: float) -> Floats:
    """Return the constant increased by the expected excess: constant x (1 + expected excess).

    Args:
        times: (n, N, N), NaN = not measured.
        estimate: constant of each pair and load of each snapshot.
        width: width of the band, as standard deviation of logarithms.

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
    """Return the (N, N) expected excess from the (n, N, N) measured one.

    Hosts are shrunk towards the mean of all, pairs towards their hosts.
    """
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
    """Return the share of the variance of `means`, 0 to 1, that is not chance."""
    spread = float(np.nanvar(means))
    return max(0.0, 1.0 - chance / spread) if spread > 0 else 0.0
