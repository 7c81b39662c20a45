"""Round trips between hosts: the time that they add to probes, and which pairs are measured first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from gavotte.agents import agent_pb2 as pb
from gavotte.formats.history import History
from gavotte.terms import Pair
from gavotte.terms.goodput import MTU_BYTES

PROBE_TRIPS = 14
"""Round trips of one probe.

4 to connect and to prove the secret, 3 pings, 1 for the MTU, 4 until the path is full, and 2 for the end and the
report.
"""

MOST_TRIPS = 30
"""Round trips that one probe may cost before the measurement ends early.

They include handing out the round and failed attempts.
"""

LOST_PACKET_S = 3.0
"""Time that one lost packet may cost: TCP sends the first packet of a connection again after 1 s, then after 2 s."""

SEARCH_S = 3.0
"""Time that an agent may spend on finding a smaller MTU, where firewalls drop ICMP.

A greeting is suspect after 0.3 s, and a search has three or four rounds of 0.3 s. If the MTU shrinks during a probe,
another second passes until the agent knows.
"""

FAR_S = 0.02
"""Pairs with a shorter round trip are never called far."""

FAR_TIMES = 4.0
"""A pair is far if its round trip is this many times that of the nearest pair."""


def round_trips_of(history: History) -> dict[Pair, float]:
    """Return the shortest round trip that a History has of each pair, in seconds."""
    one_way_s = np.fmin.reduce(history.alpha_s)
    both_s = one_way_s + one_way_s.T
    return {(int(i), int(j)): float(both_s[i, j]) for i, j in zip(*np.nonzero(both_s > 0), strict=True)}


class RoundTrips:
    """Round trips that are known so far, of a quiet network."""

    def __init__(self, known: Mapping[Pair, float]) -> None:
        """Start with the round trips that an earlier Network has.

        Args:
            known: seconds of each (source, target).
        """
        self._seconds = dict(known)
        self._largest_mtu_bytes = MTU_BYTES
        self._searched: set[Pair] = set()

    def take(self, pair: Pair, round_trip_s: float) -> None:
        """Note the round trip of one greeting; 0 = the greeting failed."""
        if round_trip_s > 0:
            self._seconds[pair] = self._seconds[pair[::-1]] = round_trip_s

    def of(self, pair: Pair) -> float:
        """Return a pair's round trip in seconds; 0 = unknown."""
        return self._seconds.get(pair, 0.0)

    def slowest_s(self, pairs: Iterable[Pair]) -> float:
        """Return the longest round trip of these pairs in seconds; 0 = none is known."""
        return max(map(self.of, pairs), default=0.0)

    def ready_s(self, pairs: Iterable[Pair]) -> float:
        """Return the time after which all these pairs have connected and can start to send together."""
        return PROBE_TRIPS * self.slowest_s(pairs)

    def allowance_s(self, pair: Pair, reply: pb.ProbeReply | None) -> float:
        """Return the time that the distance, the loss and the MTU of a path may have added to one probe.

        Args:
            pair: its (source, target).
            reply: of the sender; None = there was none.
        """
        if reply is None:
            return MOST_TRIPS * self.of(pair)
        trip_s = max(reply.rtt_s, self.of(pair))
        return MOST_TRIPS * (trip_s + LOST_PACKET_S * reply.gated_train.loss) + self._search_s(pair, reply.mtu_bytes)

    def _search_s(self, pair: Pair, mtu_bytes: int) -> float:
        """Return the time that the search for a path's MTU may have taken; 0 after the first time."""
        self._largest_mtu_bytes = max(self._largest_mtu_bytes, mtu_bytes)
        if pair in self._searched or not 0 < mtu_bytes < self._largest_mtu_bytes:
            return 0.0
        self._searched.add(pair)
        return SEARCH_S

    def near_first(self, rounds: Sequence[Sequence[Pair]]) -> list[list[Pair]]:
        """Move far pairs into rounds of their own behind all others, so that no near pair waits for them."""
        near, far = self.split(rounds)
        return near + far

    def split(self, rounds: Sequence[Sequence[Pair]]) -> tuple[list[list[Pair]], list[list[Pair]]]:
        """Split rounds into those of near pairs and those of far pairs."""
        # The nearest pair is found once: for each pair again, 100 hosts took 2 s to plan.
        far_s = max(FAR_S, FAR_TIMES * min(self._seconds.values(), default=0.0))
        near = [left for pairs in rounds if (left := [pair for pair in pairs if self.of(pair) <= far_s])]
        far = [left for pairs in rounds if (left := [pair for pair in pairs if self.of(pair) > far_s])]
        return near, far
