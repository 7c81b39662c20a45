"""Goodput: what each network layer keeps of a rate, and how long a transfer takes at one."""

from __future__ import annotations

MTU_BYTES = 1500
WIRE_BYTES = 1514
"""A full Ethernet frame as a shaper counts it: MTU and 14 bytes of header."""
TCP_PAYLOAD_BYTES = 1448
"""TCP payload of a full IPv4 frame with timestamps."""
UDP_PAYLOAD_BYTES = 1472
"""UDP payload of a full IPv4 frame."""

GOODPUT_PER_WIRE = TCP_PAYLOAD_BYTES / WIRE_BYTES
"""TCP goodput of a wire rate: 1448/1514 at MTU 1500."""
GOODPUT_PER_UDP_PAYLOAD = TCP_PAYLOAD_BYTES / UDP_PAYLOAD_BYTES
"""TCP goodput of a rate counted in UDP payload: 1448/1472 at MTU 1500."""


def transfer_s(
    size_bytes: float, rate_bps: float, *, bucket_bytes: float = 0.0, peak_bps: float | None = None
) -> float:
    """How long one bulk transfer takes over a path behind a token bucket.

    The bucket lets b + r t bytes pass by time t, at no more than C: the first b C / (C - r) bytes go at C, the rest
    at r. A single rate is wrong by b / r seconds for every transfer longer than that.

    Args:
        size_bytes: payload.
        rate_bps: sustained rate r, in the payload's layer.
        bucket_bytes: depth b of a full bucket, in the payload's layer.
        peak_bps: rate C while the bucket lasts; None = without limit.

    Returns:
        seconds.
    """
    after_bucket_s = max(0.0, (8 * size_bytes - 8 * bucket_bytes) / rate_bps)
    return after_bucket_s if peak_bps is None else max(after_bucket_s, 8 * size_bytes / peak_bps)
