"""A network that others fill: no train finds a steady rate there, even alone, and what TCP gets beside them is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gavotte.agents import agent_pb2 as pb
from gavotte.measure.methods import Method, Reading, bulk

SURE = 4
"""Trains that found no rate alone, and more than those that did, show that others fill the network."""

SHARE_S = 0.5
"""How long TCP sends on each path then. Trains would send for a second, three times, and tell nothing."""


class Busy:
    """What trains tell of others' traffic.

    Attributes:
        probe: what is sent instead of a train.
    """

    def __init__(self, method: Method) -> None:
        """Knows nothing yet. Of any method but trains, it never will."""
        self._trains = method.name == "train"
        self._share = bulk(seconds=SHARE_S)
        self._alone: Counter[bool] = Counter()
        self._refused: Counter[str] = Counter()
        self._told: Counter[str] = Counter()
        self.probe: pb.Probe = self._share.probe

    @property
    def now(self) -> bool:
        """Whether others fill links."""
        return self._trains and self._alone[False] >= SURE and self._alone[False] > self._alone[True]

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

    def hopeless(self, links: Iterable[str]) -> bool:
        """Whether a train would cross a link on which none has found a rate yet."""
        return self.now and any(self._refused[link] >= SURE and not self._told[link] for link in links)

    def read(self, reply: pb.ProbeReply) -> Reading | None:
        """TCP's share, which proves nothing of the path; None where a train was sent."""
        return self._share.read(reply) if self._trains and reply.HasField("bulk") else None
