"""Tables of the bytes that hosts send each other: a CSV of `source,target,bytes`."""

from __future__ import annotations

import csv
import re
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

_UNITS = {"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}
"""Units of sizes, the same as in lists of flows: bytes are counted as messages print them."""
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([kmgt]b)", re.ASCII | re.IGNORECASE)


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
    if all(name == spelled for name, spelled in spelling.items()):
        return list(flows)
    return [HostBytes(spelling[flow.source], spelling[flow.target], flow.bytes) for flow in flows]


def merged(flows: Sequence[HostBytes]) -> list[HostBytes]:
    """Return one flow for each pair of hosts, with the bytes of all its flows, in order of first appearance."""
    sums: dict[tuple[str, str], int] = {}
    for flow in flows:
        pair = flow.source, flow.target
        sums[pair] = sums.get(pair, 0) + flow.bytes
    return list(flows) if len(sums) == len(flows) else [HostBytes(*pair, size) for pair, size in sums.items()]


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
                rows.append(HostBytes(source, target, _bytes(size, path, where)))
    except csv.Error as error:
        raise FormatError(str(path), f"line {lines.line_num}", str(error), f"write {','.join(COLUMNS)}") from None
    if not rows:
        raise FormatError(str(path), "", "has no rows", f"write the line {','.join(COLUMNS)} and at least one below it")
    return rows


def _bytes(text: str, path: str | Path, where: str) -> int:
    """Return a number of bytes: whole, 0 included, or a size such as `5MB`, as lists of flows accept it."""
    if text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= MOST_BYTES:
        return int(text)
    sized = _SIZE.fullmatch(text)
    if sized is not None and (size := float(sized[1]) * _UNITS[sized[2].lower()]) <= MOST_BYTES and size == int(size):
        return int(size)
    raise FormatError(str(path), where, f"`{text[:40]}` is not a number of bytes", "use e.g. 104857600, or 5MB")
