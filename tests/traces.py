"""Small traces of MPI jobs."""

from __future__ import annotations

from collections.abc import Sequence

from gavotte.formats.trace import CollectiveCall, Communicator, Compute, MpiTrace, Operation, RankTrace


def trace(*ranks: Sequence[Operation], communicators: Sequence[Communicator] = ()) -> MpiTrace:
    """Return a trace of these operations."""
    world = Communicator(tuple(range(len(ranks))))
    sections = tuple(
        RankTrace(rank, tuple(each), 0.0, 0.1, 1.0, True, len(each), 0, 0, 0, 0, False)
        for rank, each in enumerate(ranks)
    )
    return MpiTrace(sections, (world, *communicators))


def compute(mean_s: float, variance_s2: float = 0.0) -> Compute:
    return Compute(mean_s, variance_s2, mean_s, mean_s)


def collective(kind: str, size: int = 0, root: int | None = None, request: int | None = None) -> CollectiveCall:
    return CollectiveCall(kind, 0, root, size, (), (), (), request, 0.0)
