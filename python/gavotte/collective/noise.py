"""Noise on a History until its error part has a wanted norm (the RPCA paper, section V-D3)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from gavotte.errors import GavotteError
from gavotte.formats.history import Floats, History

STEP = 0.01
"""Each step of the walk changes each value by 1 %, up or down: the paper's figure."""

TOLERANCE = 0.10
"""A value within 10 % of the constant is no error. The paper's zero norm has no tolerance, and would then be 1."""

MOST_STEPS = 20_000


@dataclass(frozen=True)
class Noisy:
    """A History with noise.

    Attributes:
        history: the same snapshots, other bandwidths.
        norm: Norm(N_E) that was reached.
        steps: of the random walk.
    """

    history: History
    norm: float
    steps: int


def norm_of(per_byte_s: Floats, tolerance: float = TOLERANCE) -> float:
    """Norm(N_E): the share of values that differ from the pair's constant by more than the tolerance.

    Constant and load come from medians of logarithms: first of each pair over time, then of each snapshot over pairs,
    which takes a load common to all pairs of a snapshot out; twice.

    Args:
        per_byte_s: (n, N, N) transfer times, NaN = not measured; diagonals are not read.
        tolerance: relative.
    """
    size = per_byte_s.shape[-1]
    values = np.log(per_byte_s[:, ~np.eye(size, dtype=bool)])
    return _norm(values, tolerance)


def _norm(values: Floats, tolerance: float) -> float:
    with warnings.catch_warnings():  # pairs that were never measured
        warnings.simplefilter("ignore", RuntimeWarning)
        load = np.zeros((len(values), 1))
        for _ in range(2):
            constant = np.nanmedian(values - load, axis=0, keepdims=True)
            load = np.nanmedian(values - constant, axis=1, keepdims=True)
        ratio = np.exp(values - constant - load)
    known = np.isfinite(ratio)
    return float((np.abs(ratio[known] - 1) > tolerance).mean()) if known.any() else 0.0


def with_noise(history: History, norm: float, *, tolerance: float = TOLERANCE, seed: int = 0) -> Noisy:
    """Adds a random walk to each value of a History until its Norm(N_E) is the wanted one.

    The paper: "For each time of adding noise, we change the network performance by 1% (increase or decrease, subject to
    the predefined N_E and current N_E). ... If the updated N_E reaches the predefined value, we stop." Taken here as:
    in each step every transfer time of every snapshot goes up or down by the factor 1.01, independently and with equal
    chance, and the norm is taken anew after every step. After k steps the logarithms have a standard deviation of
    0.01 sqrt(k) more, in all cells alike: a dense band, not rare spikes.

    Args:
        history: n snapshots.
        norm: wanted, above that of the History and below 1.
        tolerance: of the norm.
        seed: of the walk.

    Raises:
        GavotteError: when the History has a greater norm already, or the wanted one cannot be reached.
    """
    generator = np.random.default_rng(seed)
    size = len(history.hosts)
    off = ~np.eye(size, dtype=bool)
    values = -np.log(history.beta_Bps[:, off])
    reached = _norm(values, tolerance)
    if reached > norm:
        raise GavotteError(
            f"its Norm(N_E) is {reached:.3f} already, more than {norm:.3f}", hint="noise only adds; ask for more"
        )
    steps = 0
    while reached < norm:
        if steps == MOST_STEPS:
            raise GavotteError(f"Norm(N_E) is still {reached:.3f} after {steps} steps", hint="ask for less")
        values = values + np.where(generator.random(values.shape) < 0.5, -1.0, 1.0) * np.log1p(STEP)
        steps += 1
        reached = _norm(values, tolerance)
    beta = history.beta_Bps.copy()
    beta[:, off] = np.exp(-values)
    return Noisy(replace(history, beta_Bps=beta), reached, steps)
