"""Bring Histories and Networks into one form that can be compared: mean and error of each pair's rate and latency."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from gavotte.compare.scatter import means_over_time
from gavotte.errors import GavotteError
from gavotte.formats.history import VERDICTS, History, Ints
from gavotte.formats.network import Network
from gavotte.terms.equivalence import Means

Z95 = NormalDist().inv_cdf(0.975)

LOWER_BOUNDS = [VERDICTS.index("host-limited"), VERDICTS.index("bucket-not-exhausted")]
"""Verdicts of a probe whose rate the path may exceed."""


@dataclass(frozen=True)
class Side:
    """A network at one time. Row = source; all arrays are (N, N) or, of the means, (N * N,).

    Attributes:
        hosts: N names.
        rate: rate of each pair, bit/s.
        latency: latency of each pair, seconds.
        bound: where all values of the rate are lower bounds.
        mtu_bytes: MTU of each pair, 0 = unknown.
        snapshots: number of snapshots; 0 = a Network.
    """

    hosts: tuple[str, ...]
    rate: Means
    latency: Means
    bound: npt.NDArray[np.bool_]
    mtu_bytes: Ints
    snapshots: int


def side_of(measured: History | Network) -> Side:
    """Return a History or a Network in the form that is compared.

    Raises:
        GavotteError: for a Network without rates of pairs.
    """
    return _of_history(measured) if isinstance(measured, History) else _of_network(measured)


def _of_history(history: History) -> Side:
    size = len(history.hosts)
    rates_bps = 8 * history.beta_Bps.reshape(history.snapshots, size * size)
    # An exact repetition of a pair's last value is no new measurement.
    known, new = rates_bps[0], np.isfinite(rates_bps)
    for row in range(1, len(rates_bps)):
        new[row] &= rates_bps[row] != known
        known = np.where(new[row], rates_bps[row], known)
    latencies_s = np.where(new, history.alpha_s.reshape(rates_bps.shape), np.nan)
    rate = means_over_time(np.where(new, rates_bps, np.nan))
    bound = np.zeros((size, size), dtype=np.bool_)
    if history.proof is not None:
        low = np.isin(history.proof.verdict, LOWER_BOUNDS).reshape(rates_bps.shape)
        bound = (new.any(axis=0) & (low | ~new).all(axis=0)).reshape(size, size)
        rate = _with_proofs(rate, history, new)
    return Side(
        history.hosts,
        rate,
        means_over_time(latencies_s),
        bound,
        history.mtu(),
        history.snapshots,
    )


def _with_proofs(rate: Means, history: History, new: npt.NDArray[np.bool_]) -> Means:
    """Return the means with the errors of single probes, by their own intervals, where snapshots show none."""
    assert history.proof is not None
    width = (history.proof.high_Bps - history.proof.low_Bps).reshape(new.shape)
    squares = np.where(new, (8 * width / (2 * Z95)) ** 2, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        count = np.fmax(rate.count, 1)
        error = np.sqrt(np.where(np.isnan(squares) & new, np.nan, np.nan_to_num(squares)).sum(axis=0)) / count
    use = np.isnan(rate.error) & (rate.count > 0)
    return Means(rate.mean, np.where(use, error, rate.error), np.where(use, np.inf, rate.freedom), rate.count)


def _of_network(network: Network) -> Side:
    if not network.any_rate:
        raise GavotteError("the network has no rate of a pair to compare", hint="compare Histories, or measure pairs")
    size = len(network.hosts)
    rate_bps, low_bps, latency_s = (network.to_numpy(key).ravel() for key in ("rate_bps", "rate_low_bps", "latency_s"))
    # Without a lower end the rate is exact.
    error = np.where(np.isfinite(low_bps), np.fmax(rate_bps - low_bps, 0.0) / Z95, 0.0)
    infinite, once = np.full(size * size, np.inf), np.ones(size * size, dtype=np.int64)
    return Side(
        tuple(network.names),
        Means(rate_bps, error, infinite, once),
        Means(latency_s, np.full(size * size, np.nan), np.zeros(size * size), once),
        np.zeros((size, size), dtype=np.bool_),
        np.nan_to_num(network.to_numpy("mtu_bytes")).astype(np.int64),
        0,
    )
