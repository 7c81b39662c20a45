"""Start labs, end them and report their state. This module implements the functions of `gavotte.lab`."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gavotte.agents.runtime import LAB_HOSTS, lab_folder, runtime_dir
from gavotte.errors import GavotteError
from gavotte.formats.topology import Topology
from gavotte.lab import crew, element, launcher, state, warden
from gavotte.lab.start import end, started
from gavotte.lab.state import LabState

AT_ONCE = 32
"""Most agents that are asked at one time whether they answer."""


@dataclasses.dataclass(frozen=True)
class HostStatus:
    """One host of a lab.

    Attributes:
        name: the host.
        address: its IPv4 address.
        agent: whether its agent answers; None when none was started.
    """

    name: str
    address: str
    agent: bool | None


@dataclasses.dataclass(frozen=True)
class LabStatus:
    """A lab, or the lack of one.

    Attributes:
        up: whether the lab is running.
        topology: origin of its description.
        folder: its folder.
        hosts_file: its inventory.
        keeper: process number of its keeper.
        rootless: whether it lives in a user namespace.
        uptime_s: seconds since its keeper started; 0 while it starts.
        hosts: in the topology's order.
        warnings: where the lab differs from the topology, one line each.
    """

    up: bool
    topology: str = ""
    folder: str = ""
    hosts_file: str = ""
    keeper: int | None = None
    rootless: bool = False
    uptime_s: float = 0.0
    hosts: tuple[HostStatus, ...] = ()
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary for JSON."""
        return dataclasses.asdict(self)


class Session:
    """A running lab.

    Attributes:
        folder: its folder.
        hosts_file: its inventory, for `--hosts`.
    """

    def __init__(self, folder: Path, record: LabState) -> None:
        self.folder = folder
        self.hosts_file = folder / LAB_HOSTS.name
        self._record = record

    @property
    def inside(self) -> bool:
        """Whether this process runs in the lab."""
        return self._record.inside

    @property
    def since_s(self) -> float:
        """Unix time at which the lab started."""
        return self._record.created_unix_s

    def command(self, host: str, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs a program on a host or switch; it needs `environment()` too."""
        return launcher.command(self.folder, self._record, host, argv)

    def environment(self) -> dict[str, str]:
        """Return this process's environment with the lab's variables."""
        return {**os.environ, **launcher.environment(self.folder)}

    def exec(self, host: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a program on a host or switch.

        Args:
            host: the host or switch.
            argv: the program and its arguments.
            **options: passed on to `subprocess.Popen`.
        """
        options.setdefault("env", self.environment())
        return subprocess.Popen(self.command(host, argv), **options)

    def run(self, host: str, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        """Run a program on a host or switch to its end; `options` go to `subprocess.run`."""
        options.setdefault("env", self.environment())
        return subprocess.run(self.command(host, argv), check=False, **options)

    def beside(self, argv: Sequence[str]) -> subprocess.Popen[Any]:
        """Start a program on this machine for which `--hosts lab` is this lab.

        The program, and all that it starts, ends with this process, however this process ends. SIGTERM to the returned
        process has the same effect.

        Raises:
            GavotteError: when there is no such program.
        """
        if shutil.which(argv[0]) is None:
            raise GavotteError(f"no such command: `{argv[0]}`", hint="check its spelling")
        line = [sys.executable, "-I", "-S", warden.__file__, str(os.getpid()), *argv]
        return subprocess.Popen(line, env=self.environment())

    def status(self) -> LabStatus:
        """Return the lab's state."""
        record = self._record
        paths = [crew.socket_path(self.folder, name) for name, _ in record.hosts]
        with ThreadPoolExecutor(min(AT_ONCE, max(1, len(paths)))) as pool:
            agents = list(pool.map(crew.answers, paths)) if record.agents else [None] * len(paths)
        return LabStatus(
            up=record.alive,
            topology=record.topology,
            folder=str(self.folder),
            hosts_file=str(self.hosts_file),
            keeper=record.keeper.pid if record.keeper else None,
            rootless=record.rootless,
            uptime_s=record.keeper.age_s if record.keeper else 0.0,
            hosts=tuple(
                HostStatus(name, address, agent) for (name, address), agent in zip(record.hosts, agents, strict=True)
            ),
            warnings=element.warnings(self.folder),
        )


def up(topology: Topology, *, source: str, agents: bool = True, seed: int = 0) -> LabStatus:
    """Start a lab that outlives this process, until `down`.

    Args:
        topology: the cloud to emulate.
        source: origin of the topology, for `status`.
        agents: whether to start an agent on each host.
        seed: decides which packets links lose, and their jitter.

    Raises:
        GavotteError: when a lab is up already, or the kernel refuses.
        UnsupportedError: when this machine cannot hold a lab.
    """
    with started(topology, source, LAB_HOSTS.parent.name, agents=agents, stay=True, seed=seed) as (folder, record):
        return Session(folder, record).status()


@contextmanager
def session(topology: Topology, *, source: str = "", agents: bool = True, seed: int = 0) -> Iterator[Session]:
    """Hold a private lab that ends with the `with` block, and with this process however it dies.

    Args:
        topology: the cloud to emulate.
        source: origin of the topology, for `status`.
        agents: whether to start an agent on each host.
        seed: decides which packets links lose, and their jitter.

    Raises:
        GavotteError: when the kernel refuses.
        UnsupportedError: when this machine cannot hold a lab.
    """
    name = state.SESSION_PREFIX + secrets.token_hex(3)
    with started(topology, source, name, agents=agents, stay=False, seed=seed) as (folder, record):
        yield Session(folder, record)


def current() -> Session:
    """Return the running lab: the one that `$GAVOTTE_LAB` names, else the one of `up`.

    Raises:
        GavotteError: when none is up.
    """
    folder = lab_folder()
    record = state.read_state(folder)
    if record is None or record.keeper is None or not record.alive:
        raise GavotteError("no lab is up", hint="start one with `gavotte lab up TOPOLOGY`")
    return Session(folder, record)


def status() -> LabStatus:
    """Report whether a lab is up, and the state of its hosts."""
    sweep()
    try:
        return current().status()
    except GavotteError:
        return LabStatus(up=False)


def command(host: str, argv: Sequence[str]) -> list[str]:
    """Return the command line that runs a program on a host of the running lab."""
    return current().command(host, argv)


def execute(host: str, argv: Sequence[str]) -> int:
    """Run a program on a host of the running lab, on this process's terminal.

    Returns:
        Its exit status, 128 + n when signal n ended it.
    """
    lab = current()
    with _signals_left_to_child() as forward_to:
        child = lab.exec(host, argv)
        forward_to(child)
        code = child.wait()
    return code if code >= 0 else 128 - code


def down() -> bool:
    """Take the lab down, with everything that runs in it.

    Returns:
        Whether one was up.
    """
    folder = lab_folder()
    record = state.read_state(folder)
    if record is not None and record.inside:
        raise GavotteError("a command inside the lab cannot remove it", hint="use `gavotte lab down` outside")
    was_up = record is not None and record.keeper is not None and record.alive
    if was_up:
        assert record is not None
        assert record.keeper is not None
        end(record.keeper)
        state.discard(folder, record.id)
    sweep()
    return was_up


def sweep() -> int:
    """Remove the remains of labs whose keeper is gone.

    Returns:
        The number of labs removed.
    """
    return state.sweep(runtime_dir())


@contextmanager
def _signals_left_to_child() -> Iterator[Any]:
    """Leave Ctrl-C to the program on the terminal, which gets it too, and pass on SIGTERM."""
    children: list[subprocess.Popen[Any]] = []

    def pass_on(number: int, _: object) -> None:
        for child in children:
            child.send_signal(number)

    def ignore(*_: object) -> None:
        pass

    handlers: dict[int, Any] = {signal.SIGINT: ignore, signal.SIGQUIT: ignore, signal.SIGTERM: pass_on}
    before: dict[int, Any] = {}
    with contextlib.suppress(ValueError):  # only the main thread may set handlers
        for number, handler in handlers.items():
            before[number] = signal.signal(number, handler)
    try:
        yield children.append
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
