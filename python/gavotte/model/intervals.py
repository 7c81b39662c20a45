"""Lower end of each pair's 95 % rate interval, from snapshots and the proofs of single values."""

from __future__ import annotations

import warnings

import numpy as np

from gavotte.formats.history import LEAST_BPS, Floats
from gavotte.model.estimators import Z95, band

MEDIAN_PENALTY = 1.25
"""Standard error of a median-like centre, divided by that of a mean."""

UNCHECKED_SPREAD = 0.5
"""Spread of guesses that no measured value could check: their 95 % interval is a factor of 2.7 either way."""


def interval(times: Floats, constant: Floats) -> tuple[Floats, Floats, float]:
    """Return the 95 % interval of each pair's constant, from the band's width and the number of agreeing snapshots.

    Returns:
        (N, N) low and high in the unit of `times`, and the band's width. A pair with only one agreeing snapshot has
        an interval because other pairs show the band.
    """
    scatter = band(times)
    error = Z95 * MEDIAN_PENALTY * scatter.width / np.sqrt(np.maximum(scatter.agreeing, 1))
    return constant * np.exp(-error), constant * np.exp(error), scatter.width


def proven_share(low_Bps: Floats, beta_Bps: Floats) -> Floats:  # noqa: N803 - the file format's keys
    """Return the lower end of each pair's proven interval as a share of its rate, in the median; NaN = no proof.

    Args:
        low_Bps: (n, ...) lower ends.
        beta_Bps: (n, ...) rates.
    """
    with warnings.catch_warnings():  # pairs without a proof
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmedian(low_Bps / beta_Bps, axis=0))


def lower_bps(
    rate_bps: Floats, seconds_per_byte: Floats, proven: Floats | None = None, *, spread: float = np.nan
) -> tuple[Floats, float]:
    """Return the lower end of the 95 % interval of each pair's rate.

    The interval follows from the band over time. If the values of a pair have proofs, the wider of the band's and the
    proofs' intervals counts. Both are relative and describe undisturbed values. A rate with expected excess therefore
    has the undisturbed interval, slower by the excess.

    Args:
        rate_bps: (N, N) or (P,) lasting rates, including guesses of unmeasured pairs.
        seconds_per_byte: (n, N, N) or (n, P) values from which the rates were estimated. NaN = not measured, or from
            before a pair moved.
        proven: in the shape of the rates, as `proven_share` returns it; None = no value has a proof.
        spread: spread of guesses, see `Filled`.

    Returns:
        in the shape of the rates, NaN where nothing is known; and the band's width.
    """
    _, slow, width = interval(seconds_per_byte, 8 / rate_bps)
    low_bps = 8 / slow
    if proven is not None:
        low_bps = np.fmin(low_bps, rate_bps * proven)
    guessed = np.isnan(seconds_per_byte).all(axis=0)
    guess_bps = rate_bps * np.exp(-Z95 * (spread if np.isfinite(spread) else UNCHECKED_SPREAD))
    return np.maximum(np.where(guessed, guess_bps, low_bps), LEAST_BPS), width
