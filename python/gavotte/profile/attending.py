"""Report what a reader of files waits for, if that takes long: a pipe without a writer, or a large file."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from gavotte.formats.parts.rates import format_bytes

FIRST_S = 3.0
"""Time after which the first line is due. Each further one comes after twice as long."""
LONGEST_S = 60.0
"""Longest time between two lines."""

Read = TypeVar("Read")


def attend(read: Callable[[], Read], paths: Sequence[str], say: Callable[[str], None]) -> Read:
    """Call a reader, and say from time to time what it waits for. Ctrl-C ends the wait at once.

    The reader runs in a thread of its own, because a thread that waits for a file handles no signal.

    Args:
        read: the reader.
        paths: the files that it opens, in this order; `-` is standard input.
        say: is called with each line.

    Raises:
        BaseException: that the reader raised.
    """
    results: list[Read] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(read())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    pause_s = FIRST_S
    while thread.is_alive():
        thread.join(pause_s)
        if thread.is_alive():
            say(_state(paths))
            pause_s = min(2 * pause_s, LONGEST_S)
    if failures:
        raise failures[0]
    return results[0]


def _state(paths: Sequence[str]) -> str:
    """Return what the reader of these files does, by the files that this process has open."""
    for path in paths:
        if path == "-":
            return "reading standard input, until its end; Ctrl-C stops"
        with suppress(OSError):
            status = Path(path).stat()
            position = _position(status)
            if position is not None and stat.S_ISREG(status.st_mode):
                return f"reading {path}: {format_bytes(position)} of {format_bytes(status.st_size)}; Ctrl-C stops"
            if position is not None:
                return f"reading {path}, until the program that writes to it ends; Ctrl-C stops"
            if stat.S_ISFIFO(status.st_mode):
                return f"waiting for a program to write to {path}, which is a named pipe; Ctrl-C stops"
    return f"counting what {', '.join(paths[:3])}{' and others contain' if len(paths) > 3 else ' contains'}"


def _position(status: os.stat_result) -> int | None:
    """Return how far this process has read a file; None if it has not opened it."""
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            opened = each.stat()
            if (opened.st_dev, opened.st_ino) == (status.st_dev, status.st_ino):
                return os.lseek(int(each.name), 0, os.SEEK_CUR) if stat.S_ISREG(opened.st_mode) else 0
    return None
