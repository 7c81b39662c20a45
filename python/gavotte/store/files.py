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
from gavotte.formats.history import History, read_history, write_history
from gavotte.formats.record import read_records, write_records
from gavotte.store.csvfile import read_csv, write_csv
from gavotte.store.errors import StoreError
from gavotte.store.series import Span
from gavotte.store.snapshot import Snapshot, gather, split
from gavotte.store.store import Added, Store

RECORDS = "jsonl"
FORMATS = ("npz", "parquet", "csv", RECORDS)
"""Names of the file formats: the first three contain a series, the last contains Records."""


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
    """Return the name of a file's format, from its suffix or as given.

    Args:
        path: file whose suffix is the default.
        given: name of a format, overrides the suffix; None = use the suffix.

    Returns:
        One of `FORMATS`.

    Raises:
        StoreError: when the format is unknown.
        FormatError: when the suffix is unknown and the existing file is visibly of another kind.
    """
    name = given or Path(path).suffix.removeprefix(".").lower()
    if name not in FORMATS:
        if not given:
            check_kind(path, "history")
        what = f"no format `{name}`" if given else f"{path}: its suffix tells no format"
        raise StoreError(what, hint=f"use one of {', '.join(FORMATS)}")
    return name


def read_series_file(path: str | Path, *, form: str | None = None) -> History:
    """Read the snapshots of a file as a History.

    Args:
        path: `.npz`, `.parquet` or `.csv` file.
        form: one of `FORMATS`, overrides the suffix.

    Raises:
        StoreError: for Records, or a format that is unknown.
        FormatError: when the file is invalid.
    """
    kind = file_format(path, form)
    if kind == RECORDS:
        raise StoreError(f"{path}: .jsonl is for Records, not for snapshots", hint="use npz, parquet or csv")
    if kind == "npz":
        return read_history(path)
    snapshots = sorted(_READERS[kind](path), key=lambda each: each.time_s)
    if not snapshots:
        raise StoreError(f"{path}: has no snapshot", hint="use a file of `gavotte history export`")
    hosts = tuple(dict.fromkeys(host for each in snapshots for host in each.hosts))
    return gather(snapshots, count=len(snapshots), hosts=hosts, name=str(path))


def import_file(
    store: Store, path: str | Path, series: str | None = None, *, form: str | None = None, skip_existing: bool = False
) -> Added:
    """Add the snapshots or Records of a file to a store, in one transaction.

    Args:
        store: store to add to.
        path: `.npz`, `.parquet`, `.csv` or `.jsonl` file.
        series: name of the series; None for the file's name up to the first dot. Ignored for Records.
        form: one of `FORMATS`, overrides the suffix.
        skip_existing: skip snapshots at times that the series already has, instead of raising an error.

    Raises:
        FormatError: when the file is invalid. Then nothing is stored.
        StoreError: for a time that the series already has, or a store that cannot be written. Then nothing is stored.
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
    """Write the snapshots of a series to a file, completely or not at all.

    Args:
        store: store to read from.
        series: name of the series.
        path: `.npz`, `.parquet` or `.csv` file.
        form: one of `FORMATS`, overrides the suffix.
        span: snapshots to write; None = all.

    Returns:
        Number of snapshots written.

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
    """Write Records to a `.jsonl` file, completely or not at all, and return their number.

    Args:
        store: store to read from.
        path: the file.
        kind: kind of the Records; None = all.
        span: time span of the Records; None = all times.

    Raises:
        StoreError: when no Record matches.
        FormatError: when the file cannot be written.
    """
    records = store.records(kind, span=span)
    if not records:
        raise StoreError("no such Records", hint="`gavotte history list` shows what there is")
    _write_through(path, lambda file: write_records(file, records))
    return len(records)


def _write_through(path: str | Path, write: Callable[[str | Path], None]) -> None:
    """Call a function that writes a file; for a device, write a temporary file and copy its content to the device."""
    if not is_device(Path(path)):
        write(path)
        return
    with tempfile.TemporaryDirectory() as folder, _written_aside(path) as device:
        write(Path(folder) / "content")
        device.write((Path(folder) / "content").read_bytes())


@contextmanager
def _written_aside(path: str | Path) -> Iterator[BinaryIO]:
    """Yield a stream to a temporary file that replaces the target at the end; a device is written directly.

    This is `formats.files.reading.write_bytes` for content that is written in pieces.
    """
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
