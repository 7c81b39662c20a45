"""Read the counts of Open MPI's monitoring component: the bytes that each rank sent to each other one.

    mpirun --mca pml_monitoring_enable 2 --mca pml_monitoring_enable_output 3 --mca pml_monitoring_filename job ...

This command leaves one file per rank, `job.0.prof` and so on. All lines that are read have bytes between two ranks:

- `E`: the program's own messages;
- `I`: the messages that collectives consist of;
- `S` and `R`: bytes that one-sided operations put and got.

The lines `C` and `D` are skipped: they count the collectives a second time, as their callers see them. The component
that counts them (`mca_coll_monitoring`) takes every neighbourhood for a Cartesian grid. A rank therefore crashes in
collectives among the neighbours of a distributed graph, usually by a division by zero. mpirun then ends the job before
any rank has written its file. Without that component, ranks crash in Open MPI's start. Messages that MPI_Start sends go
past the monitoring from Open MPI 4 on, and no line shows that.
"""

from __future__ import annotations

import re
from pathlib import Path

from gavotte.errors import FormatError
from gavotte.formats.files.reading import read_text
from gavotte.profile.gathering import Gathering, Request, of_ranks
from gavotte.profile.traffic import Count, Traffic

_LINE = re.compile(r"([EISR])\t(\d{1,9})\t(\d{1,9})\t(\d{1,19}) bytes\t(\d{1,19}) msgs sent(\t[0-9,]*)?")
_KINDS = {"E": "message_bytes", "I": "collective_bytes", "S": "put_bytes", "R": "get_bytes"}
MOST_RANKS = 1 << 20
NO_STARTS = (
    "these files have no messages that MPI_Start sends, from Open MPI 4 on; if the program uses persistent sends, "
    "count it by `gavotte profile pmpi`"
)
"""What no file of the component shows."""
CRASH = (
    "if a rank crashed in mca_coll_monitoring.so, Open MPI's monitoring is at fault: it cannot count collectives among "
    "the neighbours of a distributed graph; count this program by `gavotte shim --count` and `gavotte profile pmpi`"
)
"""Why ranks may have left no file, and the remedy."""


def read_ompi(request: Request) -> Traffic:
    """Read the files that Open MPI's monitoring component left for the ranks of one run.

    Returns:
        The Traffic. Its `seen` has `ranks`, the bytes of messages, collectives, puts and gets, and `missing_ranks`: the
        number of ranks whose file is not among the inputs, so that the bytes they sent are not known.

    Raises:
        FormatError: when a file is missing or not the component's, or two files are of the same rank.
    """
    sums: dict[tuple[int, int], int] = {}
    kinds = dict.fromkeys(_KINDS.values(), 0)
    path_of: dict[int, str] = {}
    highest = -1
    for path in map(str, request.inputs):
        if path.endswith(".prof") and not Path(path).exists():
            raise FormatError(path, "", "no such file", f"check the path; {CRASH}")
        lines = read_text(path).splitlines()
        if not any(line.startswith(("# POINT TO POINT", "# COLLECTIVES")) for line in lines):
            remedy = "use *.prof of pml_monitoring_enable_output 3"
            raise FormatError(path, "", "is not output of Open MPI's monitoring", remedy)
        own = set()
        for number, line in enumerate(lines, 1):
            if not line.startswith(("E\t", "I\t", "S\t", "R\t")):
                continue
            match = _LINE.fullmatch(line)
            if match is None or max(int(match[2]), int(match[3])) >= MOST_RANKS:
                raise FormatError(path, f"line {number}", "is not `kind rank rank bytes messages`", "run it again")
            rank, other, size = int(match[2]), int(match[3]), int(match[4])
            own.add(rank)
            highest = max(highest, rank, other)
            pair = (other, rank) if match[1] == "R" else (rank, other)
            sums[pair] = sums.get(pair, 0) + size
            kinds[_KINDS[match[1]]] += size
        if len(own) > 1:
            raise FormatError(path, "", f"is of several ranks: {sorted(own)[:3]}", "name the files one by one")
        for rank in own:
            if rank in path_of:
                raise FormatError(path, "", f"is rank {rank}'s, as {path_of[rank]} is", "name each rank's file once")
            path_of[rank] = path
    if not any(sums.values()):
        raise FormatError(str(request.inputs[0]), "", "has no bytes between two ranks", "monitor a run that sends")
    gathering = Gathering(of_ranks(request, highest + 1))
    for (source, target), size in sorted(sums.items()):
        gathering.add(str(source), str(target), Count.exact(size))
    missing = highest + 1 - len(path_of)
    seen = {"ranks": highest + 1, "missing_ranks": missing, **kinds}
    return gathering.traffic(seen, doubts=[NO_STARTS, *([f"some ranks left no file; {CRASH}"] if missing else [])])
