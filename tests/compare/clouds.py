"""Histories of a cloud with noise, a load of each snapshot, spikes and changes that are known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from tests import builders

from gavotte.formats.history import Floats, History, Proof

SIZE = 6


@dataclass(frozen=True)
class Weather:
    """What disturbs measurements.

    Attributes:
        noise: coefficient of variation of a typical pair.
        uneven: standard deviation of the logarithm of a pair's noise over the typical one.
        load: standard deviation of the factor that all pairs of a snapshot share.
        spikes: share of values that are a slow moment.
    """

    noise: float = 0.02
    uneven: float = 0.0
    load: float = 0.0
    spikes: float = 0.0


CALM = Weather()


def rates(seed: int, size: int = SIZE) -> Floats:
    """Return the (N, N) true rates of a cloud in bytes/s."""
    return np.random.default_rng(seed).uniform(5e7, 1.2e8, (size, size))


def cloud(true: Floats, seed: int, *, snapshots: int = 5, weather: Weather = CALM, alpha_s: float = 5e-4) -> History:
    """Return snapshots of a cloud with these rates."""
    rng = np.random.default_rng(seed)
    shape = (snapshots, *true.shape)
    noise = weather.noise * np.exp(weather.uneven * np.random.default_rng(true.shape[0]).standard_normal(true.shape))
    values = true * np.exp(noise * rng.standard_normal(shape))
    values *= np.exp(weather.load * rng.standard_normal(snapshots))[:, None, None]
    values /= 1 + (rng.random(shape) < weather.spikes) * rng.exponential(2.0, shape)
    latencies = alpha_s * (1 + 0.1 * np.abs(rng.standard_normal(shape)))
    return builders.history(values, latencies, every_s=60.0)


def proved(history: History, share: float, verdict: int = 1) -> History:
    """Return a History whose values have 95 % intervals of this relative half width, and a verdict's code."""
    proof = Proof.empty(history.beta_Bps.shape)
    return replace(
        history,
        proof=replace(
            proof,
            low_Bps=history.beta_Bps * (1 - share),
            high_Bps=history.beta_Bps * (1 + share),
            verdict=np.full(history.beta_Bps.shape, verdict),
        ),
    )
