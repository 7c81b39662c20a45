"""NCCL's debug logs: the collectives and messages of each rank, and who then sends whom how much.

    NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,COLL,TUNING

INIT lines tie a process and a communicator's pointer to a rank; GRAPH adds rings and trees, TUNING the algorithm of
each operation; COLL has the operations. Without GRAPH a ring is in the order of ranks, without TUNING operations are
rings: what NCCL chooses for large messages within few hosts. Each rank's line gives the bytes on its own edges, so
that a rank whose log is missing lacks only what it sent. RCCL writes the same lines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from gavotte.errors import FormatError
from gavotte.profile.gathering import Gathering, Request, of_ranks
from gavotte.profile.sources.lines import lines_of
from gavotte.profile.traffic import Count, Traffic

WIDTH_BYTES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
"""Of ncclDataType_t: int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, two of 8 bits."""
MOST_RANKS = 1 << 20
MOST_COUNT = 1 << 50

_PREFIX = re.compile(r"(\S+):(\d+):\d+ (?:\(\w+\) )?\[\S*\] NCCL INFO (.*)")
_INIT = re.compile(r"ncclCommInit\w* comm (0x\w+) rank (\d{1,7}) n[rR]anks (\d{1,7}) .*?(?:commId (0x\w+))?(?: |$).*")
_COMM_ID = re.compile(r"commId (0x\w+)")
_OP = re.compile(
    r"(\w+): opCount \w+ sendbuff \S+ recvbuff \S+ (?:acc \S+ )?count (\d{1,18}) datatype (\d{1,3}) op -?\d+ "
    r"root (-?\d{1,7}) comm (0x\w+) \[nranks=(\d{1,7})\]"
)
_CHANNEL = re.compile(r"Channel (\d+)/\d+ *: *((?:\d+ *){2,})")
_TREES = re.compile(r"\[(\d+)\] (-?\d+)/(-?\d+)/(-?\d+)->(\d+)->(-?\d+)")
_TUNED = re.compile(r"(\w+): (\d{1,18}) Bytes -> Algo (\d) ")
_TREE = "0"

Process = tuple[str, str]


@dataclass
class _Comm:
    """One communicator as one process knows it."""

    name: str
    rank: int
    ranks: int
    rings: list[list[int]] = field(default_factory=list)
    trees: dict[int, tuple[int, ...]] = field(default_factory=dict)


def read_nccl(request: Request) -> Traffic:
    """Reads the logs of all ranks, in one file or several.

    Returns:
        The Traffic; ranks are those of the largest communicator. It has `seen` `ranks`, `operations`, and
        `unknown_operations`, whose communicator, type or kind is not known.

    Raises:
        FormatError: when no line of NCCL's is there, or no operation.
    """
    comms: dict[tuple[Process, str], _Comm] = {}
    latest: dict[Process, _Comm] = {}
    edges: Counter[tuple[tuple[str, int], tuple[str, int]]] = Counter()
    tuned: dict[tuple[Process, str, int], str] = {}
    members: dict[tuple[str, int], Process] = {}
    operations = unknown = lines = 0
    for path in map(str, request.inputs):
        for line in lines_of(path):
            found = _PREFIX.search(line)
            if found is None:
                continue
            lines += 1
            process, text = (found[1], found[2]), found[3]
            if text.startswith("ncclCommInit") and (init := _INIT.match(text)):
                rank, ranks = int(init[2]), int(init[3])
                identity = _COMM_ID.search(text)
                if not rank < ranks <= MOST_RANKS:
                    raise FormatError(path, "", f"has rank {rank} of {ranks}", "is the log whole?")
                known = comms.get((process, init[1]))
                name = identity[1] if identity else known.name if known else f"of {ranks}"
                if known is None or known.name != name:
                    comms[process, init[1]] = latest[process] = _Comm(name, rank, ranks)
                members[name, rank] = process
            elif text.startswith("Channel ") and process in latest and (ring := _CHANNEL.match(text)):
                order = [int(each) for each in ring[2].split()]
                if sorted(order) == list(range(latest[process].ranks)):
                    latest[process].rings.append(order)
            elif text.startswith("Trees ") and process in latest:
                for channel, *ends in _TREES.findall(text):
                    latest[process].trees[int(channel)] = tuple(int(each) for each in ends)
            elif "Bytes -> Algo" in text and (choice := _TUNED.match(text)):
                tuned[process, choice[1], int(choice[2])] = choice[3]
            elif "opCount" in text and (op := _OP.match(text)):
                comm = comms.get((process, op[5]))
                kind, count, datatype, root = op[1], int(op[2]), int(op[3]), int(op[4])
                if comm is None or datatype >= len(WIDTH_BYTES) or count > MOST_COUNT or root >= comm.ranks:
                    unknown += 1
                    continue
                size = count * WIDTH_BYTES[datatype]
                algorithm = tuned.get((process, kind, size), "")
                sent = list(_sent(kind, size, root, comm, tree=algorithm == _TREE))
                operations += 1
                unknown += kind not in _KNOWN
                for target, part in sent:
                    edges[(comm.name, comm.rank), (comm.name, target)] += part
    where = str(request.inputs[0])
    if not lines:
        raise FormatError(where, "", "has no line of NCCL", "log with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL")
    if not edges:
        raise FormatError(where, "", "has no operation of a known communicator", "log NCCL_DEBUG_SUBSYS=INIT,COLL")
    return _by_rank(request, edges, members, comms, {"operations": operations, "unknown_operations": unknown})


def _by_rank(
    request: Request,
    edges: Counter[tuple[tuple[str, int], tuple[str, int]]],
    members: dict[tuple[str, int], Process],
    comms: dict[tuple[Process, str], _Comm],
    seen: dict[str, int],
) -> Traffic:
    """Ranks of any communicator as those of the largest that their process is in."""
    world: dict[Process, _Comm] = {}
    for (process, _), comm in comms.items():
        if process not in world or comm.ranks > world[process].ranks:
            world[process] = comm
    ranks = max(comm.ranks for comm in comms.values())
    gathering = Gathering(of_ranks(request, ranks))

    def rank(end: tuple[str, int]) -> str:
        process = members.get(end)
        return str(world[process].rank if process in world else end[1])

    for (source, target), size in sorted(edges.items()):
        gathering.add(rank(source), rank(target), Count.exact(size))
    return gathering.traffic({"ranks": ranks, **seen})


_KNOWN = {"AllReduce", "Broadcast", "Reduce", "AllGather", "ReduceScatter", "Send", "Recv", "AlltoAll", "AllToAll"}


def _sent(kind: str, size: int, root: int, comm: _Comm, *, tree: bool) -> Iterator[tuple[int, int]]:
    """To whom a rank sends how many bytes in one operation.

    A ring of n passes 2 (n - 1) / n of an allreduce over each edge; `count` is each rank's own part in an allgather and
    reduce-scatter, of which each edge passes n - 1. A broadcast's last rank and a reduction's root pass on nothing.
    """
    n, me = comm.ranks, comm.rank
    if n < 2 or kind == "Recv":
        return
    if kind == "Send":
        yield root, size
        return
    if kind in ("AlltoAll", "AllToAll"):
        yield from ((peer, size) for peer in range(n) if peer != me)
        return
    if tree and kind == "AllReduce" and comm.trees:
        channels = len(comm.trees)
        for number, (*children, _, above) in comm.trees.items():
            part = size // channels + (number < size % channels)
            yield from ((peer, part) for peer in (*children, above) if 0 <= peer < n)
        return
    rings = comm.rings or [list(range(n))]
    for number, ring in enumerate(rings):
        part = size // len(rings) + (number < size % len(rings))
        at = ring.index(me)
        following = ring[(at + 1) % n]
        if kind == "AllReduce":
            yield following, 2 * (n - 1) * part // n
        elif kind in ("AllGather", "ReduceScatter"):
            yield following, (n - 1) * part
        elif (kind == "Broadcast" and following != root) or (kind == "Reduce" and me != root):
            yield following, part
