"""What a measurement will do and cost, known before the first packet."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from gavotte.agents import Budget
from gavotte.agents.schedule import Schedule, Step, deadline_s
from gavotte.errors import GavotteError
from gavotte.formats.network import Network
from gavotte.formats.rates import format_bytes
from gavotte.measure.methods import METHODS, Method
from gavotte.measure.rounds import Links, apart, directed_rounds, packed
from gavotte.measure.shared_links import shared_links
from gavotte.terms import Pair

MOST_LAID = 20
"""Snapshots whose rounds are laid beforehand; more are taken to be like these."""


TESTED_ROUNDS = 2
"""Rounds whose pairs go together and then apart, where there are racks: in two each host sends and receives once."""

EXCEEDED = 1.25
"""A measurement ends when it has cost so many times what was said."""


@dataclass(frozen=True)
class Cost:
    """What a measurement costs.

    Attributes:
        bytes: payload bytes that all hosts typically send together.
        max_bytes: what they send at most; agents refuse more.
        seconds: typical wall time.
        max_seconds: wall time where all paths share one link, and go one by one.
        money: of the typical bytes at the given price; 0 without one.
    """

    bytes: int
    max_bytes: int
    seconds: float
    max_seconds: float
    money: float

    def __add__(self, other: Cost) -> Cost:
        """Of the one and then the other."""
        return Cost(
            self.bytes + other.bytes,
            self.max_bytes + other.max_bytes,
            self.seconds + other.seconds,
            self.max_seconds + other.max_seconds,
            self.money + other.money,
        )


@dataclass(frozen=True)
class CostLimits:
    """What a measurement may cost. None = no limit.

    Attributes:
        bytes: payload bytes of all hosts. Each agent enforces its share.
        seconds: wall time.
        money: in the currency of the price.
        price_per_gb: of 10^9 bytes that cross the network.
    """

    bytes: int | None = None
    seconds: float | None = None
    money: float | None = None
    price_per_gb: float = 0.0

    def check(self, cost: Cost) -> None:
        """Refuses what costs more.

        Raises:
            GavotteError: naming the first limit that is too small.
        """
        if self.bytes is not None and cost.bytes > self.bytes:
            raise _over(f"about {format_bytes(cost.bytes)}", format_bytes(self.bytes))
        if self.seconds is not None and cost.seconds > self.seconds:
            raise _over(f"about {cost.seconds:.1f} s", f"{self.seconds:g} s")
        if self.money is not None and cost.money > self.money:
            raise _over(f"about {cost.money:.2f} in money", f"{self.money:g}")


def _over(cost: str, budget: str) -> GavotteError:
    return GavotteError(
        f"the measurement would take {cost}, more than the budget of {budget}",
        hint="raise the budget, or measure fewer hosts or snapshots",
    )


@dataclass(frozen=True)
class Most:
    """What a measurement may have cost before it ends early.

    Attributes:
        bytes: payload bytes of all hosts.
        seconds: of probing.
    """

    bytes: float
    seconds: float


@dataclass(frozen=True)
class MeasurementPlan:
    """What a measurement will do. `gavotte measure --dry-run` prints it, and the measurement carries it out.

    Attributes:
        names: hosts in matrix order.
        method: how each path is measured.
        count: snapshots.
        every_s: from the start of one snapshot to the start of the next.
        seed: of the order of rounds; snapshot k uses seed + k.
        links: known shared links; two probes never meet on one.
        only: the pairs to measure; None = all.
    """

    names: tuple[str, ...]
    method: Method
    count: int = 1
    every_s: float = 0.0
    seed: int = 0
    links: Links = field(default_factory=dict)
    only: frozenset[Pair] | None = None

    @cached_property
    def first(self) -> list[list[Pair]]:
        """Rounds of the first snapshot."""
        return self.rounds(0, range(len(self.names)))

    @cached_property
    def rounds_in_all(self) -> float:
        """Rounds of all snapshots. Each has another order, which shared links may make a little longer or shorter."""
        laid = min(self.count, MOST_LAID if self.links or self.only else 1)
        rounds = len(self.first) + sum(len(self.rounds(k, range(len(self.names)))) for k in range(1, laid))
        return self.count / laid * rounds

    @property
    def paths(self) -> int:
        """Directed pairs in each snapshot."""
        return sum(map(len, self.first))

    @property
    def round_s(self) -> float:
        """The longest that one round may take."""
        return 4 * self.method.seconds_per_round

    def rounds(self, snapshot: int, hosts: Iterable[int], done: Collection[Pair] = ()) -> list[list[Pair]]:
        """The (source, target) pairs of one snapshot that are probed at the same time.

        Args:
            snapshot: counted from 0.
            hosts: those that take part.
            done: pairs that need no probe any more.
        """
        here = sorted(hosts)
        whole = [
            [(here[a], here[b]) for a, b in pairs] for pairs in directed_rounds(len(here), seed=self.seed + snapshot)
        ]
        if self.only is None and not done:
            return apart(whole, self.links)
        wanted = (pair for pairs in whole for pair in pairs if self.only is None or pair in self.only)
        return packed((pair for pair in wanted if pair not in done), self.links)

    def schedule(self, rounds: Iterable[Iterable[Pair]], *, brief: Collection[Pair] = ()) -> Schedule:
        """Rounds as agents are told of them.

        Args:
            rounds: of (source, target).
            brief: pairs that are measured again, alone, where company disturbs them.
        """
        usual, short = self.method.probe, self.method.brief
        return [
            [Step(self.names[i], self.names[j], short if (i, j) in brief else usual) for i, j in pairs]
            for pairs in rounds
        ]

    @property
    def _tested(self) -> int:
        """Probes of the test for shared links: all pairs of its rounds, where all of them share some."""
        return sum(len(pairs) for pairs in self.first[:TESTED_ROUNDS] if len(pairs) > 1)

    def cost(self, *, price_per_gb: float = 0.0) -> Cost:
        """What all snapshots cost. Where hosts stand in racks, their test takes about half of its probes twice."""
        probes = self.count * self.paths + self._tested // 2
        size = probes * self.method.typical_bytes_per_path
        each_s = self.method.seconds_per_round
        seconds = self.rounds_in_all * each_s
        seconds = max(seconds, (self.count - 1) * self.every_s + seconds / self.count)
        return Cost(
            bytes=size,
            max_bytes=probes * self.method.bytes_per_path,
            seconds=seconds,
            max_seconds=max(seconds, self.count * self.paths * each_s),
            money=size / 1e9 * price_per_gb,
        )

    def most(self, limits: CostLimits) -> Most:
        """When the measurement is to end, whether it is done or not."""
        cost = self.cost()
        return Most(
            bytes=EXCEEDED * cost.bytes if limits.bytes is None else limits.bytes,
            seconds=EXCEEDED * cost.max_seconds if limits.seconds is None else limits.seconds,
        )

    def within(self, limits: CostLimits) -> MeasurementPlan:
        """The same with trains so short that an admitted budget suffices for all of them.

        Raises:
            GavotteError: naming the first limit that is too small.
        """
        limits.check(self.cost(price_per_gb=limits.price_per_gb))
        if limits.bytes is None:
            return self
        return replace(self, method=self.method.capped(limits.bytes // (self.count * self.paths + self._tested)))

    def budget(self, limits: CostLimits) -> Budget:
        """What each agent may spend: room for every path to be measured twice, within its share of the limits."""
        ends = Counter(end for pairs in self.first for pair in pairs for end in zip(("from", "to"), pair, strict=True))
        busiest = max(ends.values())
        # A bulk transfer takes what the path gives: only the agent's own cap holds.
        bulk = self.method.name == "bulk"
        most = 0 if bulk else 2 * self.count * busiest * self.method.bytes_per_path
        if limits.bytes is not None:
            share = limits.bytes * busiest // self.paths
            most = min(most, share) if most else share
        once_s = deadline_s(len(self.first), self.round_s)
        return Budget(max_bytes=most, max_seconds=2 * self.count * max(once_s, self.every_s) + 60.0)


def plan_measurement(
    names: Sequence[str],
    method: str | Method = "train",
    *,
    count: int = 1,
    every_s: float = 0.0,
    seed: int = 0,
    known: Network | None = None,
    pairs: Collection[tuple[str, str]] | None = None,
) -> MeasurementPlan:
    """Plans what `measure` would do with the same arguments.

    Args:
        names: hosts in matrix order.
        method: a key of `METHODS`, or a method of one's own.
        count: number of snapshots.
        every_s: seconds from the start of one snapshot to the start of the next.
        seed: of the order of rounds.
        known: an earlier Network, whose shared links two probes never fill at once.
        pairs: the only (source, target) pairs to measure; None = all.

    Raises:
        GavotteError: for a bad argument, or fewer than two hosts.
    """
    if isinstance(method, str) and method not in METHODS:
        raise GavotteError(f"unknown method `{method}`", hint=f"use one of {', '.join(METHODS)}")
    if count < 1:
        raise GavotteError(f"cannot take {count} snapshots", hint="use at least 1")
    if not (math.isfinite(every_s) and every_s >= 0):
        raise GavotteError(f"cannot wait {every_s} s between snapshots", hint="use 0 or more")
    if len(names) < 2:
        raise GavotteError("a single host has no path to measure", hint="use at least two hosts")
    return MeasurementPlan(
        names=tuple(names),
        method=METHODS[method] if isinstance(method, str) else method,
        count=count,
        every_s=every_s,
        seed=seed,
        links=shared_links(known, names) if known is not None else {},
        only=None if pairs is None else _indices(pairs, names),
    )


def _indices(pairs: Collection[tuple[str, str]], names: Sequence[str]) -> frozenset[Pair]:
    index = {name: i for i, name in enumerate(names)}
    for source, target in pairs:
        if source == target or source not in index or target not in index:
            raise GavotteError(f"there is no path from {source} to {target}", hint="use two hosts of the inventory")
    if not pairs:
        raise GavotteError("there is no pair to measure", hint="name at least one")
    return frozenset((index[source], index[target]) for source, target in pairs)
