"""Run one command on a host, for a controller that holds this process's standard input.

`launch` sends this file as text to the Python of a host, so it imports nothing of ours. Standard input carries
frames: a letter, a length in four bytes, and that many bytes.

    j  the command as JSON, always first: its words, folder, variables, and the host's address
    d  bytes for the command's standard input
    e  the end of the command's standard input
    s  a signal for the command, as one byte; SIGKILL is for all its descendants

1. The command's output is this process's own, and so is its exit status: 128 + n if signal n ended the command.
2. When standard input ends, the controller is gone. The command gets SIGTERM, and SIGKILL after `LOST_S`.
3. When the command has ended, all processes that it left are killed, also those in sessions of their own.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

HEADER = struct.Struct("!cI")
LARGEST_BYTES = 16 << 20
"""Largest frame."""
PENDING_BYTES = 1 << 20
"""Bytes kept for a command that does not read its standard input. No frame is read meanwhile."""
LOST_S = 10.0
"""Time between SIGTERM and SIGKILL once the controller is gone, in seconds."""
SWEEP_S = 5.0
"""Longest time to wait for the end of killed processes, in seconds."""
GLOO = "GLOO_SOCKET_IFNAME"
"""Variable that names the interface of Gloo. Without it, Gloo takes the address of the host's name, often 127.0.1.1."""
_SUBREAPER = 36
_SIOCGIFADDR = 0x8915


class Guardian:
    """The command, and the state of the connection to its controller."""

    def __init__(self) -> None:
        self._heard = b""
        self._pending = b""
        self._ended = False
        self._lost_s: float | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Run the command to its end, and return the exit status."""
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        woken, wakes = os.pipe()
        for each in (woken, wakes, 0):
            os.set_blocking(each, False)
        signal.set_wakeup_fd(wakes)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, lambda *_: self._lose())
        try:
            while True:
                if self._process is not None and (code := self._process.poll()) is not None:
                    return code if code >= 0 else 128 - code
                if self._process is None and self._lost_s is not None:
                    return 128 + signal.SIGTERM
                if self._lost_s is not None and time.monotonic() > self._lost_s + LOST_S:
                    kill_descendants()
                self._step(woken)
        finally:
            sweep()

    def _step(self, woken: int) -> None:
        """Wait until something happens, and handle it."""
        poll = select.poll()
        poll.register(woken, select.POLLIN)
        if self._lost_s is None:
            # A closed connection is reported even while no frames are read.
            poll.register(0, select.POLLIN if len(self._pending) < PENDING_BYTES else 0)
        stdin = None if self._process is None else self._process.stdin
        if stdin is not None and self._pending:
            poll.register(stdin.fileno(), select.POLLOUT)
        for descriptor, event in poll.poll(1000 if self._lost_s is not None else None):
            if descriptor == woken:
                with contextlib.suppress(BlockingIOError):
                    os.read(woken, 4096)
            elif descriptor == 0:
                self._hear(bool(event & select.POLLIN))
            else:
                self._feed()

    def _hear(self, readable: bool) -> None:
        """Read frames, and carry them out."""
        try:
            chunk = os.read(0, 1 << 16) if readable else b""
        except BlockingIOError:
            return
        if not chunk:
            self._lose()
            return
        try:
            frames, self._heard = frames_of(self._heard + chunk)
            for kind, content in frames:
                self._carry_out(kind, content)
        except (LookupError, TypeError, ValueError):  # the controller is none of ours
            self._lose()

    def _carry_out(self, kind: bytes, content: bytes) -> None:
        if kind == b"j":
            self._start(json.loads(content))
        elif kind == b"d":
            self._pending += content
            self._feed()
        elif kind == b"e":
            self._ended = True
            self._feed()
        elif kind == b"s" and content[0] == signal.SIGKILL:
            kill_descendants()
        elif kind == b"s":
            self._send(content[0])

    def _start(self, order: dict[str, Any]) -> None:
        """Start the command in a session of its own. An error is printed, and ends this process as a shell would."""
        variables = {**os.environ, **order["variables"]}
        if GLOO not in variables and (interface := interface_of(order["address"])):
            variables[GLOO] = interface
        try:
            self._process = subprocess.Popen(
                order["words"],
                cwd=order["folder"],
                env=variables,
                stdin=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            sys.stderr.write(f"{socket.gethostname()}: cannot start `{order['words'][0]}`: {error}\n")
            raise SystemExit(127 if isinstance(error, FileNotFoundError) else 126) from None
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)

    def _feed(self) -> None:
        """Write what the command's standard input takes now."""
        process = self._process
        if process is None or process.stdin is None or process.stdin.closed:
            self._pending = b""
            return
        try:
            if self._pending:
                self._pending = self._pending[os.write(process.stdin.fileno(), self._pending) :]
        except BlockingIOError:
            return
        except OSError:  # the command has closed it
            self._pending, self._ended = b"", True
        if self._ended and not self._pending:
            process.stdin.close()
            process.stdin = None

    def _send(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, number)

    def _lose(self) -> None:
        """End the command, since its controller is gone."""
        if self._lost_s is None:
            self._lost_s = time.monotonic()
            self._send(signal.SIGTERM)


def frames_of(data: bytes) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Return the whole frames at the begin of what was read, as kinds with contents, and the rest.

    Raises:
        ValueError: when a frame is too large.
    """
    frames = []
    while len(data) >= HEADER.size:
        kind, length = HEADER.unpack_from(data)
        if length > LARGEST_BYTES:
            raise ValueError(f"a frame of {length} bytes")
        end = HEADER.size + length
        if len(data) < end:
            break
        frames.append((kind, data[HEADER.size : end]))
        data = data[end:]
    return frames, data


def descendants() -> list[int]:
    """Return the processes that this one or its descendants have started, as far as they live."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                state, parent = (folder / "stat").read_text().rpartition(") ")[2].split()[:2]
                if state != "Z":
                    children[int(parent)].append(int(folder.name))
    result, new = list[int](), [os.getpid()]
    while new:
        new = [each for parent in new for each in children[parent]]
        result += new
    return result


def kill_descendants() -> bool:
    """Kill all descendants. Return whether there were any."""
    pids = descendants()
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return bool(pids)


def sweep() -> None:
    """Kill all descendants, and wait for their end."""
    end_s = time.monotonic() + SWEEP_S
    while kill_descendants() and time.monotonic() < end_s:
        time.sleep(0.02)


def interface_of(address: str) -> str:
    """Return the network interface that has an address or the address of a DNS name; empty if none has."""
    try:
        family, _, _, _, place = socket.getaddrinfo(address, None, proto=socket.IPPROTO_TCP)[0]
    except OSError:
        return ""
    wanted = str(place[0]).partition("%")[0]
    if family == socket.AF_INET6:
        digits = socket.inet_pton(family, wanted).hex()
        with contextlib.suppress(OSError):
            lines = Path("/proc/net/if_inet6").read_text().splitlines()
            return next((line.split()[5] for line in lines if line.startswith(digits)), "")
        return ""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                request = struct.pack("256s", name.encode()[:15])
                if socket.inet_ntoa(fcntl.ioctl(probe, _SIOCGIFADDR, request)[20:24]) == wanted:
                    return name
    return ""


if __name__ == "__main__":
    status = Guardian().run()
    sys.stdout.flush()
    os._exit(status)
