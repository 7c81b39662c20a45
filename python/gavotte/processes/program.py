"""A command that runs until it ends or is stopped. It never outlives this process, since a guardian holds it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path

from gavotte.errors import GavotteError
from gavotte.processes.guardian import HEADER

CLOSE_S = 10.0
"""Longest time that a guardian may take to end what it has killed, in seconds."""


class Program:
    """A running command.

    Args:
        words: the command line.
        variables: environment variables that it gets in addition to this process's own.
        log: file to which its output is appended.
        folder: where it starts; empty = this process's own folder.

    Raises:
        GavotteError: when its output cannot be written, or no process can be started.
    """

    def __init__(self, words: Sequence[str], variables: Mapping[str, str], log: Path, folder: str = "") -> None:
        self._stopped_s: float | None = None
        self._killed = False
        guardian = resources.files("gavotte.processes").joinpath("guardian.py").read_text()
        # Without an address the guardian leaves the variables of interfaces alone.
        order = {"words": list(words), "folder": folder or str(Path.cwd()), "variables": dict(variables), "address": ""}
        try:
            with log.open("ab") as output:
                output.write(f"$ {shlex.join(words)}\n".encode(errors="surrogateescape"))
                output.flush()
                self._process = subprocess.Popen(
                    [sys.executable, "-c", guardian],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    bufsize=0,
                    start_new_session=True,
                )
        except OSError as error:
            raise GavotteError(f"{log}: {error.strerror or error}", hint="name another folder") from None
        self._say(b"j", json.dumps(order).encode())
        self._say(b"e")

    @property
    def stopping(self) -> bool:
        """Whether it was asked to stop."""
        return self._stopped_s is not None

    def poll(self) -> int | None:
        """Return its exit status, 128 + n after signal n; None = it still runs."""
        code = self._process.poll()
        if code is None:
            return None
        self._hang_up()
        return code if code >= 0 else 128 - code

    def stop(self) -> None:
        """Ask it to stop, by SIGTERM for all processes of its session."""
        if self._stopped_s is None:
            self._stopped_s = time.monotonic()
            self._say(b"s", bytes([signal.SIGTERM]))

    def hurry(self, most_s: float) -> None:
        """Kill it and all that it started, if it has not stopped within some seconds."""
        if self._stopped_s is not None and not self._killed and time.monotonic() > self._stopped_s + most_s:
            self._killed = True
            self._say(b"s", bytes([signal.SIGKILL]))

    def close(self) -> None:
        """End it at once, and all that it started."""
        self._say(b"s", bytes([signal.SIGKILL]))
        self._hang_up()
        try:
            self._process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(CLOSE_S)

    def _hang_up(self) -> None:
        """Close the guardian's input, which ends the command if it still runs."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def _say(self, kind: bytes, content: bytes = b"") -> None:
        assert self._process.stdin is not None
        if self._process.stdin.closed:
            return
        view = memoryview(HEADER.pack(kind, len(content)) + content)
        with suppress(OSError):  # it has ended
            while view:
                view = view[os.write(self._process.stdin.fileno(), view) :]
