"""Plan a launch: find or measure what is known of hosts and messages, choose the order of ranks, predict the run."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.parts.counting import counted
from gavotte.launch.jobs import Job
from gavotte.launch.launchers import CommandLine, Launcher, Start, Wanted, recognise
from gavotte.launch.nodes import check_nodes
from gavotte.launch.past import Past, WallTime, blames_settings, disproved, past_of, predict
from gavotte.launch.places import Places, places_of
from gavotte.launch.question import LaunchQuestion, LaunchSession
from gavotte.launch.replaying import TracedJob, replayed_order, traced_job
from gavotte.launch.shelf import Shelf
from gavotte.launch.tuning import SELF_KEY, JobTuning, Setup, hindrance_of, tuning_of
from gavotte.model import model
from gavotte.place import RankOrder, evaluate, order_ranks, with_slots
from gavotte.place.replaying import LEAST_SAVING

ORDER = "ORDER"
"""Name of the file of hosts in a command line that is only shown."""


@dataclass(frozen=True)
class LaunchPlan:
    """How a job will be started, and what that is predicted to take.

    Attributes:
        question: the question.
        launcher: the launcher of the command line.
        line: the command line as it was read.
        places: the hosts.
        job: the job.
        slots: largest number of ranks that each host may get.
        own_slots: number of ranks that each host takes in the launcher's own order.
        default: host of each rank in the launcher's own order.
        network: the Network between the hosts; None = unknown.
        network_source: where the Network is from, in words.
        network_age_s: age of its newest measurement in seconds; None = unknown.
        measured: whether the hosts were measured now.
        app: the job's messages; None = unknown.
        order: the order that was chosen for the messages; None = the messages or the Network are unknown.
        refuted: why an order that should be faster was dropped, in words; empty = none was.
        past: earlier runs of the job.
        traced: the job's trace on the Network; None = one of both is unknown.
        tuned: settings of the MPI library for the order; None = there is nothing to set, or it may not be.
        untuned: why, in words; empty = `tuned` is known.
        shelf: the store.
    """

    question: LaunchQuestion
    launcher: Launcher
    line: CommandLine
    places: Places
    job: Job
    slots: dict[str, int]
    own_slots: dict[str, int]
    default: list[str]
    network: Network | None
    network_source: str
    network_age_s: float | None
    measured: bool
    app: App | None
    order: RankOrder | None
    refuted: str
    past: Sequence[Past]
    traced: TracedJob | None = field(repr=False, compare=False)
    tuned: JobTuning | None = field(repr=False, compare=False)
    untuned: str
    shelf: Shelf = field(repr=False, compare=False)

    @property
    def hosts(self) -> list[str]:
        """Host of each rank."""
        return self.default if self.order is None else list(self.order.hosts)

    @property
    def placed(self) -> bool:
        """Whether the order differs from the launcher's own."""
        return self.hosts != self.default

    @property
    def counts(self) -> bool:
        """Whether the messages of the run are to be counted."""
        return self.app is None or self.question.counting

    @cached_property
    def hindrance(self) -> str:
        """Why the preloaded library may not tune the job while it runs, in words; empty = it may."""
        if self.counts:
            return "this run counts the messages"
        shared = self.places.cloud is not None or self.places.inside is not None
        blamed = blames_settings(self.shelf.runs(self.job.key))
        setup = Setup(self.launcher, self.line, self.places.environ, shared)
        return (
            "the last run with settings failed" if blamed else hindrance_of(self.question, setup, self.past, self.hosts)
        )

    @property
    def self_tuned(self) -> bool:
        """Whether the preloaded library tunes the job's collectives while it runs."""
        return self.question.self_tuning and not self.hindrance

    @cached_property
    def wall(self) -> WallTime | None:
        """Predicted wall time; None = neither an earlier run nor a trace allows a prediction."""
        return self._wall(self.hosts, self.tuned, SELF_KEY if self.self_tuned else "")

    @cached_property
    def default_wall(self) -> WallTime | None:
        """Predicted wall time in the launcher's own order."""
        return self._wall(self.default, None)

    def _wall(self, order: Sequence[str], tuned: JobTuning | None, key: str = "") -> WallTime | None:
        traced, key = self.traced, key if tuned is None else tuned.key
        replay = None if tuned is None else tuned.replay
        replayed = None if traced is None else partial(traced.wall_of, replay or traced.replay)
        # Of another order the trace may have too many events. The run starts without a prediction then.
        with suppress(GavotteError):
            return predict(self.past, order, self.app, self.network, self.slots, replayed, key)
        return None

    @property
    def computing(self) -> str:
        """What no order can save of the job in the launcher's own order, in one line; empty without a trace."""
        if self.traced is None or self.default_wall is None:
            return ""
        return self.traced.computing(self.default_wall.predicted_s)

    @property
    def verdict(self) -> str:
        """Whether the order is worth it, in one line; empty if messages or Network are unknown."""
        if self.order is None:
            return ""
        if self.refuted:
            return f"not worth it: {self.refuted}"
        if not self.placed and self.traced is not None:
            return "not worth it: in the replay of the job no order was found that takes 1 % less time"
        if not self.placed:
            return f"not worth it: no order was found whose messages take 1 % less than {self.order.given_s:.3g} s"
        return f"messages take {self.order.completion_s:.3g} s instead of {self.order.given_s:.3g} s"

    def start(self, file: str, variables: dict[str, str] | None = None) -> Start:
        """Return the launcher's command line.

        Args:
            file: path of the file of hosts.
            variables: variables of the ranks.
        """
        addresses = self.places.addresses
        wanted = Wanted(self.hosts, self.own_slots, self.placed, file, variables or {}, addresses)
        return self.launcher.start(self.line, wanted)

    @property
    def shown(self) -> str:
        """The launcher's command line for people."""
        start = self.start(ORDER)
        line = " ".join([*(f"{key}={value}" for key, value in start.variables.items()), shlex.join(start.words)])
        return f"on each host: {line}" if start.each else line

    @property
    def size(self) -> str:
        """The number of ranks and of hosts, in words."""
        hosts = counted(len(set(self.hosts)), "host")
        if not self.launcher.on_each:
            return f"{counted(self.job.ranks, 'rank')} on {hosts}"
        each = self.launcher.per_host(self.line)
        return hosts if each is None else f"{hosts} with {counted(each, 'rank')} each"

    @property
    def document(self) -> dict[str, Any]:
        """The plan as a dictionary that can be written as JSON."""
        ours, default = self.wall, self.default_wall
        return {
            "job": self.job.key,
            "command": self.job.text,
            "launcher": self.launcher.title,
            "line": self.shown,
            "ranks": self.job.ranks,
            "order": self.hosts,
            "default_order": self.default,
            "placed": self.placed,
            "predicted_s": None if ours is None else ours.predicted_s,
            "low_s": None if ours is None else ours.low_s,
            "high_s": None if ours is None else ours.high_s,
            "default_predicted_s": None if default is None else default.predicted_s,
            "messages_s": None if self.order is None else self.order.completion_s,
            "default_messages_s": None if self.order is None else self.order.given_s,
            "bound_s": None if self.order is None else self.order.bound_s,
            "settings": SELF_KEY if self.self_tuned else "" if self.tuned is None else self.tuned.key,
            "tuning": None if self.tuned is None else self.tuned.document,
            "computing_s": None if self.traced is None else self.traced.floor_s,
            "verdict": self.verdict,
            "network": self.network_source,
            "network_age_s": self.network_age_s,
            "measured": self.measured,
            "runs": len(self.past),
            "seed": self.question.effort.seed,
        }


@dataclass(frozen=True)
class _Network:
    """A Network with its origin, as in `LaunchPlan`."""

    network: Network | None
    source: str = ""
    age_s: float | None = None
    measured: bool = False


def age_text(seconds: float) -> str:
    """Return an age as people say it: `40 s`, `12 min`, `3 h`, `2 d`."""
    for unit, size_s in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 2 * size_s:
            return f"{seconds / size_s:.0f} {unit}"
    return f"{seconds:.0f} s"


def plan_launch(question: LaunchQuestion, session: LaunchSession) -> LaunchPlan:
    """Plan a launch.

    1. The launcher and its options.
    2. The hosts that answer.
    3. The Network: the given one, else the store's newest that is young enough, else measured now.
    4. The App: the given one, else the store's for this job.
    5. With both, an order of ranks, compared with the launcher's own: by bytes, and then by the replay of the trace.
       Runs that were slower than in the launcher's own order outweigh both.

    Where a measurement or a search fails, the launcher's own order stays.

    Raises:
        GavotteError: when the command line contradicts an order, the ranks do not fit, or the Network or the App is of
            other hosts or another job.
    """
    if not question.command:
        raise GavotteError("no command given", hint="write the launcher and its options after `--`")
    launcher = recognise(question.command)
    line = launcher.read(question.command)
    places = places_of(question, session)
    if launcher.on_each and not question.dry:
        # Before a measurement, which takes longer.
        reaches = {host: places.reach(host) for host in places.names}
        check_nodes(reaches, line.launcher, places.environ, python=places.python)
    shelf = Shelf(question.store, session.complain, create=not question.dry)
    known = _network(question, session, places, shelf)
    stated = {} if known.network is None else {host.name: host.cpus for host in known.network.hosts}
    cpus = {name: places.cpus.get(name, stated.get(name, 1.0)) for name in places.names}
    own_slots = launcher.slots(line, cpus)
    ranks = launcher.ranks(line, own_slots)
    slots = launcher.room(line, ranks, own_slots)
    job = Job(line.program, ranks, launcher.identity(line))
    app = _app(question, shelf, job, "host" if launcher.on_each else "rank")
    default = launcher.default(ranks, own_slots)
    runs = shelf.runs(job.key)
    past = past_of(runs)
    traced, trace = None, None
    if app is not None and not launcher.on_each:
        trace = question.trace if question.app is not None else shelf.trace(job.key)
        seed, complain = question.effort.seed, session.complain
        traced = traced_job(trace, known.network, ranks, past, family=launcher.family, seed=seed, complain=complain)
    order, refuted = None, ""
    if known.network is not None and app is not None:
        try:
            effort = (
                question.effort if traced is None else replace(question.effort, kept_s=question.effort.time_limit_s / 2)
            )
            order = order_ranks(known.network, app, effort, slots=slots, given=default)
            if traced is not None:
                half = replace(question.effort, time_limit_s=question.effort.time_limit_s / 2)
                try:
                    order = replayed_order(traced, order, default, slots, known.network, app, half)
                except GavotteError as error:
                    traced = None
                    session.complain(f"bytes alone decide the order: {error}")
        except GavotteError as error:
            session.complain(f"the launcher's own order stays: {error}")
        else:
            if traced is None:
                order = steady(order, past, known.network, app, slots)
            if refuted := disproved(past, order.hosts, default):
                order = replace(order, hosts=default, completion_s=order.given_s)
            for warning in order.warnings:
                session.complain(warning)
    tuned, untuned = None, "the job has no trace yet, or the Network is unknown"
    if traced is not None and trace is not None and known.network is not None:
        hosts = default if order is None else order.hosts
        setup = Setup(
            launcher,
            line,
            places.environ,
            shared=places.cloud is not None or places.inside is not None,
            blamed=blames_settings(runs),
        )
        tuned, untuned = tuning_of(question, session, setup, traced, trace, hosts, known.network)
    return LaunchPlan(
        question=question,
        launcher=launcher,
        line=line,
        places=places,
        job=job,
        slots=slots,
        own_slots=own_slots,
        default=default,
        network=known.network,
        network_source=known.source,
        network_age_s=known.age_s,
        measured=known.measured,
        app=app,
        order=order,
        refuted=refuted,
        past=past,
        traced=traced,
        tuned=tuned,
        untuned=untuned,
        shelf=shelf,
    )


def steady(order: RankOrder, past: Sequence[Past], network: Network, app: App, slots: Mapping[str, int]) -> RankOrder:
    """Return the newest earlier order if another one saves less than `LEAST_SAVING` of its messages' time.

    A search that its time limit ends finds other orders each time. Runs in one order predict the next one best.

    Args:
        order: the order that was found now.
        past: earlier runs.
        network: the current Network.
        app: the job's messages.
        slots: largest number of ranks on each host.
    """
    cloud, names = with_slots(network, slots), [task.name for task in app.task]
    for each in reversed(past):
        counts = Counter(each.order)
        if len(each.order) != len(names) or any(count > slots.get(host, 0) for host, count in counts.items()):
            continue
        try:
            completion_s = evaluate(cloud, [app], dict(zip(names, each.order, strict=True))).completion_s
        except GavotteError:
            continue
        if completion_s * (1 - LEAST_SAVING) <= order.completion_s:
            return replace(order, hosts=list(each.order), completion_s=completion_s)
    return order


def _network(question: LaunchQuestion, session: LaunchSession, places: Places, shelf: Shelf) -> _Network:
    """Return the Network between the hosts, in their order."""
    names = places.names
    if question.network is not None:
        at = {name: index for index, name in enumerate(question.network.names)}
        if missing := [name for name in names if name not in at]:
            raise GavotteError(
                f"the Network has no host `{missing[0]}`", hint="measure these hosts, or leave --network out"
            )
        return _Network(question.network.of_hosts([at[name] for name in names]), "as given")
    if len(names) < 2:
        return _Network(None, "not needed for one host")
    stored = shelf.measurement(names, max(places.since_s, time.time() - question.max_age_s))
    try:
        if stored is not None:
            session.note(f"Network: series {stored.series} of the store, {age_text(stored.age_s)} old")
            return _Network(model(stored.history), f"series {stored.series}", stored.age_s)
        if question.dry or not question.measuring or places.inventory is None:
            session.note(
                "Network: none is known for these hosts"
                + "; a run would measure first" * question.dry * question.measuring
            )
            return _Network(None, "unknown")
        session.note(f"Network: none younger than {age_text(question.max_age_s)} is known, measuring")
        history = session.measure(places.inventory)
        shelf.keep_measurement(history)
        return _Network(model(history), "measured now", 0.0, measured=True)
    except GavotteError as error:
        session.complain(f"the launcher's own order stays: {error}")
        return _Network(None, "unknown")


def _app(question: LaunchQuestion, shelf: Shelf, job: Job, unit: str) -> App | None:
    """Return the messages of the job, each rank (host) as a task of one core; None = unknown."""
    app = question.app if question.app is not None else shelf.app(job.key)
    if app is None:
        return None
    if len(app.task) != job.ranks:
        raise GavotteError(
            f"App `{app.name}` has {counted(len(app.task), 'task')} for {counted(job.ranks, unit)}",
            hint=f"use an App with one task for each {unit}, in their order",
        )
    tasks = [task.model_copy(update={"cpus": 1.0, "memory_bytes": 0, "storage_bytes": 0}) for task in app.task]
    return app.model_copy(update={"task": tasks})
