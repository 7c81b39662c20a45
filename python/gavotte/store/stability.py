"""Stability of a measured network: distribution of rates, prediction by older measurements, path lengths.

Repeats Choreo's Fig. 1, 2, 7 and 8 for any hosts.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gavotte.formats.history import Floats, History
from gavotte.tables import Tabular

SHARES = (0, 5, 25, 50, 75, 95, 100)
"""Percentiles that describe a distribution."""

AGES_S = (60.0, 300.0, 600.0, 1800.0)
"""Ages of a measurement in Choreo's Fig. 7, in seconds: 1, 5, 10 and 30 minutes."""

NEAR = 0.25
"""Tolerance of an age: a snapshot has a requested age if its own differs by at most this share of it."""


@dataclass(frozen=True)
class Spread:
    """Distribution of the rates of all pairs in one snapshot, or of all pairs with one path length.

    Attributes:
        key: Unix time of the snapshot, or path length in hops.
        pairs: number of pairs with a rate.
        rate_bps: percentiles of the rates at `SHARES`, bit/s.
    """

    key: float
    pairs: int
    rate_bps: tuple[float, ...]


@dataclass(frozen=True)
class PastError:
    """Difference between a measurement and an older one of the same pair.

    Attributes:
        age_s: the requested age.
        count: pairs of measurements; 0 = no two snapshots have this age difference, and the errors are NaN.
        mean: of |now - then| / now.
        median: of the same.
        most: its 95th percentile.
    """

    age_s: float
    count: int
    mean: float
    median: float
    most: float


@dataclass(frozen=True)
class Stability(Tabular):
    """Analysis of how steady the rates of a History are.

    Attributes:
        over_time: rates of each snapshot (Fig. 1 and 2).
        by_age: error of older measurements, for each age (Fig. 7).
        by_hops: median rates of the pairs, for each path length (Fig. 8); empty if lengths are unknown.
    """

    over_time: list[Spread]
    by_age: list[PastError]
    by_hops: list[Spread]

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row per age, with the fields of PastError."""
        return [vars(each) for each in self.by_age]


def stability(history: History, *, ages_s: Sequence[float] = AGES_S) -> Stability:
    """Analyse how steady the rates of a History are (Choreo sections 2.2, 4.1 and 4.2).

    Args:
        history: at least one snapshot; for errors by age, several that span the requested ages.
        ages_s: ages of the earlier measurement, in seconds.
    """
    rates_bps = 8 * history.beta_Bps
    over_time = [_spread(at, rates) for at, rates in zip(history.time_s.tolist(), rates_bps, strict=True)]
    with warnings.catch_warnings():  # pairs that were never measured
        warnings.simplefilter("ignore", RuntimeWarning)
        usual = np.nanmedian(rates_bps, axis=0)
    lengths = sorted({int(hops) for hops in history.hops[np.isfinite(usual)].tolist() if hops > 0})
    return Stability(
        over_time=[each for each in over_time if each.pairs],
        by_age=[past_error(rates_bps, history.time_s, age_s) for age_s in ages_s],
        by_hops=[_spread(hops, usual[history.hops == hops]) for hops in lengths],
    )


def past_error(values: Floats, time_s: Floats, age_s: float) -> PastError:
    """Return the error of using older measurements, over all pairs and times together.

    Args:
        values: (n, N, N) measurements, NaN = not measured.
        time_s: (n,) times of the measurements in seconds, ascending.
        age_s: age of the older measurement. Each snapshot is compared with the one closest to this age, if that is
            within `NEAR`.
    """
    errors = []
    for now, at_s in enumerate(time_s.tolist()):
        then = int(np.abs(time_s - (at_s - age_s)).argmin())
        if then == now or abs(at_s - age_s - float(time_s[then])) > NEAR * age_s:
            continue
        off = np.abs(values[now] - values[then]) / values[now]
        errors.append(off[np.isfinite(off)])
    joined = np.concatenate(errors) if errors else np.zeros(0)
    if len(joined) == 0:
        return PastError(age_s, 0, float("nan"), float("nan"), float("nan"))
    return PastError(
        age_s, len(joined), float(joined.mean()), float(np.median(joined)), float(np.percentile(joined, SHARES[-2]))
    )


def _spread(key: float, rates_bps: Floats) -> Spread:
    known = rates_bps[np.isfinite(rates_bps)]
    shares = np.percentile(known, SHARES).tolist() if len(known) else [float("nan")] * len(SHARES)
    return Spread(key, len(known), tuple(shares))
