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
from gavotte.formats.record import Record
from gavotte.launch.counting import collect, family_of, library, variables
from gavotte.launch.planning import LaunchPlan, plan_launch
from gavotte.launch.question import LaunchQuestion, LaunchSession
from gavotte.launch.running import run
from gavotte.launch.scratch import default_root, run_folder
from gavotte.launch.shelf import KIND, METRIC

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
        kept: whether the store has them for the next run.
        moved_bytes: bytes that went between hosts in this run; None = not counted.
        record: its Record.
    """

    plan: LaunchPlan
    status: int
    wall_s: float
    profiled: bool
    kept: bool
    moved_bytes: int | None
    record: Record

    @property
    def document(self) -> dict[str, Any]:
        """The run as a dictionary that can be written as JSON."""
        return self.plan.document | {
            "wall_s": self.wall_s,
            "profiled": self.profiled,
            "moved_bytes": self.moved_bytes,
            "status": self.status,
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
    root = plan.question.scratch.absolute() if plan.question.scratch is not None else default_root()
    began_s = time.time()
    app: App | None = None
    moved_bytes: int | None = None
    with ExitStack() as stack:
        folder = stack.enter_context(run_folder(root))
        counting = _counting(plan, root, folder, session) if plan.counts else {}
        start = plan.start(str(folder / "order"), counting)
        if start.text:
            write_text(folder / "order", start.text)
        environ = {**plan.places.environ, **start.variables}
        ended = run(plan.places.command(start.words), environ, entered=plan.places.cloud is not None)
        if counting and ended.status == 0:
            try:
                app, _, doubts = collect(folder, plan.job.ranks, Path(plan.job.program[0]).name or "job")
            except GavotteError as error:
                session.complain(f"the messages are still unknown: {error}")
            else:
                moved_bytes = _between_hosts(app, plan.hosts)
                for doubt in doubts:
                    session.complain(doubt)
    kept = app is not None and plan.shelf.keep_app(plan.job, app)
    record = _record(plan, began_s, ended.wall_s, ended.status, moved_bytes)
    plan.shelf.keep_run(record)
    return Launched(plan, ended.status, ended.wall_s, app is not None, kept, moved_bytes, record)


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


def _between_hosts(app: App, hosts: Sequence[str]) -> int:
    """Return the bytes of an App that go between two hosts."""
    host = {task.name: name for task, name in zip(app.task, hosts, strict=True)}
    return sum(each.bytes for each in app.transfer if host[each.source] != host[each.target])


def _record(plan: LaunchPlan, began_s: float, wall_s: float, status: int, moved_bytes: int | None) -> Record:
    """Return the Record of a run."""
    document = plan.document
    kept = ("predicted_s", "low_s", "high_s", "default_predicted_s", "messages_s", "default_messages_s", "placed")
    labels = {
        key: document[key] for key in (*kept, "job", "command", "ranks", "launcher", "network", "measured", "seed")
    }
    order = ",".join(plan.hosts)
    return Record(
        kind=KIND,
        metric=METRIC,
        value=wall_s,
        time_s=began_s,
        labels=labels
        | {"order": order, "status": status, "moved_bytes": moved_bytes, "counted": moved_bytes is not None},
    )
