"""The operations of an MPI program's ranks: calls with their partners and sizes, and the computing between them.

Ranks are those of MPI_COMM_WORLD throughout. Sizes are bytes, times are seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Mode = Literal["standard", "synchronous", "buffered", "ready"]
MODES: tuple[Mode, ...] = ("standard", "synchronous", "buffered", "ready")

KINDS = (
    "barrier",
    "bcast",
    "reduce",
    "allreduce",
    "scan",
    "exscan",
    "reduce_scatter",
    "reduce_scatter_block",
    "scatter",
    "scatterv",
    "gather",
    "gatherv",
    "allgather",
    "allgatherv",
    "alltoall",
    "alltoallv",
    "neighbor_allgather",
    "neighbor_alltoall",
    "comm",
)
"""Kinds of collectives, in the order of their numbers in files. `comm` makes a communicator."""

UNKNOWN = -1
"""Source of a receive that never completed, or member of a communicator outside MPI_COMM_WORLD."""


@dataclass(frozen=True, slots=True)
class Compute:
    """Time between two calls.

    Attributes:
        mean_s: mean of all passes of this place in the program.
        variance_s2: variance between the passes, in square seconds.
        min_s: shortest pass.
        max_s: longest pass.
    """

    mean_s: float
    variance_s2: float
    min_s: float
    max_s: float


IDLE = Compute(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Send:
    """A send that blocks.

    Attributes:
        peer: receiving rank.
        bytes: size of the message.
        tag: its tag.
        communicator: index in the trace's communicators.
        mode: `synchronous` waits for the receiver whatever the size.
        spent_s: mean time inside the call in the traced run.
    """

    peer: int
    bytes: int
    tag: int
    communicator: int
    mode: Mode
    spent_s: float


@dataclass(frozen=True, slots=True)
class Recv:
    """A receive that blocks.

    Attributes:
        peer: sending rank: the actual one, also for a wildcard.
        bytes: size of the buffer. The sender states the size of the message.
        tag: the message's tag.
        communicator: index in the trace's communicators.
        spent_s: mean time inside the call in the traced run.
    """

    peer: int
    bytes: int
    tag: int
    communicator: int
    spent_s: float


@dataclass(frozen=True, slots=True)
class Isend:
    """A send that `request` stands for until a `Wait` names it. The other attributes are those of `Send`."""

    peer: int
    bytes: int
    tag: int
    communicator: int
    request: int
    mode: Mode
    spent_s: float


@dataclass(frozen=True, slots=True)
class Irecv:
    """A receive that `request` stands for until a `Wait` or `Cancel` names it.

    The other attributes are those of `Recv`. `peer` is `UNKNOWN` if the trace ends before the receive has completed.
    """

    peer: int
    bytes: int
    tag: int
    communicator: int
    request: int
    spent_s: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Completion of all these requests, whose numbers are free afterwards."""

    requests: tuple[int, ...]
    spent_s: float


@dataclass(frozen=True, slots=True)
class Cancel:
    """End of a request that will match no message. Its number is free afterwards."""

    request: int
    spent_s: float


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """A collective, from this rank's point of view.

    Attributes:
        kind: one of `KINDS`.
        communicator: index in the trace's communicators.
        root: root's rank; None = there is none, or it is unknown to this rank.
        bytes: a size that depends on the kind. It is that of the vector for bcast, reduce, allreduce, scan and exscan.
            It is that of all ranks' results together for reduce_scatter and reduce_scatter_block. It is that of one
            rank's block for scatter, gather, allgather and alltoall, and that of this rank's block for scatterv,
            gatherv and allgatherv. It is the sum of `counts` for alltoallv and neighbor_*, else 0.
        counts: bytes by member: of its result (reduce_scatter), to it (scatterv at the root, alltoallv), from it
            (gatherv at the root, allgatherv), or to each of `targets` (neighbor_*); else empty.
        sources: ranks from which a neighbor_* receives.
        targets: ranks to which a neighbor_* sends.
        request: number of a nonblocking collective's request; None = it blocks.
        spent_s: mean time inside the call in the traced run.
    """

    kind: str
    communicator: int
    root: int | None
    bytes: int
    counts: tuple[int, ...]
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    request: int | None
    spent_s: float


@dataclass(frozen=True, slots=True)
class Loop:
    """Operations that are repeated `count` times."""

    count: int
    body: tuple[Operation, ...]


Operation = Compute | Send | Recv | Isend | Irecv | Wait | Cancel | CollectiveCall | Loop


@dataclass(frozen=True)
class Communicator:
    """Communicator that a program used.

    Attributes:
        members: rank in MPI_COMM_WORLD of each rank; `UNKNOWN` = outside.
        remote: the other group of an intercommunicator; empty = it is none.
    """

    members: tuple[int, ...]
    remote: tuple[int, ...] = ()


@dataclass(frozen=True)
class RankTrace:
    """What one rank did between MPI_Init and MPI_Finalize.

    Attributes:
        rank: its number.
        operations: its operations, with loops.
        began_s: Unix time at which MPI_Init returned.
        startup_s: time from the start of the process until MPI_Init returned.
        wall_s: time from then until MPI_Finalize, or the end of the process.
        finished: whether it called MPI_Finalize.
        calls: number of calls among the operations, each pass of a loop counted.
        dropped_calls: number of calls after the recorder's memory was used up.
        one_sided_calls: puts, gets and accumulates, which are not among the operations.
        one_sided_bytes: their bytes.
        outside_calls: messages to or from ranks outside MPI_COMM_WORLD, which are not among the operations.
        threaded: whether several threads called MPI. Their calls are in the order in which they returned.
    """

    rank: int
    operations: tuple[Operation, ...]
    began_s: float
    startup_s: float
    wall_s: float
    finished: bool
    calls: int
    dropped_calls: int
    one_sided_calls: int
    one_sided_bytes: int
    outside_calls: int
    threaded: bool

    def unfold(self) -> Iterator[Operation]:
        """Yield all operations in their order, with each pass of each loop."""
        return _unfold(self.operations)


@dataclass(frozen=True)
class MpiTrace:
    """The traces of all ranks of one run.

    Attributes:
        ranks: one for each rank of MPI_COMM_WORLD, in order.
        communicators: the communicators that their operations name; the first is MPI_COMM_WORLD.
    """

    ranks: tuple[RankTrace, ...]
    communicators: tuple[Communicator, ...]

    @property
    def complete(self) -> bool:
        """Whether each rank reached MPI_Finalize and no call was dropped."""
        return all(rank.finished and not rank.dropped_calls for rank in self.ranks)

    @property
    def warnings(self) -> list[str]:
        """What the trace lacks, in words."""
        counts = (
            ("ranks ended without MPI_Finalize: their traces may end early", sum(not r.finished for r in self.ranks)),
            ("calls came after the recorder's memory was used up; set GAVOTTE_TRACE_BYTES", self._sum("dropped_calls")),
            ("one-sided calls are not among the operations", self._sum("one_sided_calls")),
            ("messages to or from ranks outside MPI_COMM_WORLD are missing", self._sum("outside_calls")),
            ("ranks called MPI from several threads, whose calls are in one sequence", self._sum("threaded")),
        )
        return [f"{count} {text}" for text, count in counts if count]

    def _sum(self, name: str) -> int:
        return sum(int(getattr(rank, name)) for rank in self.ranks)


def passes(operations: Sequence[Operation], times: int = 1) -> Iterator[tuple[Operation, int]]:
    """Yield each operation once, with the number of times that it happened. Loops are left out."""
    for operation in operations:
        if isinstance(operation, Loop):
            yield from passes(operation.body, times * operation.count)
        else:
            yield operation, times


def computing_s(rank: RankTrace) -> float:
    """Return the seconds that a rank spent between its calls."""
    return sum(each.mean_s * times for each, times in passes(rank.operations) if isinstance(each, Compute))


def _unfold(operations: Sequence[Operation]) -> Iterator[Operation]:
    for operation in operations:
        if isinstance(operation, Loop):
            for _ in range(operation.count):
                yield from _unfold(operation.body)
        else:
            yield operation
