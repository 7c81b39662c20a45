"""Carry out the plan of a measurement: take snapshots of all pairs, and return a History."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gavotte.agents import Neighbour, enrolled
from gavotte.formats.history import BY_TCP_MARK, History, PairHistory, Pairs
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.formats.parts.rates import format_bytes, format_rate
from gavotte.measure.adapt.guaranteed import guarantees_warning, run_warnings
from gavotte.measure.adapt.results import FailedPath, PathResult, Results
from gavotte.measure.adapt.underway import Underway
from gavotte.measure.adapt.withheld import HOST_MARK, Gap, gaps_of_hosts
from gavotte.measure.carry.agents import FleetAgents
from gavotte.measure.carry.journal import Journal
from gavotte.measure.carry.runner import Runner
from gavotte.measure.plan.cost import CostLimits
from gavotte.measure.plan.methods.method import Method
from gavotte.measure.planning import MeasurementPlan, plan_measurement
from gavotte.measure.question import MeasureQuestion, MeasureSession
from gavotte.tables import Tabular
from gavotte.terms import Pair, Progress
from gavotte.terms.credit import is_credit
from gavotte.terms.goodput import goodput_per_wire

MOST_FAILURES = 20
"""Paths without an answer that warnings name."""


@dataclass(frozen=True)
class HostCredit:
    """A host that sent faster until a credit ran out, on its path to a target."""

    host: str
    target: str
    peak_bps: float
    bytes: float
    rate_bps: float


@dataclass(frozen=True)
class Measurement(Tabular):
    """Result and cost of a measurement.

    Attributes:
        pairs: the snapshots of all pairs that were measured; NaN if a path did not answer.
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
        guaranteed_bps: wire rate that a guarantee grants each host whose sending it limits. Rates from these hosts may
            be those that the guarantees let through.
        newest: all that is known about each path of the last snapshot, by host indices.
        shared: links that carry less together than the paths across them do alone, with their rates, bit/s.
        untested: links that pairs may share and of which nothing is known, because the pairs did not send at the same
            time.
        doubtful: (source, target) whose rates may be low because of other probes; a limit left no time or bytes to
            measure them alone.
        busy: (source, target) filled by other traffic, without a steady rate. The rate is TCP's share alongside it.
        stopped: why it ended before all was measured; empty = it did not.
        payload_bytes: requested UDP payload of packets; 0 = what each path's MTU allows, or no train.
        events: events that a reader of the rates should know, one line each.
    """

    pairs: PairHistory
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
    guaranteed_bps: dict[str, float] = field(default_factory=dict)
    newest: dict[Pair, PathResult] = field(default_factory=dict)
    shared: dict[str, float] = field(default_factory=dict)
    untested: list[str] = field(default_factory=list)
    doubtful: list[tuple[str, str]] = field(default_factory=list)
    busy: list[tuple[str, str]] = field(default_factory=list)
    stopped: str = ""
    payload_bytes: int = 0
    events: list[str] = field(default_factory=list)

    @cached_property
    def history(self) -> History:
        """The snapshots as matrices."""
        return History.of_pairs(self.pairs)

    @property
    def gaps(self) -> dict[tuple[str, str], Gap]:
        """Why some paths' newest results show a host that kept its agent from running, by (source, target)."""
        names = self.pairs.hosts
        return {(names[i], names[j]): path.gap for (i, j), path in sorted(self.newest.items()) if path.gap is not None}

    @property
    def lowered(self) -> dict[tuple[str, str], int]:
        """UDP payload of the packets of each path of the last snapshot whose MTU did not allow `payload_bytes`."""
        names = self.pairs.hosts
        return {
            (names[i], names[j]): path.payload_bytes
            for (i, j), path in sorted(self.newest.items())
            if 0 < path.payload_bytes < self.payload_bytes
        }

    @cached_property
    def credits(self) -> list[HostCredit]:
        """The largest credit of each host in the newest snapshot."""
        names, largest = self.history.hosts, dict[str, HostCredit]()
        for (i, j), path in sorted(self.newest.items()):
            reading = path.reading
            size = reading.bucket_bytes * goodput_per_wire(path.mtu_bytes)
            known = largest.get(names[i])
            if is_credit(size, reading.goodput_bps, reading.peak_bps) and (known is None or size > known.bytes):
                largest[names[i]] = HostCredit(names[i], names[j], reading.peak_bps, size, reading.goodput_bps)
        return list(largest.values())

    @cached_property
    def warnings(self) -> list[str]:
        """Reasons why rates are less reliable, and paths that have no rate, one sentence each."""
        return warnings_of(self)

    @property
    def refused_by_firewalls(self) -> bool:
        """Whether some path may lack a rate because of a firewall."""
        return any(failure.failure in ("unreachable", "vanished") for failure in self.failures)

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row per path of the last snapshot; NaN = unknown. Rates are TCP goodput, latency is one way."""
        names = self.pairs.hosts
        ends = map(tuple, self.pairs.pairs.tolist())
        latencies_s = dict(zip(ends, self.pairs.alpha_s[-1].tolist(), strict=True))
        return [
            {
                "source": names[i],
                "target": names[j],
                "rate_bps": path.reading.goodput_bps,
                "low_bps": path.reading.low_bps,
                "high_bps": path.reading.high_bps,
                "latency_s": latencies_s.get((i, j), math.nan),
                "hops": path.hops,
                "loss": path.reading.loss,
                "verdict": path.reading.verdict,
                "reason": path.reading.refusal or str(path.gap or ""),
            }
            for (i, j), path in sorted(self.newest.items())
        ]


def measure(
    inventory: Inventory,
    method: str | Method = "train",
    *,
    count: int = 1,
    seed: int = 0,
    known: Network | None = None,
    limits: CostLimits | None = None,
    pairs: Collection[tuple[str, str]] | None = None,
    progress: Progress | None = None,
) -> Measurement:
    """Measure the directed pairs of hosts, or some, `count` times. `carry_out` does the same for any question.

    Of more than 24 hosts, few pairs show the rates of all, as for `gavotte measure`.

    Args:
        inventory: the hosts.
        method: a key of `METHODS`, or a method of one's own, as `bulk(flows=4)`.
        count: number of snapshots.
        seed: seed of the order of rounds; snapshot k uses seed + k.
        known: an earlier Network, whose shared links two probes never fill at once.
        limits: refuse in advance what would cost more.
        pairs: the only (source, target) pairs to measure; None = all, or few of many hosts.
        progress: called for each path that is done.

    Raises:
        GavotteError: for a bad argument, too small a budget, or fewer than two hosts.
        AgentError: as in `carry_out`.
    """
    limits = limits or CostLimits()
    question = MeasureQuestion(inventory, method, count, seed=seed, known=known, limits=limits, pairs=pairs)
    return carry_out(plan_measurement(question), MeasureSession(progress))


def carry_out(plan: MeasurementPlan, session: MeasureSession | None = None) -> Measurement:
    """Measure the paths of a plan.

    Args:
        plan: plan of the run, with its expected cost.
        session: settings of the run.

    Raises:
        AgentError: when no agent can be used, or fewer than two are left before a path has answered. If some paths have
            answered, a journal is kept, and the error gives the number of snapshots.
    """
    session = session or MeasureSession()
    question, paths, limits = plan.question, plan.paths, plan.question.limits
    names, seed = paths.names, question.seed
    with ExitStack() as stack:
        results = Results(question.inventory, paths.method.name, question.count, paths.only, paths.held_out)
        kept = None
        if session.journal is not None:
            kept = stack.enter_context(Journal(session.journal, results, seed=seed, resume=session.resume))
        fleet = stack.enter_context(
            enrolled(
                question.inventory,
                paths.budget(limits),
                run_id=kept.run_id if kept else None,
                take_over=session.take_over,
                reach=session.reach,
            )
        )
        if kept is not None:
            kept.hold(fleet.run_id)
        guaranteed_bps = fleet.guaranteed_bps()
        # Agents report cores and memory that the inventory leaves out.
        results.inventory = fleet.inventory
        underway = Underway(paths, limits, results, again=question.again, most=plan.most)
        agents = FleetAgents(fleet, paths.names)
        Runner(
            underway, agents, journal=kept, progress=session.progress, enough=session.enough, heard=session.heard
        ).run()
        state = underway.state
        return Measurement(
            pairs=replace(results.history(), evidence=underway.evidence()),
            paths=state.plan.paths,
            answered=results.answered(results.count - 1),
            again=underway.again,
            seconds=state.seconds,
            bytes_sent=underway.bytes_sent,
            seed=seed,
            failures=[failure for number in range(results.count) for failure in results.failures(number, fleet.away)],
            missing=dict(fleet.missing),
            lost=dict(fleet.lost),
            beside=fleet.beside(),
            guaranteed_bps=guaranteed_bps | fleet.guaranteed_bps(),
            newest={(i, j): path for (number, i, j), path in results.paths.items() if number == results.count - 1},
            shared=underway.shared(),
            untested=sorted(state.untested),
            doubtful=[(names[i], names[j]) for i, j in state.doubtful],
            busy=[(names[i], names[j]) for i, j in state.busy],
            stopped=underway.stopped,
            payload_bytes=paths.method.probe.burst_train.payload_bytes,
            events=[*state.warnings, *filter(None, [state.disagreement()])],
        )


def warnings_of(result: Measurement) -> list[str]:
    """Return the warnings of a measurement, the most general first."""
    return [*result.events, *_of_hosts(result), *_of_rates(result), *_of_failures(result)]


def _of_hosts(result: Measurement) -> Iterator[str]:
    """Yield the hosts that are missing or were lost, and other runs on them."""
    yield from (f"{host}: {reason}" for host, reason in result.missing.items())
    yield from (f"lost {host}: {reason}" for host, reason in result.lost.items())
    yield from run_warnings(result.beside, result.guaranteed_bps, "rates may be low")
    yield from guarantees_warning(result.guaranteed_bps, "rates from there")


def _of_rates(result: Measurement) -> Iterator[str]:
    """Yield why rates may not be those of the paths alone, or not last."""
    for credit in result.credits:
        yield (
            f"{credit.host} sends at {format_rate(credit.peak_bps)} until it is {format_bytes(credit.bytes)} "
            f"ahead of {format_rate(credit.rate_bps)}, its rate from then on"
        )
    if result.untested:
        yield (
            f"no pairs across {result.untested[0]}{_more(result.untested)} sent at the same time, so whether "
            "hosts share it is unknown; measure again, or with --sharing"
        )
    if result.doubtful:
        source, target = result.doubtful[0]
        yield (
            f"{source} to {target}{_more(result.doubtful)} may carry more: other probes ran at the "
            "same time, and the budget left nothing to measure them alone"
        )
    names = result.pairs.hosts
    blocked = "`gavotte hosts check` names the missing rule"
    refused = "other traffic or a busy host disturbs trains, so measure again when it has ended"
    yield from _of_tcp(result.pairs.measured_by_tcp("udp-blocked"), names, "UDP is blocked", blocked)
    yield from _of_tcp(result.pairs.measured_by_tcp("refused"), names, "no train found a rate", refused)
    yield from _of_gaps(result)
    if result.busy:
        source, target = result.busy[0]
        yield (
            f"other traffic fills {source} to {target}{_more(result.busy)}; the rate shown is "
            "what TCP gets alongside it; measure again when it has ended"
        )
    if result.lowered:
        (source, target), payload_bytes = next(iter(result.lowered.items()))
        more = len(result.lowered) - 1
        yield (
            f"packets from {source} to {target}{f' and on {more} more paths' * (more > 0)} had "
            f"{payload_bytes} bytes instead of {result.payload_bytes}: the path's MTU allows no more"
        )


def _of_gaps(result: Measurement) -> Iterator[str]:
    """Yield which hosts kept their agents from running, and how many paths show them for that reason."""
    unanswered = {(failure.source, failure.target) for failure in result.failures}
    gaps = {path: gap for path, gap in result.gaps.items() if path not in unanswered}
    for paths in gaps_of_hosts(gaps).values():
        source, target = paths[0]
        yield (
            f"{gaps[source, target]}: {source} to {target}{_more(paths)} may carry more, marked {HOST_MARK}; "
            "give the agent a whole processor and measure again"
        )


def _of_tcp(paths: Pairs, names: Sequence[str], why: str, remedy: str) -> Iterator[str]:
    """Yield how many paths bulk TCP measured, and why."""
    if not paths:
        return
    (i, j), more = paths[0], len(paths) - 1
    yield (
        f"{why} from {names[i]} to {names[j]}{f' and on {more} more paths' * (more > 0)}: bulk TCP measured "
        f"{'them' if more else 'it'}, marked {BY_TCP_MARK}; {remedy}"
    )


def _of_failures(result: Measurement) -> Iterator[str]:
    """Yield the paths without an answer, and whether paths that have one were not measured again."""
    failures = result.failures
    yield from (f"{each.source} to {each.target}: {each.reason}" for each in failures[:MOST_FAILURES])
    if len(failures) > MOST_FAILURES:
        yield f"{len(failures) - MOST_FAILURES} more paths did not answer"
    if result.stopped and result.answered == result.paths:
        yield f"{result.stopped}: all paths have answered, but doubtful ones were not measured again"


def _more(items: Sequence[object]) -> str:
    """Return a word on the items after the first."""
    return f" and {len(items) - 1} more" * (len(items) > 1)
