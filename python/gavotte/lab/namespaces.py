"""The few system calls of Linux namespaces that Python 3.11 does not wrap."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from pathlib import Path

NEW_MOUNT = 0x0002_0000
NEW_UTS = 0x0400_0000
NEW_IPC = 0x0800_0000
NEW_USER = 0x1000_0000
NEW_PID = 0x2000_0000
NEW_NET = 0x4000_0000

_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_PRIVATE = 0x4_0000
_MNT_DETACH = 2
_PR_SET_DUMPABLE = 4
_CAP_SYS_ADMIN = 21

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(kinds: int) -> None:
    """Move this process into fresh namespaces (a new PID namespace holds only its later children).

    Args:
        kinds: the `NEW_` flags, or-ed.
    """
    _check(_libc.unshare(ctypes.c_int(kinds)), "unshare")


def may_administer() -> bool:
    """Return whether this process has CAP_SYS_ADMIN. True if the kernel does not report it."""
    reported = re.search(r"^CapEff:\s*([0-9a-f]+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return reported is None or bool(int(reported[1], 16) >> _CAP_SYS_ADMIN & 1)


def enter(namespace: int, kind: int) -> None:
    """Move this thread into a namespace.

    Args:
        namespace: open descriptor of the namespace.
        kind: its `NEW_` flag.
    """
    _check(_libc.setns(ctypes.c_int(namespace), ctypes.c_int(kind)), "setns")


def become_root_of_user_namespace() -> None:
    """Enter a new user namespace in which the caller is root and no other user exists."""
    uid, gid = os.geteuid(), os.getegid()
    unshare(NEW_USER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")


def keep_mounts_private() -> None:
    """Stop mounts of this mount namespace from reaching any other."""
    _mount("none", "/", "", _MS_REC | _MS_PRIVATE)


def mount_new(kind: str, target: Path, options: str = "") -> None:
    """Mount a fresh file system of a kind that needs no device, such as `proc`."""
    _mount(kind, str(target), kind, 0, options)


def mount_over(source: Path | str, target: Path) -> None:
    """Bind-mount `source` on top of `target`."""
    _mount(str(source), str(target), "", _MS_BIND)


def unmount(target: Path) -> None:
    """Unmount the file system on `target`, even if processes still use it."""
    _check(_libc.umount2(os.fsencode(target), _MNT_DETACH), f"unmount {target}")


def let_owner_look_inside() -> None:
    """Give /proc/PID of this process back to its owner.

    Entering a user namespace takes it away. Without it the owner cannot open the namespaces.
    """
    _check(_libc.prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(1), 0, 0, 0), "prctl")


def identity(kind: str, pid: int | str = "self") -> int:
    """Return the inode number of a process's namespace, equal for all processes in it.

    Args:
        kind: file name below /proc/PID/ns, such as `mnt`.
        pid: the process.
    """
    return Path(f"/proc/{pid}/ns/{kind}").stat().st_ino


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    call: Callable[..., int] = _libc.mount
    result = call(
        source.encode(),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _check(result, f"mount {kind or source} on {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
