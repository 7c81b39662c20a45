"""Runs the plan: snapshots of all pairs, one History at the end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from gavotte.agents import Budget, Fleet, Reach, enrolled
from gavotte.agents import agent_pb2 as pb
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.history import History
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.measure.again import doubtful
from gavotte.measure.journal import Journal
from gavotte.measure.losses import Losses
from gavotte.measure.methods import METHODS, Method, refused
from gavotte.measure.plan import Limits, Plan, plan, plan_some
from gavotte.measure.results import Failure, PathResult, Results, path_result
from gavotte.measure.rounds import Links, Pair
from gavotte.measure.shared_links import shared_links

Progress = Callable[[int, int], None]
"""Called with (paths done, paths in all)."""


AGAIN = 3
"""Passes over doubtful paths at most; more than one only while some path has no rate."""


@dataclass(frozen=True)
class Measurement:
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
        newest: all that is known of each path of the last snapshot, by host indices.
    """

    history: History
    paths: int
    answered: int
    again: int
    seconds: float
    bytes_sent: int
    seed: int
    failures: list[Failure] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    newest: dict[tuple[int, int], PathResult] = field(default_factory=dict)


Enough = Callable[[History], bool]


def measure(
    inventory: Inventory,
    *,
    method: str | Method = "train",
    count: int = 1,
    every_s: float = 0.0,
    seed: int = 0,
    again: bool = True,
    limits: Limits | None = None,
    known: Network | None = None,
    journal: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    enough: Enough | None = None,
    pairs: Collection[tuple[str, str]] | None = None,
    reach: Reach | None = None,
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

    Raises:
        GavotteError: for a bad argument, too small a budget, or fewer than two hosts.
        AgentError: when no agent can be used.
    """
    if isinstance(method, str) and method not in METHODS:
        raise GavotteError(f"no method {method!r}", hint=f"choose one of {', '.join(METHODS)}")
    if count < 1:
        raise GavotteError(f"cannot take {count} snapshots", hint="give a count of at least 1")
    if not (math.isfinite(every_s) and every_s >= 0):
        raise GavotteError(f"cannot wait {every_s} s between snapshots", hint="give a number of seconds of at least 0")
    if len(inventory.host) < 2:
        raise GavotteError("one host has no path to measure", hint="give at least two hosts")
    how = METHODS[method] if isinstance(method, str) else method
    links = shared_links(known, inventory.names) if known is not None else {}
    some = None if pairs is None else _known_pairs(pairs, inventory)
    whole = plan(tuple(inventory.names), how, seed=seed, links=links)
    if some is not None:
        whole = plan_some(whole.names, how, some, links=links)
    limits = limits or Limits()
    limits.check(whole.cost(snapshots=count, every_s=every_s, price_per_gb=limits.price_per_gb))
    # Paths measured again may double it. A bulk transfer takes what the path gives: only the agent's own cap holds.
    most = 0 if how.name == "bulk" else 2 * count * whole.bytes_per_host
    if limits.bytes is not None:
        share = limits.bytes // len(inventory.host)
        most = min(most, share) if most else share
    budget = Budget(
        max_bytes=most,
        max_seconds=2 * count * max(whole.deadline_s, every_s) + 60.0,
    )
    with ExitStack() as stack:
        results = Results(inventory, how.name, count)
        kept = stack.enter_context(Journal(journal, results, seed=seed, resume=resume)) if journal else None
        fleet = stack.enter_context(enrolled(inventory, budget, run_id=kept.run_id if kept else None, reach=reach))
        if kept is not None:
            kept.hold(fleet.run_id)
        # Agents know cores and memory that the inventory leaves out.
        results.inventory = fleet.inventory
        campaign = _Campaign(
            fleet, how, results, kept, links, progress, total=count * _reached_paths(fleet, some), only=some
        )
        campaign.run(seed=seed, every_s=every_s, again=again, enough=enough)
        return Measurement(
            history=results.history(),
            paths=whole.paths,
            answered=results.answered(results.count - 1),
            again=campaign.again,
            seconds=campaign.seconds,
            bytes_sent=campaign.bytes_sent,
            seed=seed,
            failures=[
                failure
                for failure in results.failures(fleet.missing | fleet.lost)
                if pairs is None or (failure.source, failure.target) in pairs
            ],
            missing=dict(fleet.missing),
            lost=dict(fleet.lost),
            newest={(i, j): path for (number, i, j), path in results.paths.items() if number == results.count - 1},
        )


def _reached_paths(fleet: Fleet, some: Collection[Pair] | None) -> int:
    if some is None:
        return len(fleet.hosts) * (len(fleet.hosts) - 1)
    here = {host.name for host in fleet.hosts}
    names = fleet.inventory.names
    return sum(names[i] in here and names[j] in here for i, j in some)


def _known_pairs(pairs: Collection[tuple[str, str]], inventory: Inventory) -> list[Pair]:
    index = {name: i for i, name in enumerate(inventory.names)}
    found = []
    for source, target in pairs:
        if source == target or source not in index or target not in index:
            raise GavotteError(f"there is no path from {source} to {target}", hint="name two hosts of the inventory")
        found.append((index[source], index[target]))
    if not found:
        raise GavotteError("there is no pair to measure", hint="name at least one")
    return sorted(set(found))


class _Campaign:
    """A measurement in progress."""

    def __init__(
        self,
        fleet: Fleet,
        method: Method,
        results: Results,
        journal: Journal | None,
        links: Links,
        progress: Progress | None,
        *,
        total: int,
        only: Collection[Pair] | None = None,
    ) -> None:
        self._fleet = fleet
        self._method = method
        self._results = results
        self._journal = journal
        self._links = links
        self._progress = progress
        self._total = total
        self._only = None if only is None else frozenset(only)
        self._done = 0
        self._index = {name: i for i, name in enumerate(results.inventory.names)}
        self._losses = Losses()
        self._ends_s: dict[tuple[str, str], float] = {}
        self.again = 0
        self.seconds = 0.0
        self.bytes_sent = 0

    def run(self, *, seed: int, every_s: float, again: bool, enough: Enough | None) -> None:
        begin = time.monotonic()
        wanted = self._results.count
        for number in range(wanted):
            pause = begin + number * every_s - time.monotonic()
            if pause > 0 and number not in self._results.times_s:
                time.sleep(pause)
            started = time.monotonic()
            self._snapshot(number, seed + number)
            if again:
                # A refusal is seldom repeated: a probe that met a stall of its host fails, the next one does not.
                for _ in range(AGAIN):
                    self._once_more(number)
                    if not self._results.failures(dict(self._fleet.missing)):
                        break
            self.seconds += time.monotonic() - started
            if enough is not None and number + 1 < wanted:
                self._results.count = number + 1
                if enough(self._results.history()):
                    return
                self._results.count = wanted

    def _snapshot(self, number: int, seed: int) -> None:
        names = tuple(self._results.inventory.names)
        # Only hosts that answered take part: a dead one would cost every peer its waiting time.
        here = {self._index[host.name] for host in self._fleet.hosts}
        known = {
            (i, j) for (snapshot, i, j), path in self._results.paths.items() if snapshot == number and path.answered
        }
        if number not in self._results.times_s:
            self._results.times_s[number] = time.time()
            if self._journal is not None:
                self._journal.begin(number, self._results.times_s[number])
        reached = tuple(name for i, name in enumerate(names) if i in here)
        to_matrix = [self._index[name] for name in reached]
        links = {
            (a, b): crossed
            for a, i in enumerate(to_matrix)
            for b, j in enumerate(to_matrix)
            if (crossed := self._links.get((i, j)))
        }
        todo = plan(reached, self._method, seed=seed, links=links)
        if known or self._only is not None:
            left = [
                (a, b)
                for pairs in todo.rounds
                for a, b in pairs
                if (i_j := (to_matrix[a], to_matrix[b])) not in known and (self._only is None or i_j in self._only)
            ]
            todo = plan_some(reached, self._method, left, links=links)
        self._done += len(known)
        self._probe(todo, number)

    def _once_more(self, number: int) -> None:
        names = tuple(self._results.inventory.names)
        missing = self._fleet.missing | self._fleet.lost
        pairs = [
            (i, j)
            for i, j in doubtful(self._results, number)
            if names[i] not in missing
            and names[j] not in missing
            and self._worth_it(number, i, j)
            and (self._only is None or (i, j) in self._only)
        ]
        if pairs:
            self.again += len(pairs)
            self._total += len(pairs)
            self._probe(plan_some(names, self._method, pairs, alone=True), number)

    def _worth_it(self, number: int, source: int, target: int) -> bool:
        """Whether another probe may tell more: not of a host whose agent has gone."""
        path = self._results.paths[number, source, target]
        return path.answered or not path.reading.refusal.startswith(("agent on", "no answer"))

    def _probe(self, todo: Plan, number: int) -> None:
        if not todo.rounds:
            return
        pending = {(todo.names[s], todo.names[t]) for pairs in todo.rounds for s, t in pairs}
        broken: dict[str, str] = {}
        requests: Mapping[str, pb.MeasureRequest] = todo.requests(self._fleet.run_id)
        began_s = time.monotonic()
        for source, reply in self._fleet.measure(requests, deadline_s=todo.deadline_s):
            if isinstance(reply, AgentError):
                broken[source] = reply.message
                self._fleet.drop(source, reply.message)
                self._losses.gone(source, reply.message)
                continue
            self._judge(source, reply)
            pending.discard((source, reply.peer))
            self.bytes_sent += reply.bytes_sent
            reading = refused(reply.error) if reply.error else self._method.read(reply)
            if not reading.refusal and not (math.isfinite(reading.goodput_bps) and reading.goodput_bps > 0):
                reading = refused("no rate could be told")
            self._take(number, source, reply.peer, path_result(reading, reply, self._idle_s(source, reply, began_s)))
        for source, target in sorted(pending):
            lost = self._fleet.lost
            reason = lost.get(source) or lost.get(target) or broken.get(source) or broken.get(target) or "no answer"
            self._take(number, source, target, PathResult(refused(reason)))

    def _idle_s(self, source: str, reply: pb.ProbeReply, began_s: float) -> float:
        """How long both ends had been idle before a probe: so long could a token bucket fill."""
        ends = ((source, "sent"), (reply.peer, "received"))
        start_s = began_s + reply.started_s
        idle_s = start_s - max(self._ends_s.get(end, -math.inf) for end in ends)
        self._ends_s |= dict.fromkeys(ends, start_s + reply.seconds)
        return max(0.0, idle_s)

    def _judge(self, source: str, reply: pb.ProbeReply) -> None:
        """Goes on without hosts that nobody reaches: each would cost all others their waiting time."""
        if reply.unreachable:
            self._losses.missed(source, reply.peer, reply.error)
        elif not reply.error:
            self._losses.met(source, reply.peer)
        for host, reason in self._losses.verdicts().items():
            self._fleet.drop(host, reason)

    def _take(self, number: int, source: str, target: str, result: PathResult) -> None:
        i, j = self._index[source], self._index[target]
        self._results.add(number, i, j, result)
        if self._journal is not None and result.answered:
            self._journal.add(number, i, j, result)
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)
