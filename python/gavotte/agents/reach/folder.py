"""The folder that holds one process's end of its tunnels: `r-XXXXXX` in the runtime directory.

Its owner keeps a lock on a file in it, which the kernel drops however the owner ends. Whoever comes next sees that and
removes the folder.
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
    """Makes a folder for this process and removes it at the end; sweeps those of dead owners first.

    Raises:
        GavotteError: when the runtime directory cannot hold sockets that ssh can name.
    """
    runtime = runtime_dir()
    folder = runtime / f"{PREFIX}{secrets.token_hex(3)}"
    # The longest socket is `4095.sock`, which ssh binds under this name with 17 more letters first.
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
    """Removes the folders whose owners are gone.

    Returns:
        How many there were.
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
            logger.debug("leaves %s: %s", folder, error)  # mostly in use by another run
    return swept


@contextmanager
def _alone(runtime: Path) -> Iterator[None]:
    """Keeps others from sweeping a folder between its making and its locking."""
    with (runtime / "reach.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
