"""Compute how long the pairs of an experiment send, for each way of sending."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gavotte.measure.plan.trials import Way
from gavotte.terms import Pair

CONFIRMED = 2
"""Number of sums that must agree: a disturbance lowers an experiment's sum."""

TRAIN_HOLD_S = 0.2
TRAIN_PAUSE_S = 0.2
"""Delay of trains after their round's beginning.

Without it, handshakes of later trains would wait for up to 0.2 s in the queue that the earlier ones fill.
"""

TRAIN_MORE = 1.25
"""Trains end at the latest after this multiple of their hold."""

TRAIN_SETTLE_S = 0.06
"""Time until the buckets of concurrent trains are empty and their pace is found."""

HOLD_S = 0.4
"""How long transfers that start together take. At a round trip of 1 ms, TCP's start costs a hundredth of it."""

SLOW_BYTES, SLOW_HOLD_S = 6e6, 1.2
"""Limits for slow hosts: one that sends less than these bytes in `HOLD_S` sends for longer, up to this time.

Of a few hundred packets, those that wait for a lost one are several percent.
"""

LONG_HOLD_S = 0.7
"""How long TCP sends if pairs start without waiting for each other.

Pings of the later ones wait in the queue that the earlier ones fill, up to 0.5 s. A single connection recovers slowly
from a first loss. """

START_TRIPS = 8
"""Round trips that TCP needs until it fills a path. What arrives in this time does not count."""

FAR_START_S = 0.1
"""Paths on which TCP needs longer than this to start are far: all their experiments are transfers.

At a round trip of 150 ms, CUBIC left slow start early and reached a third of 57 Mbit/s in 2.9 s. BBR's start lost so
many packets that what they held back counted as 72. On far paths BBR is therefore used at a pace.
"""

HOLD_TRIPS = 8
"""Least number of round trips of a far transfer after its start."""

BIN_S = 0.01


def hold_of_ways(*, trains: bool) -> dict[Way, float]:
    """Return how long a `FleetCarrier` sends in each way, in seconds."""
    return {"disjoint": TRAIN_HOLD_S if trains else LONG_HOLD_S, "fan-in": LONG_HOLD_S, "fan-out": HOLD_S}


def hold_of_transfers(
    groups: Sequence[Sequence[Pair]], expect_bps: Mapping[Pair, float], round_trip_s: float = 0.0
) -> float:
    """Return how long each of some pairs would send alone whose transfers start together, in seconds.

    Args:
        groups: the pairs that send.
        expect_bps: rate of each pair alone.
        round_trip_s: their longest round trip.
    """
    slowest_bps = min(max(expect_bps[pair] for pair in group) for group in groups)
    start_s = START_TRIPS * round_trip_s
    hold_s = max(HOLD_S, min(8 * SLOW_BYTES / slowest_bps, SLOW_HOLD_S))
    return start_s + (max(hold_s, HOLD_TRIPS * round_trip_s) if is_far(round_trip_s) else hold_s)


def is_far(round_trip_s: float) -> bool:
    """Return whether all experiments of paths with this round trip are transfers."""
    return START_TRIPS * round_trip_s > FAR_START_S
