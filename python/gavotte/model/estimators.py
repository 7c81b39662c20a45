"""Estimators, which reduce the values of each pair over time to one lasting value. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.formats.history import Floats

EWMA_WEIGHT = 0.3
"""Weight of each newer value. The RPCA paper, section V-A, gives none; 0.3 forgets half in two snapshots."""

Z95 = 1.96

RPCA_SNAPSHOTS = 100
"""Largest number of snapshots that `rpca` uses, the newest ones.

The cost grows with the cube of their number, and more of them change nothing.
"""


@dataclass(frozen=True)
class Estimate:
    """The lasting part of measured times.

    Attributes:
        constant: (N, N) in the unit of the input, NaN = never measured.
        times: (n, N, N) the input.
        own_load: (n,) load of each snapshot, if the estimator finds it.
    """

    constant: Floats
    times: Floats = field(repr=False)
    own_load: Floats | None = None

    @cached_property
    def load(self) -> Floats:
        """(n,) factor by which each snapshot lengthens the times of all pairs; median 1."""
        if self.own_load is not None:
            return self.own_load
        with np.errstate(divide="ignore", invalid="ignore"):
            return load_of(self.times, self.constant)


@dataclass(frozen=True)
class Band:
    """Scatter of each pair's undisturbed values around its constant, which the method `mode` finds.

    Attributes:
        width: standard deviation of the logarithm of a typical pair's undisturbed values.
        agreeing: (N, N) number of snapshots in which a pair was at its constant.
    """

    width: float
    agreeing: npt.NDArray[np.int64]


Estimator = Callable[[Floats], Estimate]


def last(times: Floats) -> Estimate:
    """Return the newest value of each pair, at any age."""
    newest = times[-1].copy()
    for earlier in times[-2::-1]:
        newest = np.where(np.isnan(newest), earlier, newest)
    return Estimate(newest, times)


def ewma(times: Floats) -> Estimate:
    """Return each pair's exponentially weighted mean, in which each newer value has the weight `EWMA_WEIGHT`."""
    mean = times[0].copy()
    for newer in times[1:]:
        mixed = (1 - EWMA_WEIGHT) * mean + EWMA_WEIGHT * newer
        mean = np.where(np.isnan(newer), mean, np.where(np.isnan(mean), newer, mixed))
    return Estimate(mean, times)


def mean(times: Floats) -> Estimate:
    """Return the mean of each pair's times: the "Heuristics" of the RPCA paper, section V-A."""
    known = np.isfinite(times)
    count = known.sum(axis=0)
    total = np.where(known, times, 0.0).sum(axis=0)
    return Estimate(np.where(count > 0, total / np.maximum(count, 1), np.nan), times)


def median(times: Floats) -> Estimate:
    """Return the median of each pair's times, the constant with the least L1 error."""
    return Estimate(_quantile(times, 0.5), times)


def least(times: Floats) -> Estimate:
    """Return the least time of each pair, that is its best rate."""
    return Estimate(_quantile(times, 0.0), times)


def rpca(times: Floats) -> Estimate:
    """Return the constant by principal component pursuit (RPCA paper, section IV).

    The constant is the rank-one part of the pursuit's low-rank matrix. The pursuit works on times, not rates: it
    separates large entries from the rest, and slow-downs are long times. Columns are divided by their medians first.
    """
    flat = _flat(times)
    # A snapshot or pair without any value would only pull the others towards the values that fill its gaps.
    rows = np.flatnonzero((flat > 0).any(axis=1))[-RPCA_SNAPSHOTS:]
    if not rows.size:
        return last(times)
    flat = flat[rows]
    known = (flat > 0).any(axis=0)
    constant, load = np.full(flat.shape[1], np.nan), np.ones(len(times))
    load[rows], constant[known], _ = _core.principal(np.ascontiguousarray(flat[:, known]))
    load[rows] /= np.median(load[rows])
    return Estimate(_square(constant, times), times, load)


def mode(times: Floats) -> Estimate:
    """Return each pair's most frequent value, after dividing each snapshot by its load.

    This is the rank-one model of the RPCA paper's section III, taken literally.
    """
    return _mode(times)[0]


def mode_and_band(times: Floats) -> tuple[Estimate, Band]:
    """Return both `mode` and `band`, at the cost of one if no value repeats a pair's last one."""
    estimate, scatter = _mode(times)
    new = fresh(times)
    return estimate, scatter if np.array_equal(np.isnan(new), np.isnan(times)) else _mode(new)[1]


def _mode(times: Floats) -> tuple[Estimate, Band]:
    """Return each pair's most frequent value, and the scatter around it."""
    load, constant, agreeing, width = _core.mode(_flat(times), _gaps(len(times)))
    return (
        Estimate(_square(constant, times), times, load),
        Band(float(width), agreeing.astype(np.int64).reshape(times.shape[1:])),
    )


def fresh(times: Floats) -> Floats:
    """Return the (n, N, N) times without exact repetitions of a pair's last value, which are no new measurements."""
    known = times[0]
    rows = [known]
    for newer in times[1:]:
        rows.append(np.where(newer == known, np.nan, newer))
        known = np.where(np.isnan(newer), known, newer)
    return np.stack(rows)


def band(times: Floats) -> Band:
    """Return the scatter of undisturbed values.

    Args:
        times: (n, N, N) in any unit, NaN = not measured.
    """
    return _mode(fresh(times))[1]


ESTIMATORS: dict[str, Estimator] = {
    "rpca": rpca,
    "mode": mode,
    "median": median,
    "mean": mean,
    "min": least,
    "ewma": ewma,
    "last": last,
}
"""Estimators by method name. Each takes (n, N, N) times, row = source, NaN = not measured."""


def load_of(times: Floats, constant: Floats) -> Floats:
    """Return the (n,) load of each snapshot: the median over pairs of time / constant, scaled to a median of 1.

    A snapshot without values counts as 1 before scaling.
    """
    ratio = _flat(times) / constant.ravel()
    rows = [row[np.isfinite(row)] for row in ratio]
    load = np.array([float(np.median(row)) if row.size else 1.0 for row in rows])
    middle = float(np.median(load))
    return load / middle if middle > 0 else np.ones(len(load))


def _quantile(times: Floats, share: float) -> Floats:
    return _square(_core.column_quantile(_flat(times), share), times)


def _flat(times: Floats) -> Floats:
    return np.ascontiguousarray(times.reshape(len(times), -1), dtype=np.float64)


def _square(constant: Floats, times: Floats) -> Floats:
    """Return a flat constant as an (N, N) matrix, with zero for unknown pairs that have values of zero."""
    square = constant.reshape(times.shape[1:])
    zero = np.isnan(square) & (times == 0).any(axis=0)
    return np.where(zero, 0.0, square)


def _gaps(snapshots: int) -> Floats:
    """Return the expected gap between order statistics 1 and max(2, ceil(0.4 k)) of k standard normals (Blom 1958).

    Entry k of the result is for k values; entries 0 and 1 are 0.
    """
    gaps = np.zeros(snapshots + 1)
    quantile = NormalDist().inv_cdf
    for k in range(2, snapshots + 1):
        upper = max(2, int(np.ceil(0.4 * k)))
        gaps[k] = quantile((upper - 0.375) / (k + 0.25)) - quantile(0.625 / (k + 0.25))
    return gaps
