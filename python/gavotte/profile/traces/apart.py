"""Take collectives apart into messages, for simulators that know no collectives.

Traces say which collective a rank called, and not by which messages the library carried it out. Here each kind has one
algorithm that libraries use:

- barrier, comm: dissemination;
- bcast, reduce, scatter, gather: binomial trees;
- allreduce: recursive doubling up to `DOUBLING_BYTES`, above a ring (reduce-scatter, then allgather);
- allgather(v), reduce_scatter(_block): ring;
- alltoall(v), scatterv, gatherv, neighbor_*: directly;
- scan, exscan: chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from gavotte.formats.trace import UNKNOWN, CollectiveCall, Communicator

DOUBLING_BYTES = 10_000
"""Largest vector of an allreduce by recursive doubling, as in Open MPI 4."""

Parts = tuple[tuple[int, int], ...]
"""Pairs of a rank and bytes."""


@dataclass(frozen=True, slots=True)
class Step:
    """Messages of one rank at a time. The next step begins when all of them are done.

    Attributes:
        sends: receiving rank of MPI_COMM_WORLD and bytes of each message that the rank sends.
        receives: sending rank and bytes of each that it receives.
    """

    sends: Parts = ()
    receives: Parts = ()


@lru_cache(1 << 14)
def take_apart(collective: CollectiveCall, communicator: Communicator, rank: int) -> tuple[Step, ...]:
    """Return the messages that a rank sends and receives in a collective, step by step.

    Args:
        collective: the collective as this rank called it.
        communicator: its communicator.
        rank: the rank in MPI_COMM_WORLD.
    """
    if communicator.remote:
        return _between_groups(collective, communicator, rank)
    if UNKNOWN in communicator.members:
        return ()
    if collective.kind.startswith("neighbor_"):
        return _neighbours(collective)
    members = communicator.members
    own = members.index(rank)
    root = 0 if collective.root is None else members.index(collective.root)
    steps = _steps(collective, len(members), own, root)
    return tuple(
        Step(tuple((members[to], size) for to, size in step.sends), tuple((members[at], n) for at, n in step.receives))
        for step in steps
    )


def _between_groups(collective: CollectiveCall, communicator: Communicator, rank: int) -> tuple[Step, ...]:
    """A rooted collective between groups goes directly; others are an exchange between all."""
    own, other = communicator.members, communicator.remote
    if rank not in own:
        own, other = other, own
    if UNKNOWN in (*own, *other):
        return ()
    size, root = collective.bytes, collective.root
    out = collective.kind in ("bcast", "scatter", "scatterv")
    if out or collective.kind in ("reduce", "gather", "gatherv"):
        if root is None:
            return ()
        each = ((root, size),)
        at_root = tuple(zip(other, collective.counts or (size,) * len(other), strict=True))
        parts, is_sender = (at_root, out) if root == rank else (each, not out)
    else:
        sizes = collective.counts if len(collective.counts) == len(other) else (size,) * len(other)
        return (Step(tuple(zip(other, sizes, strict=True)), tuple((each, size) for each in other)),)
    return (Step(sends=parts) if is_sender else Step(receives=parts),)


def _neighbours(collective: CollectiveCall) -> tuple[Step, ...]:
    sends = tuple((to, n) for to, n in zip(collective.targets, collective.counts, strict=True) if to != UNKNOWN)
    size = sends[0][1] if sends else 0
    return (Step(sends, tuple((source, size) for source in collective.sources if source != UNKNOWN)),)


def _steps(collective: CollectiveCall, n: int, own: int, root: int) -> list[Step]:
    """Return the steps of rank `own` of n, with ranks of the communicator."""
    kind, size, counts = collective.kind, collective.bytes, collective.counts
    if kind in ("barrier", "comm"):
        return _dissemination(n, own)
    if kind == "bcast":
        return _out(n, own, root, size, blocks=False)
    if kind == "reduce":
        return _mirrored(_out(n, own, root, size, blocks=False))
    if kind == "scatter":
        return _out(n, own, root, size, blocks=True)
    if kind == "gather":
        return _mirrored(_out(n, own, root, size, blocks=True))
    if kind in ("scatterv", "gatherv"):
        others = tuple((i, counts[i]) for i in range(n) if i != root) if own == root else ((root, size),)
        return [Step(sends=others) if (kind == "scatterv") == (own == root) else Step(receives=others)]
    if kind in ("alltoall", "alltoallv"):
        # Each other rank in turn, so that they do not all send to the same one first.
        order = [(own + i) % n for i in range(1, n)]
        sends = tuple((to, counts[to] if counts else size) for to in order)
        return [Step(sends, tuple(((own - i) % n, size if not counts else 0) for i in range(1, n)))]
    if kind in ("scan", "exscan"):
        chain = [Step(receives=((own - 1, size),))] if own else []
        return chain + ([Step(sends=((own + 1, size),))] if own + 1 < n else [])
    if kind == "allreduce" and size > DOUBLING_BYTES:
        shares = _shares(size, n)
        return _ring(n, own, shares, 0) + _ring(n, own, shares, 1)
    if kind == "allreduce":
        return _doubling(n, own, size)
    if kind.startswith("reduce_scatter"):
        return _ring(n, own, counts or _shares(size, n), -1)
    return _ring(n, own, counts or (size,) * n, 0)


def _shares(size: int, n: int) -> tuple[int, ...]:
    """Return n shares of a vector that differ by one byte at most."""
    return tuple(size * (i + 1) // n - size * i // n for i in range(n))


def _ring(n: int, own: int, blocks: tuple[int, ...], first: int) -> list[Step]:
    """Pass blocks on to the next rank, n - 1 times. The first of this rank is block `own + first`."""
    after, before = (own + 1) % n, (own - 1) % n
    return [
        Step(((after, blocks[(own + first - i) % n]),), ((before, blocks[(own + first - 1 - i) % n]),))
        for i in range(n - 1)
    ]


def _dissemination(n: int, own: int) -> list[Step]:
    distances = [1 << i for i in range((n - 1).bit_length())]
    return [Step((((own + each) % n, 0),), (((own - each) % n, 0),)) for each in distances]


def _doubling(n: int, own: int, size: int) -> list[Step]:
    """Exchange at distances 1, 2, 4 ...; ranks beyond a power of two give theirs to a partner, and get the result."""
    whole = 1 << (n.bit_length() - 1)
    extra = n - whole
    if own >= whole:
        return [Step(sends=((own - whole, size),)), Step(receives=((own - whole, size),))]
    middle = [Step(((own ^ 1 << i, size),), ((own ^ 1 << i, size),)) for i in range(whole.bit_length() - 1)]
    if own < extra:
        partner = ((own + whole, size),)
        return [Step(receives=partner), *middle, Step(sends=partner)]
    return middle


def _out(n: int, own: int, root: int, size: int, *, blocks: bool) -> list[Step]:
    """Pass a vector, or each rank's block of this size, down a binomial tree from the root."""
    place = (own - root) % n
    low = place & -place if place else 1 << (n - 1).bit_length()

    def held(child: int, span: int) -> int:
        return size * min(span, n - child) if blocks else size

    steps = [Step(receives=(((place - low + root) % n, held(place, low)),))] if place else []
    span = low >> 1
    while span:
        child = place + span
        if child < n:
            steps.append(Step(sends=(((child + root) % n, held(child, span)),)))
        span >>= 1
    return steps


def _mirrored(steps: list[Step]) -> list[Step]:
    """Return the same tree in the other direction."""
    return [Step(step.receives, step.sends) for step in reversed(steps)]
