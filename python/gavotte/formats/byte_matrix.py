"""Who sends how many bytes to whom, as people write it: a CSV of `source,target,bytes`."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from gavotte.errors import FormatError
from gavotte.formats.kinds import check_kind
from gavotte.formats.reading import read_text

COLUMNS = ("source", "target", "bytes")
MOST_BYTES = 1 << 60
"""Of one row: sums of a million rows stay exact."""


@dataclass(frozen=True)
class HostBytes:
    """Bytes from one host to another.

    Attributes:
        source: sending host.
        target: receiving host.
        bytes: payload, from 0 on.
    """

    source: str
    target: str
    bytes: int


def read_byte_matrix(path: str | Path) -> list[HostBytes]:
    """Reads a CSV whose first line names the columns `source,target,bytes`, in any order and among others.

    Returns:
        The rows in file order; a pair may stand in several.

    Raises:
        FormatError: naming line and remedy.
    """
    check_kind(path, "bytes")
    found: list[HostBytes] = []
    at: list[int] = []
    lines = csv.reader(read_text(path).removeprefix("\ufeff").splitlines(), strict=True)
    try:
        for line in lines:
            cells = [cell.strip() for cell in line]
            if not any(cells):
                continue
            where = f"line {lines.line_num}"
            if not at:
                if any(cells.count(name) != 1 for name in COLUMNS):
                    raise FormatError(str(path), where, "names other columns", f"write {','.join(COLUMNS)}")
                at = [cells.index(name) for name in COLUMNS]
            elif len(cells) <= max(at):
                raise FormatError(str(path), where, "too few columns", f"write {','.join(COLUMNS)}")
            else:
                source, target, size = (cells[column] for column in at)
                if not (size.isascii() and size.isdigit() and len(size) < 20 and int(size) <= MOST_BYTES):
                    raise FormatError(str(path), where, f"`{size[:40]}` is not a number of bytes", "use e.g. 104857600")
                found.append(HostBytes(source, target, int(size)))
    except csv.Error as error:
        raise FormatError(str(path), f"line {lines.line_num}", str(error), f"write {','.join(COLUMNS)}") from None
    if not found:
        raise FormatError(str(path), "", "has no rows", f"write the line {','.join(COLUMNS)} and at least one below it")
    return found
