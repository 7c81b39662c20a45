"""Read NCCL's debug logs: the collectives and messages of each rank, and the bytes that each rank sends for them.

    NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,COLL,TUNING

- INIT lines map a process and a communicator's pointer to a rank.
- GRAPH lines have rings and trees. Without them, a ring is in the order of ranks.
- TUNING lines have the algorithm of each operation. Without them, operations are rings, as NCCL chooses for large
  messages within few hosts.
- COLL lines have the operations.

Only rank 0 logs whole rings (of up to 20 ranks) and algorithms, for its whole communicator. Each rank's lines give the
bytes that this rank sends, so that a missing log only hides what its own rank sent. RCCL writes the same lines.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gavotte.errors import FormatError
from gavotte.profile.gathering import Gathering, Request, of_ranks
from gavotte.profile.sources.lines import lines_of
from gavotte.profile.traffic import Count, Traffic

WIDTH_BYTES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
"""Size of each ncclDataType_t by its number: int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16,
two of 8 bits."""
MOST_RANKS = 1 << 17
MOST_PAIRS = 1 << 22
"""Most pairs of ranks with traffic. No log that could be kept has more."""
MOST_COUNT = 1 << 50

_MARK = " NCCL INFO "
_PREFIX_CHARS = 300
_PREFIX = re.compile(r"(?:(\S{1,255}):(\d{1,10}):\d{1,10} )?(?:\(\w+\) )?\[(\S{0,20})\]$")
_INIT = re.compile(r"(?:ncclComm\w+ )?comm (0x\w+) rank (\d{1,7}) n[rR]anks (\d{1,7}) ")
_COMM_ID = re.compile(r"commId (0x\w+)")
_OP = re.compile(
    r"(\w+): opCount \w+ sendbuff \S+ recvbuff \S+ (?:acc \S+ )?count (\d{1,18}) datatype (\d{1,3}) op -?\d+ "
    r"root (-?\d{1,7}) comm (0x\w+) \[nranks=(\d{1,7})\]"
)
_CHANNEL = re.compile(r"Channel \d{1,4}(?:/\d{1,4})? *: *(\d{1,7}(?: +\d{1,7})+) *$")
_RING = re.compile(r"Ring (\d{1,4}) : \d{1,7} -> \d{1,7} -> (\d{1,7})$")
_TREES = re.compile(r"\[(\d{1,4})\] (-?\d{1,7})/(-?\d{1,7})/(-?\d{1,7})->(\d{1,7})->(-?\d{1,7})(?!\d)")
_TUNED = re.compile(r"(?:(\w+): *)?(\d{1,18}) Bytes -> Algo (\w+) ")
_TREE = ("0", "TREE")
"""The tree algorithm in TUNING lines: a number up to NCCL 2.23, then a name."""

Process = tuple[str, str, str]
"""Host, process and device. One process may have a rank on each of several devices."""


@dataclass(eq=False)
class _Comm:
    """Communicator, as the log of one of its ranks shows it.

    Attributes:
        name: the communicator's identity, or its size if the log has no identity (up to NCCL 2.12).
        following: next rank in the ring, by channel.
        trees: this rank's three children and its parent in the tree, by channel; -1 = none.
    """

    name: str
    rank: int
    ranks: int
    owner: Process
    following: dict[int, int] = field(default_factory=dict)
    trees: dict[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass
class _Log:
    """Content of all log lines read up to now. The bytes of operations are known at the end, when all rings are."""

    comms: dict[tuple[str, str, str], _Comm] = field(default_factory=dict)
    latest: dict[Process, _Comm] = field(default_factory=dict)
    members: dict[tuple[str, int], Process] = field(default_factory=dict)
    ambiguous: set[str] = field(default_factory=set)
    rings: defaultdict[str, list[list[int]]] = field(default_factory=lambda: defaultdict(list))
    tuned: dict[tuple[Process, str, int], str] = field(default_factory=dict)
    operations: Counter[tuple[_Comm, str, int, int]] = field(default_factory=Counter)
    unknown: int = 0
    lines: int = 0

    def take(self, path: str, line: str) -> None:
        """Add one line of a log. If the lines of two ranks have run into each other, only the last one is read.

        Raises:
            FormatError: when a rank is not below the size of its communicator, or the communicator is too large.
        """
        before, mark, text = line.rstrip().rpartition(_MARK)
        prefix = _PREFIX.search(before[-_PREFIX_CHARS:]) if mark else None
        if prefix is None:
            return
        self.lines += 1
        # If lines lack host and process, each file counts as one host.
        process = prefix[1] or path, prefix[2] or "", prefix[3]
        comm = self.latest.get(process)
        if init := _INIT.match(text):
            self._init(path, process, text, init)
        elif "opCount" in text and (op := _OP.match(text)):
            self._operation(self.comms.get((*process[:2], op[5])), op)
        elif "Bytes -> Algo" in text and (choice := _TUNED.match(text)):
            self.tuned[process, choice[1] or "", int(choice[2])] = choice[3].upper()
        elif comm is None:
            return
        elif ring := _RING.match(text):
            if int(ring[2]) < comm.ranks:
                comm.following[int(ring[1])] = int(ring[2])
        elif text.startswith("Channel ") and (ring := _CHANNEL.match(text)):
            order = [int(each) for each in ring[1].split()]
            if sorted(order) == list(range(comm.ranks)):
                self.rings[comm.name].append(order)
        elif text.startswith("Trees "):
            for channel, *ends in _TREES.findall(text):
                below, above = ends[:3], ends[4]
                comm.trees[int(channel)] = tuple(int(each) for each in (*below, above))

    def _init(self, path: str, process: Process, text: str, init: re.Match[str]) -> None:
        rank, ranks = int(init[2]), int(init[3])
        identity = _COMM_ID.search(text)
        if not rank < ranks <= MOST_RANKS:
            raise FormatError(path, "", f"has rank {rank} of {ranks}", "is the log whole?")
        key = *process[:2], init[1]
        known = self.comms.get(key)
        name = identity[1] if identity else known.name if known else f"of {ranks}"
        if known is None or known.name != name:
            self.comms[key] = self.latest[process] = _Comm(name, rank, ranks, process)
        if self.members.setdefault((name, rank), process) != process:
            # Two communicators have the same name, and the log does not show which members belong together.
            self.ambiguous.add(name)

    def _operation(self, comm: _Comm | None, op: re.Match[str]) -> None:
        kind, count, datatype, root = op[1], int(op[2]), int(op[3]), int(op[4])
        if comm is None or datatype >= len(WIDTH_BYTES) or count > MOST_COUNT or root >= comm.ranks:
            self.unknown += 1
        else:
            self.operations[comm, kind, count * WIDTH_BYTES[datatype], root] += 1

    def sent(self) -> Iterator[tuple[_Comm, int, int]]:
        """Yield the bytes that ranks sent: the sender's communicator, the receiver's rank in it, and the bytes."""
        after: dict[_Comm, list[int]] = {}
        for (comm, kind, size, root), times in self.operations.items():
            if comm.name in self.ambiguous:
                self.unknown += times
                continue
            self.unknown += 0 if kind in _KNOWN else times
            teller = self.members.get((comm.name, 0), comm.owner)
            algorithm = self.tuned.get((teller, kind, size)) or self.tuned.get((teller, "", size))
            if comm not in after:
                next_ranks = [ring[(ring.index(comm.rank) + 1) % comm.ranks] for ring in self.rings.get(comm.name, ())]
                after[comm] = list(comm.following.values()) or next_ranks or [(comm.rank + 1) % comm.ranks]
            for target, part in _sent(kind, size, root, comm, after[comm], tree=algorithm in _TREE):
                yield comm, target, times * part


def read_nccl(request: Request) -> Traffic:
    """Read the NCCL debug logs of all ranks, in one file or several.

    Returns:
        The Traffic; ranks are those of the largest communicator. Its `seen` has `ranks`, `operations`, and
        `unknown_operations`, whose communicator, type or kind is not known.

    Raises:
        FormatError: when the logs have no line of NCCL, or no operation of a known communicator.
    """
    log = _Log()
    for path in map(str, request.inputs):
        for line in lines_of(path):
            log.take(path, line)
    where = str(request.inputs[0])
    edges: Counter[tuple[_Comm, int]] = Counter()
    for comm, to, part in log.sent():
        edges[comm, to] += part
        if len(edges) > MOST_PAIRS:
            raise FormatError(where, "", f"has more than {MOST_PAIRS} pairs of ranks", "is it the right file?")
    if not log.lines:
        raise FormatError(where, "", "has no line of NCCL", "log with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL")
    if not edges:
        raise FormatError(where, "", "has no operation of a known communicator", "log NCCL_DEBUG_SUBSYS=INIT,COLL")
    # Each process's largest communicator, whose ranks stand for those of the others.
    world: dict[Process, _Comm] = {}
    for comm in log.comms.values():
        if comm.owner not in world or comm.ranks > world[comm.owner].ranks:
            world[comm.owner] = comm
    ranks = max(comm.ranks for comm in world.values())
    whole = {comm.name for comm in world.values() if comm.ranks == ranks}
    gathering = Gathering(of_ranks(request, ranks))

    def rank_of(name: str, rank: int) -> str:
        if process := log.members.get((name, rank)):
            return str(world[process].rank)
        return str(rank) if name in whole else f"rank {rank} of {name}"

    for (comm, to), size in edges.items():
        gathering.add(rank_of(comm.name, comm.rank), rank_of(comm.name, to), Count.exact(size))
    counts = {"operations": sum(log.operations.values()), "unknown_operations": log.unknown}
    return gathering.traffic({"ranks": ranks, **counts})


_KNOWN = {"AllReduce", "Broadcast", "Reduce", "AllGather", "ReduceScatter", "Send", "Recv", "AlltoAll", "AllToAll"}


def _sent(
    kind: str, size: int, root: int, comm: _Comm, following: Sequence[int], *, tree: bool
) -> Iterator[tuple[int, int]]:
    """Yield the peers to which a rank sends in one operation, each with its bytes.

    In a ring of n ranks, each edge passes 2 (n - 1) / n of an allreduce. In an allgather and a reduce-scatter, NCCL's
    `count` is each rank's own part, and each edge passes n - 1 such parts. A broadcast's last rank and a reduction's
    root pass on nothing.
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
        for number, ends in comm.trees.items():
            part = size // channels + (number < size % channels)
            yield from ((peer, part) for peer in ends if 0 <= peer < n)
        return
    for number, after in enumerate(following):
        part = size // len(following) + (number < size % len(following))
        if kind == "AllReduce":
            yield after, 2 * (n - 1) * part // n
        elif kind in ("AllGather", "ReduceScatter"):
            yield after, (n - 1) * part
        elif (kind == "Broadcast" and after != root) or (kind == "Reduce" and me != root):
            yield after, part
