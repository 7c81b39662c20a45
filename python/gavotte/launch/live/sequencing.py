"""Carry out a sequence with real programs: Choreo's placement of arrivals and its re-evaluation (sections 2.4, 6.3).

1. An application that arrives is placed next to those that run, as `place.sequence.arrive` does. Its command then
   starts. If there is no room, it waits until another has ended.
2. Each review asks `place.sequence.reconsider` whether moves pay. An application with moves gets SIGTERM. When it has
   ended, its command starts again with the new placement, and continues from its own checkpoint.
3. What is left to send is projected from one event to the next, or follows from the share that the application itself
   writes to a file. An application that runs longer than projected keeps its cores, but loads no link.
"""

from __future__ import annotations

import fcntl
import math
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from gavotte.errors import GavotteError, InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.files.reading import write_text
from gavotte.formats.parts.counting import counted
from gavotte.formats.placement import Placement, write_placement
from gavotte.launch.live.progress import left_of, read_progress
from gavotte.launch.live.question import PLACEHOLDERS, LiveQuestion, LiveResult, LiveSession, Ran
from gavotte.place import evaluate
from gavotte.place.merge import check_apps
from gavotte.place.sequence import Live, Migration, Review, arrive, moved_on, reconsider
from gavotte.processes.program import Program
from gavotte.simulate import Advance

LOOK_S = 0.05
"""Time between two looks at the programs, in seconds."""


def live(question: LiveQuestion, session: LiveSession) -> LiveResult:
    """Start applications as they arrive, move them where that pays, and return when all have ended.

    Raises:
        GavotteError: when the request makes no sense, its program does not exist, another sequence uses its folder, or
            the Network cannot be read at the start.
    """
    check_apps(question.apps)
    _check_command(question.command, session)
    if question.every_s is not None and not 0 < question.every_s < math.inf:
        raise GavotteError(f"cannot reconsider every {question.every_s:g} s", hint="use more than 0 seconds")
    with _alone(question.folder):
        return _Sequence(question, session).run()


def _check_command(words: Sequence[str], session: LiveSession) -> None:
    """Refuse a program that does not exist, and warn of a command that is the same for all applications."""
    program = words[0]
    if not any(text in program for text in PLACEHOLDERS) and shutil.which(program) is None:
        raise GavotteError(f"cannot start `{program}`: no such program", hint="check its path")
    if not any(text in word for word in words for text in PLACEHOLDERS):
        session.complain(
            f"the command has none of {', '.join(PLACEHOLDERS)}, so that it knows no application and no host"
        )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Make a folder, and keep other sequences out of it, also those of other processes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("a")
    except OSError as error:
        raise GavotteError(
            f"{folder}: cannot write to this folder: {error.strerror}", hint="name another one"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise GavotteError(
                f"{folder}: another sequence runs in this folder", hint="wait for its end, or name another folder"
            ) from None
        yield


@dataclass
class _Job:
    """An application that has arrived.

    Attributes:
        app: the application.
        arrived_s: when it arrived.
        started_s: when it was started first; None = it waits for room.
        predicted_s: seconds from its start to its end, as predicted then.
        program: its command; None = it is not running.
        state: what is left of it, and where.
        target: host of each task after a move that is under way; None = there is none.
        placements: host of each task, from its first start to its last one.
        moves: its migrations.
    """

    app: App
    arrived_s: float
    started_s: float | None = None
    predicted_s: float | None = None
    program: Program | None = None
    state: Live | None = None
    target: Mapping[str, str] | None = None
    placements: list[Mapping[str, str]] = field(default_factory=list)
    moves: list[Migration] = field(default_factory=list)


class _Sequence:
    def __init__(self, question: LiveQuestion, session: LiveSession) -> None:
        self._question, self._session = question, session
        self._network = question.read()
        self._advance = Advance(self._network)
        self._began_s = time.monotonic()
        self._projected_s = 0.0
        self._due = sorted(question.apps, key=lambda app: app.arrival_s)
        self._waiting: list[_Job] = []
        self._running: list[_Job] = []
        self._ran: list[Ran] = []
        self._reviews: list[Review] = []
        self._next_review_s = math.inf if question.every_s is None else question.every_s

    @property
    def _now_s(self) -> float:
        return time.monotonic() - self._began_s

    def run(self) -> LiveResult:
        try:
            while (self._due or self._waiting or self._running) and not self._session.stop.is_set():
                room = self._collect()
                while self._due and self._due[0].arrival_s <= self._now_s:
                    app = self._due.pop(0)
                    self._waiting.append(_Job(app, app.arrival_s))
                    room = True
                if room:
                    self._start_waiting()
                if self._now_s >= self._next_review_s:
                    self._review()
                self._session.stop.wait(LOOK_S)
            interrupted = bool(self._due or self._waiting or self._running)
            self._end_all()
        finally:
            for job in self._running:
                if job.program is not None:
                    job.program.close()
        return LiveResult(self._ran, self._reviews, interrupted)

    def _collect(self) -> bool:
        """Take note of programs that have ended. Return whether one has left room."""
        left = False
        for job in list(self._running):
            program = job.program
            assert program is not None
            program.hurry(self._question.end_s)
            status = program.poll()
            if status is None:
                continue
            self._project()
            # The guardian has ended, and with it all that the program had started.
            if job.target is not None and program.stopping:
                self._start(job, job.target)
            else:
                self._running.remove(job)
                self._finish(job, status)
            left = True
        return left

    def _start_waiting(self) -> None:
        """Place and start the applications that wait, in order, as far as there is room."""
        while self._waiting:
            job = self._waiting[0]
            self._renew()
            self._project()
            try:
                placement = arrive(self._network, job.app, self._states, self._advance, self._question.effort)
            except InfeasibleError as error:
                if self._running:
                    if job.state is None:
                        self._session.note(f"{job.app.name} waits for room: {error}")
                        job.state = Live(job.app, {})
                    return
                self._session.complain(f"{job.app.name} finds no room even alone: {error}")
                self._waiting.pop(0)
                self._finish(job, None)
                continue
            self._waiting.pop(0)
            # The search took some time.
            self._project()
            job.state = Live(job.app, placement.assignment)
            self._running.append(job)
            job.predicted_s = self._ends_s()[-1]
            self._start(job, placement.assignment, placement)

    def _start(self, job: _Job, assignment: Mapping[str, str], placement: Placement | None = None) -> None:
        """Start an application's command, or start it again after a move."""
        assert job.state is not None
        question, app = self._question, job.app
        again = job.target is not None
        job.target, job.state = None, replace(job.state, assignment=assignment, pause_s=0.0)
        job.placements.append(dict(assignment))
        progress = question.progress_file(app)
        variables = {
            "GAVOTTE_APP": app.name,
            "GAVOTTE_START": str(len(job.placements)),
            "GAVOTTE_PROGRESS": str(progress),
        }
        try:
            if not again:
                # An earlier sequence in this folder may have left its own.
                progress.unlink(missing_ok=True)
            write_text(question.host_file(app), "".join(f"{assignment[task.name]}\n" for task in app.task))
            write_placement(question.placement_file(app), placement or self._moved(job, assignment))
            job.program = Program(question.filled(app, assignment), variables, question.log_file(app))
        except (GavotteError, OSError) as error:
            self._session.complain(f"{app.name} cannot be started: {error}")
            self._running.remove(job)
            self._finish(job, 127)
            return
        if job.started_s is None:
            job.started_s = self._now_s
        where = " ".join(f"{task}={host}" for task, host in assignment.items())
        self._session.note(f"{self._now_s:.1f} s: {app.name} {'continues' if again else 'starts'} on {where}")

    def _moved(self, job: _Job, assignment: Mapping[str, str]) -> Placement:
        """Return the Placement of an application that has moved, with the prediction for what it still has to send."""
        assert job.state is not None
        others = [each.running for each in self._states if each.app.name != job.app.name]
        return evaluate(self._network, [job.state.app], assignment, running=others)

    def _review(self) -> None:
        """Ask whether moves pay, and begin them."""
        every_s = self._question.every_s
        assert every_s is not None
        self._next_review_s = every_s * (math.floor(self._now_s / every_s) + 1)
        if not self._running:
            return
        self._renew()
        self._project()
        states = self._states
        try:
            decision = reconsider(
                self._network,
                states,
                self._advance,
                migration_s=self._question.migration_s,
                every_s=every_s,
                effort=self._question.effort,
            )
        except GavotteError as error:
            self._session.complain(f"this review decides nothing: {error}")
            return
        self._reviews.append(Review(self._now_s, states, decision))
        if not decision.moves:
            return
        self._session.note(
            f"{self._now_s:.1f} s: {counted(len(decision.moves), 'move')} "
            f"to save {decision.saving_s:.3g} s of {decision.keep_s:.3g} s"
        )
        for job, target, pause_s in zip(self._running, decision.assignments, decision.pause_s, strict=True):
            moves = [move for move in decision.moves if move.app == job.app.name]
            assert job.state is not None
            assert job.program is not None
            if not moves or job.program.stopping or job.program.poll() is not None:
                continue
            job.target, job.state = target, replace(job.state, assignment=target, pause_s=pause_s)
            job.moves += moves
            job.program.stop()

    def _renew(self) -> None:
        """Read the Network again. If that fails, the one that is known stays."""
        try:
            network = self._question.read()
            if network == self._network:
                return
            if missing := {host for each in self._states for host in each.assignment.values()} - set(network.names):
                raise GavotteError(f"applications run on {min(missing)}, which the new Network does not have")
            self._advance = Advance(network)
            self._network = network
            self._session.note(f"{self._now_s:.1f} s: the Network has changed")
        except GavotteError as error:
            self._session.complain(f"the Network that is known stays: {error}")

    @property
    def _states(self) -> list[Live]:
        return [job.state for job in self._running if job.state is not None]

    def _ends_s(self) -> list[float]:
        """Return the seconds until each running application ends, as projected."""
        states = self._states
        return self._advance(
            [each.app for each in states],
            [each.assignment for each in states],
            pause_s=[each.pause_s for each in states],
            for_s=math.inf,
        ).finish_s

    def _project(self) -> None:
        """Advance what is left of each running application until now."""
        now_s = self._now_s
        passed_s, self._projected_s = now_s - self._projected_s, now_s
        if not self._running or passed_s <= 0:
            return
        left = {each.app.name: each for each in moved_on(self._states, self._advance, passed_s)[0]}
        for job in self._running:
            state = job.state
            assert state is not None
            if job.target is not None:
                # It sends nothing until it has stopped and started again, however long that takes.
                job.state = replace(state, pause_s=max(state.pause_s - passed_s, LOOK_S))
                continue
            share = read_progress(self._question.progress_file(job.app))
            if share is not None:
                job.state = replace(state, app=left_of(job.app, share), pause_s=0.0)
                continue
            done = replace(state, app=state.app.model_copy(update={"transfer": []}), pause_s=0.0)
            job.state = left.get(job.app.name, done)

    def _finish(self, job: _Job, status: int | None) -> None:
        """Keep how an application ended."""
        now_s = self._now_s
        self._ran.append(
            Ran(
                app=job.app.name,
                arrived_s=job.arrived_s,
                started_s=job.started_s,
                ended_s=now_s,
                predicted_s=job.predicted_s,
                status=status,
                placements=job.placements,
                moves=job.moves,
            )
        )
        if status:
            log = self._question.log_file(job.app)
            self._session.complain(f"{job.app.name} ended with status {status}; its output is in {log}")
        elif status == 0 and job.started_s is not None:
            took_s, predicted_s = now_s - job.started_s, job.predicted_s or 0.0
            self._session.note(
                f"{now_s:.1f} s: {job.app.name} ends after {took_s:.3g} s ({predicted_s:.3g} s predicted)"
            )

    def _end_all(self) -> None:
        """Stop all programs, and kill those that do not."""
        for job in self._running:
            assert job.program is not None
            job.program.stop()
            job.target = None
        while self._running:
            self._collect()
            time.sleep(LOOK_S)
