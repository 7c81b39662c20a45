"""The folder with one process's end of its tunnels: `r-XXXXXX` in the runtime directory.

Its owner holds a lock on a file in the folder. The kernel releases the lock however the owner ends, and the next
process that finds the lock free removes the folder.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gavotte.agents.runtime import RUNTIME_DIR_VARIABLE, runtime_dir
from gavotte.errors import GavotteError

logger = logging.getLogger(__name__)

PREFIX = "r-"
LOCK = "owner"
SOCKET_PATH_BYTES = 107
"""Longest path of a Unix socket."""


@contextmanager
def claimed() -> Iterator[Path]:
    """Make a folder for this process and remove it at the end. First remove folders of dead owners.

    Raises:
        GavotteError: when the runtime directory cannot hold sockets that ssh can name.
    """
    runtime = runtime_dir()
    folder = runtime / f"{PREFIX}{secrets.token_hex(3)}"
    # The longest socket is `4095.sock`. ssh first binds it under this name with 17 more letters.
    if len(os.fsencode(folder)) + 27 > SOCKET_PATH_BYTES or set(str(folder)) & set(": \t\n\"'\\%$"):
        raise GavotteError(
            f"ssh cannot create sockets in {runtime}", hint=f"set {RUNTIME_DIR_VARIABLE} to a short path without blanks"
        )
    with _alone(runtime):
        _sweep(runtime)
        folder.mkdir(mode=0o700)
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep() -> int:
    """Remove the folders whose owners are gone.

    Returns:
        The number of folders removed.
    """
    runtime = runtime_dir()
    with _alone(runtime):
        return _sweep(runtime)


def _sweep(runtime: Path) -> int:
    swept = 0
    for folder in runtime.glob(f"{PREFIX}*"):
        try:
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
                swept += 1
            finally:
                os.close(lock)
        except OSError as error:
            logger.debug("not removing %s: %s", folder, error)  # usually in use by another run
    return swept


@contextmanager
def _alone(runtime: Path) -> Iterator[None]:
    """Keep other processes from removing a folder that is made but not locked yet."""
    with (runtime / "reach.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
