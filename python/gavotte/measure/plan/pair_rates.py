"""Rates of single pairs: those that were measured, and what is expected of the others. No N x N matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from gavotte.formats.history import Floats
from gavotte.terms import Pair


class PairRates(Protocol):
    """Rates of pairs alone, by (source, target). An (N, N) array is one, too."""

    def __getitem__(self, pair: Pair, /) -> float:
        """Return the rate of a pair, bit/s; NaN = unknown."""


@runtime_checkable
class ManyRates(PairRates, Protocol):
    """Rates that can be had for many pairs at once."""

    def between(self, sources: Sequence[int], targets: Sequence[int]) -> Floats:
        """Return the (S, T) rates from each source to each target, bit/s; NaN = unknown."""


def rates_between(rates: PairRates, sources: Sequence[int], targets: Sequence[int]) -> Floats:
    """Return the (S, T) rates from each source to each target, bit/s; NaN = unknown."""
    if isinstance(rates, np.ndarray):
        return np.asarray(rates[np.ix_(sources, targets)])
    if isinstance(rates, ManyRates):
        return rates.between(sources, targets)
    each = [[rates[source, target] for target in targets] for source in sources]
    return np.array(each, dtype=np.float64).reshape(len(sources), len(targets))


class KnownRates(dict[Pair, float]):
    """Measured rates, bit/s; NaN for all other pairs."""

    def __missing__(self, pair: Pair) -> float:
        """Return NaN."""
        return math.nan
