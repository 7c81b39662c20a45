"""Run a user's command when a watch advises a new placement, in a thread, so that the watch continues meanwhile.

1. The placement is written to a file, under another name first, and the command starts.
2. No two commands run at once, and two starts are at least `every_s` apart. Advice that comes earlier waits. Newer
   advice replaces it, and advice to stay cancels it.
3. Advice that the last successful command has got already is not passed on again.
4. A command that fails is reported, and the watch continues.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gavotte.errors import GavotteError
from gavotte.formats.placement import Placement, write_placement

PLACEHOLDER = "{placement}"
"""Text in a word of the command for which the file's name is put in."""

END_S = 10.0
"""Time between SIGTERM and SIGKILL for a command when the watch is stopped, in seconds."""

LOOK_S = 0.1
"""Time between two looks at a command that runs, in seconds."""

STDERR = 2
"""Destination of a command's output: stdout is for events."""


@dataclass(frozen=True)
class Execution:
    """A command to run when a new placement is advised.

    Attributes:
        words: the command, in which `PLACEHOLDER` stands for the file.
        file: where the advised placement is written.
        every_s: least time between two starts, in seconds.
        dry: whether the command is only named. Nothing is written then.
    """

    words: Sequence[str]
    file: Path
    every_s: float = 0.0
    dry: bool = False

    @property
    def filled(self) -> list[str]:
        """The command with the file's name."""
        return [word.replace(PLACEHOLDER, str(self.file)) for word in self.words]


class Executor:
    """The thread that runs the command.

    Args:
        execution: the command.
        note: called with a line about each start and each end.
        complain: called with a line about each failure.
    """

    def __init__(self, execution: Execution, note: Callable[[str], None], complain: Callable[[str], None]) -> None:
        self._execution, self._note, self._complain = execution, note, complain
        self._changed = threading.Condition()
        self._advice: Placement | None = None
        self._closing = False
        self._stopped = threading.Event()
        self._carried_out: Mapping[str, str] | None = None
        self._next_s = 0.0
        self._thread = threading.Thread(target=self._work, daemon=True, name="exec")
        self._thread.start()

    def advise(self, placement: Placement | None) -> None:
        """Take the newest advice: a placement to change to; None = stay."""
        with self._changed:
            self._advice = placement
            self._changed.notify()

    def close(self, stop: threading.Event) -> None:
        """Let a command that runs end, or end it as soon as `stop` is set. Advice that waits is dropped.

        A second Ctrl-C ends it at once.
        """
        with self._changed:
            self._closing = True
            self._changed.notify()
        try:
            while self._thread.is_alive():
                if stop.is_set():
                    self._stopped.set()
                self._thread.join(LOOK_S)
        finally:
            self._stopped.set()
            self._thread.join(1.0)

    def _work(self) -> None:
        while (placement := self._due()) is not None:
            self._next_s = time.monotonic() + self._execution.every_s
            if self._run(placement):
                self._carried_out = placement.assignment

    def _due(self) -> Placement | None:
        """Wait until a command is to be started. Return its placement; None = the watch ends."""
        with self._changed:
            waits = False
            while True:
                advice = self._advice
                if advice is not None and advice.assignment == self._carried_out:
                    advice = self._advice = None
                left_s = self._next_s - time.monotonic()
                if self._closing:
                    if advice is not None and left_s > 0:
                        self._note("--exec: the watch ends before the newest advice may be carried out")
                        return None
                    if advice is None or self._stopped.is_set():
                        return None
                if advice is not None and left_s <= 0:
                    self._advice = None
                    return advice
                if advice is not None and not waits:
                    self._note(f"--exec: waiting {left_s:.0f} s, since it ran less than --exec-every ago")
                    waits = True
                elif advice is None:
                    waits = False
                self._changed.wait(left_s if advice is not None else None)

    def _run(self, placement: Placement) -> bool:
        """Run the command to its end. Return whether it succeeded."""
        words, execution = self._execution.filled, self._execution
        if execution.dry:
            self._note(f"--exec would run: {shlex.join(words)}")
            return True
        try:
            write_placement(execution.file, placement)
            self._note(f"--exec runs: {shlex.join(words)}")
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=STDERR, start_new_session=True)
        except (GavotteError, OSError, ValueError) as error:
            self._complain(f"--exec: {error}")
            return False
        began_s = time.monotonic()
        status = self._ended(process)
        if status and not self._stopped.is_set():
            self._complain(f"--exec exited with status {status}")
        elif not status:
            self._note(f"--exec ended after {time.monotonic() - began_s:.3g} s")
        return status == 0

    def _ended(self, process: subprocess.Popen[bytes]) -> int:
        """Wait for a command's end, or end it when the watch is stopped. Return its status, 128 + n after signal n."""
        due_s, number = 0.0, signal.SIGTERM
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(LOOK_S)
                return code if code >= 0 else 128 - code
            if self._stopped.is_set() and time.monotonic() >= due_s:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, number)
                due_s, number = time.monotonic() + END_S, signal.SIGKILL
