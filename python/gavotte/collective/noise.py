"""Add noise to a History until its error part has a requested norm (the RPCA paper, section V-D3)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gavotte.errors import GavotteError
from gavotte.formats.history import Floats, History
from gavotte.terms.norm import TOLERANCE, norm_of_logarithms

STEP = 0.01
"""Each step of the walk changes each value by 1 %, up or down: the paper's figure."""

MOST_STEPS = 20_000


@dataclass(frozen=True)
class Noisy:
    """History to which noise was added.

    Attributes:
        history: the same snapshots with other bandwidths.
        norm: Norm(N_E) that was reached.
        steps: number of steps of the random walk.
    """

    history: History
    norm: float
    steps: int


def with_noise(history: History, norm: float, *, tolerance: float = TOLERANCE, seed: int = 0) -> Noisy:
    """Add a random walk to each value of a History until its Norm(N_E) is the requested one.

    The paper: "For each time of adding noise, we change the network performance by 1% (increase or decrease, subject to
    the predefined N_E and current N_E). ... If the updated N_E reaches the predefined value, we stop." This function
    reads it as follows. In each step every transfer time of every snapshot goes up or down by the factor 1.01,
    independently and with equal chance, until the norm is reached. The number of steps is found by doubling and
    halving. After k steps the standard deviation of the logarithms is greater by 0.01 sqrt(k) in all cells alike. The
    result is a dense band, not rare spikes.

    Args:
        history: n snapshots.
        norm: the requested norm, above that of the History and below 1.
        tolerance: tolerance of the norm, which is that of medians (see `norm_of`).
        seed: seed of the walk.

    Raises:
        GavotteError: when the History has a greater norm already, or the requested one cannot be reached.
    """
    generator = np.random.default_rng(seed)
    size = len(history.hosts)
    off = ~np.eye(size, dtype=bool)
    values = -np.log(history.beta_Bps[:, off])
    reached = norm_of_logarithms(values, tolerance=tolerance)
    if reached > norm:
        raise GavotteError(
            f"Norm(N_E) is already {reached:.3f}, more than {norm:.3f}",
            hint="noise can only raise it: use a larger --norm",
        )
    if reached == norm:
        return Noisy(history, reached, 0)
    walk = Walk(values.shape, generator)
    low, high = 0, 1
    while (reached := norm_of_logarithms(values + walk.to(high), tolerance=tolerance)) < norm:
        if high == MOST_STEPS:
            raise GavotteError(f"Norm(N_E) is still {reached:.3f} after {high} steps", hint="use a smaller --norm")
        low, high = high, min(2 * high, MOST_STEPS)
        walk.forget(low, high)
    while high - low > 1:
        middle = (low + high) // 2
        between = norm_of_logarithms(values + walk.to(middle), tolerance=tolerance)
        if between < norm:
            low = middle
        else:
            high, reached = middle, between
        walk.forget(low, high)
    values = values + walk.to(high)
    beta = history.beta_Bps.copy()
    beta[:, off] = np.exp(-values)
    return Noisy(replace(history, beta_Bps=beta), reached, high)


class Walk:
    """Random walks, one for each value, that can be evaluated at any steps in any order.

    A step between two known steps is consistent with both. The steps up in the first part of their interval are drawn
    without replacement from all steps of the interval.
    """

    def __init__(self, shape: tuple[int, ...], generator: np.random.Generator) -> None:
        self._generator = generator
        self._up = {0: np.zeros(shape, dtype=np.int16)}

    def to(self, step: int) -> Floats:
        """Return the sums of logarithms after `step` steps."""
        if step not in self._up:
            before = max(known for known in self._up if known < step)
            after = min((known for known in self._up if known > step), default=None)
            here = self._up[before]
            if after is None:
                more = self._generator.binomial(step - before, 0.5, here.shape)
            else:
                up = (self._up[after] - here).astype(np.int64)
                more = self._generator.hypergeometric(up, after - before - up, step - before)
            self._up[step] = (here + more).astype(np.int16)
        return np.asarray((2.0 * self._up[step] - step) * np.log1p(STEP), dtype=np.float64)

    def forget(self, before: int, after: int) -> None:
        """Drop steps outside the range: 1024 hosts take 2 MB a step and snapshot."""
        self._up = {step: up for step, up in self._up.items() if before <= step <= after}
