"""Predict the rate of one TCP connection behind a policer, which drops packets that exceed a token bucket."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gavotte.formats.network import Network

Floats = npt.NDArray[np.float64]

LEAST_PACKETS = 1
"""Packets per round trip below which a retransmission meets an empty bucket."""

TIMEOUT_S = 0.2
"""Linux's shortest retransmission timeout, to which the round trip is added."""

DRAINING_S = 0.015
"""Time for which packets still pass one by one after the bucket is empty, until a retransmission is lost for good.

`make bench-policer` compares. Six buckets at two rates need 4 to 23 ms.
"""


def policed_bps(
    rate_bps: npt.ArrayLike, bucket_bytes: npt.ArrayLike, round_trip_s: npt.ArrayLike, segment_bytes: npt.ArrayLike
) -> Floats:
    """Return the goodput in bit/s that one CUBIC connection reaches behind a policer.

    1. If `LEAST_PACKETS` pass in a round trip, the sender repairs its losses and reaches the policer's rate.
    2. Otherwise the bucket is still empty when retransmissions arrive. These are lost, too, and the sender waits for a
       timeout, in which the bucket fills. In each such cycle the bucket's bytes pass, and for `DRAINING_S` the
       policer's rate.

    Args:
        rate_bps: goodput at which the bucket fills.
        bucket_bytes: depth of the bucket in bytes of TCP payload; NaN = no policer, or an unknown depth.
        round_trip_s: without queues.
        segment_bytes: TCP payload of a full packet.

    Returns:
        in the shape of the arguments, which are broadcast; infinite where a policer limits no more than its rate.
    """
    rate, bucket, trip_s, segment = (
        np.asarray(each, dtype=np.float64) for each in (rate_bps, bucket_bytes, round_trip_s, segment_bytes)
    )
    cycle_bits = 8 * bucket + rate * DRAINING_S
    cycle_bps = cycle_bits / (TIMEOUT_S + trip_s + DRAINING_S)
    stalls = (rate * trip_s < 8 * LEAST_PACKETS * segment) & (cycle_bps < rate)
    return np.asarray(np.where(stalls, cycle_bps, np.inf))


def buckets_bytes(network: Network) -> Floats:
    """Return (N, N) depths of the paths' policers, in bytes of TCP payload; NaN = none, or an unknown depth.

    The depth is that of the source's bucket, so it is known only for policers that limit all that a host sends.
    """
    size = len(network.hosts)
    if not network.policed:
        return np.full((size, size), np.nan)
    policed = np.array([[bool(value) for value in row] for row in network.policed])
    depths = np.array([np.nan if host.burst_bytes is None else host.burst_bytes for host in network.hosts])
    return np.where(policed, depths[:, None], np.nan)
