"""The agents of a lab: one in each host's namespaces. The keeper starts them and waits until they answer."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gavotte.errors import AgentError
from gavotte.lab import wiring

DATA_PORT = 7411
POLL_S = 0.002


def socket_path(folder: Path, host: str) -> Path:
    """Return the path of the socket of a host's agent."""
    return folder / f"{host}.sock"


def log_path(folder: Path, host: str) -> Path:
    """Return the path of the log of a host's agent."""
    return folder / f"{host}.log"


_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
"""Bytes that an HTTP/2 client sends first (RFC 9113, section 3.4): the preface, and no settings.

A server answers with its own settings.
"""


def answers(path: Path, timeout_s: float = 1.0) -> bool:
    """Return whether an agent answers on a Unix socket. If it was stopped, only the kernel accepts the connection."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(timeout_s)
        try:
            probe.connect(str(path))
            probe.sendall(_GREETING)
            return bool(probe.recv(1))
        except (OSError, ValueError):
            return False


def start(binary: str, hosts: Sequence[str], folder: Path, namespace_folder: Path) -> dict[int, str]:
    """Start one agent per host; leave this process in the last host's namespaces.

    Args:
        binary: the agent.
        hosts: their names.
        folder: the lab's folder, for sockets and logs.
        namespace_folder: holds the hosts' namespace files.

    Returns:
        Host name by process number.

    Raises:
        AgentError: when the binary cannot be run.
    """
    ignored = (signal.SIGPIPE, signal.SIGXFSZ)  # as Python set them for itself
    started = {}
    for host in hosts:
        wiring.step_into(namespace_folder, host)
        log = str(log_path(folder, host))
        arguments = [binary, "serve", "--socket", str(socket_path(folder, host)), "--data-port", str(DATA_PORT)]
        files = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        try:
            pid = os.posix_spawn(binary, arguments, os.environ, file_actions=files, setsid=True, setsigdef=ignored)
        except OSError as error:
            raise AgentError(f"cannot run the agent {binary}: {error.strerror}") from None
        started[pid] = host
    return started


def wait_until_ready(
    started: Mapping[int, str], folder: Path, deadline_s: float, still_wanted: Callable[[], None]
) -> None:
    """Wait until every agent accepts connections.

    Args:
        started: host name by process number.
        folder: the lab's folder.
        deadline_s: for all of them together.
        still_wanted: called meanwhile; raises to stop.

    Raises:
        AgentError: when one ends, or is late.
    """
    end = time.monotonic() + deadline_s
    waiting = dict(started)
    while True:
        waiting = {pid: host for pid, host in waiting.items() if not answers(socket_path(folder, host))}
        if not waiting:
            return
        still_wanted()
        for pid, host in waiting.items():
            if os.waitpid(pid, os.WNOHANG)[0]:
                raise AgentError(f"the agent of {host} exited at once", hint=_last_line(log_path(folder, host)))
        if time.monotonic() > end:
            host = next(iter(waiting.values()))
            raise AgentError(f"the agent of {host} does not answer within {deadline_s:.0f} s")
        select.select([], [], [], POLL_S)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return f"it printed: {lines[-1][:300]}" if lines else "it printed nothing"
