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
from gavotte.measure.cost import CostLimits
from gavotte.measure.foretelling import expected_cost
from gavotte.measure.journal import Journal
from gavotte.measure.methods import ASSUMED_RATE_BPS, Method
from gavotte.measure.planning import plan_measurement
from gavotte.measure.results import FailedPath, PathResult, Results
from gavotte.measure.underway import Underway
from gavotte.tables import Tabular
from gavotte.terms import Pair, Progress


@dataclass(frozen=True)
class Measurement(Tabular):
    """What a measurement found and what it cost.

    Attributes:
        history: the snapshots; NaN where a path did not answer.
        paths: directed pairs asked for in each snapshot, hosts that are missing included.
        answered: directed pairs with an answer in the last snapshot.
        again: probes beyond the first of a path and snapshot.
        seconds: wall time of the probing, without set-up.
        bytes_sent: payload bytes sent by all hosts.
        seed: of the order of rounds.
        failures: paths without an answer, without those of missing or lost hosts.
        missing: hosts whose agents could not be used, with the reason.
        lost: hosts that vanished while it went on, with the reason. Rates found before stay.
        beside: other runs that moved bytes between the hosts meanwhile: rates may be lower for it.
        newest: all that is known of each path of the last snapshot, by host indices.
        shared: links found to carry less together than the paths across them do alone, with what they carry, bit/s.
        untested: links that pairs may share of which nothing is known, for its pairs did not send at the same time.
        doubtful: (source, target) whose rates may be low for other probes beside them, since a limit left no time or
            bytes to measure them alone.
        busy: (source, target) that others fill, so that there is no steady rate: TCP's share beside them is told.
        stopped: why it ended before all was measured; empty = it did not.
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

    def to_records(self) -> list[dict[str, Any]]:
        """One row a path of the last snapshot; NaN = not told. Rates are TCP goodput, latency is one way."""
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
    """Measures all directed pairs of hosts, or some, `count` times.

    Args:
        inventory: the hosts.
        method: a key of `METHODS`, or a method of one's own, as `bulk(flows=4)`.
        count: number of snapshots.
        every_s: seconds from the start of one snapshot to the start of the next.
        seed: of the order of rounds; snapshot k uses seed + k.
        again: measure doubtful paths once more, alone, and learn so which links are shared.
        limits: refuse beforehand what would cost more.
        known: an earlier Network, whose shared links two probes never fill at once.
        assumed_bps: what paths that no Network tells are taken to carry, for the estimate that ends the measurement.
        journal: where answers are kept until all are there.
        resume: go on from the journal of an interrupted measurement.
        progress: told of each path that is done.
        enough: asked after each snapshot with all so far; true ends the measurement before `count`.
        pairs: the only (source, target) pairs to measure; None = all.
        reach: open roads to the agents, for who measures again and again; None = they are opened and closed.
        take_over: end another measurement of the same user that holds agents, instead of waiting for it.

    Raises:
        GavotteError: for a bad argument, too small a budget, or fewer than two hosts.
        AgentError: when no agent can be used, or fewer than two are left before a path has answered. Where some have,
            and there is a journal, it stays, and the error says how many snapshots there are.
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
    said = expected_cost(todo, inventory, known, limits)
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
        # Agents know cores and memory that the inventory leaves out.
        results.inventory = fleet.inventory
        underway = Underway(fleet, todo, limits, results, kept, progress, most=todo.most(limits, said))
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
        )
