"""Guess the values of pairs that were never measured from their hosts' other pairs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gavotte.formats.history import Floats, Ints
from gavotte.model.estimators import Z95
from gavotte.terms.hierarchy import MACHINE_HOPS

FOLDS = 4
POLISHES = 10
"""Number of passes of the median polish; changes after the third are below 0.1 %."""

FAR_OFF = 1.0
"""Largest error that counts, as a logarithm (a factor of 2.7), so that one wrong measurement chooses no form."""


@dataclass(frozen=True)
class Filled:
    """A matrix whose unmeasured values are guessed, with the errors of such guesses.

    Attributes:
        values: (N, N), NaN on the diagonal and where a host has no value at all.
        form: how a missing value is guessed. `product` multiplies a factor of the sender and a factor of the receiver.
            `distance` multiplies these and a factor of the path's length, which distinguishes racks. `bottleneck` is
            the slower of a sender's and a receiver's value.
        typical_error: median relative error of guesses of known values that were held out; NaN if these are too few.
        spread: standard deviation of the logarithmic errors of those guesses, derived from their 95 % quantile.
    """

    values: Floats
    form: str
    typical_error: float
    spread: float


def filled(known: Floats, hops: Ints | None = None, *, seed: int = 0) -> Filled:
    """Guess missing values, by the form that guesses held-out known values best.

    Args:
        known: (N, N) positive times, NaN = never measured; the diagonal is not read.
        hops: (N, N) path lengths, 0 = unknown.
        seed: seed of the choice of held-out values.
    """
    size = len(known)
    off = ~np.eye(size, dtype=bool)
    measured = off & np.isfinite(known) & (known > 0)
    logs = np.where(measured, np.log(np.where(measured, known, 1.0)), np.nan)
    part = np.random.default_rng(seed).integers(FOLDS, size=(size, size))
    # What crosses a machine's memory shows no limit of its hosts.
    near = np.zeros_like(off) if hops is None else hops == MACHINE_HOPS
    forms: dict[str, Callable[[Floats], Floats]] = {
        "product": _product,
        "bottleneck": lambda logs: _bottleneck(np.where(near, np.nan, logs)),
    }
    if hops is not None and len(np.unique(hops[off])) > 1:
        forms["distance"] = lambda logs: _distance(logs, hops)
    errors: dict[str, list[npt.NDArray[np.float64]]] = {name: [] for name in forms}
    for fold in range(FOLDS):
        held = measured & (part == fold)
        rest = np.where(held, np.nan, logs)
        for name, form in forms.items():
            off_by = np.abs(form(rest) - logs)[held]
            errors[name].append(off_by[np.isfinite(off_by)])
    of = {name: np.concatenate(parts) for name, parts in errors.items()}
    # Not by the median: where more than half of all guesses are right by any form, noise alone would choose.
    usual = {name: float(np.minimum(each, FAR_OFF).mean()) if each.size else np.inf for name, each in of.items()}
    best = min(usual, key=lambda name: usual[name])
    guess = np.exp(forms[best](logs))
    checked = of[best]
    return Filled(
        values=np.where(off, np.where(np.isfinite(known), known, guess), np.nan),
        form=best,
        typical_error=float(np.expm1(np.median(checked))) if checked.size else np.nan,
        spread=float(np.quantile(checked, 0.95)) / Z95 if checked.size else np.nan,
    )


def filled_series(times: Floats, usual: Floats) -> Floats:
    """Return the (n, N, N) times, with the (N, N) usual value in every snapshot of pairs that were never measured."""
    never = np.isnan(times).all(axis=0)
    return np.where(never, usual, times)


def _product(logs: Floats) -> Floats:
    """Return logarithms guessed by median polish (Tukey 1977): a sender's term plus a receiver's term."""
    with warnings.catch_warnings():  # rows and columns without a value
        warnings.simplefilter("ignore", RuntimeWarning)
        sender = np.zeros(len(logs))
        receiver = np.zeros(len(logs))
        for _ in range(POLISHES):
            sender = np.nanmedian(logs - receiver[None, :], axis=1)
            sender = np.where(np.isnan(sender), np.nanmedian(sender), sender)
            receiver = np.nanmedian(logs - sender[:, None], axis=0)
            receiver = np.where(np.isnan(receiver), np.nanmedian(receiver), receiver)
    return np.asarray(sender[:, None] + receiver[None, :])


def _bottleneck(logs: Floats) -> Floats:
    """Return logarithms guessed as if only hosts' own caps limit.

    A pair's guess is the greater of its row's least value and its column's least value.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.fmax(np.nanmin(logs, axis=1)[:, None], np.nanmin(logs, axis=0)[None, :]))


def _distance(logs: Floats, hops: Ints) -> Floats:
    usual = np.full(logs.shape, np.nan)
    for length in np.unique(hops):
        alike = hops == length
        if np.isfinite(logs[alike]).any():
            usual[alike] = np.nanmedian(logs[alike])
    usual = np.where(np.isnan(usual), np.nanmedian(logs), usual)
    return usual + _product(logs - usual)
