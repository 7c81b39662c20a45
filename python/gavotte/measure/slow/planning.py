"""Request of a search for slow hosts, and its plan with its price."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median

from gavotte.agents import Budget
from gavotte.errors import GavotteError
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.measure.plan.cost import Cost, CostLimits
from gavotte.measure.plan.methods.bulk import bulk
from gavotte.measure.plan.methods.method import ASSUMED_RATE_BPS, Method
from gavotte.measure.plan.pools import pools_of
from gavotte.measure.slow.searching import CONFIRMING_ROUNDS, FEWEST, FIRST_ROUNDS, NEXT_ROUNDS, most_rounds
from gavotte.measure.slow.uplinks import Racks, racks_of
from gavotte.measure.slow.verdicts import Threshold

FLOWS = 4
"""Parallel connections of a probe: providers and processors limit a single one."""

PROBE_S = 0.5
"""How long a probe sends. TCP's start and the depth of a shaper's bucket are then some percent of it."""

TURNS = 2
"""Turns of a round: a host does not send and receive at the same time, since replies would wait in its queue."""

TURN_S = 0.05
"""Time of a turn in addition to its probe."""


@dataclass(frozen=True)
class SlowQuestion:
    """Request of a search for slow hosts and uplinks.

    Attributes:
        inventory: the hosts.
        threshold: when a host or an uplink counts as slow.
        method: how each pair is probed.
        known: a Network whose groups are the racks; None = no racks are known.
        seed: seed of all random choices.
        limits: refuse in advance what would cost more, and end what does.
        assumed_bps: rate of hosts that `known` does not cover, for the estimate.
    """

    inventory: Inventory
    threshold: Threshold = field(default_factory=Threshold)
    method: Method = field(default_factory=lambda: bulk(flows=FLOWS, seconds=PROBE_S))
    known: Network | None = None
    seed: int = 0
    limits: CostLimits = field(default_factory=CostLimits)
    assumed_bps: float = ASSUMED_RATE_BPS


@dataclass(frozen=True)
class SlowPlan:
    """Plan of a search, with its expected cost.

    Attributes:
        question: the request.
    """

    question: SlowQuestion

    @property
    def names(self) -> list[str]:
        """Names of the hosts, by number."""
        return self.question.inventory.names

    @cached_property
    def racks(self) -> Racks:
        """Racks whose uplinks are compared, if all hosts are usable."""
        return self.racks_among(self.names)

    def racks_among(self, names: Sequence[str], usable: Sequence[int] | None = None) -> Racks:
        """Return the racks to compare among some hosts.

        Args:
            names: names of the hosts, by number.
            usable: numbers of those that may send; None = all.
        """
        known = self.question.known
        return Racks([], []) if known is None else racks_of(known.groups, names, usable)

    def pools_among(self, names: Sequence[str]) -> list[list[int]]:
        """Return which of some hosts are probed with each other."""
        return pools_of(self.racks_among(names).hosts, range(len(names)))

    @property
    def searches(self) -> int:
        """Number of searches: of hosts, and of uplinks if there are enough racks."""
        return 1 + self.racks.enough

    @property
    def threshold(self) -> Threshold:
        """Threshold of each search. They share the chance of a false verdict."""
        asked = self.question.threshold
        return Threshold(asked.below, asked.error / self.searches)

    @property
    def rounds(self) -> tuple[int, int]:
        """Number of rounds usually and at most, of all searches."""
        sizes = [len(self.names), *([len(self.racks.names)] if self.racks.enough else [])]
        usual = len(sizes) * (FIRST_ROUNDS + NEXT_ROUNDS)
        return usual, sum(most_rounds(size) + CONFIRMING_ROUNDS for size in sizes)

    @property
    def rate_bps(self) -> float:
        """Rate that the estimate assumes: the median of what the Network knows of hosts or pairs."""
        known = self.question.known
        if known is None:
            return self.question.assumed_bps
        caps = [cap for host in known.hosts for cap in (host.egress_bps, host.ingress_bps) if cap]
        rates = caps or [rate for row in known.rate_bps for rate in row if rate]
        return median(rates) if rates else self.question.assumed_bps

    @property
    def probes(self) -> tuple[int, int]:
        """Number of probes usually and at most."""
        hosts, racks = len(self.names), self.racks
        usual = (FIRST_ROUNDS + NEXT_ROUNDS) * hosts
        most = (most_rounds(hosts) + CONFIRMING_ROUNDS) * hosts
        if racks.enough:
            pairs = len(racks.names) * racks.pairs
            usual += (FIRST_ROUNDS + NEXT_ROUNDS) * pairs
            most += (most_rounds(len(racks.names)) + CONFIRMING_ROUNDS) * pairs
        return usual, most

    @property
    def cost(self) -> Cost:
        """Expected cost of the search."""
        size, seconds = self.question.method.typical(self.rate_bps)
        turn_s = seconds + TURN_S
        usual, most = self.probes
        return Cost(
            bytes=int(usual * size),
            max_bytes=int(most * size),
            seconds=TURNS * self.rounds[0] * turn_s,
            max_seconds=TURNS * self.rounds[1] * turn_s,
            money=usual * size / 1e9 * self.question.limits.price_per_gb,
        )

    @property
    def round_s(self) -> float:
        """Longest time of one turn, in seconds."""
        return 4 * max(1.0, self.question.method.typical(self.rate_bps)[1])

    @property
    def budget(self) -> Budget:
        """Most bytes and seconds that each agent may spend."""
        limits = self.question.limits
        return Budget(max_bytes=limits.bytes or 0, max_seconds=4 * self.cost.max_seconds + 120.0)

    def within(self, bytes_sent: int, seconds: float) -> bool:
        """Return whether more rounds fit into the limits.

        Args:
            bytes_sent: payload bytes so far.
            seconds: time so far.
        """
        limits, cost, share = self.question.limits, self.cost, NEXT_ROUNDS / self.rounds[0]
        most_bytes = math.inf if limits.bytes is None else limits.bytes
        if limits.money is not None and limits.price_per_gb:
            most_bytes = min(most_bytes, 1e9 * limits.money / limits.price_per_gb)
        most_s = math.inf if limits.seconds is None else limits.seconds
        return bytes_sent + share * cost.bytes <= most_bytes and seconds + share * cost.seconds <= most_s

    def check(self) -> None:
        """Refuse a plan that costs more than the limits of its question.

        Raises:
            GavotteError: naming the first limit that is too small.
        """
        self.question.limits.check(self.cost)


def plan_slow(question: SlowQuestion) -> SlowPlan:
    """Plan a search for slow hosts.

    Raises:
        GavotteError: for fewer than three hosts, or a Network without any of them.
    """
    names = question.inventory.names
    if len(names) < FEWEST:
        raise GavotteError(
            f"{len(names)} hosts do not show which one is slow", hint=f"name at least {FEWEST} hosts with --hosts"
        )
    if question.known is not None and not set(names) & set(question.known.names):
        raise GavotteError("the Network has none of the hosts", hint="use the one that was measured between them")
    return SlowPlan(question)
