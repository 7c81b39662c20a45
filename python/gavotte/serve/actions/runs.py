"""Run commands of `gavotte` that a page has started. None outlives the server."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from gavotte.errors import GavotteError
from gavotte.processes.program import Program
from gavotte.serve.actions.offers import Offer

MOST_AT_ONCE = 4
"""Most commands that run at the same time."""
KEPT = 20
"""Most commands that are shown after their end."""
STOP_S = 30.0
"""Time between SIGTERM and SIGKILL for a cancelled command. A measurement may need some seconds to free its agents."""
CLOSE_S = 4.0
"""The same when the server ends."""
LOOK_S = 0.25
"""Interval at which running commands are looked at."""
SHOWN_BYTES = 16 << 10
"""Most bytes of a command's output that are shown, the last ones."""


class RunState(BaseModel):
    """A command that was started from a page.

    Attributes:
        id: its number.
        title: what it does.
        line: its command line.
        started_s: Unix time.
        ended_s: Unix time; None = it still runs.
        status: its exit status, 128 + n after signal n; None = it still runs.
        cancelled: whether it was asked to stop.
        output: what it has printed, at most the last 16 KiB.
    """

    model_config = ConfigDict(frozen=True)

    id: int
    title: str
    line: str
    started_s: float
    ended_s: float | None
    status: int | None
    cancelled: bool
    output: str


@dataclass
class _Run:
    id: int
    offer: Offer
    log: int
    program: Program
    started_s: float = field(default_factory=time.time)
    ended_s: float | None = None
    status: int | None = None


class Runs:
    """Commands that run or have run. Use it in `with`, which ends them all.

    Args:
        note: called with a line when a command starts or ends.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._runs: list[_Run] = []
        self._count = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="runs", daemon=True)
        self._keeper.start()

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._keeper.join(CLOSE_S)
        with self._lock:
            running = [run for run in self._runs if run.status is None]
        for run in running:
            run.program.stop()
        end_s = time.monotonic() + CLOSE_S
        while any(run.program.poll() is None for run in running) and time.monotonic() < end_s:
            time.sleep(0.05)
        for run in running:
            run.program.close()
        for run in self._runs:
            os.close(run.log)

    def start(self, offer: Offer) -> RunState:
        """Start a command.

        Raises:
            GavotteError: when `MOST_AT_ONCE` commands run already, or no process can be started.
        """
        with self._lock:
            if self._stop.is_set():
                raise GavotteError("the server ends")
            if sum(run.status is None for run in self._runs) >= MOST_AT_ONCE:
                raise GavotteError(f"{MOST_AT_ONCE} commands run already", hint="wait for one, or cancel it")
            self._count += 1
            # A file in memory is gone however this process ends.
            log = os.memfd_create("gavotte-run")
            words = [sys.executable, "-m", "gavotte", *offer.words]
            # Each command prints what it does as it does it.
            variables = {**offer.variables, "PYTHONUNBUFFERED": "1"}
            try:
                program = Program(words, variables, Path(f"/proc/self/fd/{log}"), offer.folder)
            except GavotteError:
                os.close(log)
                raise
            run = _Run(self._count, offer, log, program)
            self._runs.append(run)
            over = [each for each in self._runs if each.status is not None]
            for old in over[: max(0, len(self._runs) - KEPT)]:
                self._runs.remove(old)
                os.close(old.log)
            self._note(f"started from a page: {offer.line}")
            return _state(run)

    def cancel(self, number: int) -> RunState:
        """Ask a command to stop. One that has ended stays as it is.

        Raises:
            GavotteError: when there is none of this number.
        """
        with self._lock:
            run = next((run for run in self._runs if run.id == number), None)
            if run is None:
                raise GavotteError(f"no command {number} was started here")
            if run.status is None:
                run.program.stop()
            return _state(run)

    def all(self) -> list[RunState]:
        """Return all commands, the newest first."""
        with self._lock:
            return [_state(run) for run in reversed(self._runs)]

    def mark(self) -> str:
        """Return a text that changes whenever a command starts, prints or ends."""
        with self._lock:
            return ",".join(f"{run.id}:{run.status}:{run.program.stopping}:{_size(run.log)}" for run in self._runs)

    def _keep(self) -> None:
        """See commands end, and kill those that do not stop."""
        while not self._stop.wait(LOOK_S):
            with self._lock:
                for run in self._runs:
                    if run.status is not None:
                        continue
                    run.status = run.program.poll()
                    if run.status is None:
                        run.program.hurry(STOP_S)
                    else:
                        run.ended_s = time.time()
                        self._note(f"ended with status {run.status}: {run.offer.line}")


def _state(run: _Run) -> RunState:
    return RunState(
        id=run.id,
        title=run.offer.title,
        line=run.offer.line,
        started_s=run.started_s,
        ended_s=run.ended_s,
        status=run.status,
        cancelled=run.program.stopping,
        output=_output(run.log),
    )


def _output(log: int) -> str:
    data = os.pread(log, SHOWN_BYTES, max(0, _size(log) - SHOWN_BYTES))
    # The first line is the command's own, or the rest of one that is not shown.
    text = data.decode(errors="replace").partition("\n")[2]
    return "".join(each for each in text if each == "\n" or each.isprintable())


def _size(log: int) -> int:
    return os.fstat(log).st_size
