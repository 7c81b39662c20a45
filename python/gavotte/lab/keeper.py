"""The process that is the lab: it holds every namespace, and when it dies the kernel frees them all.

1. The command line starts it as `python -c`, sends it an `Order` on stdin and keeps that pipe open.
2. The keeper enters new user (unless root), mount, PID, IPC and network namespaces and forks.
3. The child is PID 1 in them. It builds the lab, starts the agents and reports `ready`.
4. It then reaps orphans until its stdin closes or its owner dies. After `STAY` only a signal ends it.

The keeper holds the owner's pidfd. A parent-death signal would fire when merely the starting *thread* ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import selectors
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from gavotte.errors import GavotteError, UnsupportedError
from gavotte.lab import crew, element, namespaces, state, wiring
from gavotte.lab.layout import Layout
from gavotte.lab.wires import plan

STAY = b"stay\n"
"""Message on the life pipe that makes the lab outlive its owner."""

NAMESPACES = "ns"
"""Folder below the lab's with the namespaces' files; empty as seen from outside."""


@dataclass(frozen=True)
class Order:
    """Instruction to the keeper: the lab to build and keep, and its owner.

    Attributes:
        layout: the lab to build.
        folder: its folder, which exists.
        identity: the lab's id, checked before the folder is removed.
        owner: process that requests it.
        binary: the agent's binary, None for a lab that does not need it.
        agents: whether to start an agent on each host.
        seed: decides which packets links lose, and their jitter.
        deadline_s: how long the agents may take to answer.
    """

    layout: Layout
    folder: Path
    identity: str
    owner: int
    binary: str | None
    agents: bool
    seed: int
    deadline_s: float


class _Abandoned(Exception):  # noqa: N818
    """The lab's owner is gone, or a signal ends the lab."""


def main() -> NoReturn:
    """Read the order and become the keeper."""
    order: Order = pickle.load(sys.stdin.buffer)
    try:
        owner = _watch(order.owner)
        rootless = _isolate()
    except GavotteError as error:
        _send(error=error.message, hint=error.hint, kind=type(error).__name__)
        os._exit(1)
    except _Abandoned:
        os._exit(1)
    child = os.fork()
    if child:
        _send(pid=child, rootless=rootless)
        os._exit(0)
    Keeper(order, owner).keep()


class Keeper:
    """PID 1 of the lab.

    Args:
        order: what to keep.
        owner: pidfd of the owner, -1 where the kernel has none.
    """

    def __init__(self, order: Order, owner: int) -> None:
        self._order = order
        self._owner = owner
        self._ending = False
        self._element: element.Element | None = None
        self._selector = selectors.DefaultSelector()

    def keep(self) -> NoReturn:
        """Build the lab, report, hold it, and take it down."""
        status = 0
        try:
            self._listen()
            self._build()
            _send(ready=True, mount_namespace=namespaces.identity("mnt"))
            self._hold()
        except _Abandoned:
            pass
        except GavotteError as error:
            _send(error=error.message, hint=error.hint, kind=type(error).__name__)
            status = 1
        except BaseException as error:
            _send(error=f"the lab failed: {error!r}", hint="", kind="GavotteError")
            raise
        finally:
            self._end(status)
        raise AssertionError

    def _listen(self) -> None:
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_end)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(reader, selectors.EVENT_READ, self._on_signal)
        self._selector.register(sys.stdin, selectors.EVENT_READ, self._on_life)
        if self._owner >= 0:
            self._selector.register(self._owner, selectors.EVENT_READ, self._on_owner)

    def _build(self) -> None:
        layout, folder = self._order.layout, self._order.folder
        here = folder / NAMESPACES
        namespaces.let_owner_look_inside()
        namespaces.keep_mounts_private()
        with contextlib.suppress(OSError):  # a container may hide parts of /proc, then the kernel refuses a new one
            namespaces.mount_new("proc", Path("/proc"))
        try:
            namespaces.mount_new("tmpfs", here, "mode=0700")
        except OSError as error:
            raise UnsupportedError(f"cannot mount a file system in a namespace: {error.strerror}") from None
        _replace_file(Path("/etc/hosts"), folder / "hosts", layout.hosts_text)
        _names_from_files_first(folder)
        wiring.build(layout, here, self._check)
        binary, deadline_s = self._order.binary, self._order.deadline_s
        if layout.wires and binary is not None:
            self._element = element.start(binary, plan(layout.wires, self._order.seed), folder, here)
            element.wait_until_ready(self._element, folder, deadline_s, self._check)
        if self._order.agents and binary is not None:
            names = [name for name, _ in layout.hosts]
            started = crew.start(binary, names, folder, here)
            crew.wait_until_ready(started, folder, deadline_s, self._check)

    def _check(self) -> None:
        """Handle pending events without waiting.

        Raises:
            _Abandoned: when the lab is to end.
        """
        self._serve(0)

    def _hold(self) -> None:
        while True:
            self._reap()
            self._serve(None)

    def _serve(self, timeout_s: float | None) -> None:
        for key, _ in self._selector.select(timeout_s):
            key.data(key.fd)
        if self._ending:
            raise _Abandoned

    def _on_signal(self, descriptor: int) -> None:
        os.read(descriptor, 4096)

    def _on_end(self, *_: Any) -> None:
        self._ending = True

    def _on_owner(self, _: int) -> None:
        self._ending = True

    def _on_life(self, descriptor: int) -> None:
        if os.read(descriptor, len(STAY)) != STAY:
            self._ending = True
            return
        self._selector.unregister(descriptor)
        if self._owner >= 0:
            self._selector.unregister(self._owner)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)

    def _reap(self) -> None:
        """Collect ended processes. Without its element the lab's links carry nothing, so the lab ends with it."""
        with contextlib.suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                if self._element is not None and pid == self._element.pid:
                    sys.stderr.write("the element exited, so that no link carries packets: the lab ends\n")
                    raise _Abandoned

    def _end(self, status: int) -> NoReturn:
        """End every process of the lab, remove its folder and exit. The kernel does the rest."""
        with contextlib.suppress(OSError):
            os.kill(-1, signal.SIGKILL)
        with contextlib.suppress(OSError):
            namespaces.unmount(self._order.folder / NAMESPACES)
        state.discard(self._order.folder, self._order.identity)
        os._exit(status)


def _watch(owner: int) -> int:
    """Open a handle on the owner that becomes readable when it dies."""
    try:
        handle = os.pidfd_open(owner)
    except ProcessLookupError:
        raise _Abandoned from None
    except OSError:
        handle = -1
    if os.getppid() != owner:
        raise _Abandoned
    return handle


OTHERWISE = "use `gavotte simulate`, which needs neither"


def _isolate() -> bool:
    """Enter the lab's namespaces.

    Returns:
        Whether a user namespace was needed.
    """
    kinds = namespaces.NEW_MOUNT | namespaces.NEW_PID | namespaces.NEW_IPC | namespaces.NEW_UTS | namespaces.NEW_NET
    if os.geteuid() == 0:
        try:
            namespaces.unshare(kinds)
        except OSError:
            pass  # root without its rights, as in many containers
        else:
            return False
    hint = _why_no_user_namespace()  # before this process may be another user with other capabilities
    try:
        namespaces.become_root_of_user_namespace()
        namespaces.unshare(kinds)
    except OSError as error:
        raise UnsupportedError(f"neither root nor user namespaces work here: {error.strerror}", hint=hint) from None
    return True


def _why_no_user_namespace() -> str:
    refusals = (
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("user.max_user_namespaces", "0", "10000"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    )
    for name, refusing, setting in refusals:
        with contextlib.suppress(OSError):
            if Path("/proc/sys", *name.split(".")).read_text().strip() == refusing:
                return f"{name} is {refusing}: run as root, have root run `sysctl {name}={setting}`, or {OTHERWISE}"
    if os.geteuid() == 0:
        # Linux 5.12 and newer: without CAP_SETFCAP, root may not map itself into a user namespace.
        lacking = "a system call filter may forbid them" if namespaces.may_administer() else "root lacks CAP_SYS_ADMIN"
        return f"allow root to make namespaces ({lacking}; `docker run --privileged` does), or {OTHERWISE}"
    return f"run as root, allow this process user namespaces (seccomp may forbid them), or {OTHERWISE}"


def _names_from_files_first(folder: Path) -> None:
    """Make sure that /etc/hosts is read before any name service of the machine is asked."""
    real = Path("/etc/nsswitch.conf")
    with contextlib.suppress(OSError):
        lines = real.read_text().splitlines()
        lines = ["hosts: files dns" if line.split(":")[0].strip() == "hosts" else line for line in lines]
        _replace_file(real, folder / "nsswitch.conf", "\n".join(lines) + "\n")


def _replace_file(real: Path, stand_in: Path, text: str) -> None:
    """Put a file of ours in place of the machine's, inside the lab. Does nothing where the machine has no such file."""
    if real.exists():
        stand_in.write_text(text)
        stand_in.chmod(0o644)
        namespaces.mount_over(stand_in, real)


def _send(**message: object) -> None:
    """Report one line of JSON to the owner, who may be gone."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(message).encode() + b"\n")
