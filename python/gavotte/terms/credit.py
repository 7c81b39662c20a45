"""Hosts that send at C until a credit of b bytes is used up, and at r from then on: the rate that an application gets.

Each such host has `peak_bps` (C), `burst_bytes` (b) and `egress_bps` (r) in the Network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gavotte.terms.goodput import transfer_s

if TYPE_CHECKING:
    from gavotte.formats.app import App
    from gavotte.formats.network import Host, Network

DEEP_S = 0.25
"""A bucket is a credit if it holds this much time of the rate behind it. Shallower ones belong to shapers."""

OWN = 0.95
"""Paths with at least this share of a host's rate are limited by the host, the others by something else."""


def is_credit(burst_bytes: float, rate_bps: float, peak_bps: float) -> bool:
    """Whether a token bucket changes what an application gets: deep, and faster while it lasts. NaN = unknown."""
    return 8 * burst_bytes >= DEEP_S * rate_bps and peak_bps > rate_bps


def with_credits(network: Network, apps: Iterable[App]) -> Network:
    """Return a Network in which each host's rate is that which an application gets there, credit included.

    The bytes that count are those of the task that sends most: which tasks share a host is not known yet. Until they
    exceed the credit the rate is C, and far beyond it r.

    Args:
        network: with credits.
        apps: what is to run.
    """
    sent: Counter[tuple[str, str]] = Counter()
    for app in apps:
        for transfer in app.transfer:
            sent[app.name, transfer.source] += transfer.bytes
    most_bytes = max(sent.values(), default=0)
    gains = [_gain(host, most_bytes) for host in network.hosts]
    if all(gain == 1.0 for gain in gains):
        return network
    hosts = [
        host.model_copy(update={"egress_bps": gain * host.egress_bps}) if host.egress_bps else host
        for host, gain in zip(network.hosts, gains, strict=True)
    ]
    rates = [
        [
            rate_bps * gain if rate_bps and host.egress_bps and rate_bps >= OWN * host.egress_bps else rate_bps
            for rate_bps in row
        ]
        for row, host, gain in zip(network.rate_bps, network.hosts, gains, strict=False)
    ]
    return network.model_copy(update={"hosts": hosts, "rate_bps": rates})


def _gain(host: Host, size_bytes: float) -> float:
    """Return how many times r a host's average rate is for this many bytes; 1 without a credit."""
    rate_bps, peak_bps, burst_bytes = host.egress_bps, host.peak_bps, host.burst_bytes
    if not (rate_bps and peak_bps and burst_bytes and size_bytes) or not is_credit(burst_bytes, rate_bps, peak_bps):
        return 1.0
    # A bucket of depth b fills at r while it is used.
    seconds = transfer_s(size_bytes, rate_bps, bucket_bytes=burst_bytes, peak_bps=peak_bps)
    return 8 * size_bytes / seconds / rate_bps
