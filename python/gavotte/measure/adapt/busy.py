"""Detect a network filled by other traffic, in which no train finds a steady rate, even alone.

TCP's share alongside that traffic is then reported. Bulk TCP does find a rate, but another one each time, even alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from gavotte.agents import agent_pb2 as pb
from gavotte.measure.plan.concurrency import LoadedReading
from gavotte.measure.plan.methods.bulk import bulk
from gavotte.measure.plan.methods.method import Method, Reading
from gavotte.terms import Pair

SURE = 4
"""Least number of trains that found no rate alone, and more than those that did, for other traffic to fill the network.
"""

CHANGED = 3
TWICE = 8
"""Number of tried paths whose second reading by bulk TCP must differ, for the same conclusion."""

SHARE_S = 0.5
"""How long TCP then sends on each path. Trains would send for a second, three times, and find nothing."""


class Busy:
    """Evidence of other traffic that a measurement's probes have found.

    Attributes:
        proves: whether any rate that is found is steady. A train's rate is; bulk TCP's changes with other traffic.
        probe: the probe for paths on which no train finds a rate.
    """

    def __init__(self, method: Method) -> None:
        """Start without any observation. Methods other than trains and bulk never detect other traffic."""
        self.proves = method.adapts_to_noise
        self._shows = method.shows_noise
        self._tolerance = method.tolerance
        # A path of 25 Gbit/s would carry 1.6 GB in that time.
        self._share = bulk(seconds=SHARE_S, max_bytes=method.bytes_per_path if self.proves else 0)
        self._alone: Counter[bool] = Counter()
        self._refused: Counter[str] = Counter()
        self._steady: Counter[str] = Counter()
        self.probe: pb.Probe = self._share.probe

    @property
    def now(self) -> bool:
        """Whether other traffic fills links."""
        if self.proves:
            return self._alone[False] >= SURE and self._alone[False] > self._alone[True]
        return self._alone[False] >= CHANGED

    def take(self, train: pb.GatedTrainResult, links: Iterable[str], *, alone: bool) -> None:
        """Record the outcome of one train.

        Args:
            train: its result.
            links: links that it crossed.
            alone: whether no other probe of ours ran at the same time.
        """
        steady = train.refused != pb.GATED_REFUSAL_UNSTEADY
        self._alone[steady] += alone
        (self._steady if steady else self._refused).update(links)

    def unsure(self, beside: Mapping[Pair, LoadedReading], alone: Mapping[Pair, LoadedReading]) -> list[Pair]:
        """Return pairs of bulk TCP that carried more alone, to be measured alone again, unless the answer is known.

        Either our own probes were missing, or other traffic changed.
        """
        if not self._shows or self.now or self._alone.total() >= TWICE:
            return []
        least = 1 + self._tolerance
        return [
            pair
            for pair, reading in alone.items()
            if pair in beside and reading.rate_bps > least * beside[pair].rate_bps
        ]

    def compare(self, first: Mapping[Pair, LoadedReading], second: Mapping[Pair, LoadedReading]) -> None:
        """Record what pairs of bulk TCP carried alone, and alone again."""
        for pair, again in second.items():
            low_bps, high_bps = sorted((first[pair].rate_bps, again.rate_bps))
            if math.isfinite(low_bps + high_bps):
                self._alone[high_bps <= (1 + self._tolerance) * low_bps] += 1

    def hopeless(self, links: Iterable[str]) -> bool:
        """Return whether a train would cross a link on which no train has found a rate yet."""
        return self.now and any(self._refused[link] >= SURE and not self._steady[link] for link in links)

    def read(self, reply: pb.ProbeReply) -> Reading | None:
        """Return TCP's share, which proves nothing about the path; None if the probe was a train."""
        return self._share.read(reply) if self.proves and reply.HasField("bulk") else None
