"""Read the counts of Gavotte's MPI shim: the bytes that each rank of a program sent to each other one, with any MPI.

    gavotte shim --count -o libgavotte-count.so
    LD_PRELOAD=./libgavotte-count.so GAVOTTE_COUNTS=job          in the environment of every rank

These commands leave one file per rank, `job.0.pmpi` and so on. Messages, puts, gets, alltoall, scatter, gather and
allgather are exact. For other collectives, only the MPI library knows which ranks pass data on, so a shape is assumed.
A broadcast and a reduction count as a star, an allreduce, reduce-scatter and scan as a ring. The interval allows for
every other shape.
"""

from __future__ import annotations

import re

from gavotte.errors import FormatError
from gavotte.formats.files.reading import read_text
from gavotte.profile.gathering import Gathering, Request, of_ranks
from gavotte.profile.traffic import Count, Traffic

MOST_RANKS = 1 << 20
_HEAD = re.compile(r"gavotte/pmpi/1 rank (\d{1,7}) of (\d{1,7})")
_TOTAL = re.compile(r"(loose|uncounted) (\d{1,19})")
_LINE = re.compile(r"(\d{1,7}) (\d{1,19}) (\d{1,19}) (\d{1,19})")


def read_pmpi(request: Request) -> Traffic:
    """Read the files that the counting shim left for the ranks of one run.

    Returns:
        The Traffic. Its `seen` has `ranks`, `missing_ranks` (without a file among the inputs), `exact_bytes`,
        `shaped_bytes` (of collectives whose shape is assumed), and `uncounted_bytes` to ranks outside MPI_COMM_WORLD.

    Raises:
        FormatError: when a file is not the shim's or is damaged, or two files are of the same rank.
    """
    sums: dict[tuple[int, int], list[int]] = {}
    path_of: dict[int, str] = {}
    ranks = uncounted = 0
    for path in map(str, request.inputs):
        lines = read_text(path).splitlines()
        head = _HEAD.fullmatch(lines[0]) if lines else None
        if head is None:
            raise FormatError(path, "", "is not a count that the shim wrote", "use *.pmpi of `gavotte shim --count`")
        rank, size = int(head[1]), int(head[2])
        if not rank < size <= MOST_RANKS or (ranks and size != ranks):
            raise FormatError(path, "line 1", f"is rank {rank} of {size}", "name the files of one run")
        if rank in path_of:
            raise FormatError(path, "", f"is rank {rank}'s, as {path_of[rank]} is", "name each rank's file once")
        if lines[-1] != "end":
            raise FormatError(path, "", "is cut short", "copy the whole file")
        path_of[rank], ranks = path, size
        loose = 0
        for number, line in enumerate(lines[1:-1], 2):
            if (total := _TOTAL.fullmatch(line)) is not None:
                loose += int(total[2]) * (total[1] == "loose")
                uncounted += int(total[2]) * (total[1] == "uncounted")
                continue
            match = _LINE.fullmatch(line)
            if match is None or int(match[1]) >= ranks:
                raise FormatError(path, f"line {number}", "is not `rank exact shaped brought`", "run it again")
            other, exact, shaped, brought = map(int, match.groups())
            sent = sums.setdefault((rank, other), [0, 0, 0])
            sent[0] += exact
            sent[1] += shaped
            sent[2] = loose
            sums.setdefault((other, rank), [0, 0, 0])[0] += brought
    if not any(exact or shaped for exact, shaped, _ in sums.values()):
        raise FormatError(str(request.inputs[0]), "", "has no bytes between two ranks", "count a run that sends")
    gathering = Gathering(of_ranks(request, ranks))
    for (source, target), (exact, shaped, loose) in sorted(sums.items()):
        if exact or shaped:
            gathering.add(str(source), str(target), Count(exact + shaped, exact, exact + shaped + loose))
    seen = {
        "ranks": ranks,
        "missing_ranks": ranks - len(path_of),
        "exact_bytes": sum(each[0] for each in sums.values()),
        "shaped_bytes": sum(each[1] for each in sums.values()),
        "uncounted_bytes": uncounted,
    }
    return gathering.traffic(seen)
