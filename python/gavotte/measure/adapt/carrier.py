"""The network in which experiments send: agents, or a network that is played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Protocol

from gavotte.measure.adapt.overlap import Series
from gavotte.measure.plan.trials import Way
from gavotte.terms import Pair


class Carrier(Protocol):
    """A network in which experiments send.

    Attributes:
        bytes_sent: payload so far.
    """

    bytes_sent: int

    def carry(self, groups: Sequence[Sequence[Pair]], expect_bps: Mapping[Pair, float], way: Way) -> dict[Pair, Series]:
        """Send on all pairs at the same time.

        Args:
            groups: (source, target) host indices, each once; groups share no link.
            expect_bps: TCP goodput of each pair alone, as far as known.
            way: how to send, the same for an experiment and for its parts.

        Returns:
            what arrived, for the pairs that answered.
        """

    def gone(self) -> Set[int]:
        """Return hosts that have vanished meanwhile, as indices."""
