"""The lower end of each pair's rate, as far as snapshots and proofs of single values tell."""

from __future__ import annotations

import warnings

import numpy as np

from gavotte.formats.history import LEAST_BPS, Floats, History
from gavotte.model.estimators import Z95, band

MEDIAN_PENALTY = 1.25
"""Standard error of a median-like centre over that of a mean."""

UNCHECKED_SPREAD = 0.5
"""Of guesses that nothing measured could check: a factor of 2.7 either way."""


def interval(times: Floats, constant: Floats) -> tuple[Floats, Floats, float]:
    """The 95 % interval of each pair's constant, from the band's width and how many snapshots agree with it.

    Returns:
        (N, N) low and high in the unit of `times`, and the band's width. A pair that one snapshot alone
        speaks for has an interval only because others show the band.
    """
    scatter = band(times)
    error = Z95 * MEDIAN_PENALTY * scatter.width / np.sqrt(np.maximum(scatter.agreeing, 1))
    return constant * np.exp(-error), constant * np.exp(error), scatter.width


def lower_bps(
    history: History, rate_bps: Floats, seconds_per_byte: Floats, *, spread: float = np.nan
) -> tuple[Floats, float]:
    """What each pair carries at least, with 95 % confidence.

    The band over time, and where a value carries a proof, that one's own interval: the wider of the two. Both are of
    undisturbed values and relative, so around a rate with expected excess the interval is that of the undisturbed one,
    slower by the excess.

    Args:
        history: what was measured.
        rate_bps: (N, N) what lasts, guesses of unmeasured pairs included.
        seconds_per_byte: (n, N, N) what it rests on, NaN = not measured, or of before a pair moved.
        spread: of guesses, as `filled` tells it.

    Returns:
        (N, N), NaN where nothing is known, and the band's width.
    """
    _, slow, width = interval(seconds_per_byte, 8 / rate_bps)
    low_bps = 8 / slow
    if history.proof is not None:
        with warnings.catch_warnings():  # pairs without a proof
            warnings.simplefilter("ignore", RuntimeWarning)
            share = np.nanmedian(history.proof.low_Bps / history.beta_Bps, axis=0)
        low_bps = np.fmin(low_bps, rate_bps * share)
    guessed = np.isnan(seconds_per_byte).all(axis=0)
    guess_bps = rate_bps * np.exp(-Z95 * (spread if np.isfinite(spread) else UNCHECKED_SPREAD))
    return np.maximum(np.where(guessed, guess_bps, low_bps), LEAST_BPS), width
