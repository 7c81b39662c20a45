"""Runs the plan: snapshots of all pairs, one History at the end."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gavotte.agents import Fleet, Neighbour, Reach, enrolled
from gavotte.agents.losses import Losses
from gavotte.agents.schedule import Answer, carry_out
from gavotte.errors import AgentError
from gavotte.formats.history import History
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.formats.rates import MAX_RATE_BPS
from gavotte.measure.again import doubtful
from gavotte.measure.journal import Journal
from gavotte.measure.methods import Method, Reading, refused
from gavotte.measure.planning import CostLimits, MeasurementPlan, plan_measurement
from gavotte.measure.results import FailedPath, PathResult, Results, path_result
from gavotte.tables import Tabular
from gavotte.terms import Pair, Progress

logger = logging.getLogger(__name__)

AGAIN = 3
"""Passes over doubtful paths at most; more than one only while some path has no rate."""

LOOK_S = 0.5
"""How often a pause between two snapshots looks whether anybody is left."""


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
        stopped: why it ended before its last snapshot; empty = it did not.
        newest: all that is known of each path of the last snapshot, by host indices.
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
    stopped: str = ""
    newest: dict[Pair, PathResult] = field(default_factory=dict)

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
        again: measure doubtful paths once more, alone.
        limits: refuse beforehand what would cost more.
        known: an earlier Network, whose shared links two probes never fill at once.
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
    todo = plan_measurement(inventory.names, method, count=count, every_s=every_s, seed=seed, known=known, pairs=pairs)
    limits = limits or CostLimits()
    todo = todo.within(limits)
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
        underway = _Measuring(fleet, todo, results, kept, progress)
        underway.run(again=again, enough=enough)
        return Measurement(
            history=results.history(),
            paths=todo.paths,
            answered=results.answered(results.count - 1),
            again=underway.again,
            seconds=underway.seconds,
            bytes_sent=underway.bytes_sent,
            seed=seed,
            failures=[
                failure
                for number in range(results.count)
                for failure in results.failures(number, fleet.missing | fleet.lost)
            ],
            missing=dict(fleet.missing),
            lost=dict(fleet.lost),
            beside=fleet.beside(),
            stopped=underway.stopped,
            newest={(i, j): path for (number, i, j), path in results.paths.items() if number == results.count - 1},
        )


class _Measuring:
    """A measurement in progress."""

    def __init__(
        self,
        fleet: Fleet,
        plan: MeasurementPlan,
        results: Results,
        journal: Journal | None,
        progress: Progress | None,
    ) -> None:
        self._fleet = fleet
        self._plan = plan
        self._results = results
        self._journal = journal
        self._progress = progress
        self._index = {name: i for i, name in enumerate(plan.names)}
        self._done = 0
        self._total = plan.count * sum(map(len, plan.rounds(0, self._here())))
        self._losses = Losses()
        self._ends_s: dict[tuple[str, str], float] = {}
        self.stopped = ""
        self.again = 0
        self.seconds = 0.0
        self.bytes_sent = 0

    def run(self, *, again: bool, enough: Enough | None) -> None:
        begin = time.monotonic()
        wanted = self._results.count
        for number in range(wanted):
            if number not in self._results.times_s:
                self._pause(begin + number * self._plan.every_s)
            self._rejoin()
            if self._is_over(number):
                return
            started = time.monotonic()
            self._snapshot(number)
            if again:
                # A refusal is seldom repeated: a probe that met a stall of its host fails, the next one does not.
                for _ in range(AGAIN):
                    self._rejoin()
                    self._once_more(number)
                    if not self._results.failures(number, self._fleet.missing | self._fleet.lost):
                        break
            self.seconds += time.monotonic() - started
            if enough is not None and number + 1 < wanted:
                self._results.count = number + 1
                if enough(self._results.history()):
                    return
                self._results.count = wanted

    def _pause(self, until: float) -> None:
        """Waits for the next snapshot, but not when nobody is left to take it."""
        while (left := until - time.monotonic()) > 0 and not self._fleet.is_alone():
            time.sleep(min(left, LOOK_S))

    def _rejoin(self) -> None:
        """Goes on with hosts whose agents were started anew."""
        for name in self._fleet.rejoin():
            self._losses.back(name)

    def _is_over(self, number: int) -> bool:
        """Whether nobody is left to take this snapshot: what the earlier ones found stays, and none is empty.

        Raises:
            AgentError: when they found nothing.
        """
        if not self._fleet.is_alone():
            return False
        silent = dict.fromkeys(sorted(self._fleet.silent), "its agent does not answer any more")
        gone = silent | self._fleet.missing | self._fleet.lost
        told = "; ".join(f"{name}: {reason}" for name, reason in list(gone.items())[:2])
        wanted, self._results.count = self._results.count, number
        reason = f"fewer than two agents are left after {number} of {wanted} snapshots ({told})"
        if not any(self._results.answered(each) for each in range(number)):
            raise AgentError(reason, hint="start the agents and measure again")
        logger.warning(reason)
        self.stopped = reason
        return True

    def _now_s(self) -> float:
        """Unix time, never before the last snapshot's: a clock that was set back would turn their order round."""
        now_s, last_s = time.time(), max(self._results.times_s.values(), default=0.0)
        if now_s < last_s:
            logger.warning("the clock was set back by %.0f s; times go on from the last snapshot's", last_s - now_s)
        return max(now_s, last_s)

    def _here(self) -> set[int]:
        """Only hosts that answer take part: a dead one would cost every peer its waiting time."""
        return {self._index[host.name] for host in self._fleet.hosts}

    def _snapshot(self, number: int) -> None:
        if number not in self._results.times_s:
            self._results.times_s[number] = self._now_s()
            if self._journal is not None:
                self._journal.begin(number, self._results.times_s[number])
        logger.info("snapshot %d of %d", number, self._results.count)
        known = {(i, j) for (at, i, j), path in self._results.paths.items() if at == number and path.answered}
        self._done += len(known)
        self._probe(self._plan.rounds(number, self._here(), known), number)

    def _once_more(self, number: int) -> None:
        here = self._here()
        pairs = [pair for pair in doubtful(self._results, number) if here.issuperset(pair)]
        if pairs:
            logger.info("snapshot %d: measures %d doubtful paths once more, alone", number, len(pairs))
            self.again += len(pairs)
            self._total += len(pairs)
            self._probe([[pair] for pair in pairs], number)

    def _probe(self, rounds: list[list[Pair]], number: int) -> None:
        began_s = time.monotonic()
        schedule = self._plan.schedule(rounds)
        for answer in carry_out(self._fleet, schedule, round_s=self._plan.round_s, losses=self._losses):
            self.bytes_sent += answer.bytes_sent
            reading = self._read(answer)
            result = PathResult(reading)
            if answer.reply is not None:
                idle_s = self._idle_s(
                    answer.source, answer.target, began_s + answer.reply.started_s, answer.reply.seconds
                )
                result = path_result(reading, answer.reply, idle_s)
            self._take(number, answer.source, answer.target, result)

    def _read(self, answer: Answer) -> Reading:
        if answer.reply is None or answer.error:
            return refused(answer.error, answer.failure)
        try:
            reading = self._plan.method.read(answer.reply)
        except (ArithmeticError, ValueError) as error:
            # Numbers that can be, but not together.
            return refused(f"what its agent says makes no sense ({error})")
        # NaN is in no range.
        if not reading.refusal and not 0 < reading.goodput_bps <= MAX_RATE_BPS:
            return refused("no rate could be told")
        return reading

    def _idle_s(self, source: str, target: str, start_s: float, seconds: float) -> float:
        """How long both ends had been idle before a probe: so long could a token bucket fill."""
        ends = ((source, "sent"), (target, "received"))
        idle_s = start_s - max(self._ends_s.get(end, -math.inf) for end in ends)
        self._ends_s |= dict.fromkeys(ends, start_s + seconds)
        return max(0.0, idle_s)

    def _take(self, number: int, source: str, target: str, result: PathResult) -> None:
        i, j = self._index[source], self._index[target]
        self._results.add(number, i, j, result)
        if self._journal is not None and result.answered:
            self._journal.add(number, i, j, result)
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)
