"""mpiP reports: the matrix of bytes that each rank of an MPI program sent each other one, point to point.

mpiP writes it where it was built to record communication, between two rulers, a block for each rank of lines
`source target bytes count`. The entry of a rank with itself is the sum of its row, no transfer. Collectives are not in
it: a program that uses nothing else (NAS EP, IS) leaves it nearly empty.
"""

from __future__ import annotations

import math
from pathlib import Path

from gavotte.errors import FormatError, GavotteError
from gavotte.formats.app import FORMAT, App, Task, Transfer
from gavotte.formats.reading import read_text

NOISE_SHARE = 0.001
"""Transfers below this share of the largest are left out unless asked for: barriers and start-up."""

_START, _END = "Start Communication Matrix", "End Communication Matrix"
_MOST_BYTES = 1 << 62


def from_mpip(
    path: str | Path, *, name: str, cpus: float = 1.0, memory_bytes: int = 0, min_bytes: int | None = None
) -> App:
    """Reads an mpiP report with a communication matrix.

    Args:
        path: the `*.mpiP` file.
        name: of the application.
        cpus: cores that each rank needs.
        memory_bytes: memory that each rank needs.
        min_bytes: leaves out transfers of fewer bytes; None: below `NOISE_SHARE` of the largest.

    Returns:
        An App with the tasks `rank0`, `rank1`, ... in order.

    Raises:
        FormatError: when the file is no mpiP report, has no matrix, or the matrix is damaged.
        GavotteError: when no transfer has `min_bytes`.
    """
    lines = read_text(path).splitlines()
    if not lines or lines[0].strip() != "@ mpiP":
        raise FormatError(str(path), "", "is no mpiP report", "name the *.mpiP file that the run has left")
    ranks, sums = _matrix(lines, str(path))
    largest = max(sums.values(), default=0)
    least = math.ceil(largest * NOISE_SHARE) if min_bytes is None else min_bytes
    if largest < max(least, 1):
        raise GavotteError(f"{path}: no transfer has {max(least, 1)} bytes", hint="collectives are not in the matrix")
    return App(
        format=FORMAT,
        name=name,
        task=[Task(name=f"rank{rank}", cpus=cpus, memory_bytes=memory_bytes) for rank in range(ranks)],
        transfer=[
            Transfer(source=f"rank{source}", target=f"rank{target}", bytes=size)
            for (source, target), size in sorted(sums.items())
            if size >= max(least, 1)
        ],
    )


def _matrix(lines: list[str], path: str) -> tuple[int, dict[tuple[int, int], int]]:
    """How many ranks there are, and what each sends each other one."""
    ranks = sum(line.startswith("@ MPI Task Assignment") for line in lines)
    start = next((at for at, line in enumerate(lines) if _START in line), None)
    if start is None:
        raise FormatError(path, "", "has no communication matrix", "build mpiP so that it records one")
    sums: dict[tuple[int, int], int] = {}
    for at, line in enumerate(lines[start + 1 :], start + 2):
        if _END in line:
            return ranks, sums
        fields = line.split()
        if not fields or not fields[0].isascii() or not fields[0].isdigit():
            continue  # a heading of one rank's block
        try:
            source, target, size, _ = map(int, fields)
        except ValueError:
            raise FormatError(path, f"line {at}", "is not `source target bytes count`", "run mpiP again") from None
        if not (0 <= source < ranks and 0 <= target < ranks and 0 <= size <= _MOST_BYTES):
            remedy = f"it has {ranks} ranks in its task assignment"
            raise FormatError(path, f"line {at}", "names a rank or a size that cannot be", remedy)
        if source != target:
            sums[source, target] = min(sums.get((source, target), 0) + size, _MOST_BYTES)
    raise FormatError(path, "", "ends inside its communication matrix", "copy the whole report")
