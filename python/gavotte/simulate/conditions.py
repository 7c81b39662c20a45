"""Conditions of a simulation: background traffic, start-up latency, shares of TCP, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gavotte.errors import GavotteError
from gavotte.simulate.flows import Background


@dataclass(frozen=True)
class Conditions:
    """The conditions under which flows run, and when the simulation stops.

    Attributes:
        background: background traffic between pairs of hosts.
        alpha_s: start-up latency of every flow, in addition to its own and the network's (alpha of an alpha-beta
            model), in seconds.
        tcp: weigh flows by `tcp_weights`, which suits long flows that run at the same time.
        until_s: stop here even if flows are left, in seconds.
        payload_share: share of a Topology's rates that carries the flows' bytes: 1 if they count as the rates do,
            `terms.goodput.GOODPUT_PER_WIRE` for TCP payload over wire rates. A Network's rates are goodput already.
        seed: decides the background and which of several equal paths a flow takes; with guarantees also when agents
            take turns and which packets are lost.
        accuracy: relative error that a rate may have at any time, at most 0.1; 0 = exact. With more, far fewer
            rates change when a flow comes or goes, where thousands of links are full.
    """

    background: Sequence[Background] = ()
    alpha_s: float = 0.0
    tcp: bool = False
    until_s: float = math.inf
    payload_share: float = 1.0
    seed: int = 0
    accuracy: float = 0.0

    def __post_init__(self) -> None:
        """Check the values that the compiled simulator does not see.

        Raises:
            GavotteError: naming the value that is out of range, and the remedy.
        """
        if not 0 < self.payload_share <= 1:
            raise GavotteError(f"payload_share is {self.payload_share}", hint="use a share above 0 and at most 1")
        if not 0 <= self.alpha_s < math.inf:
            raise GavotteError(f"alpha_s is {self.alpha_s}", hint="use 0 or more")


ALONE = Conditions()
"""Default conditions: no background traffic, and the simulation runs until all flows are done."""
