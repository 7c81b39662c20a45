"""Send a few probes to predict the cost of a whole measurement, if no Network is known that predicts it.

The probes measure what decides the cost: which hosts are near each other, and the rates of hosts and racks.

1. Each host sends once and receives once: N of the N (N - 1) probes of N hosts.
2. As many pairs as can cross each link that they may share do so at once, for 0.2 s. Choreo's section 3.3 finds
   bottlenecks in the same way, by path lengths and few concurrent pairs.
"""

from __future__ import annotations

import math
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from statistics import median
from typing import NamedTuple

import numpy as np

from gavotte.agents import Budget, Fleet, Reach, enrolled
from gavotte.agents.routers import count_routers
from gavotte.agents.schedule import Answer, Schedule, carry_out
from gavotte.errors import AgentError, NoAgentsError
from gavotte.formats.history import Floats
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import FORMAT, Host, Network
from gavotte.formats.parts.lengths import Lengths
from gavotte.measure.adapt.answers import read
from gavotte.measure.adapt.busy import Busy
from gavotte.measure.adapt.overlap import SHARED_BELOW, evidence, together
from gavotte.measure.adapt.streams import Streams
from gavotte.measure.carry.fleet_carrier import FleetCarrier
from gavotte.measure.plan.concurrency import Concurrency
from gavotte.measure.plan.cost import Cost
from gavotte.measure.plan.holds import TRAIN_HOLD_S, TRAIN_MORE, TRAIN_PAUSE_S
from gavotte.measure.plan.methods.method import ASSUMED_RATE_BPS, SETUP_S, TRAIN_MAX_S, Method
from gavotte.measure.plan.methods.train import TRAIN_BYTES
from gavotte.measure.plan.opening import Opening, each_end_once, opening
from gavotte.measure.plan.path_plan import PathPlan, plan_paths
from gavotte.measure.plan.round_trips import RoundTrips
from gavotte.measure.plan.trials import Trial
from gavotte.measure.predict.playing import SETUP_S as TEST_SETUP_S
from gavotte.measure.predict.playing import groups_seen
from gavotte.terms import Pair
from gavotte.terms.hierarchy import Hierarchy, hierarchy_of

LEAST_PROBES = 4
"""Probes of one host that fit a budget, at the most bytes of each. A host usually sends two."""

MATES = 3
"""Number of machines inside which a pair is probed: memory takes up to 64 MB each time, and machines are usually alike.
"""

PROBE_ROUNDS = 4
TEST_ROUNDS = 4
"""Usual number of rounds of probes, and of tests of links, in racks of equal hosts."""

HELD_S = 60.0

BUCKET_BYTES = 200_000.0
"""A bucket of this depth belongs to a cap."""


class Taken(NamedTuple):
    """Size and duration of trains, as multiples of the usual ones at their rate.

    Attributes:
        bytes: payload.
        seconds: sending time.
    """

    bytes: float
    seconds: float


USUAL = Taken(1.0, 1.0)


@dataclass(frozen=True)
class Pilot:
    """Results of a few probes.

    Attributes:
        inventory: the hosts that answered.
        network: estimated rates: good enough to predict costs, not to place by.
        lengths: path lengths (routers + 1) between them.
        shared: links that were full, with the load that crossed them, bit/s.
        untested: links that the budget did not allow to test.
        near: median size and duration of trains between hosts of one machine.
        far: the same of all others.
        bytes_sent: payload of all hosts.
        seconds: wall time, without set-up.
        missing: hosts that took no part, with the reason.
        links: whether links that pairs may share were tested.
        blocked: number of probed paths on which UDP is blocked. No pilot predicts what measuring by TCP costs there.
    """

    inventory: Inventory
    network: Network
    lengths: Lengths
    shared: dict[str, float] = field(default_factory=dict)
    untested: list[str] = field(default_factory=list)
    near: Taken = USUAL
    far: Taken = USUAL
    bytes_sent: int = 0
    seconds: float = 0.0
    missing: dict[str, str] = field(default_factory=dict)
    links: bool = True
    blocked: int = 0

    @property
    def usual_bps(self) -> float:
        """Median rate that hosts send, bit/s; the assumed one if none is known."""
        known = [host.egress_bps for host in self.network.hosts if host.egress_bps is not None]
        return median(known) if known else ASSUMED_RATE_BPS

    @property
    def most_bps(self) -> float:
        """Highest known rate of a path between machines, bit/s; 0 = none is known."""
        return max((host.egress_bps or 0.0 for host in self.network.hosts), default=0.0)

    @property
    def warnings(self) -> list[str]:
        """Hosts that took no part, one line each."""
        return [f"{host}: {reason}" for host, reason in self.missing.items()]


def pilot_cost(
    names: Sequence[str], *, most_bytes: int | None = None, price_per_gb: float = 0.0, links: bool = True
) -> Cost:
    """Return what a pilot costs, before anything is known of its hosts.

    The bytes are those of paths of `ASSUMED_RATE_BPS`, and grow with the rate. The seconds hardly do.

    Args:
        names: the hosts.
        most_bytes: as in `take_pilot`.
        price_per_gb: price of 10^9 bytes that cross the network.
        links: as in `take_pilot`.
    """
    size, plan = len(names), plan_paths(names)
    probe_bytes, probe_s = plan.method.typical(ASSUMED_RATE_BPS)
    test_bytes = ASSUMED_RATE_BPS / 8 * TRAIN_MORE * TRAIN_HOLD_S
    tests = TEST_ROUNDS if links and size > 2 else 0
    limit_bytes = min(size * LEAST_PROBES * TRAIN_BYTES, most_bytes or sys.maxsize)
    usual_bytes = min(int(size * probe_bytes + tests * (size // 2) * test_bytes), limit_bytes)
    tests_s = tests * (TEST_SETUP_S + TRAIN_PAUSE_S + TRAIN_MORE * TRAIN_HOLD_S)
    seconds = plan.look_s + PROBE_ROUNDS * probe_s + tests_s
    return Cost(
        bytes=usual_bytes,
        max_bytes=limit_bytes,
        seconds=seconds,
        max_seconds=seconds + PROBE_ROUNDS * TRAIN_MAX_S,
        money=usual_bytes / 1e9 * price_per_gb,
    )


def take_pilot(
    inventory: Inventory,
    *,
    seed: int = 0,
    most_bytes: int | None = None,
    take_over: bool = False,
    reach: Reach | None = None,
    links: bool = True,
) -> Pilot:
    """Send the few probes of a pilot, and return their results.

    Args:
        inventory: the hosts.
        seed: seed of the choice of pairs.
        most_bytes: most that all of them may send together. A lower limit makes trains shorter, and links that would
            take more stay untested; None = what usual paths take.
        take_over: as in `measure`.
        reach: open connections to the agents, for a measurement that follows; None = they are opened and closed.
        links: whether to test the links that pairs may share. These tests take most of a pilot's time.

    Raises:
        GavotteError: for fewer than two hosts.
        AgentError: when fewer than two agents can be used, or none of the probes found a rate.
    """
    method = plan_paths(inventory.names, seed=seed).method
    if most_bytes is not None:
        method = method.capped(most_bytes // (LEAST_PROBES * len(inventory.names)))
    budget = Budget(max_bytes=LEAST_PROBES * TRAIN_BYTES, max_seconds=HELD_S + len(inventory.names))
    with enrolled(inventory, budget, purpose="pilot", take_over=take_over, reach=reach) as fleet:
        if len(fleet.hosts) < 2:
            name, reason = next(iter(fleet.away.items()))
            raise NoAgentsError(f"only one agent can be used; {name}: {reason}")
        return _Probing(fleet, method, seed, math.inf if most_bytes is None else most_bytes).run(links=links)


class _Probing:
    """State of a running pilot: the few probes sent in advance to estimate what a measurement will cost."""

    def __init__(self, fleet: Fleet, method: Method, seed: int, most_bytes: float) -> None:
        self._fleet = fleet
        self._plan: PathPlan = plan_paths([host.name for host in fleet.hosts], method, seed=seed)
        self._most_bytes = most_bytes
        self._bytes_sent = 0
        self._untested: list[str] = []
        self._streams = Streams(method)
        self._taken: dict[Pair, Taken] = {}

    def run(self, *, links: bool) -> Pilot:
        began_s = time.monotonic()
        names = self._plan.names
        concurrency = Concurrency(len(names), {}, tolerance=self._plan.method.tolerance)
        here = [host.name for host in self._fleet.hosts]
        routers = count_routers(self._sending, here, names, seed=self._plan.seed)
        lengths, trips = routers.lengths, RoundTrips({})
        for pair, round_trip_s in routers.round_trips_s.items():
            trips.take(pair, round_trip_s)
        tree = hierarchy_of(names, lengths)
        concurrency.see(tree)
        first = opening(self._plan.first, concurrency)
        rate = self._rates(tree, concurrency)
        shared = self._shared(tree, first, rate) if links else {}
        for pair in permutations(range(tree.size), 2):
            rate[pair] = min([rate[pair], *(shared.get(tree.label(link), math.inf) for link in tree.path(*pair))])
        inventory = self._fleet.inventory
        return Pilot(
            inventory=inventory.model_copy(update={"host": [host for host in inventory.host if host.name in names]}),
            network=_network(tree, rate, shared, trips),
            lengths=lengths,
            shared=shared,
            untested=self._untested,
            near=_median(taken for pair, taken in self._taken.items() if concurrency.mates(pair)),
            far=_median(taken for pair, taken in self._taken.items() if not concurrency.mates(pair)),
            bytes_sent=self._bytes_sent,
            seconds=time.monotonic() - began_s,
            missing=dict(self._fleet.away),
            links=links,
            blocked=len(self._streams.blocked),
        )

    def _sending(self, schedule: Schedule, round_s: float) -> Iterator[Answer]:
        return carry_out(self._fleet, schedule, round_s=round_s)

    def _rates(self, tree: Hierarchy, concurrency: Concurrency) -> Floats:
        """Return the (N, N) bit/s that each pair may carry alone, from one probe out of each host and one into it."""
        pairs = [pair for pairs in self._plan.first for pair in pairs]
        apart = [pair for pair in pairs if not concurrency.mates(pair)]
        # Pairs that share no link come first: they are probed at the same time.
        chosen = each_end_once(sorted(apart, key=lambda pair: not concurrency.tells_ends(pair)))
        mates = {tree.machine[pair[0]]: pair for pair in pairs if concurrency.mates(pair)}
        some = [pair for _, pair in sorted(mates.items())[:MATES]]
        laid = [*concurrency.apart([pair for each in chosen for pair in each], {}), *([pair] for pair in some)]
        # A host that is done runs ahead into the next round of a schedule, together with pairs on the same links.
        rates_bps = {pair: bps for pairs in laid for pair, bps in self._send(tree, pairs).items()}
        if not rates_bps:
            raise AgentError("no path answered the pilot", hint="see why with `gavotte measure` of two of the hosts")
        apart_bps = {pair: bps for pair, bps in rates_bps.items() if not concurrency.mates(pair)}
        out_bps, into_bps = _ends(apart_bps, tree.size)
        rate = np.minimum(out_bps[:, None], into_bps[None, :])
        near = [rates_bps[pair] for pair in some if pair in rates_bps]
        for pair in permutations(range(tree.size), 2):
            if concurrency.mates(pair):
                rate[pair] = median(near) if near else ASSUMED_RATE_BPS
        np.fill_diagonal(rate, np.nan)
        return rate

    def _send(self, tree: Hierarchy, pairs: list[Pair]) -> dict[Pair, float]:
        """Return the TCP goodput of the pairs of a round that answered, bit/s."""
        method, index = self._plan.method, {name: i for i, name in enumerate(self._plan.names)}
        schedule = self._streams.instead(self._plan.schedule([pairs]), index)
        rates_bps = {}
        for answer in carry_out(self._fleet, schedule, round_s=self._plan.round_s):
            self._bytes_sent += answer.bytes_sent
            pair = index[answer.source], index[answer.target]
            self._streams.take(pair, answer)
            reading = read(answer, pair, method, Busy(method), self._streams)
            if reading.refusal or answer.reply is None:
                continue
            rates_bps[pair] = reading.goodput_bps
            if pair in self._streams.blocked:
                continue
            # The first of many trains empties a deep bucket.
            if not reading.bucket_bytes >= BUCKET_BYTES or tree.machine[pair[0]] == tree.machine[pair[1]]:
                size, seconds = method.typical(reading.goodput_bps)
                usual_s = seconds - SETUP_S
                self._taken[pair] = Taken(answer.bytes_sent / size, answer.reply.gated_train.seconds / usual_s)
        if left := self._streams.waiting([pairs]):
            rates_bps |= self._send(tree, left[0])
        return rates_bps

    def _shared(self, tree: Hierarchy, first: Opening, rate: Floats) -> dict[str, float]:
        """Return links that as many pairs as can do not pass at once, with the load that they carried, bit/s."""
        carrier = FleetCarrier(self._fleet, self._plan.names, trains=True)
        lost: dict[int, float] = {}
        for pairs in first.tests:
            wanted_bytes = sum(float(rate[pair]) for pair in pairs) / 8 * TRAIN_MORE * TRAIN_HOLD_S
            if self._bytes_sent + carrier.bytes_sent + wanted_bytes > self._most_bytes:
                self._untested += [link for link, aimed in first.aims.items() if set(aimed) <= set(pairs)]
                continue
            series = carrier.carry([pairs], {pair: float(rate[pair]) for pair in pairs}, "disjoint")
            for link in range(len(tree.links)):
                aimed = first.aims.get(tree.label(link), [])
                if not aimed or not set(aimed) <= series.keys():
                    continue
                alone = {pair: float(rate[pair]) for pair in aimed}
                met = together([series[pair] for pair in aimed])
                record = evidence(tree, Trial(link, tuple(aimed)), alone, met, time_s=time.time())
                # Also if hosts could not keep their paths full: links that are wrongly taken as free cost more than
                # predicted.
                if record.verdict != "independent" and 0 < met.sum_bps <= SHARED_BELOW * sum(alone.values()):
                    lost[link] = met.sum_bps
        self._bytes_sent += carrier.bytes_sent
        return {tree.label(link): bps for link, bps in _blamed(tree, lost, first).items()}


def _blamed(tree: Hierarchy, lost: Mapping[int, float], first: Opening) -> dict[int, float]:
    """Return links that explain the losses: the upper ones, those like them, and others if losses stay unexplained.

    The pairs that fill a rack's link also leave its machines, two by two.

    Args:
        tree: tree of all hosts.
        lost: links whose pairs lost, with the load that they carried together, bit/s.
        first: the pairs that crossed them.

    Returns:
        the rate of each.
    """
    blamed: dict[int, float] = {}
    kinds: set[str] = set()
    explained: set[Pair] = set()
    for link in sorted(lost, key=lambda link: (-len(tree.links[link].sources) * len(tree.links[link].targets), link)):
        ends, aimed = tree.links[link], first.aims[tree.label(link)]
        mine = {tree.kind(node) for node in (*ends.out_of, *ends.into)}
        if not explained.issuperset(aimed):
            blamed[link] = lost[link]
        elif mine & kinds:
            # Other links may have held its pairs up; they are usually alike.
            blamed[link] = max(lost[link], median(blamed.values()))
        else:
            continue
        kinds |= mine
        explained.update(aimed)
    return blamed


def _median(taken: Iterable[Taken]) -> Taken:
    each = list(taken)
    return Taken(median(t.bytes for t in each), median(t.seconds for t in each)) if each else USUAL


def _ends(rates_bps: Mapping[Pair, float], size: int) -> tuple[Floats, Floats]:
    """Return two (N,) arrays: the rate that hosts send, and the rate that they receive at most.

    A receiver limits only if its senders were seen to send more elsewhere. In most clouds a host's limit is on what it
    sends.
    """
    sent: dict[int, list[float]] = defaultdict(list)
    received: dict[int, list[Pair]] = defaultdict(list)
    for pair, bps in rates_bps.items():
        sent[pair[0]].append(bps)
        received[pair[1]].append(pair)
    usual_bps = float(np.median(list(rates_bps.values()))) if rates_bps else ASSUMED_RATE_BPS
    out_bps = np.array([max(sent.get(host, [usual_bps])) for host in range(size)])
    into_bps = np.full(size, np.inf)
    for host, pairs in received.items():
        if all(rates_bps[pair] < 0.9 * out_bps[pair[0]] for pair in pairs):
            into_bps[host] = max(rates_bps[pair] for pair in pairs)
    return out_bps, into_bps


def _network(tree: Hierarchy, rate: Floats, shared: Mapping[str, float], trips: RoundTrips) -> Network:
    """Return the results as a Network: hosts limited by what they send, groups by the load on their links."""
    away = rate.copy()
    for pair in permutations(range(tree.size), 2):
        if tree.machine[pair[0]] == tree.machine[pair[1]]:
            away[pair] = np.nan
    hosts = [
        Host(
            name=name,
            machine=f"machine-{tree.machine[host]}",
            egress_bps=float(np.nanmax(away[host])) if np.isfinite(away[host]).any() else None,
        )
        for host, name in enumerate(tree.names)
    ]
    return Network(
        format=FORMAT,
        hosts=hosts,
        latency_s=[[trips.of((i, j)) / 2 or None for j in range(tree.size)] for i in range(tree.size)],
        rate_bps=[[None if bps != bps else float(bps) for bps in row] for row in rate],
        groups=groups_seen(tree, shared),
        sharing="groups",
    )
