"""Read mpiP reports: the bytes that each rank of an MPI program sent to each other rank, point to point.

mpiP writes this matrix if it was built to record communication. The matrix lies between two rulers. Each rank has a
block of lines `source target bytes count`. The entry of a rank with itself is the sum of its row, not a transfer.
Collectives are not in the matrix. A program that uses nothing else (NAS EP, IS) leaves it nearly empty.
"""

from __future__ import annotations

from gavotte.errors import FormatError, GavotteError
from gavotte.formats.files.kinds import check_kind
from gavotte.formats.files.reading import read_text
from gavotte.profile.gathering import Gathering, Request, of_ranks
from gavotte.profile.traffic import Count, Traffic

_START, _END = "Start Communication Matrix", "End Communication Matrix"
_MOST_BYTES = 1 << 62


def read_mpip(request: Request) -> Traffic:
    """Read an mpiP report with a communication matrix. Without given tasks, the ranks are tasks `rank0`, `rank1`, ...

    Raises:
        FormatError: when the file is no mpiP report, has no matrix, or the matrix is damaged or empty.
        GavotteError: when several reports are given.
    """
    path = str(request.inputs[0])
    if len(request.inputs) > 1:
        raise GavotteError("mpip reads one report", hint="name one file")
    check_kind(path, "mpip")
    lines = read_text(path).splitlines()
    if not lines or lines[0].strip() != "@ mpiP":
        raise FormatError(path, "", "is not an mpiP report", "use the *.mpiP file that the run left behind")
    ranks, sums = _matrix(lines, path)
    if not any(sums.values()):
        raise FormatError(path, "", "has no bytes between two ranks", "collectives are not in its matrix")
    gathering = Gathering(of_ranks(request, ranks))
    for (source, target), size in sorted(sums.items()):
        gathering.add(str(source), str(target), Count.exact(size))
    return gathering.traffic({"ranks": ranks})


def _matrix(lines: list[str], path: str) -> tuple[int, dict[tuple[int, int], int]]:
    """Return the number of ranks, and the bytes by (source, target) rank."""
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
            raise FormatError(path, f"line {at}", "has an impossible rank or size", remedy)
        if source != target:
            sums[source, target] = min(sums.get((source, target), 0) + size, _MOST_BYTES)
    raise FormatError(path, "", "ends inside its communication matrix", "copy the whole report")
