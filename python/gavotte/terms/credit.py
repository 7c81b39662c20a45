"""Hosts that send at C until a credit of b bytes is used up, and at r from then on: the average rate of some bytes.

Each such host has `peak_bps` (C), `burst_bytes` (b) and `egress_bps` (r) in the Network.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gavotte.terms.goodput import transfer_s

if TYPE_CHECKING:
    from gavotte.formats.network import Host, Network

DEEP_S = 0.25
"""A bucket is a credit if it holds this much time of the rate behind it. Shallower ones belong to shapers."""

OWN = 0.95
"""Paths with at least this share of a host's rate are limited by the host, the others by something else."""


def is_credit(burst_bytes: float, rate_bps: float, peak_bps: float) -> bool:
    """Return whether a token bucket is a credit: deep, and faster than the later rate while it lasts. NaN = unknown."""
    return 8 * burst_bytes >= DEEP_S * rate_bps and peak_bps > rate_bps


def has_credit(host: Host) -> bool:
    """Return whether the rate of a host depends on the bytes that it sends."""
    rate_bps, peak_bps, burst_bytes = host.egress_bps, host.peak_bps, host.burst_bytes
    return bool(rate_bps and peak_bps and burst_bytes and is_credit(burst_bytes, rate_bps, peak_bps))


WINDOW_S, MOST_WINDOWS = 0.05, 200
"""Rates of a transfer are taken over windows this long, or longer ones if there were more than this many."""

SIDE_WINDOWS = 4
"""Windows that a transfer has before and after its rate falls, at least."""

FALLS = 1.2
"""C is at least this many times r. A smaller fall is noise."""

UNSETTLED = 0.25
"""Share of the windows after the fall in which TCP still recovers from it."""

SIDE_SHARE = 0.8
"""Share of the windows on either side that are on their side of the middle between C and r, at least."""

NOISE = 3.0
"""C is further from r than windows from their level: this many times their median deviation. At 1 % of loss, one
connection's rate varies by half from second to second."""

CAP_BUCKET_BYTES = 200_000.0
"""A bucket of at least this depth belongs to a host's cap. A smaller one may belong to a link in front of the cap."""


@dataclass(frozen=True)
class Credit:
    """Credit of a host, seen as a rate that fell for good after some bytes.

    Attributes:
        peak_bps: C, TCP goodput before.
        rate_bps: r, TCP goodput after.
        size_bytes: b, TCP payload that was sent ahead of r until then.
    """

    peak_bps: float
    rate_bps: float
    size_bytes: float


def find_credit(bin_bytes: Sequence[float], bin_s: float) -> Credit | None:
    """Return the credit that a transfer used up; None if its rate did not fall for good.

    1. The two levels with the smallest sum of absolute logarithmic deviations from their medians are found.
    2. C is the median before, r the mean after. The window in which the rate falls counts as neither.
    3. r leaves out the first `UNSETTLED` of the windows after it. TCP recovers from the losses of the fall, and bytes
       that waited for lost ones count when they are read: r was 3 % too high with them.
    4. b is what was sent until r is settled, less what r alone would have sent.

    Args:
        bin_bytes: payload that arrived in each bin. The last one may not be complete and is left out.
        bin_s: their width.
    """
    bins = np.asarray(bin_bytes[:-1], dtype=np.float64)
    each = max(round(WINDOW_S / bin_s), math.ceil(len(bins) / MOST_WINDOWS), 1)
    sums = bins[: len(bins) // each * each].reshape(-1, each).sum(axis=1)
    if len(sums) < 2 * SIDE_WINDOWS + 1:
        return None
    logs = np.log(np.maximum(sums, 1.0))
    splits = range(SIDE_WINDOWS, len(sums) - SIDE_WINDOWS)
    split = min(splits, key=lambda at: _spread(logs[:at]) + _spread(logs[at + 1 :]))
    before, after = sums[:split], sums[split + 1 :]
    high, low = float(np.median(before)), float(after.mean())
    middle = math.sqrt(high * max(low, 1.0))
    clear = (before > middle).mean() >= SIDE_SHARE and (after < middle).mean() >= SIDE_SHARE
    if high < FALLS * low or not clear:
        return None
    unsettled = math.ceil(UNSETTLED * len(after))
    noise = max(_deviation(logs[:split]), _deviation(logs[split + 1 + unsettled :]))
    if math.log(high / max(low, 1.0)) < NOISE * noise:
        return None
    low = float(after[unsettled:].mean())
    window_s, until = each * bin_s, split + 1 + unsettled
    ahead = float(sums[:until].sum()) - low * until
    return Credit(8 * high / window_s, 8 * low / window_s, max(0.0, ahead))


def _spread(logs: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    return float(np.abs(logs - np.median(logs)).sum())


def _deviation(logs: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    return float(np.median(np.abs(logs - np.median(logs))))


def beyond_seen(network: Network, sent_bytes: Sequence[float], *, least_s: float) -> list[int]:
    """Return the hosts that may have a credit which no measurement used up, the one with most bytes first.

    1. The host sends more bytes than the measurement saw it send, for `least_s` or longer.
    2. No credit is known, and no bucket of a cap was seen to become empty.

    Args:
        network: with `seen_bytes`; hosts without are left out.
        sent_bytes: bytes that each host sends to other machines, in the order of `hosts`.
        least_s: shortest time that matters.
    """
    beyond = [
        index
        for index, (host, size) in enumerate(zip(network.hosts, sent_bytes, strict=True))
        if host.seen_bytes is not None
        and size > host.seen_bytes
        and host.egress_bps
        and 8 * size >= least_s * host.egress_bps
        and not has_credit(host)
        and (host.burst_bytes or 0.0) < CAP_BUCKET_BYTES
    ]
    return sorted(beyond, key=lambda index: -sent_bytes[index])


def with_credits(network: Network, sent_bytes: Sequence[float]) -> Network:
    """Return a Network in which each host's rate is its average over some bytes, and no host has a credit any more.

    Until the bytes exceed the credit the rate is C, and far beyond it r.

    Args:
        network: with credits.
        sent_bytes: bytes that each host sends to other machines, in the order of `hosts`.
    """
    if not any(has_credit(host) for host in network.hosts):
        return network
    gains = [_gain(host, size_bytes) for host, size_bytes in zip(network.hosts, sent_bytes, strict=True)]
    hosts = [
        host.model_copy(update={"egress_bps": gain * host.egress_bps, "peak_bps": None, "burst_bytes": None})
        if host.egress_bps and has_credit(host)
        else host
        for host, gain in zip(network.hosts, gains, strict=True)
    ]
    rates = [
        [_of_pair(rate_bps, host, target, gain) for rate_bps, target in zip(row, network.hosts, strict=True)]
        for row, host, gain in zip(network.rate_bps, network.hosts, gains, strict=False)
    ]
    return network.model_copy(update={"hosts": hosts, "rate_bps": rates})


def sent_by_hosts(network: Network, flows: Iterable[tuple[int, int, float]]) -> list[float]:
    """Return the bytes that each host sends to other machines: only these use up its credit.

    Args:
        network: the hosts.
        flows: index of the source and the target, and bytes.
    """
    sent = [0.0] * len(network.hosts)
    for source, target, size_bytes in flows:
        machine = network.hosts[source].machine
        if source != target and (machine is None or machine != network.hosts[target].machine):
            sent[source] += size_bytes
    return sent


def _of_pair(rate_bps: float | None, source: Host, target: Host, gain: float) -> float | None:
    """Return a pair's rate when its source gets `gain` times r: more only if r limits the pair."""
    within = source.machine is not None and source.machine == target.machine
    if rate_bps is None or within or not source.egress_bps or rate_bps < OWN * source.egress_bps:
        return rate_bps
    return max(rate_bps, gain * min(rate_bps, source.egress_bps))


def _gain(host: Host, size_bytes: float) -> float:
    """Return how many times r a host's average rate is for this many bytes; 1 without a credit."""
    rate_bps, peak_bps, burst_bytes = host.egress_bps, host.peak_bps, host.burst_bytes
    if not (rate_bps and peak_bps and burst_bytes and size_bytes and has_credit(host)):
        return 1.0
    # A bucket of depth b fills at r while it is used.
    seconds = transfer_s(size_bytes, rate_bps, bucket_bytes=burst_bytes, peak_bps=peak_bps)
    return 8 * size_bytes / seconds / rate_bps
