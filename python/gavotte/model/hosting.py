"""Describe each host of a Network by what a History and its experiments show: caps, buckets and bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gavotte.formats.history import Floats, PairHistory
from gavotte.formats.network import Host
from gavotte.model.bucket import apart_pairs, egress_buckets, seen_bytes
from gavotte.model.topology import Structure
from gavotte.terms.credit import DEEP_S
from gavotte.terms.hierarchy import Hierarchy

Masks = npt.NDArray[np.bool_]
Caps = list[float | None]


@dataclass(frozen=True)
class LastingRates:
    """Lasting rates of the pairs of a `PairHistory`; NaN = never measured.

    Attributes:
        rate_bps: (P,) TCP goodput.
        low_bps: (P,) lower ends of their intervals.
    """

    rate_bps: Floats
    low_bps: Floats


def hosts_of(history: PairHistory, rates: LastingRates, hierarchy: Hierarchy, structure: Structure) -> list[Host]:
    """Return the hosts with their caps.

    1. Experiments show which hosts have caps. A cap that they could not find is None.
    2. Without experiments on a host, its egress (ingress) cap is the best rate to (from) any host outside its machine.
       Measured with one connection at a time, this is a lower bound of the cap, and equals it if the cap limits.
    3. Rates of several connections count for these caps, and for ingress also those of credits.

    Args:
        history: the snapshots.
        rates: lasting rates of its pairs.
        hierarchy: tree of its hosts.
        structure: caps that experiments show.
    """
    apart = apart_pairs(history, hierarchy)
    # Without experiments on the host itself, its best rate is used as its cap.
    egress, ingress = _best(history, rates.rate_bps, apart)
    low_egress, low_ingress = _best(history, rates.low_bps, apart)
    burst_bytes, peak_bps = (_nullable(values) for values in egress_buckets(history, hierarchy))
    seen, ipv6 = _nullable(seen_bytes(history, hierarchy)), history.over_ipv6()
    return [
        Host(
            name=name,
            cpus=float(history.cpus[i]),
            memory_bytes=int(history.memory_bytes[i]),
            machine=f"machine-{hierarchy.machine[i]}",
            egress_bps=_cap(structure.egress_bps[i], egress[i], tested=structure.tested_out[i]),
            ingress_bps=_cap(structure.ingress_bps[i], ingress[i], tested=structure.tested_into[i]),
            burst_bytes=burst_bytes[i],
            peak_bps=peak_bps[i],
            seen_bytes=seen[i],
            egress_low_bps=None if structure.tested_out[i] else low_egress[i],
            ingress_low_bps=None if structure.tested_into[i] else low_ingress[i],
            ipv6=bool(ipv6[i]),
        )
        for i, name in enumerate(history.hosts)
    ]


def _cap(cap_bps: float | None, seen_bps: float | None, *, tested: bool) -> float | None:
    """Return a host's cap: that of experiments, at least what was seen; or what was seen, if there were none."""
    return (cap_bps and max(cap_bps, seen_bps or 0.0)) if tested else seen_bps


def _best(history: PairHistory, rates_bps: Floats, which: Masks) -> tuple[Caps, Caps]:
    """Return the highest rate at which each host was seen to send, and to receive; None where there is none.

    1. Several connections of a pair count, where they carry more than one.
    2. A host receives at the peak rate of a sender's credit, although that sender cannot last.
    """
    sent_bps = np.nan_to_num(rates_bps)
    if "several_Bps" in history.values:
        sent_bps = np.fmax(sent_bps, 8 * np.fmax.reduce(history.values["several_Bps"], axis=0))
    received_bps = np.fmax(sent_bps, _credit_peaks_bps(history))
    best = []
    for end, each_bps in ((0, sent_bps), (1, received_bps)):
        most = np.zeros(len(history.hosts))
        np.maximum.at(most, history.pairs[which, end], each_bps[which])
        best.append([float(rate) or None for rate in most])
    return best[0], best[1]


def _credit_peaks_bps(history: PairHistory) -> Floats:
    """Return the (P,) rate of each path while its source had a credit; 0 = no credit was seen to run out."""
    if "verdict" not in history.values:
        return np.zeros(len(history.pairs))
    rate_bps, peak_bps = 8 * history.beta_Bps, 8 * history.values["peak_Bps"]
    with np.errstate(invalid="ignore"):
        bursting = (8 * history.values["bucket_bytes"] >= DEEP_S * rate_bps) & (peak_bps > rate_bps)
    return np.asarray(np.where(bursting, peak_bps, 0.0).max(axis=0))


def _nullable(row: Floats) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in row]
