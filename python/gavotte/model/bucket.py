"""Depth and peak rate of each host's token bucket, estimated from the trains that the host sent. No I/O."""

from __future__ import annotations

import numpy as np

from gavotte.formats.history import VERDICTS, Floats, History
from gavotte.terms.goodput import goodput_per_wire
from gavotte.terms.hierarchy import Hierarchy

DEEPER = 2.0
"""A bucket that was not full, but is more than this many times as deep as the full ones, is a different bucket."""

OWN = 0.95
"""Paths with at least this share of a host's best rate meet the host's own bucket; slower ones may meet another's."""


def seen_bytes(history: History, hierarchy: Hierarchy) -> Floats:
    """Return the (N,) bytes that each host sent to other machines in one snapshot, the most of any; NaN = unknown.

    Args:
        history: its counts of sent bytes are used; without them every result is NaN.
        hierarchy: machines of its hosts; paths inside a machine do not count.
    """
    size = len(history.hosts)
    if history.sent_bytes is None:
        return np.full(size, np.nan)
    machine = np.array(hierarchy.machine)
    sent = (
        np.where(machine[:, None] != machine[None, :], np.nan_to_num(history.sent_bytes), 0.0).sum(axis=2).max(axis=0)
    )
    return np.where(sent > 0, sent, np.nan)


def egress_buckets(history: History, hierarchy: Hierarchy) -> tuple[Floats, Floats]:
    """Return the token bucket of each host's egress: its depth C, and the peak rate b while the bucket lasts.

    A train measures less than the depth of a bucket that had no time to fill. Therefore:

    1. Only buckets that were full count.
    2. If none was full, or one that was not is more than twice as deep, the deepest counts.

    Args:
        history: a History with a proof; without one nothing is known.
        hierarchy: machines and racks of its hosts; paths inside a machine do not count.

    Returns:
        (N,) depth in bytes of TCP payload and (N,) rate while it lasts, TCP goodput in bit/s; NaN = not known.
    """
    size = len(history.hosts)
    burst_bytes, peak_bps = np.full(size, np.nan), np.full(size, np.nan)
    proof = history.proof
    if proof is None:
        return burst_bytes, peak_bps
    machine = np.array(hierarchy.machine)
    # Credits that TCP used up have no verdict.
    known = np.isin(proof.verdict, [VERDICTS.index(verdict) for verdict in ("path-limited", "unproven")])
    usable = known & (machine[:, None] != machine[None, :])
    usable &= np.isfinite(proof.bucket_bytes) & np.isfinite(history.beta_Bps)
    full = proof.bucket_full(history.beta_Bps)
    for host in range(size):
        mine = usable[:, host, :]
        if not mine.any():
            continue
        rate_Bps = history.beta_Bps[:, host, :]  # noqa: N806 - the file format's key
        own = mine & (rate_Bps >= OWN * rate_Bps[mine].max())
        best = own & full[:, host, :] if (own & full[:, host, :]).any() else own
        depths = proof.bucket_bytes[:, host, :]
        if depths[own].max() > DEEPER * depths[best].max():
            best = own & (depths == depths[own].max())
        paths = zip(history.mtu()[host], history.over_ipv6(), strict=True)
        share = np.array([goodput_per_wire(mtu_bytes, ipv6=bool(ipv6)) for mtu_bytes, ipv6 in paths])
        burst_bytes[host] = (share * proof.bucket_bytes[:, host, :])[best].max()
        peaks = proof.peak_Bps[:, host, :][best]
        peak_bps[host] = 8 * np.nanmax(peaks) if np.isfinite(peaks).any() else np.nan
    return burst_bytes, peak_bps
