"""Files that are read again when they have changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from gavotte.errors import GavotteError

Noun = TypeVar("Noun")


class Current(Generic[Noun]):
    """The newest content of a file. While the file is missing or damaged, the content before stays.

    Args:
        path: the file.
        read: reads it.
        complain: called with a warning when it cannot be read, once for each change.

    Raises:
        GavotteError: when the file cannot be read at first.
    """

    def __init__(self, path: Path, read: Callable[[Path], Noun], complain: Callable[[str], None]) -> None:
        self.path = path
        self._read = read
        self._complain = complain
        self._mark = self._look()
        self._noun = read(path)

    def get(self) -> Noun:
        """Return the content."""
        mark = self._look()
        if mark != self._mark:
            self._mark = mark
            try:
                self._noun = self._read(self.path)
            except GavotteError as error:
                self._complain(f"{error}; what was read before is served")
        return self._noun

    @property
    def mark(self) -> tuple[int, ...]:
        """Changes whenever the file changes."""
        return self._look()

    @property
    def modified_s(self) -> float:
        """Unix time of its last change; 0 = the file is missing."""
        return self._look()[0] / 1e9

    def _look(self) -> tuple[int, ...]:
        try:
            status = self.path.stat()
        except OSError:
            return (0,)
        return (status.st_mtime_ns, status.st_ino, status.st_size)
