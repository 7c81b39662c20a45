"""A lab's files on disk, whether its keeper lives, and the removal of labs whose keeper does not.

A lab's folder is in the runtime directory: `lab` for the one that `lab up` makes, `s-XXXXXX` for private ones.
`lab.json` in it is written before anything is started, so a folder always names its owner.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gavotte.errors import GavotteError
from gavotte.lab import namespaces

if TYPE_CHECKING:
    from typing_extensions import Self

logger = logging.getLogger(__name__)

FORMAT = "gavotte/lab/1"
RECORD = "lab.json"
SESSION_PREFIX = "s-"


@dataclass(frozen=True)
class Process:
    """A process that a reused number cannot impersonate.

    Attributes:
        pid: its number in the PID namespace of the process that started the lab.
        started: its start time in the kernel's ticks since boot.
    """

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """Describe a running process; None when there is none, or only a zombie."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        fields = text[text.rindex(")") + 2 :].split()
        return None if fields[0] in "ZX" else cls(pid, int(fields[19]))

    @property
    def alive(self) -> bool:
        """Whether this process still runs, and its number has not been reused."""
        return Process.of(self.pid) == self

    @property
    def age_s(self) -> float:
        """Seconds since the process started, by a clock that is never set."""
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - self.started / os.sysconf("SC_CLK_TCK"))


@dataclass(frozen=True)
class LabState:
    """One lab, as recorded in `lab.json`.

    Attributes:
        id: random; distinguishes this lab from a later one in the same folder.
        topology: the description's source, as the user named it.
        owner: the process that started it; a private lab dies with it.
        keeper: the process that holds it; None while it starts.
        session: whether it is private to its owner.
        rootless: whether it lives in a user namespace.
        agents: whether agents were started.
        mount_namespace: inode of the keeper's, which every process inside shares.
        pid_namespace: inode of the one in which `owner` and `keeper` are numbered.
        boot: the machine's boot, as the kernel names it.
        created_unix_s: when it was started.
        hosts: names and addresses.
        switches: names and addresses.
    """

    id: str
    topology: str
    owner: Process
    keeper: Process | None
    session: bool
    rootless: bool
    agents: bool
    mount_namespace: int
    pid_namespace: int
    boot: str
    created_unix_s: float
    hosts: tuple[tuple[str, str], ...]
    switches: tuple[tuple[str, tuple[str, ...]], ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the file."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what `as_dict` wrote; unknown keys are ignored."""
        # A keeper only writes states. It starts 0.1 s sooner without the checks of files.
        from gavotte.formats.parts.names import not_a_host_name

        fields = {key: data[key] for key in cls.__dataclass_fields__}
        fields["owner"] = Process(**fields["owner"])
        fields["keeper"] = Process(**fields["keeper"]) if fields["keeper"] else None
        fields["hosts"] = tuple((name, address) for name, address in fields["hosts"])
        if any(not_a_host_name(name) for name, _ in fields["hosts"]):
            raise ValueError("not a lab's hosts")
        fields["switches"] = tuple((name, tuple(addresses)) for name, addresses in fields["switches"])
        return cls(**fields)

    @property
    def inside(self) -> bool:
        """Whether the caller runs inside this lab."""
        return self.mount_namespace != 0 and namespaces.identity("mnt") == self.mount_namespace

    @property
    def alive(self) -> bool:
        """Whether the lab is running or being started. If this process cannot know: yes."""
        if self.boot != boot_id():
            return False
        if self.pid_namespace != namespaces.identity("pid"):
            return True
        return self.owner.alive if self.keeper is None else self.keeper.alive


def new_record(
    identity: str, *, topology: str, session: bool, agents: bool, rootless: bool = False, created_unix_s: float
) -> LabState:
    """Describe a lab that this process is about to start."""
    owner = Process.of(os.getpid())
    assert owner is not None
    return LabState(
        id=identity,
        topology=topology,
        owner=owner,
        keeper=None,
        session=session,
        rootless=rootless,
        agents=agents,
        mount_namespace=0,
        pid_namespace=namespaces.identity("pid"),
        boot=boot_id(),
        created_unix_s=created_unix_s,
        hosts=(),
        switches=(),
    )


def boot_id() -> str:
    """Return the id of the machine's current boot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def read_state(folder: Path) -> LabState | None:
    """Read a folder's `lab.json`; None when it is missing or invalid."""
    try:
        data = json.loads((folder / RECORD).read_text())
        return LabState.from_dict(data) if data["format"] == FORMAT else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        logger.debug("%s is not a valid record of a lab: %r", folder / RECORD, error)
        return None


def write_state(folder: Path, record: LabState) -> None:
    """Write a folder's `lab.json`, whole or not at all."""
    write_aside(folder / RECORD, json.dumps(record.as_dict(), indent=1) + "\n")


def write_aside(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a file under a temporary name in the same folder, then rename it."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(text)
    aside.chmod(mode)
    aside.rename(path)


@contextmanager
def locked(runtime: Path) -> Iterator[None]:
    """Hold the runtime directory's lock. Use it only to claim and remove folders, never while waiting for a lab."""
    with (runtime / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def claim(runtime: Path, name: str, record: LabState) -> Path:
    """Remove dead labs, then make a lab's folder.

    Args:
        runtime: the runtime directory.
        name: the folder's name.
        record: written into it at once.

    Raises:
        GavotteError: when a lab uses the folder.
    """
    folder = runtime / name
    with locked(runtime):
        _sweep(runtime)
        standing = read_state(folder)
        if standing is not None:
            if standing.keeper is None:
                raise GavotteError(
                    "a lab is being started", hint="wait until it is up, or end the process that starts it"
                )
            shown = f" from {standing.topology}" if standing.topology else ""
            raise GavotteError(f"a lab{shown} is already up", hint="remove it with `gavotte lab down`")
        folder.mkdir(mode=0o700)
        write_state(folder, record)
    return folder


def sweep(runtime: Path) -> int:
    """Remove the folders of labs whose keeper is gone.

    Returns:
        The number of folders removed.
    """
    with locked(runtime):
        return _sweep(runtime)


def discard(folder: Path, identity: str) -> None:
    """Remove a lab's folder, unless another lab has taken its place."""
    standing = read_state(folder)
    if standing is not None and standing.id == identity:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(runtime: Path) -> int:
    swept = 0
    for folder in [runtime / "lab", *runtime.glob(f"{SESSION_PREFIX}*")]:
        record = read_state(folder)
        if not folder.is_dir() or (record is not None and record.alive):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        swept += 1
    return swept


def wait_gone(process: Process, deadline_s: float) -> bool:
    """Wait until a process has ended.

    Returns:
        Whether it did within the deadline.
    """
    end = time.monotonic() + deadline_s
    pause = 0.002
    while process.alive:
        if time.monotonic() > end:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return True


def signal_process(process: Process, number: int) -> None:
    """Send a signal to this very process; to none when it is gone."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(process.pid)
        try:
            if process.alive:  # so the handle belongs to it, and continues to
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
