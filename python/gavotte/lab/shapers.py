"""Compute the limits of each link: classes, rates, bucket depths and queues. Pure numbers, no kernel.

A `Shaper` is an HTB tree: an optional parent class (the NIC) and one leaf per address that it distinguishes. Input: the
caps of a topology. Output: leaves whose guaranteed rates never add up to more than the parent has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MIN_QUEUE_BYTES = 64 * 1024
MAX_QUEUE_BYTES = 4 * 1024 * 1024
QUEUE_S = 0.05
"""A queue without a given size holds this much time at its rate, within the two bounds above."""

MIN_LINK_BURST_BYTES = 32 * 1024
LINK_BURST_S = 1e-3
"""Bucket depth of links in seconds: a timer that is late by this much must not cost throughput.

Caps have a given depth.
"""

MIN_SUPER_PACKET_BYTES = 16384
MAX_SUPER_PACKET_BYTES = 65536
DEEP_PARTS = 64
LEAST_OF_DEEP_BYTES = 8192
"""Smallest super-packet of a host behind a deep bucket, because a bucket lets its last packet pass on credit.

A super-packet of 64 kB on top of a bucket of 512 kB made 1 MB arrive 12 % sooner than behind a provider's shaper, which
counts single packets. With 8 kB it is 1.5 %.
"""
ETHERNET_BYTES = 14
"""Bytes that a shaper counts in addition to each IP packet."""


@dataclass(frozen=True)
class Leaf:
    """One class with a queue of its own.

    Attributes:
        match: the address field that selects it: `source`, `target`, or `any` for all traffic.
        addresses: addresses of the host that it serves, none for `any`.
        rate_bps: what it may always send, wire bit/s.
        ceil_bps: what it may send at most, wire bit/s.
        burst_bytes: depth of the token bucket.
        queue_bytes: most bytes that wait.
    """

    match: str
    addresses: tuple[str, ...]
    rate_bps: float
    ceil_bps: float
    burst_bytes: int
    queue_bytes: int


@dataclass(frozen=True)
class Shaper:
    """The classes of one interface.

    Attributes:
        leaves: traffic that fits none of them passes unshaped.
        rate_bps: the parent class's rate, None without a parent.
        burst_bytes: depth of the parent's token bucket.
        quantum_bytes: what a leaf sends before the next one's turn.
    """

    leaves: tuple[Leaf, ...]
    rate_bps: float | None = None
    burst_bytes: int = 0
    quantum_bytes: int = MAX_SUPER_PACKET_BYTES


@dataclass(frozen=True)
class Cap:
    """Limit on one host's use of a NIC in one direction.

    Attributes:
        addresses: the host's addresses.
        rate_bps: None = all of the NIC.
        burst_bytes: depth of the token bucket.
        queue_bytes: None = as much as passes in `QUEUE_S`.
    """

    addresses: tuple[str, ...]
    rate_bps: float | None
    burst_bytes: int
    queue_bytes: int | None


def link_shaper(rate_bps: float | None, queue_bytes: int | None = None) -> Shaper | None:
    """Limit everything that leaves an interface; None when there is no limit."""
    if rate_bps is None:
        return None
    queue = queue_for(rate_bps, queue_bytes)
    return Shaper((Leaf("any", (), rate_bps, rate_bps, link_burst(rate_bps), queue),))


OWN_SHARE = 0.01
"""Share of a NIC that is guaranteed to its machine itself: it can be reached while all its hosts send."""


def nic_shaper(match: str, nic_bps: float | None, caps: Sequence[Cap], own: tuple[str, ...] = ()) -> Shaper | None:
    """Share a NIC among the hosts behind it, each within its own cap.

    If all caps fit the NIC together, each host gets its cap. Otherwise each host is guaranteed a share in proportion to
    its cap and may borrow up to the cap.

    Args:
        match: `source` for what leaves the machine, `target` for what enters.
        nic_bps: the NIC's rate, None = unlimited.
        caps: one per host.
        own: the machine's own addresses; it takes what hosts leave. Empty = it has none.
    """
    limits = [min(x for x in (cap.rate_bps, nic_bps, float("inf")) if x is not None) for cap in caps]
    total = sum(limits)
    share = 1.0 if nic_bps is None or total <= nic_bps else nic_bps / total
    leaves = tuple(
        Leaf(match, cap.addresses, limit * share, limit, cap.burst_bytes, queue_for(limit, cap.queue_bytes))
        for cap, limit in zip(caps, limits, strict=True)
        if limit != float("inf")
    )
    if own and nic_bps is not None:
        rest = Leaf(match, own, nic_bps * OWN_SHARE, nic_bps, link_burst(nic_bps), queue_for(nic_bps, None))
        leaves = (*leaves, rest)
    if not leaves:
        return None
    return Shaper(leaves, nic_bps, link_burst(nic_bps) if nic_bps else 0)


def pair_shaper(rate_bps: float | None, sources: Sequence[tuple[str, ...]]) -> Shaper | None:
    """Limit each source separately, by its addresses, as between the hosts of one machine."""
    if rate_bps is None or not sources:
        return None
    burst, queue = link_burst(rate_bps), queue_for(rate_bps, None)
    return Shaper(tuple(Leaf("source", addresses, rate_bps, rate_bps, burst, queue) for addresses in sources))


def link_burst(rate_bps: float) -> int:
    """Return the bucket depth of a link in bytes."""
    return max(MIN_LINK_BURST_BYTES, int(rate_bps / 8 * LINK_BURST_S))


def queue_for(rate_bps: float, queue_bytes: int | None) -> int:
    """Return the bytes of queue before a rate: as given, else as much as passes in `QUEUE_S`, within bounds."""
    if queue_bytes is not None:
        return queue_bytes
    return min(max(MIN_QUEUE_BYTES, int(rate_bps / 8 * QUEUE_S)), MAX_QUEUE_BYTES)


def super_packet_bytes(burst_bytes: int, smallest_queue_bytes: int, mtu_bytes: int) -> int:
    """Return the largest packet that a host may hand down whole (GSO), to be cut to MTU size behind the shapers.

    A shaper handles it as one packet. It should not be larger than the token bucket, and a queue must hold two, or it
    is dropped in one piece. Smaller ones cost CPU time: 16 kB already costs a quarter of 4 Gbit/s on two busy cores.
    """
    if burst_bytes > MAX_SUPER_PACKET_BYTES:
        size_bytes = min(max(burst_bytes // DEEP_PARTS, LEAST_OF_DEEP_BYTES), MAX_SUPER_PACKET_BYTES)
    else:
        size_bytes = max(burst_bytes, MIN_SUPER_PACKET_BYTES)
    return max(min(size_bytes, smallest_queue_bytes // 2), 2 * (mtu_bytes + ETHERNET_BYTES))
