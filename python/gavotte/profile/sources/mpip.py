"""Read mpiP reports: the bytes that each rank of an MPI program sent to each other rank, point to point.

mpiP writes this matrix if it was built to record communication. The matrix lies between two rulers. Each rank has a
block of lines `source target bytes count`. The entry of a rank with itself is the sum of its row, not a transfer.

The matrix has no collectives, and builds of mpiP differ in which calls it has: some leave out Sendrecv. The report's
own statistics state the bytes of every call. A matrix that differs from their sum by more than `MOST_DIFFERENCE` is
refused.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from gavotte.errors import FormatError, GavotteError
from gavotte.formats.files.kinds import check_kind
from gavotte.formats.files.reading import read_text
from gavotte.formats.parts.rates import format_bytes
from gavotte.profile.gathering import Gathering, Request, of_ranks
from gavotte.profile.traffic import Count, Traffic

MOST_DIFFERENCE = 0.01
"""Largest difference between the matrix and the bytes that the report's calls sent, as a share of the latter."""

_START, _END = "Start Communication Matrix", "End Communication Matrix"
_MOST_BYTES = 1 << 62
_LISTED = 20
"""Call sites that mpiP lists of each total, if it lists those of each call no further."""
_MESSAGES = {"Send", "Ssend", "Bsend", "Rsend", "Isend", "Issend", "Ibsend", "Irsend"} | {
    "Sendrecv",
    "Sendrecv_replace",
    "Isendrecv",
    "Isendrecv_replace",
}
_VECTORS = (
    "Alltoallv",
    "Alltoallw",
    "Scatterv",
    "Reduce_scatter",
    "Neighbor_allgather",
    "Neighbor_allgatherv",
    "Neighbor_alltoall",
    "Neighbor_alltoallv",
    "Neighbor_alltoallw",
)
_ONE_SIDED = {"Put", "Get", "Accumulate", "Get_accumulate", "Fetch_and_op", "Rput", "Rget", "Raccumulate"}
_SILENT = (
    {"Start", "Startall", "Rget_accumulate"} | _ONE_SIDED | {*_VECTORS} | {"I" + each.lower() for each in _VECTORS}
)
"""Calls that send, and whose bytes many builds of mpiP do not state."""


def read_mpip(request: Request) -> Traffic:
    """Read an mpiP report with a communication matrix. Without given tasks, the ranks are tasks `rank0`, `rank1`, ...

    Returns:
        The Traffic. Its `seen` has `ranks` and, if the report states them, `stated_bytes`, which its calls sent. It
        warns of a report that states no bytes, and of calls that send but have no bytes in the report.

    Raises:
        FormatError: when the file is no mpiP report, has no matrix, the matrix is damaged or empty, or it differs from
            what the report's calls sent.
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
    stated, whole = _stated(lines)
    _compare(path, sum(sums.values()), stated, whole=whole)
    silent = sorted(call for call in _calls(lines) if call in _SILENT and not stated[call])
    warnings = [f"the report has no bytes of {', '.join(silent)}; neither has its matrix"] if silent else []
    if not stated:
        warnings.append("the report does not state what its calls sent, so its matrix may lack some of them")
    gathering = Gathering(of_ranks(request, ranks))
    for (source, target), size in sorted(sums.items()):
        gathering.add(str(source), str(target), Count.exact(size))
    totals = {"stated_bytes": stated.total()} if stated and whole else {}
    return gathering.traffic({"ranks": ranks, **totals}, doubts=warnings)


def _compare(path: str, matrix_bytes: int, stated: Counter[str], *, whole: bool) -> None:
    """Refuse a matrix that differs from what the report's calls sent, or from the least that they sent."""
    stated_bytes = stated.total()
    difference = stated_bytes - matrix_bytes if not whole else abs(stated_bytes - matrix_bytes)
    if not stated or difference <= MOST_DIFFERENCE * stated_bytes:
        return
    missing = _missing(matrix_bytes, stated)
    largest = sorted(missing, key=lambda call: -stated[call])
    calls = ", ".join(f"{format_bytes(stated[call])} of {call}" for call in largest[:4])
    others = f" and {len(largest) - 4} more" if len(largest) > 4 else ""
    of_them = f"without {calls}{others}" if calls else f"but its calls sent {format_bytes(stated_bytes)}"
    raise FormatError(
        path,
        "",
        f"has {format_bytes(matrix_bytes)} in its matrix, {of_them}",
        "count the program by `gavotte profile pmpi`, which sees these calls",
    )


def _missing(matrix_bytes: int, stated: Counter[str]) -> set[str]:
    """Return the calls that the matrix lacks: all collectives, and the messages without which its sum is explained."""
    messages = [call for call in stated if call in _MESSAGES]
    others = {call for call in stated if call not in _MESSAGES and stated[call]}
    kept = min(
        (set(each) for size in range(len(messages) + 1) for each in combinations(messages, size)),
        key=lambda each: abs(sum(stated[call] for call in each) - matrix_bytes),
    )
    return others | {call for call in messages if call not in kept}


def _stated(lines: list[str]) -> tuple[Counter[str], bool]:
    """Return the bytes that each kind of call sent, and whether these are all calls or the largest alone."""
    whole: Counter[str] = Counter()
    largest: Counter[str] = Counter()
    section, sites = "", 0
    for line in lines:
        if line.startswith("@---"):
            section = line
            continue
        if _START in line:
            break
        fields = line.split()
        try:
            if section.startswith("@--- Callsite Message Sent") and len(fields) == 8 and fields[2] == "*":
                whole[fields[0]] += _bytes(fields[7])
            elif section.startswith("@--- Aggregate Sent Message") and len(fields) == 6 and fields[1].isdecimal():
                largest[fields[0]] += _bytes(fields[3])
                sites += 1
        except (ValueError, OverflowError):
            continue
    if whole:
        return whole, True
    return largest, sites < _LISTED


def _bytes(word: str) -> int:
    """Return a number of bytes that the report rounds, as `1.716e+11`."""
    return min(max(int(float(word)), 0), _MOST_BYTES)


def _calls(lines: list[str]) -> set[str]:
    """Return the kinds of calls at the report's call sites."""
    calls, section = set(), ""
    for line in lines:
        if line.startswith("@---"):
            section = line
        elif section.startswith("@--- Callsites:") and len(fields := line.split()) > 3 and fields[0].isdecimal():
            calls.add(fields[-1])
    return calls


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
