"""Write a campaign's samples to a file that survives a crash.

Lines are only appended. A torn last line is cut when the file is opened again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gavotte.errors import FormatError, GavotteError
from gavotte.formats.files.reading import parse_json, read_bytes
from gavotte.formats.record import Sample, parse_samples, read_samples

if TYPE_CHECKING:
    from typing_extensions import Self


class Journal:
    """A `*.jsonl` file of samples, open for appending and locked against other processes.

    Attributes:
        samples: the file's samples, in file order.
        cut_bytes: length of the torn line that was cut from the file's end; 0 = no line was torn.
    """

    def __init__(self, path: str | Path, *, resume: bool) -> None:
        """Open or create a file, lock it, cut a torn last line and read its samples.

        Args:
            path: the file.
            resume: whether the file may hold samples already.

        Raises:
            GavotteError: when the file holds samples without `resume`, or another process writes it.
            FormatError: when the file cannot be written, or a line before the last is damaged.
        """
        self.samples: list[Sample] = []
        self.cut_bytes = 0
        self._path = Path(path)
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise FormatError(str(path), "", f"cannot be written: {why}", "check the folder") from None
        try:
            self._claim(resume=resume)
        except BaseException:
            os.close(self._file)
            raise

    def _claim(self, *, resume: bool) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise GavotteError(f"{self._path}: another campaign writes it", hint="wait until it has ended") from None
        size = os.fstat(self._file).st_size
        if size and not resume:
            raise _holds_samples(self._path)
        if size:
            whole = sound_bytes(self._path)
            if whole < size:
                self.cut_bytes = size - whole
                os.ftruncate(self._file, whole)
                os.fsync(self._file)
            self.samples = read_samples(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def append(self, sample: Sample) -> None:
        """Append a sample as a line and return once the line is on disk.

        Raises:
            FormatError: when the line cannot be written, for example because the disk is full. The file then has its
                earlier lines only.
        """
        line = sample.model_dump_json().encode() + b"\n"
        size = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, line)
            while written < len(line):
                written += os.write(self._file, line[written:])
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, size)
            why = f"`{sample.sample}` cannot be written: {error.strerror}"
            raise FormatError(str(self._path), "", why, "make room, then go on with --resume") from None
        self.samples.append(sample)


def read_journal(path: str | Path, *, resume: bool) -> tuple[list[Sample], int]:
    """Read a file as `Journal` would, and change nothing.

    Args:
        path: the file, which need not exist.
        resume: whether the file may hold samples already.

    Returns:
        the samples, and the length in bytes of a torn last line.

    Raises:
        GavotteError: when the file holds samples without `resume`.
        FormatError: when a line before the last is damaged.
    """
    if not Path(path).exists():
        return [], 0
    content = read_bytes(path)
    if content and not resume:
        raise _holds_samples(path)
    whole = sound_bytes(path)
    return parse_samples(content[:whole].decode(), str(path)), len(content) - whole


def _holds_samples(path: str | Path) -> GavotteError:
    return GavotteError(f"{path}: holds samples already", hint="continue the file with --resume, or write another one")


def sound_bytes(path: str | Path) -> int:
    """Return the length in bytes of a file's whole lines.

    A last line without a line break, or one that is not JSON, does not count.
    """
    content = read_bytes(path)
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        return whole
    begin = content.rfind(b"\n", 0, max(0, whole - 1)) + 1
    try:
        parse_json(content[begin:whole].decode(), str(path))
    except (FormatError, UnicodeDecodeError):
        return begin if content[begin:whole].strip() else whole
    return whole


def write_samples(path: str | Path, samples: Iterable[Sample]) -> None:
    """Write samples to a new file; fail if the file already holds any data."""
    with Journal(path, resume=False) as journal:
        for sample in samples:
            journal.append(sample)
