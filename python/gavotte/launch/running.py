"""Run a launcher as a child that has this process's terminal, streams and signals."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gavotte.errors import GavotteError

FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
PASSED_ON = (*FROM_TERMINAL, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


@dataclass(frozen=True)
class Ended:
    """How a run ended.

    Attributes:
        status: exit status, 128 + n if signal n ended the launcher.
        wall_s: seconds from start to end.
    """

    status: int
    wall_s: float


Started = Callable[[Callable[[int], None]], None]
"""Called as a job starts, with a function that sends a signal to it."""


def run(
    words: Sequence[str], environ: Mapping[str, str], *, entered: bool = False, started: Started = lambda _: None
) -> Ended:
    """Run a command line to its end.

    Args:
        words: the command line.
        environ: its environment.
        entered: whether the command line enters namespaces first. Signals are then for the process inside.
        started: as that of a `LaunchSession`.

    Raises:
        GavotteError: when there is no such program.
    """
    child = _Child(entered)
    with passing_on(child):
        started(child.send)
        began_s = time.monotonic()
        try:
            process = subprocess.Popen(words, env=environ)
        except (OSError, ValueError) as error:
            raise GavotteError(f"cannot start `{words[0]}`: {error}", hint="check its path") from None
        child.started(process)
        code = process.wait()
        return Ended(code if code >= 0 else 128 - code, time.monotonic() - began_s)


@dataclass
class _Child:
    """The launcher, and the signals that came before it had started."""

    entered: bool
    shares_terminal: bool = True
    process: subprocess.Popen[Any] | None = None
    early: list[int] = field(default_factory=list)

    def started(self, process: subprocess.Popen[Any]) -> None:
        self.process = process
        while self.early:
            self.send(self.early.pop(0))

    def send(self, number: int) -> None:
        if self.process is None:
            self.early.append(number)
            return
        for pid in self._inside() if self.entered else ():
            with contextlib.suppress(OSError):
                os.kill(pid, number)
                return
        self.process.send_signal(number)

    def _inside(self) -> list[int]:
        """Return the process for which nsenter waits: it passes no signals on."""
        assert self.process is not None
        pid = self.process.pid
        try:
            return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        except OSError:
            return []


class Receiver(Protocol):
    """One that gets the signals of this process.

    Attributes:
        shares_terminal: whether its processes are in the session of this process.
    """

    shares_terminal: bool

    def send(self, number: int) -> None:
        """Get a signal."""


@contextmanager
def passing_on(receiver: Receiver) -> Iterator[None]:
    """Pass signals on until the block ends.

    The terminal sends Ctrl-C to all processes of the foreground, so a child there has it already. A second one would
    make mpirun leave without cleaning up.
    """

    def pass_on(number: int, _frame: object) -> None:
        if not (receiver.shares_terminal and number in FROM_TERMINAL and in_foreground()):
            receiver.send(number)

    before: dict[int, Any] = {}
    with contextlib.suppress(ValueError):  # only the main thread may set handlers
        for number in map(int, PASSED_ON):
            before[number] = signal.signal(number, pass_on)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def in_foreground() -> bool:
    """Return whether this process is in the foreground of a terminal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
