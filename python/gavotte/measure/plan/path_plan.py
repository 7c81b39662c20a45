"""Plan the paths that a measurement probes, their rounds and their cost, before the first packet."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean
from typing import Literal

from gavotte.agents import Budget
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.schedule import Schedule, Step, deadline_s
from gavotte.errors import GavotteError
from gavotte.formats.network import Network
from gavotte.measure.plan.concurrency import Concurrency
from gavotte.measure.plan.cost import EXCEEDED, Cost, CostLimits, Most
from gavotte.measure.plan.fast_paths import FAST_BPS, probes_of_host, stream_bytes
from gavotte.measure.plan.holds import CONFIRMED, LONG_HOLD_S, TRAIN_HOLD_S, TRAIN_MORE, TRAIN_PAUSE_S
from gavotte.measure.plan.methods import METHODS
from gavotte.measure.plan.methods.bulk import BULK_SETUP_S
from gavotte.measure.plan.methods.method import ASSUMED_RATE_BPS, SETUP_S, Method
from gavotte.measure.plan.methods.train import TRAIN_FILL_BYTES
from gavotte.measure.plan.opening import PAUSE_S, Opening, opening
from gavotte.measure.plan.pools import innermost
from gavotte.measure.plan.round_trips import MOST_TRIPS, PROBE_TRIPS, RoundTrips
from gavotte.measure.plan.rounds import Links, apart, directed_rounds, packed
from gavotte.measure.plan.shared_links import crossed, groups_of, narrow_links, shared_links, untold
from gavotte.measure.plan.sparse import SparsePairs, sparse_pairs
from gavotte.terms import Pair

SLOW_BPS = 10e6
"""Rate down to which an unknown path may fall before it is given up."""

Scale = Literal["auto", "pairs", "structure"]
SCALES: tuple[Scale, ...] = ("auto", "pairs", "structure")
"""How many pairs a measurement probes: all, or few that show the limits of hosts and links (see `sparse`)."""

MOST_PAIRED = 24
"""Most hosts of which `auto` measures all pairs."""

ALWAYS_PAIRED = 8
"""Most hosts of which `auto` measures all pairs even if racks' links limit them."""

MOST_LAID = 20
"""Snapshots whose rounds are computed in advance. Further ones are assumed to be like these."""


TESTED_ROUNDS = 2
"""Rounds whose pairs are measured together and then apart, if there are racks.

In two rounds each host sends and receives once.
"""

LATE_S = 0.1
"""Most that round trips behind others' queues may add to each path."""

AHEAD = 2
"""Rounds sent at once while nothing is known; twice as many each time that nothing new was learnt."""

MOST_AHEAD = 0.125
"""Largest share of all rounds that is sent at once, so that faults and excess cost show between the parts."""

SCHEDULE_S = 0.008
"""Time of handing out rounds that are sent at once, in addition to the time of each."""


@dataclass(frozen=True)
class PathPlan:
    """Plan of the measurement of all paths: its method, its rounds, and the links that probes must not fill together.

    Attributes:
        names: hosts in matrix order.
        method: how each path is measured.
        count: snapshots.
        every_s: from the start of one snapshot to the start of the next.
        seed: seed of the order of rounds; snapshot k uses seed + k.
        links: known shared links; two probes never meet on one.
        narrow: those of them that a single pair fills. No probe on one meets another that goes the other way.
        only: the pairs to measure; None = all.
        scale: one of `SCALES`.
        crossing: pairs that are not measured alone, but cross links together with others, to show which links limit.
        held_out: pairs of `only` that check what the others predict.
        rates: known rates of pairs, bit/s.
        assumed_bps: rate assumed for the others.
        round_trips_s: known round trips of pairs, in seconds.
        groups: the groups around each host, whose links are to be tested; None = no groups are known.
        untold: number of pairs that could fill each group link that may be limited like the others.
        sustain_s: time for which each host sends by TCP afterwards, to see credits that run out; 0 = it does not.
        labels: host to the label of its rack, from its provider.
    """

    names: tuple[str, ...]
    method: Method
    count: int = 1
    every_s: float = 0.0
    seed: int = 0
    links: Links = field(default_factory=dict)
    narrow: frozenset[str] = frozenset()
    only: frozenset[Pair] | None = None
    scale: Scale = "pairs"
    crossing: frozenset[Pair] = frozenset()
    held_out: frozenset[Pair] = frozenset()
    rates: Mapping[Pair, float] = field(default_factory=dict)
    assumed_bps: float = ASSUMED_RATE_BPS
    round_trips_s: Mapping[Pair, float] = field(default_factory=dict)
    groups: Sequence[frozenset[str]] | None = None
    untold: Sequence[int] = ()
    sustain_s: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def first(self) -> list[list[Pair]]:
        """Rounds of the first snapshot: lists of pairs that are probed at the same time."""
        return self.rounds(0, range(len(self.names)))

    @cached_property
    def rounds_in_all(self) -> float:
        """Number of rounds of all snapshots, estimated from the first ones.

        Each snapshot has another order of pairs, which shared links may make slightly longer or shorter.
        """
        laid = min(self.count, MOST_LAID if self.links or self.only else 1)
        rounds = len(self.first) + sum(len(self.rounds(k, range(len(self.names)))) for k in range(1, laid))
        return self.count / laid * rounds

    @property
    def sparse(self) -> bool:
        """Whether few pairs show the rates of all."""
        return self.scale == "structure" or (self.scale == "auto" and len(self.names) > MOST_PAIRED)

    @property
    def undecided(self) -> bool:
        """Whether few pairs will do as soon as racks' links turn out to limit their hosts."""
        return self.scale == "auto" and self.only is None and ALWAYS_PAIRED < len(self.names) <= MOST_PAIRED

    def of_pairs(self, pairs: SparsePairs) -> PathPlan:
        """Return the same plan for these pairs."""
        return replace(self, only=pairs.shown | pairs.held_out, crossing=pairs.crossing, held_out=pairs.held_out)

    @property
    def paths(self) -> int:
        """Number of directed pairs in each snapshot."""
        return sum(map(len, self.first))

    @property
    def round_s(self) -> float:
        """Longest time of one round."""
        slowest_bps = min([*self.rates.values(), SLOW_BPS])
        return 4 * max(1.0, self._typical(slowest_bps)[1] + MOST_TRIPS * self._farthest_s)

    @property
    def _farthest_s(self) -> float:
        """Longest known round trip, in seconds."""
        return max(self.round_trips_s.values(), default=0.0)

    def rounds(self, snapshot: int, hosts: Iterable[int], done: Collection[Pair] = ()) -> list[list[Pair]]:
        """Return the (source, target) pairs of one snapshot that are probed at the same time.

        Args:
            snapshot: counted from 0.
            hosts: those that take part.
            done: pairs that need no further probe.
        """
        here = sorted(hosts)
        trips = RoundTrips(self.round_trips_s)
        if self.only is not None:
            # Of many hosts, all pairs would not fit into memory.
            taking_part = set(here)
            pairs = sorted((i, j) for i, j in self.only.difference(done) if i in taking_part and j in taking_part)
            random.Random(self.seed + snapshot).shuffle(pairs)
            return trips.near_first(packed(pairs, self._ways))
        whole = [
            [(here[a], here[b]) for a, b in pairs] for pairs in directed_rounds(len(here), seed=self.seed + snapshot)
        ]
        if not done:
            return trips.near_first(apart(whole, self._ways))
        left = (pair for pairs in whole for pair in pairs if pair not in done)
        return trips.near_first(packed(left, self._ways))

    @cached_property
    def _ways(self) -> Links:
        """The links that each pair blocks for others: those that it crosses, and on its way back the narrow ones."""
        if not self.narrow:
            return self.links
        none = frozenset[str]()
        pairs = {each for pair in self.links for each in (pair, pair[::-1])}
        return {pair: self.links.get(pair, none) | self.links.get(pair[::-1], none) & self.narrow for pair in pairs}

    def schedule(
        self,
        rounds: Iterable[Iterable[Pair]],
        *,
        brief: Collection[Pair] = (),
        share: pb.Probe | None = None,
        start: tuple[float, float] | None = None,
    ) -> Schedule:
        """Return rounds in the form that agents accept.

        Args:
            rounds: rounds of (source, target).
            brief: pairs that are measured again, alone, if other probes disturb them.
            share: the probe to send instead, if the method finds no rate.
            start: for trains that run together, how long after their round's beginning they start, and how long those
                in `brief` may take, in seconds.
        """
        usual, short = share or self.method.probe, share or self.method.brief
        if start is not None:
            usual, short = self.method.paused(usual, start[0]), self.method.paused(short, *start)
        return [
            [Step(self.names[i], self.names[j], short if (i, j) in brief else usual) for i, j in pairs]
            for pairs in rounds
        ]

    @property
    def _handed_out(self) -> int:
        """Number of times that agents receive rounds, in all snapshots: one by one if shared links are known."""
        if self.links:
            return round(self.rounds_in_all)
        each = len(self.first)
        tested = TESTED_ROUNDS if len(self.names) > 2 else 0
        return tested + sum(len(parts(each - tested * (number == 0))) for number in range(self.count))

    @property
    def look_s(self) -> float:
        """Time of counting the routers between any two hosts, once."""
        size = len(self.names)
        each_s = max(SETUP_S, PROBE_TRIPS * self._farthest_s)
        return SCHEDULE_S + (size - 1 + size % 2) * each_s if size > 2 else 0.0

    @cached_property
    def _concurrency(self) -> Concurrency:
        """Links that pairs share according to the known groups."""
        groups, size = self.groups or (), range(len(self.names))
        links = {(i, j): crossed(groups, (i, j)) for i in size for j in size if i != j} if groups else {}
        return Concurrency(len(self.names), links, tolerance=self.method.tolerance)

    @cached_property
    def _opening(self) -> Opening | None:
        """First rounds of the first snapshot; None if no links are to be tested, or no groups are known."""
        if self.links or self.groups is None or len(frozenset().union(*self.groups)) < 2:
            return None
        return opening(self.first, self._concurrency)

    @cached_property
    def _tested(self) -> tuple[int, int]:
        """Most probes of the test for shared links, and the rounds that it adds. Many if nothing is known."""
        if self.links:
            return 0, 0
        if self.groups is None:
            probes = sum(len(pairs) for pairs in self.first[:TESTED_ROUNDS] if len(pairs) > 1)
            return probes, probes
        if self._opening is None:
            return 0, 0
        first = self._opening
        again = [pair for pairs in first.tests for pair in pairs if not self._as_alone(pair)]
        laid = len(first.ends) + len(first.tests) + len(first.rest) - len(self.first)
        return len(again), len(self._concurrency.apart(again, {})) + laid

    def _as_alone(self, pair: Pair) -> bool:
        """Return whether a pair is known to carry what its source sends at most: then it lost nothing to others."""
        rate_bps = self.rates.get(pair)
        return rate_bps is not None and rate_bps >= (1 - self.method.tolerance) * self._most_bps[pair[0]]

    @cached_property
    def _most_bps(self) -> dict[int, float]:
        most_bps: dict[int, float] = {}
        for (source, _), rate_bps in self.rates.items():
            most_bps[source] = max(most_bps.get(source, 0.0), rate_bps)
        return most_bps

    def _filling(self, rate_bps: float) -> tuple[float, float]:
        """Return bytes and seconds of the experiments on links that may be limited and have no known rate."""
        train_s = TRAIN_MORE * TRAIN_HOLD_S if self.method.can_pause else LONG_HOLD_S
        size = sum(self.untold) * (rate_bps / 8 * train_s + TRAIN_FILL_BYTES)
        return CONFIRMED * size, CONFIRMED * len(self.untold) * (TRAIN_PAUSE_S + train_s)

    @cached_property
    def stream_bytes(self) -> int:
        """Bytes of each probe by TCP on paths that are faster than trains."""
        return stream_bytes(self._busiest, self.method.bytes_per_path)

    @cached_property
    def _busiest(self) -> int:
        """Number of paths of the host that sends, or receives, on most."""
        ends = Counter(end for pairs in self.first for pair in pairs for end in zip(("from", "to"), pair, strict=True))
        return max(ends.values())

    def widening_bytes(self, size: int) -> int:
        """Return the bytes that TCP sends on the paths of one host if all are faster than trains.

        Args:
            size: bytes of each probe.
        """
        return probes_of_host(self._busiest) * size if self.method.has_faster_paths else 0

    def _fast_bytes(self, assumed_bps: float) -> int:
        """Return the bytes of one snapshot that TCP sends on fast paths.

        Args:
            assumed_bps: rate of the paths that no Network knows.
        """
        fast: Counter[int] = Counter()
        for pairs in self.first:
            for pair in pairs:
                if self.method.has_faster_paths:
                    fast[pair[0]] += self.rates.get(pair, assumed_bps) >= FAST_BPS
        return sum(probes_of_host(paths) * self.stream_bytes for paths in fast.values() if paths)

    def _sustained(self) -> tuple[float, float]:
        """Return bytes and seconds of the long transfers, in which each host sends once and receives once."""
        hosts = len(self.names)
        if not self.sustain_s:
            return 0.0, 0.0
        size = sum(self._most_bps.get(host, self.assumed_bps) for host in range(hosts)) / 8 * self.sustain_s
        # A host takes part in one transfer at a time. With an odd number of hosts, one waits.
        return size, (2 + hosts % 2) * (self.sustain_s + BULK_SETUP_S["gavotte"])

    def cost(self, *, price_per_gb: float = 0.0) -> Cost:
        """Return the cost of all snapshots. If hosts are in racks, the test of their links takes its probes twice."""
        costs = {pair: self._typical(self.rates.get(pair, self.assumed_bps)) for pairs in self.first for pair in pairs}
        once_bytes = sum(size for size, _ in costs.values())
        trips_s = {pair: self.round_trips_s.get(pair, 0.0) for pair in costs}
        slow_s = sum(
            LATE_S + MOST_TRIPS * trips_s[pair] + self._typical(self.rates.get(pair, SLOW_BPS))[1] for pair in costs
        )
        most, nearly = self._tested
        # If nothing is known, there may be no racks.
        twice, twice_rounds = (most, nearly) if self.groups is not None else (most // 2, nearly // 2)
        probes = self.count * self.paths + twice
        filled_bytes, filled_s = self._filling(fmean(self.rates.values()) if self.rates else self.assumed_bps)
        known_fast_bytes, fast_bytes = (self.count * self._fast_bytes(bps) for bps in (self.assumed_bps, math.inf))
        long_bytes, long_s = self._sustained()
        size = int(probes / self.paths * once_bytes + filled_bytes + long_bytes) + known_fast_bytes
        # A round takes as long as its slowest pair: agents run ahead, but their next partners wait.
        # Setting up takes the round trips, or processor time if that is short.
        added_s = {pair: max(0.0, PROBE_TRIPS * trip_s - SETUP_S) for pair, trip_s in trips_s.items()}
        first_s = sum(max(costs[pair][1] + added_s[pair] for pair in pairs) for pairs in self.first)
        each_s = first_s / len(self.first)
        seconds = (
            long_s
            + filled_s
            + (self.rounds_in_all + twice_rounds) * each_s
            + self._handed_out * SCHEDULE_S
            + self.look_s
        )
        if self._opening is not None and self.method.can_pause:
            seconds += len(self._opening.tests) * PAUSE_S
        seconds = max(seconds, (self.count - 1) * self.every_s + seconds / self.count)
        return Cost(
            bytes=size,
            max_bytes=probes * self.method.bytes_per_path + fast_bytes + int(long_bytes),
            seconds=seconds,
            # Where links are shared, hosts send one by one.
            max_seconds=max(seconds, self.count * slow_s + nearly * each_s + len(self.names) * long_s / 2),
            money=size / 1e9 * price_per_gb,
            fast_bytes=fast_bytes - known_fast_bytes,
        )

    def _typical(self, rate_bps: float) -> tuple[float, float]:
        """Return bytes and seconds of one path, within the method's limit."""
        size, seconds = self.method.typical(rate_bps)
        return min(size, self.method.bytes_per_path) if self.method.fixed_bytes else size, seconds

    def most(self, limits: CostLimits, estimate: Cost | None = None) -> Most:
        """Return the cost at which the measurement ends, whether it is done or not.

        Args:
            limits: limits of its cost.
            estimate: the estimate; None = computed here.
        """
        cost = estimate or self.cost()
        return Most(
            bytes=EXCEEDED * cost.bytes if limits.bytes is None else limits.bytes,
            seconds=EXCEEDED * cost.max_seconds if limits.seconds is None else limits.seconds,
        )

    def more(self, most: Most, bytes_per_path: float) -> Most:
        """Return a higher limit if the first paths took more than assumed, within the largest estimate.

        If no links are known, each path may be measured twice and the links be filled. Played racks of 6 to 12 hosts
        took 1.7 to 2.4 times the bytes of as many without racks. With less, paths were left without a rate.
        """
        max_bytes = self.cost().max_bytes - self.count * self._fast_bytes(math.inf)
        probes = max_bytes / self.method.bytes_per_path
        if self.groups is None and not self.links:
            probes = max(probes, 2.0 * self.count * self.paths)
        size = min(max_bytes, EXCEEDED * bytes_per_path * probes)
        return replace(most, bytes=max(most.bytes, size))

    def within(self, limits: CostLimits) -> PathPlan:
        """Return the plan with trains so short that an admitted budget suffices for all of them.

        Raises:
            GavotteError: naming the first limit that is too small.
        """
        limits.check(self.cost(price_per_gb=limits.price_per_gb))
        if limits.bytes is None:
            return self
        return replace(self, method=self.method.capped(limits.bytes // (self.count * self.paths + self._tested[0])))

    def of_hosts(self, names: Sequence[str]) -> PathPlan:
        """Return the same plan for some of its hosts."""
        here = {self.names.index(name): at for at, name in enumerate(names)}
        only = self.only
        if only is not None:
            only = frozenset((here[i], here[j]) for i, j in only if i in here and j in here)
        crossing, held_out = (
            frozenset((here[i], here[j]) for i, j in pairs if i in here and j in here)
            for pairs in (self.crossing, self.held_out)
        )
        return replace(self, names=tuple(names), only=only, crossing=crossing, held_out=held_out)

    def budget(self, limits: CostLimits) -> Budget:
        """Return what each agent may spend: enough to measure every path twice, within its share of the limits."""
        busiest = self._busiest
        # A transfer that takes a fixed time sends what the path carries: only the agent's own limit applies.
        fixed = self.method.fixed_bytes and not self.sustain_s
        most = 2 * self.count * busiest * self.method.bytes_per_path if fixed else 0
        if most:
            most += self.count * self.widening_bytes(self.stream_bytes)
        if limits.bytes is not None:
            share = limits.bytes * busiest // self.paths
            most = min(most, share) if most else share
        once_s = deadline_s(len(self.first), self.round_s)
        long_s = 2 * len(self.names) * self.sustain_s
        return Budget(max_bytes=most, max_seconds=2 * self.count * max(once_s, self.every_s) + 60.0 + long_s)


def parts(rounds: int) -> list[int]:
    """Return how many of all rounds are sent at once, each time, while nothing new is learnt about shared links."""
    most, ahead, sizes = max(AHEAD, math.ceil(MOST_AHEAD * rounds)), AHEAD, list[int]()
    while rounds > 0:
        sizes.append(min(ahead, rounds))
        rounds -= ahead
        ahead = min(most, 2 * ahead)
    return sizes


def check_request(
    method: str | Method,
    *,
    count: int,
    every_s: float,
    assumed_bps: float,
    pairs: Collection[tuple[str, str]] | Scale,
) -> None:
    """Refuse arguments of `plan_paths` that make no sense with any hosts.

    Raises:
        GavotteError: for a bad argument.
    """
    if isinstance(pairs, str) and pairs not in SCALES:
        raise GavotteError(f"unknown scale `{pairs}`", hint=f"use one of {', '.join(SCALES)}")
    if isinstance(method, str) and method not in METHODS:
        raise GavotteError(f"unknown method `{method}`", hint=f"use one of {', '.join(METHODS)}")
    if count < 1:
        raise GavotteError(f"cannot take {count} snapshots", hint="use at least 1")
    if not (math.isfinite(every_s) and every_s >= 0):
        raise GavotteError(f"cannot wait {every_s} s between snapshots", hint="use 0 or more")
    if not (math.isfinite(assumed_bps) and assumed_bps > 0):
        raise GavotteError(f"{assumed_bps} bit/s is not a rate of a path", hint="use more than 0")


def plan_paths(
    names: Sequence[str],
    method: str | Method = "train",
    *,
    count: int = 1,
    every_s: float = 0.0,
    seed: int = 0,
    known: Network | None = None,
    assumed_bps: float = ASSUMED_RATE_BPS,
    pairs: Collection[tuple[str, str]] | Scale = "pairs",
) -> PathPlan:
    """Plan how paths are measured.

    Args:
        names: hosts in matrix order.
        method: a key of `METHODS`, or a method of one's own.
        count: number of snapshots.
        every_s: seconds from the start of one snapshot to the start of the next.
        seed: seed of the order of rounds.
        known: an earlier Network, whose shared links two probes never fill at once.
        assumed_bps: rate to assume for paths that no Network covers, for the estimate.
        pairs: the only (source, target) pairs to measure, or one of `SCALES`, by which they are chosen.

    Raises:
        GavotteError: for a bad argument, or fewer than two hosts.
    """
    check_request(method, count=count, every_s=every_s, assumed_bps=assumed_bps, pairs=pairs)
    if len(names) < 2:
        raise GavotteError("a single host has no path to measure", hint="use at least two hosts")
    links = shared_links(known, names) if known is not None else {}
    plan = PathPlan(
        names=tuple(names),
        method=METHODS[method] if isinstance(method, str) else method,
        count=count,
        every_s=every_s,
        seed=seed,
        links=links,
        narrow=frozenset() if known is None else narrow_links(known),
        only=None if isinstance(pairs, str) else _indices(pairs, names),
        scale=pairs if isinstance(pairs, str) else "pairs",
        rates={} if known is None else _rates(known, names),
        assumed_bps=assumed_bps,
        round_trips_s={} if known is None else _round_trips_s(known, names),
        groups=None if known is None else groups_of(known, names),
        untold=() if known is None else untold(known, names),
    )
    if not plan.sparse:
        return plan
    # The racks may show only later. Until then, as many other pairs stand for those that will be chosen.
    racks = [] if known is None else list(innermost(known.groups, names).values())
    return plan.of_pairs(sparse_pairs(range(len(names)), racks, seed=seed))


def _rates(network: Network, names: Sequence[str]) -> dict[Pair, float]:
    """Return the rates that an earlier Network has for the pairs of hosts."""
    at = {name: i for i, name in enumerate(network.names)}
    return {
        (i, j): rate_bps
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if i != j and a in at and b in at and (rate_bps := network.pair_bps(at[a], at[b]))
    }


def _round_trips_s(network: Network, names: Sequence[str]) -> dict[Pair, float]:
    """Return the round trips that an earlier Network has for the pairs of hosts, in seconds."""
    at = {name: i for i, name in enumerate(network.names)}
    return {
        (i, j): 2 * latency_s
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if i != j and a in at and b in at and (latency_s := network.pair_latency_s(at[a], at[b]))
    }


def _indices(pairs: Collection[tuple[str, str]], names: Sequence[str]) -> frozenset[Pair]:
    index = {name: i for i, name in enumerate(names)}
    for source, target in pairs:
        if source == target or source not in index or target not in index:
            raise GavotteError(f"there is no path from {source} to {target}", hint="use two hosts of the inventory")
    if not pairs:
        raise GavotteError("there is no pair to measure", hint="name at least one")
    return frozenset((index[source], index[target]) for source, target in pairs)
