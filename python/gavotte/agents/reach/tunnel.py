"""Reach one host over SSH: install the agent, start it, and forward its Unix socket, all in one connection.

The agent lives exactly as long as the connection. Its stdin is the lifeline: the other end belongs to this process and
closes when the process ends, however it ends. No port is opened for control on either side.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import select
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from gavotte.agents.binary import Binary
from gavotte.agents.reach.causes import NO_FORWARD, ssh_cause
from gavotte.agents.reach.client import CONNECT_LIMIT_S, ssh_line
from gavotte.agents.reach.script import MARK, MEMORY, remote_line
from gavotte.errors import AgentError
from gavotte.formats.parts.routes import SshRoute

logger = logging.getLogger(__name__)

GREETING_LIMIT_S = CONNECT_LIMIT_S + 20.0
"""Limit until the host has reported whether it has the agent: connection, authentication, login scripts."""
COPY_LIMIT_S = 120.0
"""Limit for copying about 5 MB, so 40 KB/s is enough."""
START_LIMIT_S = 20.0
END_LIMIT_S = 4.0
"""An agent stops its calls within 3 s."""
_LOGGED = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z +(ERROR|WARN|INFO|DEBUG|TRACE) ")
"""Start of each line that an agent logs."""
NOISE_LIMIT_BYTES = 1 << 20
"""Most bytes that login scripts may print."""


class _ElsewhereError(Exception):
    """The agent's socket must be in another folder."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.folder = folder


class Tunnel:
    """A host's agent behind an SSH connection.

    Attributes:
        socket: where it answers on this machine once `open` has returned.
        copied: whether the agent had to be copied.
        inside_address: address at which the host's SSH server accepted the connection, as the host sees it.
        folder: where the host keeps the agent; `MEMORY` when no folder will do.
        skipped: folders that cannot be used, each with the reason.
    """

    def __init__(self, route: SshRoute, base: Path, *, config: str | None) -> None:
        """Create a tunnel that is not open yet.

        Args:
            route: the host to connect to.
            base: path of its local files, without ending.
            config: ssh configuration; None = the user's own.
        """
        self.socket = base.with_suffix(".sock")
        self.copied = False
        self.inside_address = ""
        self.folder = ""
        self.skipped: list[str] = []
        self._route = route
        self._config = config
        self._log = base.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None
        self._forward: list[str] = []
        self._shared = False
        self._guard = threading.Lock()
        self._closed = False
        self._heard = b""

    def open(self, binaries: Mapping[str, Binary], *, start: bool = True) -> None:
        """Connect, install the agent if need be, and start it.

        Args:
            binaries: agents by architecture.
            start: whether to start it; else the connection ends with the installation.

        Raises:
            AgentError: with the reason, in one line.
        """
        try:
            self._open(binaries, "/tmp", start=start)
        except _ElsewhereError as elsewhere:
            logger.debug("%s: /tmp accepts no socket; using %s", self._destination(), elsewhere.folder)
            self.skipped.append("/tmp: accepts no socket")
            if self._closed:
                raise AgentError("gave up") from None
            self.close()
            self._closed, self._heard = False, b""
            self._open(binaries, elsewhere.folder, start=start)

    def _open(self, binaries: Mapping[str, Binary], socket_folder: str, *, start: bool) -> None:
        # No other user can guess the name, and therefore none can create it first.
        remote = f"{socket_folder}/gavotte-{secrets.token_hex(16)}.sock"
        self._forward = ["-L", f"{self.socket}:{remote}"] if start else []
        self._shared = start and self._control("check")
        command = remote_line(binaries, socket=remote, data_port=self._route.data_port, start=start)
        line = [*ssh_line(self._route, self._config, *self._forward), command]
        logger.debug("%s", " ".join(ssh_line(self._route, self._config)))
        with self._guard, self._log.open("wb") as log:
            if self._closed:
                raise AgentError("gave up")
            # A session of its own: Ctrl-C must reach the controller first, which then releases the run.
            self._process = subprocess.Popen(
                line, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        word, rest = self._hear(GREETING_LIMIT_S)
        while word == "skips":
            self.skipped.append(rest)
            word, rest = self._hear(GREETING_LIMIT_S)
        if word == "socket":
            raise _ElsewhereError(rest)
        if word in ("has", "wants"):
            rest, _, self.folder = rest.partition(" ")
        if word == "wants":
            logger.info("%s: copying the agent", self._destination())
            self._send(binaries[rest].content)
            self.copied = True
            word, rest = ("has", rest) if not start else self._hear(COPY_LIMIT_S)
        elif word == "has" and start:
            word, rest = self._hear(START_LIMIT_S)
        if not start and word in ("has", "wants"):
            self._finish()
            return
        if word != "starts":
            raise self._refusal(word, rest)
        self.inside_address = (rest.split() + [""] * 4)[2]
        word, rest = self._hear(START_LIMIT_S)
        if word != "ready":
            raise self._refusal(word, rest)
        if not self.socket.exists():
            raise AgentError(f"ssh could not create {self.socket}: {self.why()}")

    def beat(self) -> None:
        """Show the agent that its controller is alive."""
        self._write(b"\n")

    def why(self, patience_s: float = 0.0) -> str:
        """Return why the agent cannot be called; empty when no fault is known.

        Args:
            patience_s: how long to wait for ssh to end.
        """
        if self._process is None:
            return "never connected"
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience_s)
        status = self._process.poll()
        stderr = self._said()
        if status is None:
            return NO_FORWARD if "open failed" in stderr else ""
        return ssh_cause(stderr, destination=self._destination(), status=status)

    @property
    def in_memory(self) -> bool:
        """Whether the host keeps no copy of the agent."""
        return self.folder == MEMORY

    @property
    def place(self) -> str:
        """Clause on the folder from which the agent runs, and on those that failed; empty for the usual folder."""
        if not self.skipped:
            return ""
        where = "memory, since no folder will do" if self.in_memory else self.folder
        return f"runs from {where} ({'; '.join(self.skipped)})"

    def loosen(self) -> None:
        """Close the lifeline; the agent ends, and the connection with it. Returns at once."""
        with self._guard:
            self._closed = True
            if self._process is not None and self._process.stdin is not None:
                try:
                    self._process.stdin.close()
                except OSError as error:
                    logger.debug("%s: its lifeline was gone already: %s", self._destination(), error)

    def close(self) -> None:
        """End the connection, with force if it does not end without."""
        self.loosen()
        process = self._process
        if process is None:
            return
        for force in (None, signal.SIGTERM, signal.SIGKILL):
            if force is not None:
                logger.debug("%s: ssh does not end; sending %s", self._destination(), force.name)
                process.send_signal(force)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_LIMIT_S)
                break
        if process.stdout is not None:
            process.stdout.close()
        self._tell_log()
        if self._shared:
            self._control("cancel")
        self.socket.unlink(missing_ok=True)

    def abort(self) -> None:
        """End a connection that another thread is opening. That thread then gets an error."""
        with self._guard:
            self._closed = True
            if self._process is not None:
                self._process.terminate()

    def _hear(self, limit_s: float) -> tuple[str, str]:
        """Return the next marked line as (first word, rest)."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        end = time.monotonic() + limit_s
        while True:
            *lines, self._heard = self._heard.split(b"\n")
            for index, line in enumerate(lines):
                text = line.decode(errors="replace").strip()
                if text.startswith(MARK):
                    self._heard = b"\n".join([*lines[index + 1 :], self._heard])
                    word, _, rest = text.removeprefix(MARK).partition(" ")
                    return word, rest
            if len(self._heard) > NOISE_LIMIT_BYTES:
                raise AgentError("its login scripts do not stop printing")
            if not select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                raise AgentError(self._late(limit_s))
            chunk = os.read(process.stdout.fileno(), 65536)
            if not chunk:
                raise AgentError(self.why(patience_s=END_LIMIT_S) or "closed its output")
            self._heard += chunk

    def _send(self, content: bytes) -> None:
        """Send the agent's bytes."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        end = time.monotonic() + COPY_LIMIT_S
        os.set_blocking(process.stdin.fileno(), False)
        view = memoryview(content)
        while view:
            if not select.select([], [process.stdin], [], max(0.0, end - time.monotonic()))[1]:
                sent = len(content) - len(view)
                raise AgentError(
                    f"received {sent} of the agent's {len(content)} bytes in {COPY_LIMIT_S:.0f} s; is its link up?"
                )
            written = self._write(view)
            if written < 0:
                raise AgentError(self.why(patience_s=END_LIMIT_S) or "closed its input")
            view = view[written:]

    def _write(self, data: bytes | memoryview) -> int:
        """Write as much as fits into the pipe; -1 when it has no reader any more."""
        with self._guard:
            process = self._process
            if process is None or process.stdin is None or process.stdin.closed:
                return -1
            os.set_blocking(process.stdin.fileno(), False)
            try:
                return os.write(process.stdin.fileno(), data)
            except BlockingIOError:
                return 0
            except OSError as error:
                logger.debug("%s: no longer reads: %s", self._destination(), error)
                return -1

    def _finish(self) -> None:
        """Wait for an installation to end."""
        process = self._process
        assert process is not None
        self.loosen()
        try:
            status = process.wait(COPY_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise AgentError(self._late(COPY_LIMIT_S)) from None
        if status:
            with contextlib.suppress(AgentError):
                raise self._refusal(*self._hear(1.0))
            raise AgentError(self.why())

    def _refusal(self, word: str, rest: str) -> AgentError:
        if word == "machine":
            return AgentError(
                f"has the architecture {rest or 'unknown'}; build an agent for it and put it next to this one"
            )
        if word == "lacks":
            return AgentError(f"`{rest}` is missing; install coreutils on it")
        if word == "nowhere":
            return AgentError(
                f"no folder can hold the agent, and Python 3.8, which could run it from memory, is missing "
                f"({'; '.join(self.skipped)})"
            )
        if word == "lacks-socket":
            return AgentError("no folder accepts a Unix socket: /tmp, $XDG_RUNTIME_DIR, /var/tmp, /dev/shm, $HOME")
        if word == "mismatch":
            return AgentError("the copy of the agent is damaged (checksum mismatch); is the disk full?")
        return AgentError(self.why(patience_s=END_LIMIT_S) or f"says `{word}`")

    def _late(self, limit_s: float) -> str:
        return self.why() or f"ssh gave no answer in {limit_s:.0f} s"

    def _tell_log(self) -> None:
        """Log what the agent logged, which is lost with the connection."""
        if logger.isEnabledFor(logging.DEBUG) and self._log.exists():
            for line in filter(_LOGGED.match, self._log.read_text(errors="replace").splitlines()):
                logger.debug("%s: its agent: %s", self._destination(), line)

    def _said(self) -> str:
        try:
            stderr = self._log.read_text(errors="replace")
        except OSError as error:
            logger.debug("%s: the output of ssh is gone: %s", self._destination(), error)
            return ""
        # Lines that the agent logged are not messages of ssh.
        return "".join(line for line in stderr.splitlines(keepends=True) if not _LOGGED.match(line))[-16384:]

    def _destination(self) -> str:
        port = f"-p {self._route.port} " if self._route.port else ""
        user = f"{self._route.user}@" if self._route.user else ""
        return f"{port}{user}{self._route.host}"

    def _control(self, order: str) -> bool:
        """Control the connection that the user holds to this host, if there is one."""
        forward = self._forward if order == "cancel" else []
        line = ssh_line(self._route, self._config, "-O", order, *forward)
        with contextlib.suppress(subprocess.TimeoutExpired):
            quiet = subprocess.DEVNULL
            return subprocess.run(line, stdin=quiet, stdout=quiet, stderr=quiet, timeout=5, check=False).returncode == 0
        logger.debug("%s: the connection that it shares does not answer", self._destination())
        return False
