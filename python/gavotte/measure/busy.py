"""A network that others fill: no train finds a steady rate there, even alone, and what TCP gets beside them is told.

Bulk TCP finds a rate there, but another one each time, even alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from gavotte.agents import agent_pb2 as pb
from gavotte.measure.company import Beside
from gavotte.measure.methods import Method, Reading, bulk
from gavotte.terms import Pair

SURE = 4
"""Trains that found no rate alone, and more than those that did, show that others fill the network."""

CHANGED = 3
TWICE = 8
"""So do so many paths that bulk TCP read otherwise a second time, of those that are tried."""

SHARE_S = 0.5
"""How long TCP sends on each path then. Trains would send for a second, three times, and tell nothing."""


class Busy:
    """What probes tell of others' traffic.

    Attributes:
        proves: whether what is read all the same is steady: a train's rate is, bulk TCP's changes with others'.
        probe: what is sent where no train finds a rate.
    """

    def __init__(self, method: Method) -> None:
        """Knows nothing yet. Of any method but trains and bulk, it never will."""
        self.proves = method.name == "train"
        self._bulk = method.name == "bulk"
        self._tolerance = method.tolerance
        self._share = bulk(seconds=SHARE_S)
        self._alone: Counter[bool] = Counter()
        self._refused: Counter[str] = Counter()
        self._told: Counter[str] = Counter()
        self.probe: pb.Probe = self._share.probe

    @property
    def now(self) -> bool:
        """Whether others fill links."""
        if self.proves:
            return self._alone[False] >= SURE and self._alone[False] > self._alone[True]
        return self._alone[False] >= CHANGED

    def take(self, train: pb.GatedTrainResult, links: Iterable[str], *, alone: bool) -> None:
        """Notes what became of one train.

        Args:
            train: its result.
            links: that it crossed.
            alone: whether nothing of ours was beside it.
        """
        told = train.refused != pb.GATED_REFUSAL_UNSTEADY
        self._alone[told] += alone
        (self._told if told else self._refused).update(links)

    def unsure(self, beside: Mapping[Pair, Beside], alone: Mapping[Pair, Beside]) -> list[Pair]:
        """Pairs of bulk TCP that carried more alone: by our own traffic's absence, or did others' change?

        To be measured once more, alone, unless the answer is known.
        """
        if not self._bulk or self.now or self._alone.total() >= TWICE:
            return []
        least = 1 + self._tolerance
        return [
            pair for pair, told in alone.items() if pair in beside and told.rate_bps > least * beside[pair].rate_bps
        ]

    def compare(self, first: Mapping[Pair, Beside], second: Mapping[Pair, Beside]) -> None:
        """Notes what pairs of bulk TCP read alone, and alone again."""
        for pair, again in second.items():
            low_bps, high_bps = sorted((first[pair].rate_bps, again.rate_bps))
            if math.isfinite(low_bps + high_bps):
                self._alone[high_bps <= (1 + self._tolerance) * low_bps] += 1

    def hopeless(self, links: Iterable[str]) -> bool:
        """Whether a train would cross a link on which none has found a rate yet."""
        return self.now and any(self._refused[link] >= SURE and not self._told[link] for link in links)

    def read(self, reply: pb.ProbeReply) -> Reading | None:
        """TCP's share, which proves nothing of the path; None where a train was sent."""
        return self._share.read(reply) if self.proves and reply.HasField("bulk") else None
