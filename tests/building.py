"""Programs that several tests run, compiled once for all workers of a test run."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Builds:
    """A folder of compiled files, shared by the workers of one test run.

    Attributes:
        folder: the folder.
    """

    folder: Path

    def once(self, name: str, build: Callable[[Path], object]) -> Path:
        """Return the file of this name, built by the first test that asks for it. Others wait meanwhile.

        Args:
            name: name of the file, which has to say all that decides its content.
            build: writes the file to the path that it gets.
        """
        self.folder.mkdir(exist_ok=True)
        path, part = self.folder / name, self.folder / f"{name}.part"
        with (self.folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                build(part)
                part.rename(path)
        return path
