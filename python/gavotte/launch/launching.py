"""Carry out a plan: start the launcher, count the messages if they are unknown, and keep what the run shows."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.files.reading import write_text
from gavotte.formats.record import LAUNCH, WALL_S, Record
from gavotte.launch.counting import collect, collect_trace, family_of, library, variables
from gavotte.launch.jobs import text_of
from gavotte.launch.nodes import Node, run_nodes
from gavotte.launch.planning import LaunchPlan, plan_launch
from gavotte.launch.question import LaunchQuestion, LaunchSession
from gavotte.launch.running import Ended, run
from gavotte.launch.scratch import run_folder, scratch_root
from gavotte.launch.tuning import FILE, SELF_KEY, TREES, TUNE_VARIABLE
from gavotte.launch.watching import SocketCounts, names_of_ranks, watching

OFF_VARIABLE = "GAVOTTE_LAUNCH"
"""Variable that turns `gavotte launch` off if its value is `off`: the command runs as it is."""


@dataclass(frozen=True)
class Launched:
    """A run that has ended.

    Attributes:
        plan: the plan by which it was started.
        status: exit status of the launcher, 128 + n if signal n ended it.
        wall_s: seconds from start to end.
        profiled: whether the messages of this run were counted.
        traced: whether the store has their sequence, with the computing between them.
        kept: whether the store has them for the next run.
        moved_bytes: bytes that went between hosts, as counted in this run, or in an earlier one and put in this order;
            None = unknown, as after a failure.
        record: its Record.
    """

    plan: LaunchPlan
    status: int
    wall_s: float
    profiled: bool
    traced: bool
    kept: bool
    moved_bytes: int | None
    record: Record

    @property
    def document(self) -> dict[str, Any]:
        """The run as a dictionary that can be written as JSON."""
        return self.plan.document | {
            "wall_s": self.wall_s,
            "profiled": self.profiled,
            "traced": self.traced,
            "moved_bytes": self.moved_bytes,
            "status": self.status,
            "settings": self.record.labels["settings"],
        }


def launch(question: LaunchQuestion, session: LaunchSession) -> Launched:
    """Plan a job and run it to its end. Errors are those of `plan_launch` and `carry_out`."""
    return carry_out(plan_launch(question, session), session)


def off(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the user has turned launches off."""
    return environ.get(OFF_VARIABLE, "").lower() == "off"


def carry_out(plan: LaunchPlan, session: LaunchSession) -> Launched:
    """Run a job to its end, and keep its Record, and its App if its messages were counted.

    Whatever goes wrong with counting or with the store is a warning: the program runs.

    Raises:
        GavotteError: when the launcher cannot be started, or no folder for its files can be made.
    """
    began_s = time.time()
    outcome = _run_on_each(plan, session) if plan.launcher.on_each else _run_once(plan, session)
    ended, app = outcome.ended, outcome.app
    for doubt in outcome.doubts:
        session.complain(doubt)
    if ended.status and outcome.settings:
        session.complain("this run failed with settings of collectives, so the next one goes without them")
    moved_bytes = _moved_bytes(plan, outcome)
    kept = app is not None and plan.shelf.keep_app(plan.job, app)
    traced = outcome.trace is not None and plan.shelf.keep_trace(plan.job, outcome.trace)
    record = _record(plan, began_s, outcome, moved_bytes)
    plan.shelf.keep_run(record)
    return Launched(plan, ended.status, ended.wall_s, app is not None, traced, kept, moved_bytes, record)


@dataclass(frozen=True)
class _Outcome:
    """What a run leaves.

    Attributes:
        ended: how it ended.
        app: its messages; None = not counted.
        doubts: what may be wrong with the counts, or the trace.
        trace: their sequence, as the bytes of a file; None = not traced.
        settings: key of the settings of collectives with which it ran; empty = the MPI library's own choices.
    """

    ended: Ended
    app: App | None = None
    doubts: Sequence[str] = ()
    trace: bytes | None = None
    settings: str = ""


def _run_once(plan: LaunchPlan, session: LaunchSession) -> _Outcome:
    """Run a launcher that starts all ranks itself."""
    root = scratch_root(plan.question.scratch)
    with ExitStack() as stack:
        folder = stack.enter_context(run_folder(root))
        counting = _counting(plan, root, folder, session) if plan.counts else {}
        tuning, settings = _tuning(plan, root, folder, session)
        start = plan.start(str(folder / "order"), {**counting, **tuning})
        if start.text:
            write_text(folder / "order", start.text)
        environ = {**plan.places.environ, **start.variables}
        words, entered = plan.places.command(start.words), plan.places.cloud is not None
        ended = run(words, environ, entered=entered, started=session.started)
        if not counting or ended.status:
            return _Outcome(ended, settings=settings)
        try:
            app, _, doubts = collect(folder, plan.job.ranks, _name(plan))
        except GavotteError as error:
            return _Outcome(ended, None, [f"the messages are still unknown: {error}"], settings=settings)
        try:
            content, trace = collect_trace(folder, plan.job.ranks)
        except (GavotteError, OSError) as error:
            doubts = [*doubts, f"the sequence of the messages is unknown: {error}"]
            return _Outcome(ended, app, doubts, settings=settings)
        return _Outcome(ended, app, [*doubts, *trace.warnings], content, settings)


def _run_on_each(plan: LaunchPlan, session: LaunchSession) -> _Outcome:
    """Run a launcher that must be started on each host."""
    places, start = plan.places, plan.start("")
    nodes = [
        Node(host, words, places.reach(host), places.addresses.get(host, host))
        for host, words in zip(plan.hosts, start.each, strict=True)
    ]
    with ExitStack() as stack:
        counts = _watched(plan, session, stack) if plan.counts else None
        variables = {**places.environ, **start.variables}
        ended = run_nodes(nodes, variables, python=places.python, started=session.started)
        if ended.failed:
            session.complain(f"{ended.failed} failed first, with status {ended.status}, so all others were ended")
        if counts is None or ended.status:
            return _Outcome(ended)
        try:
            app, doubts = counts.collect(_name(plan))
        except GavotteError as error:
            return _Outcome(ended, None, [f"the messages are still unknown: {error}"])
        return _Outcome(ended, app, doubts)


def _tuning(plan: LaunchPlan, root: Path, folder: Path, session: LaunchSession) -> tuple[dict[str, str], str]:
    """Return the variables of ranks that choose algorithms of collectives, after writing their files, and their key.

    If the library that carries out trees cannot be built, nothing is set: a prediction without the trees is unknown.
    """
    tuned = plan.tuned
    if plan.self_tuned:
        return _self_tuning(plan, root, session)
    if tuned is None or not tuned.key:
        return {}, ""
    more: dict[str, str] = {}
    if tuned.shimmed:
        try:
            shim = library(root, tuned.library, plan.line.launcher, counting=False)
        except (GavotteError, OSError) as error:
            session.complain(f"the MPI library's own collectives stay: {error}")
            return {}, ""
        write_text(folder / TREES, tuned.trees_text)
        more = {"LD_PRELOAD": _preloaded(plan, shim), "GAVOTTE_TREES": str(folder / TREES)}
    write_text(folder / FILE, tuned.text)
    return {**more, **tuned.variables(str(folder / FILE))}, tuned.key


def _self_tuning(plan: LaunchPlan, root: Path, session: LaunchSession) -> tuple[dict[str, str], str]:
    """Return the variables of ranks whose preloaded library tunes itself, and the key of these settings."""
    try:
        shim = library(root, plan.launcher.family, plan.line.launcher, counting=False)
    except (GavotteError, OSError) as error:
        session.complain(f"the MPI library's own collectives stay: {error}")
        return {}, ""
    more = {"GAVOTTE_REORDER_SUMS": "on"} if plan.question.reorder_sums else {}
    more |= {"GAVOTTE_VERBOSE": "1"} if plan.question.explaining else {}
    return {"LD_PRELOAD": _preloaded(plan, shim), TUNE_VARIABLE: SELF_KEY, **more}, SELF_KEY


def _preloaded(plan: LaunchPlan, shim: Path) -> str:
    """Return the LD_PRELOAD of ranks: a library of ours before those that they would have anyway."""
    own = plan.launcher.preloaded(plan.line) or os.environ.get("LD_PRELOAD", "")
    return f"{shim}:{own}" if own else str(shim)


def _watched(plan: LaunchPlan, session: LaunchSession, stack: ExitStack) -> SocketCounts | None:
    """Watch the sockets of the job's ranks until the stack ends; None if they cannot be watched."""
    try:
        inventory = plan.places.inventory
        if inventory is None:
            raise GavotteError("no agent can watch its sockets")
        hosts = [host for host in inventory.host if host.name in plan.hosts]
        tasks = names_of_ranks(plan.hosts, plan.launcher.per_host(plan.line))
        counts = stack.enter_context(watching(inventory.model_copy(update={"host": hosts}), tasks))
    except GavotteError as error:
        session.complain(f"this run is not counted: {error}")
        return None
    session.note(f"job {plan.job.key}: first run, the sockets of its ranks are counted")
    return counts


def _name(plan: LaunchPlan) -> str:
    """Return the name of the job's App."""
    return Path(plan.job.program[0]).name or "job"


def _counting(plan: LaunchPlan, root: Path, folder: Path, session: LaunchSession) -> dict[str, str]:
    """Return the variables with which ranks count their messages; empty if they cannot."""
    family = plan.launcher.family or family_of(plan.job.program[0])
    try:
        if not family:
            raise GavotteError(
                f"the MPI library of `{plan.job.program[0]}` is unknown",
                hint="count its messages once by `gavotte shim --count`, and use --app",
            )
        shim = library(root, family, plan.line.launcher)
    except (GavotteError, OSError) as error:
        session.complain(f"this run is not counted: {error}")
        return {}
    own = plan.launcher.preloaded(plan.line) or os.environ.get("LD_PRELOAD", "")
    session.note(f"job {plan.job.key}: first run, its messages are counted")
    return variables(shim, folder, own)


def _moved_bytes(plan: LaunchPlan, outcome: _Outcome) -> int | None:
    """Return the bytes that went between two hosts; None = unknown."""
    app = plan.app if outcome.app is None and not outcome.ended.status else outcome.app
    if app is None or len(app.task) != len(plan.hosts):
        return None
    host = {task.name: name for task, name in zip(app.task, plan.hosts, strict=True)}
    return sum(each.bytes for each in app.transfer if host[each.source] != host[each.target])


def _record(plan: LaunchPlan, began_s: float, outcome: _Outcome, moved_bytes: int | None) -> Record:
    """Return the Record of a run."""
    document = plan.document
    kept = (
        "predicted_s",
        "low_s",
        "high_s",
        "default_predicted_s",
        "messages_s",
        "default_messages_s",
        "computing_s",
        "placed",
    )
    labels = {
        key: document[key] for key in (*kept, "job", "command", "ranks", "launcher", "network", "measured", "seed")
    }
    order = ",".join(plan.hosts)
    return Record(
        kind=LAUNCH,
        metric=WALL_S,
        value=outcome.ended.wall_s,
        time_s=began_s,
        labels=labels
        | {
            "order": order,
            "status": outcome.ended.status,
            "moved_bytes": moved_bytes,
            "counted": outcome.app is not None,
            "settings": outcome.settings,
            "typed": text_of(plan.question.command),
            "folder": str(Path.cwd()),
        }
        | ({} if outcome.app is None else {"scratch": str(scratch_root(plan.question.scratch))}),
    )
