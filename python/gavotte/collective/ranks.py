"""Make the compiled form of ranks on hosts, with the rates of a Network or of each snapshot of a History."""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.formats.history import Floats, History
from gavotte.formats.network import FORMAT, Host, Network
from gavotte.formats.parts.names import known_as, unknown_host

MOST_RANKS = 2048
"""Most ranks among which trees are searched as a whole, and rings and the MPI library's own times are known. Trees of
more ranks are made tier by tier: see `crates/collective/src/tiers.rs`."""


def ranks_on(network: Network, hosts: Sequence[str]) -> _core.Ranks:
    """Return the ranks on hosts of a Network; a pair of unknown rate counts as slower than any known pair.

    Args:
        network: hosts, caps, groups and pairs; an unknown latency counts as none.
        hosts: the host of each of R ranks.

    Raises:
        GavotteError: for a host that the Network lacks, or if no rate is known at all.
    """
    at = places(network.names, hosts, "network")
    if not network.rate_bps:
        # Without rates of pairs, the rate of a host without a cap is unknown. Hosts that no rank uses are left out.
        used = sorted(set(at))
        network, at = network.of_hosts(used), [bisect_left(used, place) for place in at]
    try:
        return _core.Ranks(_core.Network(network.cautious()), at)
    except ValueError as error:
        raise GavotteError(str(error)) from None


def check_few(ranks: int, purpose: str) -> None:
    """Refuse more than `MOST_RANKS`.

    Args:
        ranks: the number of ranks.
        purpose: what would look at every pair of them, as the end of `more than ... that`.

    Raises:
        GavotteError: naming the purpose.
    """
    if ranks > MOST_RANKS:
        raise GavotteError(
            f"{ranks} ranks are more than the {MOST_RANKS} that {purpose}",
            hint="name fewer with --ranks or --placement",
        )


def ranks_over(history: History, hosts: Sequence[str], network: Network | None = None) -> Iterator[_core.Ranks]:
    """Yield the ranks on hosts with the rates and latencies of each snapshot of a History.

    A pair that was not measured in a snapshot has the median of its other snapshots.

    Args:
        history: n snapshots.
        hosts: the host of each of R ranks.
        network: shows which links pairs share. Without it, pairs share only hosts, each as fast as its best pair.

    Raises:
        GavotteError: for a host that the History lacks, or a pair that was never measured.
    """
    places(history.hosts, hosts, "history")
    # All hosts that the History and the Network have, since a host's best pair may be one that no rank uses.
    names = [name for name in history.hosts if network is None or name in network.names]
    chosen = [history.hosts.index(name) for name in names]
    per_byte_s, alpha_s = (_filled(each[:, chosen][:, :, chosen]) for each in (1 / history.beta_Bps, history.alpha_s))
    latency_s = np.nan_to_num(alpha_s)
    if network is None:
        nothing: list[list[float | None]] = [[None] * len(names)] * len(names)
        alone = [Host(name=name) for name in names]
        known = Network(format=FORMAT, hosts=alone, rate_bps=nothing, latency_s=nothing)
    else:
        known = network.of_hosts(places(network.names, names, "network"))
    here = places(names, hosts, "network")
    for m, n in ((m, n) for m in dict.fromkeys(here) for n in dict.fromkeys(here) if m != n):
        if np.isnan(per_byte_s[0, m, n]):
            raise GavotteError(
                f"{names[m]} to {names[n]} was never measured", hint="measure that pair, or use other hosts"
            )
    base = _core.Network(known)
    for slowness, latency in zip(per_byte_s, latency_s, strict=True):
        yield _core.Ranks.at(base, here, rate_bps=np.ascontiguousarray(8 / slowness), latency_s=latency.copy())


def _filled(values: Floats) -> Floats:
    """Return the values with each missing one replaced by its pair's median over the snapshots, except the diagonal."""
    gaps = np.isnan(values) & ~np.eye(values.shape[-1], dtype=bool)
    if not gaps.any():
        return values
    with warnings.catch_warnings():  # the caller reports pairs that were never measured
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.where(gaps, np.nanmedian(values, axis=0, keepdims=True), values)


def places(names: Sequence[str], wanted: Sequence[str], what: str) -> list[int]:
    """Return the position of each rank's host.

    Raises:
        GavotteError: for an unknown host.
    """
    at = {name: place for place, name in enumerate(names)}
    spelled = [known_as(host, at) for host in wanted]
    for host in spelled:
        if host not in at:
            raise unknown_host(host, names, f"the {what}")
    return [at[host] for host in spelled]
