"""Find the files with settings, and refuse those that somebody else could have written.

This module loads nothing beyond the standard library: most command lines run without such a file.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAME = "gavotte.toml"
VARIABLE = "GAVOTTE_CONFIG"
"""Environment variable that names the only file to read. An empty file, such as /dev/null, sets nothing."""

STICKY = stat.S_ISVTX


@dataclass(frozen=True)
class SettingsFile:
    """A file with settings.

    Attributes:
        path: its absolute path.
        own: whether it belongs to the user and not to a folder, so that it may name commands to start.
        content: its keys and tables.
    """

    path: Path
    own: bool
    content: dict[str, Any]


def find_paths() -> list[tuple[Path, bool]]:
    """Return the files that hold here, nearest first, and for each whether it is the user's own."""
    if named := os.environ.get(VARIABLE):
        return [(Path(named).absolute(), True)]
    own, nearest = own_path(), _nearest()
    paths = [] if nearest is None or nearest == own else [(nearest, False)]
    return paths + ([(own, True)] if own is not None and _exists(own) else [])


def read_files() -> list[SettingsFile]:
    """Read the files that hold here, nearest first.

    Raises:
        FormatError: when one cannot be trusted or read.
    """
    paths = find_paths()
    if not paths:
        return []
    from gavotte.formats.files.reading import parse_toml, read_text

    files = []
    for path, own in paths:
        if not os.environ.get(VARIABLE):
            _check_trust(path)
        files.append(SettingsFile(path, own, parse_toml(read_text(path), str(path))))
    return files


def own_path() -> Path | None:
    """Return where the user's own file is looked for; None without a home."""
    configuration = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    if configuration.is_absolute():
        return configuration / "gavotte" / NAME
    home = _home()
    return None if home is None else home / ".config" / "gavotte" / NAME


def _nearest() -> Path | None:
    """Return the first file from the working folder upward.

    The search ends at the home. Elsewhere it ends before a folder that others own or can write to.
    """
    try:
        here = Path.cwd()
    except OSError:
        return None
    home = _home()
    inside = home is not None and home in (here, *here.parents)
    for folder in (here, *here.parents):
        if not inside and folder != here and not _is_safe(folder.stat()):
            return None
        if _exists(folder / NAME):
            return folder / NAME
        if folder == home:
            return None
    return None


def _home() -> Path | None:
    try:
        return Path.home().resolve()
    except (OSError, RuntimeError):
        return None


def _exists(path: Path) -> bool:
    """Report whether a name exists, also as a link that leads nowhere."""
    try:
        path.lstat()
    except OSError:
        return False
    return True


def _check_trust(path: Path) -> None:
    """Refuse a file that another user can have written or put here.

    Raises:
        FormatError: naming the file and the remedy.
    """
    from gavotte.errors import FormatError

    try:
        link, target, folder = path.lstat(), path.stat(), path.parent.stat()
    except OSError:
        # Reading it reports why.
        return
    once = f"or read it by {VARIABLE}={path} if you trust it"
    if (owner := next((each.st_uid for each in (link, target) if not _is_own(each)), None)) is not None:
        raise FormatError(str(path), "", f"belongs to another user ({owner})", f"make it yours with chown, {once}")
    if not stat.S_ISREG(target.st_mode):
        raise FormatError(str(path), "", "is not a regular file", "remove it")
    if _others_write(target):
        raise FormatError(str(path), "", "can be written by other users", f"use `chmod go-w {path}`, {once}")
    if _others_write(folder) and not folder.st_mode & STICKY:
        raise FormatError(
            str(path), "", "is in a folder that other users can write to", f"use `chmod go-w {path.parent}`, {once}"
        )


def _is_safe(status: os.stat_result) -> bool:
    return _is_own(status) and not _others_write(status)


def _is_own(status: os.stat_result) -> bool:
    """Report whether a file belongs to the user, to root, or to the user who became root by sudo."""
    owners = {os.geteuid(), 0}
    if os.geteuid() == 0 and (caller := os.environ.get("SUDO_UID", "")).isdecimal():
        owners.add(int(caller))
    return status.st_uid in owners


def _others_write(status: os.stat_result) -> bool:
    """Report whether users other than the owner may write. A group of the owner's name without members is no other."""
    if status.st_mode & stat.S_IWOTH:
        return True
    if not status.st_mode & stat.S_IWGRP:
        return False
    import grp
    import pwd

    try:
        owner, group = pwd.getpwuid(status.st_uid).pw_name, grp.getgrgid(status.st_gid)
    except KeyError:
        return True
    return group.gr_name != owner or not set(group.gr_mem) <= {owner}
