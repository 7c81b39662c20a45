"""The file of a campaign's samples: lines are only appended, and a torn last one is cut when it is opened again."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from gavotte.errors import FormatError, GavotteError
from gavotte.formats.files.reading import parse_json, read_bytes
from gavotte.formats.record import Sample, read_samples


class Journal:
    """A `*.jsonl` that is being written. No two processes write one file.

    Attributes:
        samples: those that it holds, in file order.
        cut_bytes: length of the torn line that was cut from its end; 0 = there was none.
    """

    def __init__(self, path: str | Path, *, resume: bool) -> None:
        """Opens a file.

        Args:
            path: the file.
            resume: whether it may hold samples already.

        Raises:
            GavotteError: when it does, or another process writes it.
            FormatError: when a line that is not its last is damaged.
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
            raise GavotteError(
                f"{self._path}: holds samples already", hint="go on with them with --resume, or write another file"
            )
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
        """Adds a line; when this returns, it is on disk."""
        line = sample.model_dump_json().encode() + b"\n"
        written = os.write(self._file, line)
        while written < len(line):
            written += os.write(self._file, line[written:])
        os.fsync(self._file)
        self.samples.append(sample)


def sound_bytes(path: str | Path) -> int:
    """How much of a file is whole lines; a last one without an end, or that is no JSON, is not."""
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
    """Writes a new file of samples, which must not be there."""
    with Journal(path, resume=False) as journal:
        for sample in samples:
            journal.append(sample)
