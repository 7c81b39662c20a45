"""One host over SSH: installs the agent, starts it, and forwards its Unix socket, all in one connection.

The agent lives exactly as long as the connection: its stdin is the lifeline, whose other end is this process's and
closes with it, however it ends. No port is opened for control, here or there.
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
from gavotte.agents.reach.script import MARK, remote_line
from gavotte.errors import AgentError
from gavotte.formats.routes import SshRoute

logger = logging.getLogger(__name__)

GREETING_LIMIT_S = CONNECT_LIMIT_S + 20.0
"""Until the host has told whether it has the agent: connection, authentication, login scripts."""
COPY_LIMIT_S = 120.0
"""For about 5 MB, so 40 KB/s will do."""
START_LIMIT_S = 20.0
END_LIMIT_S = 4.0
"""An agent stops its calls within 3 s."""
_LOGGED = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z +(ERROR|WARN|INFO|DEBUG|TRACE) ")
"""Begins each line that an agent logs."""
NOISE_LIMIT_BYTES = 1 << 20
"""What login scripts may print."""


class Tunnel:
    """A host's agent behind an SSH connection.

    Attributes:
        socket: where it answers on this machine once `open` has returned.
        copied: whether the agent had to be copied.
        inside_address: where the host's SSH server took the connection, as the host sees it.
    """

    def __init__(self, route: SshRoute, base: Path, *, config: str | None) -> None:
        """Opens nothing yet.

        Args:
            route: where to.
            base: path of its files here, without ending.
            config: ssh configuration; None = the user's own.
        """
        self.socket = base.with_suffix(".sock")
        self.copied = False
        self.inside_address = ""
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
        """Connects, installs the agent if need be, and starts it.

        Args:
            binaries: agents by architecture.
            start: whether to start it; else the connection ends with the installation.

        Raises:
            AgentError: with the one line that says why not.
        """
        # Nobody can guess the name, so nobody else can be there first.
        remote = f"/tmp/gavotte-{secrets.token_hex(16)}.sock"
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
        if word == "wants":
            logger.info("%s: copies the agent there", self._destination())
            self._send(binaries[rest].content)
            self.copied = True
            word, rest = ("has", rest) if not start else self._hear(COPY_LIMIT_S)
        elif word == "has" and start:
            word, rest = self._hear(START_LIMIT_S)
        if not start:
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
        """Tells the agent that its controller is there."""
        self._write(b"\n")

    def why(self, patience_s: float = 0.0) -> str:
        """Tells why the agent cannot be spoken to; empty when nothing is known to be wrong.

        Args:
            patience_s: how long to wait for ssh to end.
        """
        if self._process is None:
            return "never connected"
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience_s)
        status = self._process.poll()
        said = self._said()
        if status is None:
            return NO_FORWARD if "open failed" in said else ""
        return ssh_cause(said, destination=self._destination(), status=status)

    def loosen(self) -> None:
        """Lets the lifeline go; the agent ends, and the connection with it. Returns at once."""
        with self._guard:
            self._closed = True
            if self._process is not None and self._process.stdin is not None:
                try:
                    self._process.stdin.close()
                except OSError as error:
                    logger.debug("%s: its lifeline was gone already: %s", self._destination(), error)

    def close(self) -> None:
        """Ends the connection, with force if it does not end by itself."""
        self.loosen()
        process = self._process
        if process is None:
            return
        for force in (None, signal.SIGTERM, signal.SIGKILL):
            if force is not None:
                logger.debug("%s: ssh does not end; %s", self._destination(), force.name)
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
        """Ends a connection that is being opened by another thread, which then hears so."""
        with self._guard:
            self._closed = True
            if self._process is not None:
                self._process.terminate()

    def _hear(self, limit_s: float) -> tuple[str, str]:
        """Returns the next marked line as (first word, rest)."""
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
        """Sends the agent's bytes."""
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
        """Writes what goes into the pipe; -1 when nobody reads any more."""
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
                logger.debug("%s: does not read any more: %s", self._destination(), error)
                return -1

    def _finish(self) -> None:
        """Waits for an installation to end."""
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
                f"has the architecture {rest or 'unknown'}; build an agent for it and put it beside this one"
            )
        if word == "lacks":
            return AgentError(f"`{rest}` is missing; install coreutils on it")
        if word == "mismatch":
            return AgentError("the copy of the agent is damaged (checksum mismatch); is the disk full?")
        return AgentError(self.why(patience_s=END_LIMIT_S) or f"says `{word}`")

    def _late(self, limit_s: float) -> str:
        return self.why() or f"ssh gave no answer in {limit_s:.0f} s"

    def _tell_log(self) -> None:
        """Logs what the agent logged, which is gone with the connection."""
        if logger.isEnabledFor(logging.DEBUG) and self._log.exists():
            for line in filter(_LOGGED.match, self._log.read_text(errors="replace").splitlines()):
                logger.debug("%s: its agent: %s", self._destination(), line)

    def _said(self) -> str:
        try:
            said = self._log.read_text(errors="replace")
        except OSError as error:
            logger.debug("%s: what ssh said is gone: %s", self._destination(), error)
            return ""
        # What the agent logged is no word of ssh.
        return "".join(line for line in said.splitlines(keepends=True) if not _LOGGED.match(line))[-16384:]

    def _destination(self) -> str:
        port = f"-p {self._route.port} " if self._route.port else ""
        user = f"{self._route.user}@" if self._route.user else ""
        return f"{port}{user}{self._route.host}"

    def _control(self, order: str) -> bool:
        """Speaks to the connection that the user holds to this host, if there is one."""
        forward = self._forward if order == "cancel" else []
        line = ssh_line(self._route, self._config, "-O", order, *forward)
        with contextlib.suppress(subprocess.TimeoutExpired):
            quiet = subprocess.DEVNULL
            return subprocess.run(line, stdin=quiet, stdout=quiet, stderr=quiet, timeout=5, check=False).returncode == 0
        logger.debug("%s: the connection that it shares does not answer", self._destination())
        return False
