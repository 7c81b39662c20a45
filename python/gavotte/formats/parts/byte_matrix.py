"""Tables of the bytes that hosts send each other: a CSV of `source,target,bytes`."""

from __future__ import annotations

import csv
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from gavotte.errors import FormatError
from gavotte.formats.files.kinds import check_kind
from gavotte.formats.files.reading import read_text
from gavotte.formats.parts.names import known_as

COLUMNS = ("source", "target", "bytes")
MOST_BYTES = 1 << 60
"""Most bytes of one row, so that sums of a million rows stay exact."""


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


def spelled_as(flows: Sequence[HostBytes], known: Collection[str]) -> list[HostBytes]:
    """Return the flows with each host's name in the upper and lower case that `known` uses for the host."""
    names = {name for flow in flows for name in (flow.source, flow.target)}
    spelling = {name: known_as(name, known) for name in names}
    return [HostBytes(spelling[flow.source], spelling[flow.target], flow.bytes) for flow in flows]


def read_byte_matrix(path: str | Path) -> list[HostBytes]:
    """Read a CSV whose first line names the columns `source,target,bytes`, in any order and among others.

    Returns:
        The rows in file order. A pair may have several rows.

    Raises:
        FormatError: naming line and remedy.
    """
    check_kind(path, "bytes")
    rows: list[HostBytes] = []
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
                rows.append(HostBytes(source, target, int(size)))
    except csv.Error as error:
        raise FormatError(str(path), f"line {lines.line_num}", str(error), f"write {','.join(COLUMNS)}") from None
    if not rows:
        raise FormatError(str(path), "", "has no rows", f"write the line {','.join(COLUMNS)} and at least one below it")
    return rows
