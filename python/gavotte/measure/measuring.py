"""Runs the plan: snapshots of all pairs, one History at the end."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gavotte.agents import Neighbour, Reach, enrolled
from gavotte.formats.history import History
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.measure.adapt.planning import plan_measurement
from gavotte.measure.adapt.results import FailedPath, PathResult, Results
from gavotte.measure.carry.journal import Journal
from gavotte.measure.carry.underway import Underway
from gavotte.measure.plan.cost import CostLimits
from gavotte.measure.plan.methods import ASSUMED_RATE_BPS, Method
from gavotte.measure.predict.predicting import expected_cost
from gavotte.tables import Tabular
from gavotte.terms import Pair, Progress


@dataclass(frozen=True)
class Measurement(Tabular):
    """Result and cost of a measurement.

    Attributes:
        history: the snapshots; NaN if a path did not answer.
        paths: requested directed pairs in each snapshot, including those of missing hosts.
        answered: directed pairs with an answer in the last snapshot.
        again: probes beyond the first of a path and snapshot.
        seconds: wall time of the probing, without set-up.
        bytes_sent: payload bytes sent by all hosts.
        seed: seed of the order of rounds.
        failures: paths without an answer, except those of missing or lost hosts.
        missing: hosts whose agents could not be used, with the reason.
        lost: hosts that vanished meanwhile, with the reason. Their earlier rates are kept.
        beside: other runs that moved bytes between the hosts meanwhile: rates may be lower because of them.
        newest: all that is known about each path of the last snapshot, by host indices.
        shared: links that carry less together than the paths across them do alone, with their rates, bit/s.
        untested: links that pairs may share and of which nothing is known, because the pairs did not send at the same
            time.
        doubtful: (source, target) whose rates may be low because of other probes; a limit left no time or bytes to
            measure them alone.
        busy: (source, target) filled by other traffic, without a steady rate. The rate is TCP's share alongside it.
        stopped: why it ended before all was measured; empty = it did not.
        payload_bytes: requested UDP payload of packets; 0 = what each path's MTU allows, or no train.
    """

    history: History
    paths: int
    answered: int
    again: int
    seconds: float
    bytes_sent: int
    seed: int
    failures: list[FailedPath] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    beside: list[Neighbour] = field(default_factory=list)
    newest: dict[Pair, PathResult] = field(default_factory=dict)
    shared: dict[str, float] = field(default_factory=dict)
    untested: list[str] = field(default_factory=list)
    doubtful: list[tuple[str, str]] = field(default_factory=list)
    busy: list[tuple[str, str]] = field(default_factory=list)
    stopped: str = ""
    payload_bytes: int = 0

    @property
    def lowered(self) -> dict[tuple[str, str], int]:
        """UDP payload of the packets of each path of the last snapshot whose MTU did not allow `payload_bytes`."""
        names = self.history.hosts
        return {
            (names[i], names[j]): path.payload_bytes
            for (i, j), path in sorted(self.newest.items())
            if 0 < path.payload_bytes < self.payload_bytes
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row per path of the last snapshot; NaN = unknown. Rates are TCP goodput, latency is one way."""
        names = self.history.hosts
        return [
            {
                "source": names[i],
                "target": names[j],
                "rate_bps": path.reading.goodput_bps,
                "low_bps": path.reading.low_bps,
                "high_bps": path.reading.high_bps,
                "latency_s": float(self.history.alpha_s[-1, i, j]),
                "hops": path.hops,
                "loss": path.reading.loss,
                "verdict": path.reading.verdict,
                "reason": path.reading.refusal,
            }
            for (i, j), path in sorted(self.newest.items())
        ]


Enough = Callable[[History], bool]


def measure(
    inventory: Inventory,
    *,
    method: str | Method = "train",
    count: int = 1,
    every_s: float = 0.0,
    seed: int = 0,
    again: bool = True,
    limits: CostLimits | None = None,
    known: Network | None = None,
    assumed_bps: float = ASSUMED_RATE_BPS,
    journal: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    enough: Enough | None = None,
    pairs: Collection[tuple[str, str]] | None = None,
    reach: Reach | None = None,
    take_over: bool = False,
) -> Measurement:
    """Measure all directed pairs of hosts, or some, `count` times.

    Args:
        inventory: the hosts.
        method: a key of `METHODS`, or a method of one's own, as `bulk(flows=4)`.
        count: number of snapshots.
        every_s: seconds from the start of one snapshot to the start of the next.
        seed: seed of the order of rounds; snapshot k uses seed + k.
        again: measure doubtful paths again, alone, and learn from them which links are shared.
        limits: refuse in advance what would cost more.
        known: an earlier Network, whose shared links two probes never fill at once.
        assumed_bps: rate to assume for paths that no Network covers, for the estimate that ends the measurement.
        journal: file for answers until all have arrived.
        resume: continue from the journal of an interrupted measurement.
        progress: called for each path that is done.
        enough: called after each snapshot with all so far; true ends the measurement before `count`.
        pairs: the only (source, target) pairs to measure; None = all.
        reach: open connections to the agents, for repeated measurements; None = they are opened and closed.
        take_over: end another measurement of the same user that holds agents, instead of waiting for it.

    Raises:
        GavotteError: for a bad argument, too small a budget, or fewer than two hosts.
        AgentError: when no agent can be used, or fewer than two are left before a path has answered. If some paths have
            answered, a journal is kept, and the error gives the number of snapshots.
    """
    todo = plan_measurement(
        inventory.names,
        method,
        count=count,
        every_s=every_s,
        seed=seed,
        known=known,
        assumed_bps=assumed_bps,
        pairs=pairs,
    )
    limits = limits or CostLimits()
    todo = todo.within(limits)
    estimate = expected_cost(todo, inventory, known, limits)
    with ExitStack() as stack:
        results = Results(inventory, todo.method.name, count, todo.only)
        kept = stack.enter_context(Journal(journal, results, seed=seed, resume=resume)) if journal else None
        fleet = stack.enter_context(
            enrolled(
                inventory,
                todo.budget(limits),
                run_id=kept.run_id if kept else None,
                take_over=take_over,
                reach=reach,
            )
        )
        if kept is not None:
            kept.hold(fleet.run_id)
        # Agents report cores and memory that the inventory leaves out.
        results.inventory = fleet.inventory
        underway = Underway(fleet, todo, limits, results, kept, progress, most=todo.most(limits, estimate))
        underway.run(again=again, enough=enough)
        return Measurement(
            history=replace(results.history(), evidence=underway.evidence()),
            paths=todo.paths,
            answered=results.answered(results.count - 1),
            again=underway.again,
            seconds=underway.seconds,
            bytes_sent=underway.bytes_sent,
            seed=seed,
            failures=[failure for number in range(results.count) for failure in results.failures(number, fleet.away)],
            missing=dict(fleet.missing),
            lost=dict(fleet.lost),
            beside=fleet.beside(),
            newest={(i, j): path for (number, i, j), path in results.paths.items() if number == results.count - 1},
            shared=underway.shared(),
            untested=sorted(underway.untested),
            doubtful=[(inventory.names[i], inventory.names[j]) for i, j in underway.doubtful],
            busy=[(inventory.names[i], inventory.names[j]) for i, j in underway.busy],
            stopped=underway.stopped,
            payload_bytes=todo.method.probe.burst_train.payload_bytes,
        )
