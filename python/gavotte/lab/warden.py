"""Run a command and make sure that nothing it started outlives the parent process, however the parent ends.

It runs as a script, `python -I -S warden.py PARENT COMMAND...`, and therefore imports the standard library only. It
stays in the terminal's foreground group, where Ctrl-C reaches the command directly. As the reaper of orphans it is the
ancestor of whatever the command starts, in other sessions too. The kernel sends it SIGTERM when its parent dies.

Its exit status is the command's, 128 + n when signal n ended that.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time

ASKED_S = 5.0
"""Longest time that all processes may take to end when the parent requests it."""

ORPHANED_S = 1.0
"""Longest time to end when the parent is dead, since the command's work is then useless."""

KILLED_S = 5.0
"""Longest time that the kernel may take to end killed processes. Those that still hang then are left."""

_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36
_LOOK_S = 0.02


def main(parent: int, argv: list[str]) -> int:
    """Run the command to its end, or end it.

    Args:
        parent: process number of the parent.
        argv: the command.

    Returns:
        The exit status.
    """
    mine = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, mine)
    # As subprocess does: Python ignores both, programs expect neither.
    defaults = [signal.SIGPIPE, signal.SIGXFSZ]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it died meanwhile
        return 128 + signal.SIGTERM
    try:
        command = os.posix_spawnp(argv[0], argv, os.environ, setsigmask=before, setsigdef=defaults)
    except OSError as error:
        sys.stderr.write(f"error: `{argv[0]}` cannot be run: {error.strerror}\n")
        return 126
    while (status := _reap(command)) is None:
        if signal.sigwait({signal.SIGCHLD, signal.SIGTERM}) == signal.SIGTERM:
            status = _end(command, ASKED_S if os.getppid() == parent else ORPHANED_S)
            break
    return status if status >= 0 else 128 - status


def _reap(command: int) -> int | None:
    """Reap children that have ended; return the command's status if it is among them."""
    status = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == command:
                status = os.waitstatus_to_exitcode(ended[1])
    return status


def _end(command: int, grace_s: float) -> int:
    """End all descendants, first with SIGTERM; return the command's status."""
    status = -signal.SIGKILL
    for number, limit_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILLED_S)):
        signalled: set[int] = set()
        deadline = time.monotonic() + limit_s
        while (left := _descendants()) and time.monotonic() < deadline:
            for pid in left - signalled:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
                    os.kill(pid, signal.SIGCONT)
            signalled |= left
            if (reaped := _reap(command)) is not None:
                status = reaped
            time.sleep(_LOOK_S)
    return status


def _descendants() -> set[int]:
    """Return the process numbers of all descendants, without those that only wait to be reaped."""
    parents: dict[int, int] = {}
    remains = set()
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib takes ten times as long to load
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
            state, parent = file.read().rpartition(b")")[2].split()[:2]
            parents[int(name)] = int(parent)
            if state in b"ZX":
                remains.add(int(name))
    family = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    # This process must still reap its own ended children, but not those of others.
    return {pid for pid in family if pid not in remains or parents[pid] == os.getpid()} - {os.getpid()}


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
