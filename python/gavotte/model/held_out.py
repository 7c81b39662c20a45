"""Check a Network that was learned from few pairs by other pairs, which were held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gavotte._core import chi_squared_quantile
from gavotte.formats.history import Floats, History
from gavotte.model.constant import find_constant, model
from gavotte.tables import matrix
from gavotte.terms.held_out import OFF

CONFIDENCE = 0.95
"""Chance, 0 to 1, that at most the stated share of all pairs is off."""


@dataclass(frozen=True)
class HeldOutCheck:
    """How well few pairs predict pairs that were held out.

    Attributes:
        pairs: number of held-out pairs.
        off: number of those that are off by more than `OFF`.
        most_share: largest share of all pairs, 0 to 1, that may be off, with `CONFIDENCE`.
        typical_error: median relative error.
        worst: the pair with the largest error.
        worst_error: its relative error; above 0 = it is faster than predicted.
    """

    pairs: int
    off: int
    most_share: float
    typical_error: float
    worst: tuple[str, str]
    worst_error: float

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        rest = f"; {self.worst[0]} to {self.worst[1]} is off by {100 * self.worst_error:+.0f} %" if self.off else ""
        return (
            f"at most {100 * self.most_share:.1f} % of the pairs are off by more than {100 * OFF:.0f} % "
            f"({100 * CONFIDENCE:.0f} % confidence): {self.off} of {self.pairs} held-out pairs were{rest}"
        )


def check_held_out(history: History) -> HeldOutCheck | None:
    """Predict the held-out pairs from all others, and compare; None if no pair was held out.

    Raises:
        GavotteError: when the other pairs predict nothing.
    """
    if history.held_out is None:
        return None
    held_out = history.held_out > 0
    shown = np.where(held_out, np.nan, history.beta_Bps)
    several = None if history.several_Bps is None else np.where(held_out, np.nan, history.several_Bps)
    connections = None if history.connections is None else np.where(held_out, 0, history.connections)
    rest = replace(history, beta_Bps=shown, several_Bps=several, connections=connections)
    predicted_bps = matrix(model(rest, constant=find_constant(rest, method="last", fill=True)).rate_bps)
    measured_bps = 8 * history.beta_Bps[-1]
    source, target = np.nonzero(held_out)
    return held_out_check(
        measured_bps=measured_bps[source, target],
        predicted_bps=predicted_bps[source, target],
        pairs=[(history.hosts[i], history.hosts[j]) for i, j in zip(source, target, strict=True)],
    )


def held_out_check(
    measured_bps: Floats, predicted_bps: Floats, pairs: Sequence[tuple[str, str]]
) -> HeldOutCheck | None:
    """Compare measured rates with predicted ones; None if there is nothing to compare.

    Args:
        measured_bps: (P,) rates of held-out pairs; NaN = unknown.
        predicted_bps: (P,) their predictions; NaN or inf = none.
        pairs: names of each pair's sender and receiver.
    """
    compared = np.flatnonzero(np.isfinite(measured_bps) & np.isfinite(predicted_bps))
    if not compared.size:
        return None
    errors = measured_bps[compared] / predicted_bps[compared] - 1
    worst = int(np.argmax(np.abs(errors)))
    off = int((np.abs(errors) > OFF).sum())
    return HeldOutCheck(
        pairs=len(errors),
        off=off,
        most_share=most_share(off, len(errors)),
        typical_error=float(np.median(np.abs(errors))),
        worst=pairs[int(compared[worst])],
        worst_error=float(errors[worst]),
    )


def most_share(hits: int, trials: int) -> float:
    """Return the upper end of the one-sided interval of a share, by the Poisson distribution (Garwood 1936).

    It is slightly above that of the binomial distribution.

    Args:
        hits: number of trials with the property.
        trials: number of all, at least 1.
    """
    return min(1.0, chi_squared_quantile(CONFIDENCE, 2 * (hits + 1)) / 2 / trials)
