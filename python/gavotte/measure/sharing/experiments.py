"""Finds which paths share a bottleneck, by few concurrent experiments (Choreo section 3.3.2).

In flow agents and a History with path lengths; out comes Evidence, to be kept in that History.
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
from gavotte.formats.evidence import Evidence
from gavotte.formats.history import Floats, History
from gavotte.formats.network import Network
from gavotte.measure.cost import EXCEEDED, LOST_S, Cost, CostLimits, Most
from gavotte.measure.sharing.carrier import Carrier, FleetCarrier, hold_of_ways
from gavotte.measure.sharing.overlap import MIN_OVERLAP_S, Together, evidence, together
from gavotte.measure.sharing.playing import PlayedCarrier, network_of
from gavotte.measure.sharing.trials import WAYS, Trial, Way, choose, plan_trials, rounds_of
from gavotte.tables import Tabular
from gavotte.terms import Pair, Progress
from gavotte.terms.hierarchy import Hierarchy, hierarchy_of

ATTEMPTS = 4
"""Tries of one link: a `shared` is tried again with other pairs, an `unknown` in any case."""

AGREE = 0.92
"""Two sums that were lost down to agree when the lower has this share of the higher."""

SINGLE_TRIES = 3
LOW = 0.9
"""A single below this share of the rate measured before is tried again."""

MOST_SINGLES = 3
"""Larger experiments are compared with their halves instead of single pairs."""


@dataclass(frozen=True)
class SharingResult(Tabular):
    """What the experiments found and cost.

    Attributes:
        evidence: one record an experiment.
        experiments: how many were tried.
        rounds: how many stood alone in time, what they are compared with included.
        seconds: wall time.
        bytes_sent: payload of all hosts.
        seed: of the choice of pairs.
        lost: hosts that could not be used or vanished, with the reason.
        beside: other runs that moved bytes between the hosts meanwhile: what was slower together may be so for them.
        stopped: why they ended before all links were settled; empty = they did not.
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

    def to_records(self) -> list[dict[str, Any]]:
        """One row an experiment."""
        return [record.model_dump() for record in self.evidence]


def measure_sharing(
    fleet: Fleet,
    history: History,
    *,
    seed: int = 0,
    limits: CostLimits | None = None,
    progress: Progress | None = None,
) -> SharingResult:
    """Runs the experiments that a model needs to tell hose, pipe, rack and core limits apart.

    Each link of the tree that the path lengths tell is loaded once by pairs that share, as far as can be, no other; a
    rack's uplink so with one experiment for all its hosts (rules 1 and 2). Experiments that cannot meet run at the
    same time. A sum that falls short is tried again with other pairs. What would cost a quarter more than was said at
    most, as where hosts are much slower by now than the History tells, ends before it is done.

    Args:
        fleet: enrolled agents.
        history: what was measured so far: rates of pairs, and `hops`.
        seed: of the choice of pairs.
        limits: the most it may cost instead.
        progress: told of each experiment that is done.

    Returns:
        evidence for `dataclasses.replace(history, evidence=...)`; empty for fewer than three hosts.
    """
    carrier = FleetCarrier(fleet, history.hosts, trains=history.method == "train")
    names = {host.name for host in fleet.hosts}
    usable = [i for i, name in enumerate(history.hosts) if name in names]
    result = run_experiments(
        carrier,
        hierarchy_of(history.hosts, history.hops),
        typical_rate(history),
        hosts=usable,
        seed=seed,
        most=_most(cost_of_sharing(history, seed=seed), limits or CostLimits()),
        progress=progress,
    )
    return replace(result, bytes_sent=carrier.bytes_sent, lost=fleet.away)


def _most(cost: Cost, limits: CostLimits) -> Most:
    return Most(
        bytes=EXCEEDED * cost.max_bytes if limits.bytes is None else limits.bytes,
        seconds=EXCEEDED * cost.max_seconds if limits.seconds is None else limits.seconds,
    )


def cost_of_sharing(
    history: History, *, seed: int = 0, price_per_gb: float = 0.0, known: Network | None = None
) -> Cost:
    """Says beforehand what `measure_sharing` will cost, by playing it.

    Args:
        history: rates of pairs, and `hops`.
        seed: of the choice of pairs, the same as of the experiments.
        price_per_gb: of 10^9 bytes that cross the network.
        known: an earlier Network, for the caps of hosts and groups, which decide what is tried again; None = each host
            sends as much as it does on its fastest path.
    """
    tree, rate = hierarchy_of(history.hosts, history.hops), typical_rate(history)
    played = PlayedCarrier(network_of(history.hosts, rate, known), trains=history.method == "train")
    run_experiments(played, tree, rate, hosts=range(tree.size), seed=seed)
    # A rate may have been measured low, and every link may have to be tried as often as any.
    most = int(2 * ATTEMPTS * _once_bytes(tree, rate, history, seed))
    typical, seconds = played.bytes_sent, played.seconds
    return Cost(typical, max(most, typical), seconds, ATTEMPTS * seconds, typical / 1e9 * price_per_gb)


def _once_bytes(tree: Hierarchy, rate: Floats, history: History, seed: int) -> float:
    """What one try of each link sends, alone and together."""
    hold_s = hold_of_ways(trains=history.method == "train")
    trials = plan_trials(tree, rate, hosts=range(tree.size), seed=seed)
    return sum(2 * float(rate[pair]) / 8 * hold_s[trial.way] for trial in trials for pair in trial.pairs)


def typical_rate(history: History) -> Floats:
    """(N, N) median over snapshots of each pair's TCP goodput in bit/s; NaN = never measured."""
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
    """Plans, runs and judges, on whatever carries. See `measure_sharing`.

    Args:
        carrier: sends.
        tree: of all hosts.
        rate: (N, N) what pairs carry alone, bit/s; NaN = not to be used.
        hosts: those that can be used.
        seed: of the choice of pairs.
        most: that it may have cost before another round; None = any.
        progress: told of each experiment that is done.
    """
    began = time.monotonic()
    runner = _Runner(carrier, tree, rate, most)
    history: dict[int, list[tuple[Trial, Evidence]]] = defaultdict(list)
    records: list[Evidence] = []
    pending = plan_trials(tree, rate, hosts=hosts, seed=seed) if len(hosts) > 2 else []
    known = len(pending)
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
            # A host that vanished took its partners' first experiments with it.
            if gone & {host for pair in trial.pairs for host in pair}:
                other = choose(tree, trial.link, rate, hosts=here, seed=seed, attempt=attempt + 1)
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
    """Whether a link needs no further try: nothing was lost, or twice down to the same sum.

    What disturbs an experiment lowers its sum, so the higher ones count, and none that is below what one pair carries.
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
    """What to try on a link that is not settled, or that too few pairs were sent to fill.

    Other pairs; but once these have not filled what the first ones did, the first ones again. Where nothing was lost
    and there are more sources than targets, all sources.
    """
    trial = tries[0][0]
    choice = partial(choose, tree, trial.link, rate, hosts=hosts, seed=seed, attempt=len(tries))
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
    """Experiments in progress, and what each pair was found to carry with fewer beside it."""

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
        """Measures the parts of each experiment, in the same way and the same minutes as the whole."""
        todo = [part for part in _parts(trials) if (part.way, part.pairs) not in self._apart]
        for _ in range(SINGLE_TRIES):
            for part, found in self._run(todo):
                if found.overlap_s >= MIN_OVERLAP_S and min(found.rate_bps) > 0:
                    self._learn(part, found)
            # What disturbs only lowers a rate.
            todo = [part for part in todo if len(part.pairs) == 1 and self._low(part)]

    def together(self, trials: Sequence[Trial]) -> Iterable[tuple[Trial, Evidence]]:
        """Runs experiments, those that cannot meet at the same time."""
        ready = [trial for trial in trials if all((part.way, part.pairs) in self._apart for part in _parts([trial]))]
        for trial, found in self._run(ready):
            # What a pair carried among others, it can carry alone.
            for pair, rate_bps in zip(trial.pairs, found.rate_bps, strict=True):
                alone = self._apart.get((trial.way, (pair,)))
                if alone is not None:
                    alone[pair] = max(alone[pair], rate_bps)
            yield trial, evidence(self._tree, trial, self._known([trial]), found, time_s=time.time())

    def _low(self, part: Trial) -> bool:
        """Whether a single was not found, or far below what was measured before."""
        found = self._apart.get((part.way, part.pairs), {}).get(part.pairs[0], 0.0)
        return found < LOW * float(self._rate[part.pairs[0]])

    def _learn(self, part: Trial, found: Together) -> None:
        before = self._apart.setdefault((part.way, part.pairs), {})
        for pair, rate_bps, steady_bps in zip(part.pairs, found.rate_bps, found.steady_bps, strict=True):
            # Of a pair by itself, a steady rate is the better answer.
            best_bps = steady_bps if len(part.pairs) == 1 and steady_bps > rate_bps else rate_bps
            before[pair] = max(before.get(pair, 0.0), best_bps)

    def _run(self, trials: Sequence[Trial]) -> Iterable[tuple[Trial, Together]]:
        # What sends at the same time sends in the same way.
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
        """Ends the experiments where they would cost far more than was said."""
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
    """What an experiment is compared with: each pair alone, or where there are many, two halves.

    If the link is full of one half already, the whole still carries no more than each half did. So two rounds do for
    any number of pairs, whose singles would have to wait for each other at the link.
    """
    parts: dict[tuple[Way, tuple[Pair, ...]], None] = {}
    for trial in trials:
        if len(trial.pairs) <= MOST_SINGLES:
            parts.update({(trial.way, (pair,)): None for pair in trial.pairs})
        else:
            parts.update({(trial.way, trial.pairs[::2]): None, (trial.way, trial.pairs[1::2]): None})
    return [Trial(link=-1, pairs=pairs, way=way) for way, pairs in parts]
