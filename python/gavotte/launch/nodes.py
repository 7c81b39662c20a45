"""Run one command on each of several hosts, through the lab or over SSH, as one job of this process.

1. Output of all commands is this process's own. The first command gets standard input.
2. Signals go to all commands.
3. When one fails, the others get SIGTERM, and SIGKILL after `END_S`. The first failure's status is the job's.
4. When this process ends, however it ends, so do all commands: each has a guardian on its host (`processes`).
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from gavotte.errors import GavotteError
from gavotte.formats.parts.counting import listed
from gavotte.launch.launchers.command_line import named
from gavotte.launch.running import Ended, Started, in_foreground, passing_on
from gavotte.processes.guardian import HEADER

END_S = 30.0
"""Time between SIGTERM and SIGKILL for the other commands when one has failed, in seconds."""
KILL_S = 10.0
"""Time between SIGKILL on a host and the end of the connection to it, in seconds."""
STUCK_S = 2.0
"""How long a signal may wait behind input that a command does not read, in seconds. Then the connection ends."""
LOOK_S = 0.5
CHECK_S = 20.0
"""How long a host may take to say whether it has the command, in seconds."""
CHUNK_BYTES = 1 << 16
OF_ONE_HOST = frozenset(
    named(
        "_ DBUS_SESSION_BUS_ADDRESS DISPLAY HOSTNAME OLDPWD PWD SHLVL SLURM_PROCID SLURM_LOCALID SLURM_NODEID "
        "SSH_AUTH_SOCK SSH_CLIENT SSH_CONNECTION SSH_TTY TMUX XAUTHORITY XDG_RUNTIME_DIR XDG_SESSION_ID"
    )
)
"""Variables that say something about this host or this process alone, so other hosts do not get them."""


@dataclass(frozen=True)
class Node:
    """A command, and how it is started on its host.

    Attributes:
        host: name of the host.
        words: the command line.
        reach: returns the command line on this machine that runs a command line on the host.
        address: the host's address or DNS name, as other hosts reach it.
    """

    host: str
    words: Sequence[str]
    reach: Callable[[Sequence[str]], list[str]]
    address: str


@dataclass(frozen=True)
class EndedNodes(Ended):
    """How a job on several hosts ended.

    Attributes:
        failed: the host whose command failed first; empty if none did.
    """

    failed: str = ""


def over_ssh(line: Sequence[str]) -> Callable[[Sequence[str]], list[str]]:
    """Return how to run a command line on a host by ssh.

    Args:
        line: ssh's command line up to and including the destination.
    """
    return lambda words: [*line, "exec " + shlex.join(words)]


_CHECK = """
import os, shutil, sys
program, folder, path = sys.argv[1:]
try:
    os.chdir(folder)
except OSError:
    sys.exit(3)
sys.exit(0 if shutil.which(program, path=path) else 4)
"""
_LACKS = {3: "no folder {folder}", 4: "no program `{program}`"}


def check_nodes(
    reaches: Mapping[str, Callable[[Sequence[str]], list[str]]],
    program: str,
    environ: Mapping[str, str],
    *,
    python: str = "python3",
) -> None:
    """Ask each host whether it has a program and this process's folder.

    Args:
        reaches: by host, as `Node.reach`.
        program: first word of the command.
        environ: environment of the processes that connect to the hosts, and of the command.
        python: Python on the hosts.

    Raises:
        GavotteError: when a host lacks one of them, cannot be reached, or says nothing within `CHECK_S`.
    """
    folder = str(Path.cwd())

    def lack(host: str) -> str:
        words = reaches[host]([python, "-c", _CHECK, program, folder, environ.get("PATH", os.defpath)])
        try:
            ran = subprocess.run(
                words, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=CHECK_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"no answer within {CHECK_S:.0f} s"
        except (OSError, ValueError) as error:
            return f"no connection ({error})"
        if ran.returncode in _LACKS:
            return _LACKS[ran.returncode].format(folder=folder, program=program)
        lines = ran.stderr.decode(errors="replace").splitlines() or [f"status {ran.returncode}"]
        return f"no {python} over this connection ({lines[-1]})" if ran.returncode else ""

    with ThreadPoolExecutor(max_workers=min(32, len(reaches))) as pool:
        lacks = dict(zip(reaches, pool.map(lack, reaches), strict=True))
    for what in filter(None, lacks.values()):
        hosts = [host for host, each in lacks.items() if each == what]
        raise GavotteError(f"{listed(hosts)}: {what}", hint="each host of the job needs it; else leave these hosts out")


def run_nodes(
    nodes: Sequence[Node], environ: Mapping[str, str], *, python: str = "python3", started: Started = lambda _: None
) -> EndedNodes:
    """Run the commands to their ends.

    Args:
        nodes: the commands. The first one gets standard input.
        environ: environment of the processes that connect to the hosts, and of the commands.
        python: Python on the hosts.
        started: as that of a `LaunchSession`.

    Raises:
        GavotteError: when a connection cannot be started at all.
    """
    text = resources.files("gavotte.processes").joinpath("guardian.py").read_text()
    variables = {name: value for name, value in environ.items() if name not in OF_ONE_HOST}
    job = _Job()
    with passing_on(job):
        started(job.send)
        began_s = time.monotonic()
        try:
            for node in nodes:
                words = node.reach([python, "-c", text])
                order = {
                    "words": list(node.words),
                    "folder": str(Path.cwd()),
                    "variables": variables,
                    "address": node.address,
                }
                job.add(_Connection(node.host, words, environ, _frame(b"j", json.dumps(order).encode())))
            job.started()
            for connection in job.connections[1:]:
                connection.put(_frame(b"e"))
            threading.Thread(target=_pump, args=(job.connections[0],), daemon=True, name="stdin").start()
            failed, status = job.wait()
        finally:
            job.close()
        return EndedNodes(status, time.monotonic() - began_s, failed)


def _frame(kind: bytes, content: bytes = b"") -> bytes:
    return HEADER.pack(kind, len(content)) + content


class _Connection:
    """The connection to one host, and the thread that writes frames to it."""

    def __init__(self, host: str, words: Sequence[str], environ: Mapping[str, str], first: bytes) -> None:
        self.host = host
        self.signalled_s: float | None = None
        self._frames: queue.SimpleQueue[tuple[bytes, threading.Event | None]] = queue.SimpleQueue()
        try:
            # In a session of its own, it gets Ctrl-C only as a frame.
            self.process = subprocess.Popen(
                words, env=environ, stdin=subprocess.PIPE, bufsize=0, start_new_session=True
            )
        except (OSError, ValueError) as error:
            raise GavotteError(f"cannot start `{words[0]}`: {error}", hint="check its path") from None
        self.put(first)
        threading.Thread(target=self._write, daemon=True, name=f"to {host}").start()

    def put(self, frame: bytes, written: threading.Event | None = None) -> None:
        """Send a frame soon. `written` is set then, or when the connection has ended."""
        self._frames.put((frame, written))

    def signal(self, number: int) -> None:
        """Send a signal to the command. A signal handler may call this."""
        if self.signalled_s is None:
            self.signalled_s = time.monotonic()
        self.put(_frame(b"s", bytes([number])))

    def _write(self) -> None:
        assert self.process.stdin is not None
        descriptor, gone = self.process.stdin.fileno(), False
        while True:
            frame, written = self._frames.get()
            view = memoryview(frame)
            while view and not gone:
                try:
                    view = view[os.write(descriptor, view) :]
                except OSError:
                    gone = True
            if frame[:1] == b"s":
                self.signalled_s = None
            if written is not None:
                written.set()


class _Job:
    """The connections of a job."""

    shares_terminal = False

    def __init__(self) -> None:
        self.connections: list[_Connection] = []
        self._ends: queue.SimpleQueue[tuple[_Connection, int]] = queue.SimpleQueue()
        self._early: list[int] | None = []

    def add(self, connection: _Connection) -> None:
        """Add a connection."""
        self.connections.append(connection)
        threading.Thread(
            target=lambda: self._ends.put((connection, connection.process.wait())),
            daemon=True,
            name=f"end of {connection.host}",
        ).start()

    def started(self) -> None:
        """Send the signals that came before all connections were there."""
        early, self._early = self._early or [], None
        for number in early:
            self.send(number)

    def send(self, number: int) -> None:
        """Send a signal to all commands, also to those that are still to be started."""
        if self._early is not None:
            self._early.append(number)
            return
        for connection in self.connections:
            connection.signal(number)

    def wait(self) -> tuple[str, int]:
        """Wait until all commands have ended. Return the host of the first failure, and the exit status."""
        left = list(self.connections)
        failed, status = "", 0
        steps: Iterator[float] = iter(())
        due_s = float("inf")
        while left:
            with contextlib.suppress(queue.Empty):
                connection, code = self._ends.get(timeout=LOOK_S)
                left.remove(connection)
                if code and not failed:
                    failed, status = connection.host, code if code > 0 else 128 - code
                    steps, due_s = _ending(left), 0.0
            now_s = time.monotonic()
            if now_s >= due_s:
                due_s = now_s + next(steps, KILL_S)
            for each in left:
                if each.signalled_s is not None and now_s > each.signalled_s + STUCK_S:
                    each.process.terminate()
        return failed, status

    def close(self) -> None:
        """End all connections that are left, and with them their commands."""
        for force in (False, True):
            for connection in self.connections:
                process = connection.process
                if process.poll() is None:
                    process.kill() if force else process.terminate()
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(KILL_S)


def _ending(left: list[_Connection]) -> Iterator[float]:
    """End the other commands step by step. Yields the seconds until the next step."""
    for number, pause_s in ((signal.SIGTERM, END_S), (signal.SIGKILL, KILL_S)):
        for each in left:
            each.signal(number)
        yield pause_s
    for each in left:
        each.process.kill()


def _pump(connection: _Connection) -> None:
    """Send standard input to a command, chunk by chunk, until it ends."""
    with contextlib.suppress(OSError):
        while not (os.isatty(0) and not in_foreground()) and (chunk := os.read(0, CHUNK_BYTES)):
            written = threading.Event()
            connection.put(_frame(b"d", chunk), written)
            written.wait()
    connection.put(_frame(b"e"))
