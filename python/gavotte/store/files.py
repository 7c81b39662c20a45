"""Write series and Records to files, and read them. The file's suffix selects the format."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gavotte.errors import FormatError
from gavotte.formats.files.kinds import check_kind
from gavotte.formats.files.reading import is_device, open_device
from gavotte.formats.history import read_history, write_history
from gavotte.formats.record import read_records, write_records
from gavotte.store.csvfile import read_csv, write_csv
from gavotte.store.errors import StoreError
from gavotte.store.series import Span
from gavotte.store.snapshot import Snapshot, split
from gavotte.store.store import Added, Store

RECORDS = "jsonl"
FORMATS = ("npz", "parquet", "csv", RECORDS)
"""The first three hold a series, the last Records."""


def _read_parquet(path: str | Path) -> Iterator[Snapshot]:
    from gavotte.store.parquetfile import read_parquet  # slow to load, seldom needed

    return read_parquet(path)


def _write_parquet(stream: BinaryIO, snapshots: Iterable[Snapshot]) -> None:
    from gavotte.store.parquetfile import write_parquet

    write_parquet(stream, snapshots)


_READERS: dict[str, Callable[[str | Path], Iterator[Snapshot]]] = {
    "npz": lambda path: split(read_history(path)),
    "parquet": _read_parquet,
    "csv": read_csv,
}
_WRITERS: dict[str, Callable[[BinaryIO, Iterable[Snapshot]], None]] = {"parquet": _write_parquet, "csv": write_csv}


def file_format(path: str | Path, given: str | None = None) -> str:
    """The format of a file.

    Args:
        path: its suffix tells the format.
        given: overrides the suffix.

    Returns:
        One of `FORMATS`.

    Raises:
        StoreError: when neither is known.
        FormatError: where a file is there that is visibly of another kind.
    """
    name = given or Path(path).suffix.removeprefix(".").lower()
    if name not in FORMATS:
        if not given:
            check_kind(path, "history")
        what = f"no format `{name}`" if given else f"{path}: its suffix tells no format"
        raise StoreError(what, hint=f"use one of {', '.join(FORMATS)}")
    return name


def import_file(
    store: Store, path: str | Path, series: str | None = None, *, form: str | None = None, skip_existing: bool = False
) -> Added:
    """Adds a file's snapshots to a series, or its Records, in one transaction.

    Args:
        store: where to.
        path: `.npz`, `.parquet`, `.csv` or `.jsonl`.
        series: its name; None for the file's name up to the first dot. Records have none.
        form: one of `FORMATS`, overrides the suffix.
        skip_existing: pass over a time that the series already has, instead of refusing.

    Raises:
        FormatError: when the file is not sound. Then nothing is stored.
        StoreError: for a time that is there already, or a store that cannot be written. Then nothing is stored.
    """
    kind = file_format(path, form)
    if kind == RECORDS:
        return store.add_records(read_records(path))
    return store.add_snapshots(
        Path(path).name.split(".")[0] if series is None else series, _READERS[kind](path), skip_existing=skip_existing
    )


def export_series(
    store: Store, series: str, path: str | Path, *, form: str | None = None, span: Span | None = None
) -> int:
    """Writes a series to a file, whole or not at all.

    Args:
        store: where from.
        series: its name.
        path: `.npz`, `.parquet` or `.csv`.
        form: one of `FORMATS`, overrides the suffix.
        span: which snapshots; None = all.

    Returns:
        How many snapshots were written.

    Raises:
        StoreError: when the store lacks the series or the span.
        FormatError: when the file cannot be written.
    """
    kind = file_format(path, form)
    if kind == RECORDS:
        raise StoreError(".jsonl is for Records, not for a series", hint="use npz, parquet or csv")
    if kind == "npz":
        history = store.load(series, span)
        _write_through(path, lambda file: write_history(file, history))
        return history.snapshots
    count = 0

    def counted() -> Iterator[Snapshot]:
        nonlocal count
        for count, snapshot in enumerate(store.snapshots(series, span), start=1):  # noqa: B007 - the caller reads it
            yield snapshot

    with _written_aside(path) as stream:
        _WRITERS[kind](stream, counted())
    return count


def export_records(store: Store, path: str | Path, kind: str | None = None, *, span: Span | None = None) -> int:
    """Writes Records to a `.jsonl`, whole or not at all. Returns how many.

    Args:
        store: where from.
        path: the file.
        kind: what was done; None = all.
        span: when; None = always.

    Raises:
        StoreError: when there is no such Record.
        FormatError: when the file cannot be written.
    """
    records = store.records(kind, span=span)
    if not records:
        raise StoreError("no such Records", hint="`gavotte history list` shows what there is")
    _write_through(path, lambda file: write_records(file, records))
    return len(records)


def _write_through(path: str | Path, write: Callable[[str | Path], None]) -> None:
    """Lets a noun write its file, and brings the content over where the path is a device."""
    if not is_device(Path(path)):
        write(path)
        return
    with tempfile.TemporaryDirectory() as folder, _written_aside(path) as device:
        write(Path(folder) / "content")
        device.write((Path(folder) / "content").read_bytes())


@contextmanager
def _written_aside(path: str | Path) -> Iterator[BinaryIO]:
    """As `formats.files.reading.write_bytes`, for content that comes piece by piece."""
    target = Path(path)
    aside = ""
    try:
        if is_device(target):
            with open_device(target) as device:
                yield device
            return
        handle, aside = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
        with os.fdopen(handle, "wb") as stream:
            yield stream
            mask = os.umask(0o077)
            os.umask(mask)
            os.fchmod(stream.fileno(), 0o666 & ~mask)
        Path(aside).replace(target)
        aside = ""
    except OSError as error:
        raise FormatError(str(path), "", f"cannot be written: {error.strerror or error}", "check the folder") from None
    finally:
        if aside:
            Path(aside).unlink(missing_ok=True)
