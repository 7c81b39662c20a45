"""Write and read the long form of a series as CSV (RFC 4180, UTF-8).

Files are written snapshot by snapshot and read in batches. Errors name line and column.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt

from gavotte.errors import FormatError
from gavotte.formats.history import Floats, Ints
from gavotte.formats.network import MAX_MEMORY_BYTES
from gavotte.store.longform import COLUMNS, Place, Rows, assemble, flatten
from gavotte.store.snapshot import Snapshot

_BATCH = 1 << 16

Number = TypeVar("Number", int, float)


def write_csv(stream: BinaryIO, snapshots: Iterable[Snapshot]) -> None:
    """Write a CSV header and the rows of each snapshot, with the shortest text for each number that loses nothing."""
    lines = _Lines()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(COLUMNS)
    stream.write(lines.taken())
    for snapshot in snapshots:
        columns = flatten(snapshot)
        # An empty cell is NaN; repr is the shortest text that is the same float again.
        texts = {
            key: ["" if value != value else repr(value) for value in columns[key].tolist()]
            for key in ("time_s", "alpha_s", "beta_Bps", "cpus")
        }
        writer.writerows(zip(*(texts.get(key) or columns[key].tolist() for key in COLUMNS), strict=True))
        stream.write(lines.taken())


class _Lines:
    """Buffer that csv.writer writes to."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def write(self, text: str) -> None:
        self._parts.append(text)

    def taken(self) -> bytes:
        content = "".join(self._parts).encode()
        self._parts.clear()
        return content


def read_csv(path: str | Path) -> Iterator[Snapshot]:
    """Read the snapshots of a CSV file in the long form. Rows may have any order; unknown columns are ignored.

    Raises:
        FormatError: naming file, line, column and remedy.
    """
    name = str(path)
    try:
        # Excel puts a byte order mark before the header.
        with Path(path).open(encoding="utf-8-sig", newline="") as stream:
            yield from assemble(_batches(stream, name), Place(name, "line"))
    except FileNotFoundError:
        raise FormatError(name, "", "no such file", "check the path") from None
    except OSError as error:
        raise FormatError(name, "", f"cannot be read: {error.strerror}", "check the path") from None


def _batches(stream: Iterable[str], path: str) -> Iterator[Rows]:
    place = Place(path, "line")
    reader = csv.reader(stream, strict=True)
    header: list[str] = []
    rows: list[list[str]] = []
    numbers: list[int] = []
    try:
        for row in reader:
            if not row:
                continue
            if not header:
                header = row
                place.check_columns(header)
                continue
            if len(row) != len(header):
                problem = f"has {len(row)} cells where the header has {len(header)}"
                raise FormatError(path, f"line {reader.line_num}", problem, "use one cell per column")
            rows.append(row)
            numbers.append(reader.line_num)
            if len(rows) == _BATCH:
                yield _columns(header, rows, numbers, place)
                rows, numbers = [], []
    except csv.Error as error:
        raise FormatError(
            path, f"line {reader.line_num}", f"is not CSV: {error}", "quote cells as RFC 4180 does"
        ) from None
    except UnicodeDecodeError:
        raise FormatError(path, f"after line {reader.line_num}", "is not UTF-8 text", "save it as UTF-8") from None
    if not header:
        raise FormatError(path, "", "is empty", f"start with the line {','.join(COLUMNS)}")
    if rows:
        yield _columns(header, rows, numbers, place)


def _columns(header: list[str], rows: list[list[str]], numbers: list[int], place: Place) -> Rows:
    cells = dict(zip(header, zip(*rows, strict=True), strict=True))
    empty: tuple[str, ...] = ()

    def optional(key: str) -> Sequence[str]:
        return cells.get(key, empty)

    return Rows(
        number=np.array(numbers, dtype=np.int64),
        source=cells["source"],
        target=cells["target"],
        time_s=_floats(cells["time_s"], numbers, "time_s", place),
        alpha_s=_floats(cells["alpha_s"], numbers, "alpha_s", place),
        beta_Bps=_floats(cells["beta_Bps"], numbers, "beta_Bps", place),
        hops=_ints(optional("hops"), numbers, "hops", place),
        cpus=_floats(optional("cpus"), numbers, "cpus", place, empty=1.0) if "cpus" in cells else None,
        memory_bytes=_ints(optional("memory_bytes"), numbers, "memory_bytes", place),
        method=optional("method") if "method" in cells else None,
    )


def _floats(
    texts: Sequence[str], numbers: Sequence[int], column: str, place: Place, *, empty: float = np.nan
) -> Floats:
    def number(text: str) -> float:
        if not text:
            return empty
        if "_" in text or not text.isascii():  # float() would accept underscores and digits of other scripts
            raise ValueError
        return float(text)

    return np.array(_each(number, texts, numbers, column, place, "a number, or leave it empty"), dtype=np.float64)


def _ints(texts: Sequence[str], numbers: Sequence[int], column: str, place: Place) -> Ints | None:
    def number(text: str) -> int:
        if not text:
            return 0
        if "_" in text or not text.isascii() or len(text) > 40:
            raise ValueError
        try:
            value = int(text)
        except ValueError:
            # Many programs write 4 as 4.0 in a column that has empty cells.
            real = float(text)
            if not real.is_integer():
                raise
            value = int(real)
        if abs(value) > MAX_MEMORY_BYTES:
            raise ValueError
        return value

    if not texts:
        return None
    values: npt.NDArray[np.int64] = np.array(
        _each(number, texts, numbers, column, place, "a whole number, or leave it empty"), dtype=np.int64
    )
    return values


def _each(
    read: Callable[[str], Number], texts: Sequence[str], numbers: Sequence[int], column: str, place: Place, wanted: str
) -> list[Number]:
    done: list[Number] = []
    try:
        for text in texts:
            done.append(read(text))  # noqa: PERF401 - on an error its length is the position
    except (ValueError, OverflowError):
        at = len(done)
        place.refuse(numbers[at], column, f"is `{texts[at][:60]}`", f"write {wanted}")
    return done
