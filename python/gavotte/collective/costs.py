"""The alpha-beta model of every pair of ranks, from a Network or a History."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.formats.history import Floats, History
from gavotte.formats.network import Network

LOCAL_ALPHA_S = 1e-6
LOCAL_BPS = 40e9
"""Two ranks on one host meet in memory; what matters is only that this is much faster than any network."""


@dataclass(frozen=True)
class PairCosts:
    """Sending b bytes from rank i to rank j takes `alpha_s + b * per_byte_s`.

    Attributes:
        alpha_s: (..., N, N) seconds, row = source.
        per_byte_s: (..., N, N) seconds a byte.
    """

    alpha_s: Floats
    per_byte_s: Floats

    @property
    def local(self) -> npt.NDArray[np.bool_]:
        """(..., N, N): pairs of ranks on one host, a rank and itself among them."""
        return np.asarray((self.alpha_s == LOCAL_ALPHA_S) & (self.per_byte_s == 8 / LOCAL_BPS))

    @property
    def reversed(self) -> PairCosts:
        """The way back of each pair: what a reduction or a gather pays."""
        return PairCosts(_whole(self.alpha_s.swapaxes(-1, -2)), _whole(self.per_byte_s.swapaxes(-1, -2)))


def network_costs(network: Network, ranks: Sequence[str]) -> PairCosts:
    """The pairs of a Network.

    Args:
        network: its hosts' rates and latencies; an unknown latency counts as none.
        ranks: the host of each of N ranks.

    Raises:
        GavotteError: for a host that the Network lacks, or a pair of unknown rate.
    """
    at = places(network.names, ranks, "network")
    alpha_s, per_byte_s = _core.Network(network).alpha_beta(at)
    return _within_hosts(alpha_s, per_byte_s, at)


def history_costs(history: History, ranks: Sequence[str]) -> PairCosts:
    """The pairs of each snapshot of a History, (n, N, N).

    A pair that was not measured in a snapshot has its median over the others there.

    Raises:
        GavotteError: for a host that the History lacks, or a pair that was never measured.
    """
    at = places(history.hosts, ranks, "history")
    filled = [_filled(values) for values in (history.alpha_s, 1 / history.beta_Bps)]
    alpha_s, per_byte_s = (values[:, at][:, :, at] for values in filled)
    pairs = _within_hosts(np.nan_to_num(alpha_s), per_byte_s, at)
    unknown = np.argwhere(np.isnan(pairs.per_byte_s[0]))
    if len(unknown):
        source, target = (ranks[int(place)] for place in unknown[0])
        raise GavotteError(f"{source} to {target} was never measured", hint="measure that pair, or use other hosts")
    return pairs


def _filled(values: Floats) -> Floats:
    """With each gap's median over the other snapshots; the diagonal is left alone."""
    gaps = np.isnan(values) & ~np.eye(values.shape[-1], dtype=bool)
    if not gaps.any():
        return values
    with warnings.catch_warnings():  # pairs that were never measured are told by the caller
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.where(gaps, np.nanmedian(values, axis=0, keepdims=True), values)


def places(names: Sequence[str], ranks: Sequence[str], what: str) -> list[int]:
    """Where each rank's host stands.

    Raises:
        GavotteError: for a host that is not there.
    """
    at = {name: place for place, name in enumerate(names)}
    for host in ranks:
        if host not in at:
            raise GavotteError(f"the {what} has no host `{host}`", hint=f"it has {', '.join(list(names)[:8])}, ...")
    return [at[host] for host in ranks]


def _within_hosts(alpha_s: Floats, per_byte_s: Floats, at: Sequence[int]) -> PairCosts:
    """With what ranks on one host take; `at` is the host of each."""
    place = np.array(at)
    same = place[:, None] == place[None, :]
    return PairCosts(
        _whole(np.where(same, LOCAL_ALPHA_S, alpha_s)),
        _whole(np.where(same, 8 / LOCAL_BPS, per_byte_s)),
    )


def _whole(matrix: Floats) -> Floats:
    return np.ascontiguousarray(matrix, dtype=np.float64)
