"""Paths of the sockets, logs and locks of running processes.

Paths stay short: a Unix socket's path has room for 107 bytes.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gavotte.errors import GavotteError

RUNTIME_DIR_VARIABLE = "GAVOTTE_RUNTIME_DIR"
"""Environment variable that moves the runtime directory."""

LAB_VARIABLE = "GAVOTTE_LAB"
"""Environment variable that names the folder of the lab to use, from inside or outside it."""

LAB_HOSTS = Path("lab/lab.hosts.toml")
"""The inventory of the lab that is up, below the runtime directory."""


def runtime_dir() -> Path:
    """Return the runtime directory, made on first use and readable by its owner only.

    It is `$GAVOTTE_RUNTIME_DIR`, else `$XDG_RUNTIME_DIR/gavotte`, else `/run/gavotte` for root and
    `/tmp/gavotte-UID` for others.

    Raises:
        GavotteError: when it cannot be made, or belongs to someone else.
    """
    path = _wanted()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat(follow_symlinks=False)
    except OSError as error:
        raise GavotteError(
            f"cannot use the runtime directory {path}: {error.strerror}",
            hint=f"set {RUNTIME_DIR_VARIABLE} to a directory of yours",
        ) from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise GavotteError(
            f"other users can write to the runtime directory {path}",
            hint=f"remove it, or set {RUNTIME_DIR_VARIABLE} to a directory of yours",
        )
    return path


def lab_folder() -> Path:
    """Return the folder of the lab that `lab` names: `$GAVOTTE_LAB`, else the one that `lab up` makes."""
    named = os.environ.get(LAB_VARIABLE)
    return Path(named) if named else runtime_dir() / LAB_HOSTS.parent


def lab_hosts_file() -> Path:
    """Return the path of the inventory that `--hosts lab` names, whether or not it exists."""
    return lab_folder() / LAB_HOSTS.name


def _wanted() -> Path:
    for variable, below in ((RUNTIME_DIR_VARIABLE, ""), ("XDG_RUNTIME_DIR", "gavotte")):
        base = os.environ.get(variable)
        if base:
            return Path(base).absolute() / below
    uid = os.geteuid()
    return Path("/run/gavotte") if uid == 0 else Path(f"/tmp/gavotte-{uid}")
