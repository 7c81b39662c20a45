"""Folders for the files of one run. Each is removed after the run, or by the next call if the run was killed.

A run holds a lock on a file in its folder. The kernel releases the lock when the process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gavotte.errors import GavotteError

_PREFIX = "run-"
_LOCK = "lock"
_YOUNG_S = 60.0
"""A folder of this age may not have its lock yet."""


def default_root(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for counts and built libraries: `$XDG_CACHE_HOME/gavotte/launch`, else below `~/.cache`.

    Raises:
        GavotteError: when there is no home folder.
    """
    try:
        cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        raise GavotteError("there is no home folder for files of the run", hint="name a folder by --scratch") from None
    return cache.absolute() / "gavotte" / "launch"


def scratch_root(given: Path | None) -> Path:
    """Return the folder for files of runs: the given one, or the user's own.

    Raises:
        GavotteError: when there is no home folder.
    """
    return default_root() if given is None else given.absolute()


@contextmanager
def run_folder(root: Path) -> Iterator[Path]:
    """Yield a new folder below `root`, and remove it afterwards, as well as those of runs that were killed.

    Raises:
        GavotteError: when the folder cannot be made.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        sweep(root)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
        lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise GavotteError(f"{root}: {error.strerror}", hint="name another folder by --scratch") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep(root: Path) -> int:
    """Remove the folders of runs that have ended. Return how many there were."""
    count = 0
    for folder in root.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if _ended(folder):
                shutil.rmtree(folder)
                count += 1
    return count


def _ended(folder: Path) -> bool:
    """Return whether no process holds a folder's lock."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return time.time() - folder.stat().st_mtime > _YOUNG_S
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        # Its maker opens the lock a moment before it takes it.
        return time.time() - os.fstat(lock).st_mtime > 1.0
    finally:
        os.close(lock)
