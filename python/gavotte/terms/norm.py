"""Compute Norm(N_E), the share of measured values that are errors: one definition for all packages."""

from __future__ import annotations

import warnings

import numpy as np

from gavotte.formats.history import Floats

TOLERANCE = 0.10
"""A value within 10 % of the constant is no error. The RPCA paper's zero norm has no tolerance, and would then be 1."""


def norm_of(times: Floats, constant: Floats | None = None, *, tolerance: float = TOLERANCE) -> float:
    """Return the share of values that differ from load x constant by more than the tolerance.

    This is Norm(N_E) of the RPCA paper, section IV-A. The load of each snapshot is the median over pairs of value /
    constant. Without removing it, a load that varies by 30 % gives 0.7 to 0.9 instead of the true 0.12.

    Args:
        times: (n, N, N), row = source, NaN = not measured; diagonals are not read.
        constant: (N, N) in any unit, as the load removes any factor. None = the median over time of each pair's
            logarithms, without loads, which needs no method. If a pair is slow in about half of the snapshots, its
            median is often a slow value, and more values are off than with the method `mode` of `gavotte model`.
        tolerance: largest relative difference that is no error.
    """
    off_diagonal = ~np.eye(times.shape[-1], dtype=bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        if constant is None:
            return norm_of_logarithms(np.log(times[:, off_diagonal]), tolerance=tolerance)
    return norm_of_pairs(times[:, off_diagonal], constant[off_diagonal], tolerance=tolerance)


def norm_of_pairs(times: Floats, constant: Floats, *, tolerance: float = TOLERANCE) -> float:
    """Return `norm_of` of (n, P) times of P pairs and their (P,) constant."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return _off(np.log(times) - np.log(constant), tolerance)


def norm_of_logarithms(values: Floats, *, tolerance: float = TOLERANCE) -> float:
    """Return Norm(N_E) of (n, P) logarithms of P pairs, with medians over time as the constant; see `norm_of`."""
    first = _median(values, axis=0)
    load = _median(values - first, axis=1)
    return _off(values - _median(values - load, axis=0), tolerance)


def _off(ratios: Floats, tolerance: float) -> float:
    """Return the share of (n, P) logarithms of value / constant that are off their snapshot's median."""
    off = np.abs(np.expm1(ratios - _median(ratios, axis=1)))
    known = np.isfinite(off)
    return float((off[known] > tolerance).mean()) if known.any() else 0.0


def _median(values: Floats, *, axis: int) -> Floats:
    if values.size and not np.isnan(values).any():  # takes a third of the time
        return np.asarray(np.median(values, axis=axis, keepdims=True))
    with warnings.catch_warnings():  # pairs or snapshots without a value
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmedian(values, axis=axis, keepdims=True))
