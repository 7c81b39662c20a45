"""Predict the time that one TCP connection loses at its start: slow start, and the cost of an early end of it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gavotte.formats.network import Network
from gavotte.terms.loss import CUBIC_BETA, CUBIC_C
from gavotte.terms.paths import rates_bps, round_trips_s, segments_bytes
from gavotte.terms.policer import buckets_bytes

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.signedinteger] | npt.NDArray[np.unsignedinteger]

INITIAL_PACKETS = 10
"""Packets of the initial congestion window: RFC 6928, and Linux."""

QUEUE_S = 0.05
"""Time for which a packet waits in a full queue, if nothing is known of the queue. Many shapers hold this much."""

NEWTON_STEPS = 8
"""Newton's method starts on the right side of a convex function. The last of 8 steps changes no digit that matters."""


def ramp_s(
    size_bytes: npt.ArrayLike,
    rate_bps: npt.ArrayLike,
    round_trip_s: npt.ArrayLike,
    segment_bytes: npt.ArrayLike,
    *,
    queue_s: npt.ArrayLike = QUEUE_S,
) -> Floats:
    """Return the seconds that one CUBIC connection takes in addition to 8 x bytes / rate.

    The time counts from the first byte sent to the last byte received. D is the number of packets that fill the path
    for a round trip, and Q the number that its queue holds.

    1. Slow start doubles a window of 10 packets each round trip until it is at least D. The path is idle meanwhile,
       except for the windows themselves.
    2. While a window of w packets doubles, the sender sends two packets for each that leaves the queue. HyStart ends
       this when acknowledgements have come for half a round trip. So min(w, D / 2) packets wait. If these are more
       than Q, the rest is lost, which takes a round trip to repair.
    3. CUBIC then continues from 0.7 of the window, and grows as RFC 9438, section 4.2, describes.
    4. The last byte arrives half a round trip after it was sent.

    Args:
        size_bytes: payload of the connection.
        rate_bps: goodput that the path carries; inf = no limit.
        round_trip_s: without queues.
        segment_bytes: TCP payload of a full packet.
        queue_s: time for which a packet waits in the path's queue when it is full.

    Returns:
        in the shape of the arguments, which are broadcast.
    """
    size, rate, trip_s, segment, queue = np.broadcast_arrays(
        *(np.asarray(each, dtype=np.float64) for each in (size_bytes, rate_bps, round_trip_s, segment_bytes, queue_s))
    )
    packets, per_s = size / segment, rate / (8 * segment)
    with np.errstate(divide="ignore", invalid="ignore"):
        filling, room = per_s * trip_s, per_s * queue
        # 1. Rounds until the window fills the path, or until the last window that is not full.
        rounds = np.maximum(np.ceil(np.log2(np.maximum(filling, INITIAL_PACKETS) / INITIAL_PACKETS)), 0.0)
        needed = np.maximum(np.ceil(np.log2(packets / INITIAL_PACKETS + 1)) - 1, 0.0)
        slow_start_s = _idle_s(np.minimum(rounds, needed), trip_s, per_s)
        # 2. The first round in which the queue overflows.
        last = np.minimum(np.floor(np.log2(np.maximum(room, 1.0) / INITIAL_PACKETS)) + 1, rounds - 1)
        last = np.maximum(last, 0.0)
        window = INITIAL_PACKETS * 2.0**last
        waiting = np.minimum(window, filling / 2)
        peak = window + waiting
        lost = waiting - room
        sent = INITIAL_PACKETS * (2.0 ** (last + 1) - 1) + peak - lost
        overflowing = (rounds >= 1) & np.isfinite(filling) & (lost > 0) & (packets > sent)
    # 3. From then on, for the few connections that lose packets.
    extra_s = slow_start_s
    if overflowing.any():
        few = (packets - sent, peak, filling, trip_s, last, packets / per_s)
        left, peak, filling, few_trips_s, last, plain_s = (each[overflowing] for each in few)
        growing_s = (last + 3) * few_trips_s + _cubic_s(left, peak, filling, few_trips_s) - plain_s
        extra_s = np.array(slow_start_s)
        extra_s[overflowing] = np.maximum(growing_s, extra_s[overflowing])
    return np.asarray(np.where((packets > 0) & (trip_s > 0), extra_s + trip_s / 2, 0.0))


def starts_s(
    network: Network,
    size_bytes: npt.ArrayLike,
    pairs: tuple[Ints, Ints] | None = None,
    *,
    queue_s: float = QUEUE_S,
) -> Floats:
    """Return the seconds of `ramp_s` for connections of a Network.

    A policer has no queue, but the tokens of its bucket let the same bytes pass at once.

    Args:
        network: with latencies.
        size_bytes: of each connection.
        pairs: index of the source and the target of each connection; None = one connection of each pair, (N, N).
        queue_s: time for which a packet waits in a full queue of a path without a policer.
    """
    rates = rates_bps(network)
    buckets_s = 8 * buckets_bytes(network) / rates
    queues_s = np.where(np.isnan(buckets_s), queue_s, buckets_s)
    of_paths = (rates, round_trips_s(network), segments_bytes(network), queues_s)
    rate_bps, trip_s, segment, waits_s = (each if pairs is None else each[pairs] for each in of_paths)
    return ramp_s(size_bytes, rate_bps, trip_s, segment, queue_s=waits_s)


def _idle_s(rounds: Floats, trip_s: Floats, per_s: Floats) -> Floats:
    """Return the seconds that a path is idle while a window of 10 packets doubles some times."""
    return rounds * trip_s - INITIAL_PACKETS * (2.0**rounds - 1) / per_s


def _cubic_s(packets: Floats, peak: Floats, filling: Floats, trip_s: Floats) -> Floats:
    """Return the seconds that CUBIC takes for some packets after a loss at a window of `peak`.

    The window after t seconds is C (t - K)^3 + peak, at most `filling`, and a window is sent each round trip.
    """
    start_s = np.cbrt(peak * (1 - CUBIC_BETA) / CUBIC_C)
    fourth = np.square(np.square(start_s))
    full_s = np.maximum(start_s + np.cbrt((filling - peak) / CUBIC_C), 0.0)

    def sent(at_s: Floats) -> Floats:
        return np.asarray((peak * at_s + CUBIC_C / 4 * (np.square(np.square(at_s - start_s)) - fourth)) / trip_s)

    until_full = sent(full_s)
    at_s = packets * trip_s / (CUBIC_BETA * peak)
    for _ in range(NEWTON_STEPS):
        window = peak + CUBIC_C * (at_s - start_s) ** 3
        at_s = at_s - (sent(at_s) - packets) * trip_s / window
    return np.asarray(np.where(packets > until_full, full_s + (packets - until_full) * trip_s / filling, at_s))
