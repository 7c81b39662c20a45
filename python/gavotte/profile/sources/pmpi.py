"""Read the counts of Gavotte's MPI shim: the bytes that each rank of a program sent to each other one, with any MPI.

    gavotte shim --count -o libgavotte-count.so
    LD_PRELOAD=./libgavotte-count.so GAVOTTE_COUNTS=job          in the environment of every rank

These commands leave one file per rank, `job.0.pmpi` and so on. Messages, puts and gets are exact. Collectives are
counted in two ways, and the request chooses one:

- `wire`: what the library's own algorithms sent. The shim sees each message of Open MPI's collectives, so it is exact.
  With other libraries it is an estimate, whose interval allows for any algorithm;
- `call`: each byte goes from the rank that has it to the rank that wants it, as the root of a broadcast to each rank.
  An allreduce and a reduce-scatter count as a ring, a scan as a chain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gavotte.errors import FormatError
from gavotte.formats.files.reading import read_text
from gavotte.profile.gathering import Gathering, Request, of_ranks
from gavotte.profile.traffic import Count, Traffic

MOST_RANKS = 1 << 20
LEAST_WIRE_SHARE = 0.25
"""Least bytes of the messages of collectives, as a share of what their calls state. Algorithms send at least half."""
_HEAD = re.compile(r"gavotte/pmpi/2 rank (\d{1,7}) of (\d{1,7})")
_STATE = re.compile(r"wire (counted|estimated)|(uncounted|unfinished) (\d{1,19})")
_LINE = re.compile(r"(\d{1,7})" + r" (\d{1,19})" * 7)


@dataclass
class _Rank:
    """File of one rank.

    Attributes:
        rank: its number.
        ranks: number of ranks of the run.
        counted: whether the library counted what its collectives sent.
        uncounted_bytes: bytes to ranks outside MPI_COMM_WORLD.
        unfinished: whether the rank ended without MPI_Finalize.
        lines: other rank, and the seven counts of counting.c.
    """

    rank: int
    ranks: int
    counted: bool = False
    uncounted_bytes: int = 0
    unfinished: bool = False
    lines: list[tuple[int, ...]] = field(default_factory=list)

    def counts(self, collectives: str, *, counted: bool) -> Iterator[tuple[int, int, Count, int]]:
        """Yield sender, receiver, bytes with their interval, and how many of them are of collectives."""
        for other, exact, called, least, shaped, most, wire, brought in self.lines:
            if collectives == "call":
                own, low, high = called, called, called
            elif counted:
                own, low, high = wire, wire, wire
            else:
                own, low, high = min(shaped, most), min(least, shaped, most), most
            if exact or high:
                yield self.rank, other, Count(exact + own, exact + low, exact + high), own
            if brought:
                yield other, self.rank, Count.exact(brought), 0


def read_pmpi(request: Request) -> Traffic:
    """Read the files that the counting shim left for the ranks of one run.

    Returns:
        The Traffic. Its `seen` has `ranks`, `missing_ranks` (without a file among the inputs), `unfinished_ranks`
        (which ended without MPI_Finalize), `message_bytes` and `collective_bytes`, `uncounted_bytes` to ranks outside
        MPI_COMM_WORLD, and whether the bytes of collectives are estimates.

    Raises:
        FormatError: when a file is not the shim's or is damaged, or two files are of the same rank.
    """
    path_of: dict[int, str] = {}
    files: list[_Rank] = []
    for path in map(str, request.inputs):
        each = _read(path)
        if files and each.ranks != files[0].ranks:
            raise FormatError(path, "line 1", f"is rank {each.rank} of {each.ranks}", "name the files of one run")
        if each.rank in path_of:
            remedy = "name each rank's file once"
            raise FormatError(path, "", f"is rank {each.rank}'s, as {path_of[each.rank]} is", remedy)
        path_of[each.rank] = path
        files.append(each)
    counted = all(each.counted for each in files) and _shows_collectives(files)
    gathering = Gathering(of_ranks(request, files[0].ranks))
    whole = of_collectives = 0
    estimated = False
    for each in sorted(files, key=lambda each: each.rank):
        for source, target, count, own in each.counts(request.collectives, counted=counted):
            gathering.add(str(source), str(target), count)
            whole += count.bytes
            of_collectives += own
            estimated = estimated or count.low_bytes < count.high_bytes
    if not whole:
        raise FormatError(str(request.inputs[0]), "", "has no bytes between two ranks", "count a run that sends")
    doubts = ["this MPI does not show what its collectives send: their bytes are estimates, see the intervals"]
    seen = {
        "ranks": files[0].ranks,
        "missing_ranks": files[0].ranks - len(files),
        "unfinished_ranks": sum(each.unfinished for each in files),
        "message_bytes": whole - of_collectives,
        "collective_bytes": of_collectives,
        "estimated": estimated,
        "uncounted_bytes": sum(each.uncounted_bytes for each in files),
    }
    return gathering.traffic(seen, doubts=doubts if estimated else ())


def _shows_collectives(files: list[_Rank]) -> bool:
    """Return whether the messages of collectives are there; some libraries of collectives have a wire of their own."""
    called = sum(line[2] for each in files for line in each.lines)
    wire = sum(line[6] for each in files for line in each.lines if line[0] != each.rank)
    return wire >= LEAST_WIRE_SHARE * called


def _read(path: str) -> _Rank:
    lines = read_text(path).splitlines()
    head = _HEAD.fullmatch(lines[0]) if lines else None
    if head is None:
        if lines and lines[0].startswith("gavotte/pmpi/1 "):
            remedy = "build it again by `gavotte shim --count`, and run the program again"
            raise FormatError(path, "line 1", "is of an older library, which misses pairs", remedy)
        raise FormatError(path, "", "is not a count that the shim wrote", "use *.pmpi of `gavotte shim --count`")
    result = _Rank(int(head[1]), int(head[2]))
    if not result.rank < result.ranks <= MOST_RANKS:
        raise FormatError(path, "line 1", f"is rank {result.rank} of {result.ranks}", "name the files of one run")
    if lines[-1] != "end":
        raise FormatError(path, "", "is cut short", "copy the whole file")
    for number, line in enumerate(lines[1:-1], 2):
        if (state := _STATE.fullmatch(line)) is not None:
            result.counted = result.counted or state[1] == "counted"
            result.uncounted_bytes += int(state[3]) if state[2] == "uncounted" else 0
            result.unfinished = result.unfinished or state[2] == "unfinished"
            continue
        match = _LINE.fullmatch(line)
        if match is None or int(match[1]) >= result.ranks:
            raise FormatError(path, f"line {number}", "is not a rank and its seven counts", "run it again")
        result.lines.append(tuple(map(int, match.groups())))
    return result
