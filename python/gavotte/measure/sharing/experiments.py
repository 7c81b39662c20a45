"""Find the paths that share a bottleneck, with few concurrent experiments (Choreo section 3.3.2).

Input: agents and a History with path lengths. Output: Evidence, to be kept in that History.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from gavotte.agents import Fleet, Neighbour
from gavotte.formats.history import Floats, History
from gavotte.formats.network import Network
from gavotte.formats.parts.evidence import Evidence
from gavotte.measure.adapt.carrier import Carrier
from gavotte.measure.adapt.guaranteed import guarantees_warning, run_warnings
from gavotte.measure.adapt.overlap import AGREE, MIN_OVERLAP_S, Together, evidence, together
from gavotte.measure.carry.fleet_carrier import FleetCarrier
from gavotte.measure.plan.cost import EXCEEDED, LOST_S, Cost, CostLimits, Most
from gavotte.measure.plan.holds import hold_of_ways
from gavotte.measure.plan.methods import METHODS
from gavotte.measure.plan.round_trips import RoundTrips, round_trips_of
from gavotte.measure.plan.trials import WAYS, Trial, UsablePairs, Way, choose, plan_trials, rounds_of
from gavotte.measure.predict.playing import PlayedCarrier, groups_seen, network_of
from gavotte.tables import Tabular
from gavotte.terms import Pair, Progress
from gavotte.terms.hierarchy import Hierarchy, hierarchy_of

ATTEMPTS = 4
"""Tries of one link: a `shared` is tried again with other pairs, an `unknown` in any case."""

SINGLE_TRIES = 3
LOW = 0.9
"""A single pair below this share of the rate measured before is tried again."""

MOST_SINGLES = 3
"""Larger experiments are compared with their halves instead of single pairs."""


@dataclass(frozen=True)
class SharingResult(Tabular):
    """Results and cost of the experiments.

    Attributes:
        evidence: one record per experiment.
        experiments: number of experiments that were tried.
        rounds: number of rounds that ran one after the other, including the runs that experiments are compared with.
        seconds: wall time.
        bytes_sent: payload of all hosts.
        seed: seed of the choice of pairs.
        lost: hosts that could not be used or vanished, with the reason.
        beside: other runs that moved bytes between the hosts meanwhile, and may have made pairs slower together.
        stopped: why they ended before all links were settled; empty = they did not.
        guaranteed_bps: wire rate that a guarantee grants each host whose sending it limits.
    """

    evidence: tuple[Evidence, ...]
    experiments: int
    rounds: int
    seconds: float
    bytes_sent: int
    seed: int
    lost: dict[str, str] = field(default_factory=dict)
    beside: list[Neighbour] = field(default_factory=list)
    stopped: str = ""
    guaranteed_bps: dict[str, float] = field(default_factory=dict)

    @property
    def warnings(self) -> list[str]:
        """Reasons why the evidence is less reliable or incomplete, one sentence each."""
        lost = [f"lost {host}: {reason}" for host, reason in self.lost.items()]
        if self.stopped:
            lost.append(f"ended early: {self.stopped}; the results of earlier experiments are kept")
        slow = run_warnings(self.beside, self.guaranteed_bps, "pairs may have been slow because of it")
        return [*lost, *slow, *guarantees_warning(self.guaranteed_bps, "sums of pairs from there")]

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row per experiment."""
        return [record.model_dump() for record in self.evidence]


def measure_sharing(
    fleet: Fleet,
    history: History,
    *,
    seed: int = 0,
    limits: CostLimits | None = None,
    cost: Cost | None = None,
    progress: Progress | None = None,
) -> SharingResult:
    """Run the experiments that a model needs to distinguish hose, pipe, rack and core limits.

    1. Pairs load each link of the tree once, and share no other link if possible. One experiment on a rack's uplink is
       valid for all its hosts (rules 1 and 2).
    2. Experiments that cannot meet run at the same time.
    3. A sum that falls short is tried again with other pairs.
    4. The experiments end early when they cost a quarter more than the largest estimate, for example because hosts are
       now much slower than in the History.

    Args:
        fleet: enrolled agents.
        history: the measurement so far: rates of pairs, and `hops`.
        seed: seed of the choice of pairs.
        limits: other limits of the cost.
        cost: their expected cost, if it is known; None = computed here.
        progress: called for each experiment that is done.

    Returns:
        evidence for `dataclasses.replace(history, evidence=...)`; empty for fewer than three hosts.
    """
    trips = RoundTrips(round_trips_of(history))
    carrier = FleetCarrier(fleet, history.hosts, trains=_by_trains(history), round_trips=trips)
    names = {host.name for host in fleet.hosts}
    usable = [i for i, name in enumerate(history.hosts) if name in names]
    result = run_experiments(
        carrier,
        hierarchy_of(history.hosts, history.hops),
        typical_rate(history),
        hosts=usable,
        seed=seed,
        most=_most(cost or cost_of_sharing(history, seed=seed), limits or CostLimits()),
        progress=progress,
    )
    return replace(result, bytes_sent=carrier.bytes_sent, lost=fleet.away)


def _by_trains(history: History) -> bool:
    """Return whether experiments can use trains: the History's method did, and UDP passed on every path."""
    method = METHODS.get(history.method)
    return method is not None and method.can_pause and not history.measured_by_tcp("udp-blocked")


def _most(cost: Cost, limits: CostLimits) -> Most:
    return Most(
        bytes=EXCEEDED * cost.max_bytes if limits.bytes is None else limits.bytes,
        seconds=EXCEEDED * cost.max_seconds if limits.seconds is None else limits.seconds,
    )


def cost_of_sharing(
    history: History, *, seed: int = 0, price_per_gb: float = 0.0, known: Network | None = None
) -> Cost:
    """Predict the cost of `measure_sharing` by playing it.

    Args:
        history: rates of pairs, and `hops`.
        seed: seed of the choice of pairs, the same as of the experiments.
        price_per_gb: price of 10^9 bytes that cross the network.
        known: an earlier Network, for the caps of hosts and groups, which decide what is tried again. With None, each
            host sends as much as on its fastest path, and shared links carry what the History's evidence says.
    """
    tree, rate = hierarchy_of(history.hosts, history.hops), typical_rate(history)
    trips = RoundTrips(round_trips_of(history))
    network = network_of(history.hosts, rate, known)
    shared_bps = {record.subject: record.sum_bps for record in history.evidence if record.verdict == "shared"}
    if known is None and shared_bps:
        network = network.model_copy(update={"groups": groups_seen(tree, shared_bps), "sharing": "groups"}).cautious()
    played = PlayedCarrier(network, trains=_by_trains(history), round_trips=trips)
    run_experiments(played, tree, rate, hosts=range(tree.size), seed=seed)
    # A rate may have been measured too low, and every link may need the most tries.
    most = int(2 * ATTEMPTS * _once_bytes(tree, rate, history, seed))
    typical, seconds = played.bytes_sent, played.seconds
    return Cost(typical, max(most, typical), seconds, ATTEMPTS * seconds, typical / 1e9 * price_per_gb)


def _once_bytes(tree: Hierarchy, rate: Floats, history: History, seed: int) -> float:
    """Return the bytes of one try of each link, alone and together."""
    hold_s = hold_of_ways(trains=_by_trains(history))
    trials = plan_trials(tree, rate, hosts=range(tree.size), seed=seed)
    return sum(2 * float(rate[pair]) / 8 * hold_s[trial.way] for trial in trials for pair in trial.pairs)


def typical_rate(history: History) -> Floats:
    """Return the (N, N) median over snapshots of each pair's TCP goodput in bit/s; NaN = never measured."""
    size = len(history.hosts)
    rate = np.full((size, size), np.nan)
    known = np.isfinite(history.beta_Bps).any(axis=0)
    rate[known] = 8 * np.nanmedian(history.beta_Bps[:, known], axis=0)
    return rate


def run_experiments(
    carrier: Carrier,
    tree: Hierarchy,
    rate: Floats,
    *,
    hosts: Sequence[int],
    seed: int,
    most: Most | None = None,
    progress: Progress | None = None,
) -> SharingResult:
    """Plan, run and judge experiments, on any carrier. See `measure_sharing`.

    Args:
        carrier: sends.
        tree: tree of all hosts.
        rate: (N, N) rates of pairs alone, bit/s; NaN = not to be used.
        hosts: usable hosts.
        seed: seed of the choice of pairs.
        most: cost after which no further round begins; None = any.
        progress: called before the first experiment, and for each one that is done.
    """
    began = time.monotonic()
    runner = _Runner(carrier, tree, rate, most)
    history: dict[int, list[tuple[Trial, Evidence]]] = defaultdict(list)
    records: list[Evidence] = []
    pending = plan_trials(tree, rate, hosts=hosts, seed=seed) if len(hosts) > 2 else []
    known = len(pending)
    if progress is not None and known:
        progress(0, known)
    for attempt in range(ATTEMPTS):
        runner.apart(pending)
        again: list[Trial] = []
        unheard = {trial.link: trial for trial in pending}
        for trial, record in runner.together(pending):
            records.append(record)
            unheard.pop(trial.link, None)
            tries = history[trial.link]
            tries.append((trial, record))
            if attempt + 1 < ATTEMPTS:
                again += _next_try(tree, rate, tries, hosts=hosts, seed=seed)
            if progress is not None:
                progress(len(records), known + len(again))
        gone = carrier.gone()
        here = [host for host in hosts if host not in gone]
        for trial in unheard.values():
            # The first experiments of a vanished host's partners were lost with it.
            if gone & {host for pair in trial.pairs for host in pair}:
                other = choose(UsablePairs(tree, rate, here), trial.link, seed=seed, attempt=attempt + 1)
                again += [other] if other is not None else []
        hosts = here
        if len(hosts) < 3 or runner.stopped:
            break
        pending = again if attempt + 1 < ATTEMPTS else []
        known += len(again)
    return SharingResult(
        evidence=tuple(records),
        experiments=len(records),
        rounds=runner.rounds,
        seconds=time.monotonic() - began,
        bytes_sent=0,
        seed=seed,
        stopped=runner.stopped,
    )


def _settled(records: Sequence[Evidence]) -> bool:
    """Return whether a link needs no further try: no pair lost, or two experiments gave the same sum.

    A disturbance lowers an experiment's sum. Therefore the higher sums count, and none below what one pair carries.
    """
    if max(records, key=lambda record: record.sum_bps).verdict == "independent":
        return True
    lost = sorted(
        (r.sum_bps for r in records if r.verdict == "shared" and r.sum_bps >= AGREE * max(r.alone_bps)), reverse=True
    )
    return len(lost) > 1 and lost[1] >= AGREE * lost[0]


def _next_try(
    tree: Hierarchy, rate: Floats, tries: Sequence[tuple[Trial, Evidence]], *, hosts: Sequence[int], seed: int
) -> list[Trial]:
    """Return the next experiments on a link that is not settled, or that too few pairs were sent to fill.

    1. Other pairs.
    2. If these did not fill what the first ones did, the first ones again.
    3. If no pair lost and there are more sources than targets, all sources.
    """
    trial = tries[0][0]
    choice = partial(choose, UsablePairs(tree, rate, hosts), trial.link, seed=seed, attempt=len(tries))
    if _settled([record for _, record in tries]):
        idle = len({pair[0] for pair in trial.pairs}) < len(tree.links[trial.link].sources & set(hosts))
        if tries[-1][1].verdict != "independent" or not idle or len(tree.links[trial.link].targets) == 1:
            return []
        if any(each.way == "fan-in" for each, _ in tries):
            return []
        crowded = choice(crowd=True)
        return [crowded] if crowded is not None else []
    lost = max(tries, key=lambda tried: (tried[1].verdict == "shared", tried[1].sum_bps))
    if lost[1].verdict == "shared" and len(tries) > 1:
        return [replace(lost[0], attempt=len(tries))]
    used = [pair for each, _ in tries for pair in each.pairs]
    other = choice(used=used, crowd=tries[-1][0].way == "fan-in")
    return [other] if other is not None else []


class _Runner:
    """Experiments in progress, with the rate of each pair when fewer others sent."""

    def __init__(self, carrier: Carrier, tree: Hierarchy, rate: Floats, most: Most | None) -> None:
        self._carrier = carrier
        self._tree = tree
        self._rate = rate
        self._most = most
        self._began = time.monotonic()
        self.stopped = ""
        self._apart: dict[tuple[Way, tuple[Pair, ...]], dict[Pair, float]] = {}
        self.rounds = 0

    def apart(self, trials: Sequence[Trial]) -> None:
        """Measure the parts of each experiment, in the same way and the same minutes as the whole."""
        todo = [part for part in _parts(trials) if (part.way, part.pairs) not in self._apart]
        for _ in range(SINGLE_TRIES):
            for part, outcome in self._run(todo):
                if outcome.overlap_s >= MIN_OVERLAP_S and min(outcome.rate_bps) > 0:
                    self._learn(part, outcome)
            # A disturbance only lowers a rate.
            todo = [part for part in todo if len(part.pairs) == 1 and self._low(part)]

    def together(self, trials: Sequence[Trial]) -> Iterable[tuple[Trial, Evidence]]:
        """Run experiments; those that cannot meet run at the same time."""
        ready = [trial for trial in trials if all((part.way, part.pairs) in self._apart for part in _parts([trial]))]
        for trial, outcome in self._run(ready):
            # A pair can carry alone at least what it carried among others.
            for pair, rate_bps in zip(trial.pairs, outcome.rate_bps, strict=True):
                alone = self._apart.get((trial.way, (pair,)))
                if alone is not None:
                    alone[pair] = max(alone[pair], rate_bps)
            yield trial, evidence(self._tree, trial, self._known([trial]), outcome, time_s=time.time())

    def _low(self, part: Trial) -> bool:
        """Return whether a single pair has no rate, or one far below what was measured before."""
        rate_bps = self._apart.get((part.way, part.pairs), {}).get(part.pairs[0], 0.0)
        return rate_bps < LOW * float(self._rate[part.pairs[0]])

    def _learn(self, part: Trial, outcome: Together) -> None:
        before = self._apart.setdefault((part.way, part.pairs), {})
        for pair, rate_bps, steady_bps in zip(part.pairs, outcome.rate_bps, outcome.steady_bps, strict=True):
            # For a pair alone, a steady rate is the better answer.
            best_bps = steady_bps if len(part.pairs) == 1 and steady_bps > rate_bps else rate_bps
            before[pair] = max(before.get(pair, 0.0), best_bps)

    def _run(self, trials: Sequence[Trial]) -> Iterable[tuple[Trial, Together]]:
        # Concurrent experiments must send in the same way.
        for way in WAYS:
            for members in rounds_of(self._tree, [trial for trial in trials if trial.way == way]):
                self._check()
                if self.stopped:
                    return
                self.rounds += 1
                series = self._carrier.carry([trial.pairs for trial in members], self._known(members), way)
                for trial in members:
                    if all(pair in series for pair in trial.pairs):
                        yield trial, together([series[pair] for pair in trial.pairs])

    def _check(self) -> None:
        """End the experiments if their cost would far exceed the estimate."""
        if self._most is None or self.stopped:
            return
        if self._carrier.bytes_sent > self._most.bytes:
            self.stopped = "more bytes were needed than estimated"
        elif time.monotonic() - self._began > self._most.seconds + LOST_S * len(self._carrier.gone()):
            self.stopped = "more time was needed than estimated"

    def _known(self, trials: Iterable[Trial]) -> dict[Pair, float]:
        known = {pair: float(self._rate[pair]) for trial in trials for pair in trial.pairs}
        for part in _parts(trials):
            known |= self._apart.get((part.way, part.pairs), {})
        return known


def _parts(trials: Iterable[Trial]) -> list[Trial]:
    """Return what an experiment is compared with: each pair alone, or two halves if there are many pairs.

    If one half already fills the link, the whole carries no more than each half did. Two rounds therefore suffice for
    any number of pairs, whose singles would have to wait for each other at the link.
    """
    parts: dict[tuple[Way, tuple[Pair, ...]], None] = {}
    for trial in trials:
        if len(trial.pairs) <= MOST_SINGLES:
            parts.update({(trial.way, (pair,)): None for pair in trial.pairs})
        else:
            parts.update({(trial.way, trial.pairs[::2]): None, (trial.way, trial.pairs[1::2]): None})
    return [Trial(link=-1, pairs=pairs, way=way) for way, pairs in parts]
