"""Depth and peak rate of each host's token bucket, estimated from the trains that the host sent. No I/O."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from gavotte.formats.history import VERDICTS, Floats, PairHistory, bucket_full
from gavotte.terms.goodput import goodput_per_wire
from gavotte.terms.hierarchy import Hierarchy

Masks = npt.NDArray[np.bool_]

DEEPER = 2.0
"""A bucket that was not full, but is more than this many times as deep as the full ones, is a different bucket."""

OWN = 0.95
"""Paths with at least this share of a host's best rate meet the host's own bucket; slower ones may meet another's."""


def seen_bytes(history: PairHistory, hierarchy: Hierarchy) -> Floats:
    """Return the (N,) bytes that each host sent to other machines in one snapshot, the most of any; NaN = unknown.

    Args:
        history: its counts of sent bytes are used; without them every result is NaN.
        hierarchy: machines of its hosts; paths inside a machine do not count.
    """
    size, sent_bytes = len(history.hosts), history.values.get("sent_bytes")
    if sent_bytes is None:
        return np.full(size, np.nan)
    apart = apart_pairs(history, hierarchy)
    source = history.pairs[apart, 0]
    sums = [np.bincount(source, row, minlength=size) for row in np.nan_to_num(sent_bytes[:, apart])]
    sent = np.max(sums, axis=0, initial=0.0)
    return np.where(sent > 0, sent, np.nan)


def apart_pairs(history: PairHistory, hierarchy: Hierarchy) -> Masks:
    """Return (P,): whether the hosts of each pair are on different machines."""
    machine = np.array(hierarchy.machine)
    return np.asarray(machine[history.pairs[:, 0]] != machine[history.pairs[:, 1]])


def egress_buckets(history: PairHistory, hierarchy: Hierarchy) -> tuple[Floats, Floats]:
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
    if "verdict" not in history.values:
        return burst_bytes, peak_bps
    beta_Bps, depths = history.beta_Bps, history.values["bucket_bytes"]  # noqa: N806 - the file format's key
    # Credits that TCP used up have no verdict.
    known = np.isin(history.values["verdict"], [VERDICTS.index(each) for each in ("path-limited", "unproven")])
    usable = known & apart_pairs(history, hierarchy) & np.isfinite(depths) & np.isfinite(beta_Bps)
    full = bucket_full(beta_Bps, depths, history.values["idle_s"])
    ipv6, mtus = history.over_ipv6(), history.values.get("mtu_bytes", np.zeros(len(history.pairs), dtype=np.int64))
    starts = np.searchsorted(history.pairs[:, 0], np.arange(size + 1))
    for host, (start, end) in enumerate(pairwise(starts.tolist())):
        of = slice(start, end)
        mine = usable[:, of]
        if not mine.any():
            continue
        own = mine & (beta_Bps[:, of] >= OWN * beta_Bps[:, of][mine].max())
        best = own & full[:, of] if (own & full[:, of]).any() else own
        if depths[:, of][own].max() > DEEPER * depths[:, of][best].max():
            best = own & (depths[:, of] == depths[:, of][own].max())
        paths = zip(mtus[of], ipv6[history.pairs[of, 1]], strict=True)
        share = np.array([goodput_per_wire(int(mtu_bytes), ipv6=bool(each)) for mtu_bytes, each in paths])
        burst_bytes[host] = (share * depths[:, of])[best].max()
        peaks = history.values["peak_Bps"][:, of][best]
        peak_bps[host] = 8 * np.nanmax(peaks) if np.isfinite(peaks).any() else np.nan
    return burst_bytes, peak_bps
