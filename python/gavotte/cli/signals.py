"""Handle signals in a command that runs until it is stopped."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import typer

INTERRUPTED = 130
"""Exit status after Ctrl-C, when the best answer found until then is printed and written all the same."""

heard = threading.Event()
"""Set once a signal has asked such a command to stop."""


@contextmanager
def stop_flag() -> Iterator[threading.Event]:
    """Yield an event that the first signal sets; a second signal has its usual effect."""
    flag = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def stop(_number: int, _frame: object) -> None:
        # A thread of its own sets them: the signal may have stopped this one in `flag.wait`, with the lock that `set`
        # takes. `threading.Thread` takes locks too as it starts.
        _thread.start_new_thread(_set, (flag, heard))
        restore()

    for number in before:
        signal.signal(number, stop)
    try:
        yield flag
    finally:
        restore()


def _set(*flags: threading.Event) -> None:
    for flag in flags:
        flag.set()


def leave(interrupted: bool) -> None:
    """Exit with status 130 if a signal ended the work early."""
    if interrupted:
        raise typer.Exit(INTERRUPTED)
