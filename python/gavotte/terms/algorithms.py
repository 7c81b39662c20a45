"""Algorithms of MPI libraries' collectives that users can set, and the settings themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

Library = Literal["openmpi", "mpich"]

LIBRARIES: tuple[Library, ...] = get_args(Library)

REORDERING = ("reduce", "allreduce")
"""Operations that add numbers, in another order by another algorithm."""

ALL_BLOCKS = ("allgather", "alltoall")
"""Operations whose settings count the bytes of all ranks' blocks."""

LEAST_SET_BYTES = 16_384
"""Operations of fewer bytes keep the library's choice. They pass limiters within a burst, at rates that no measurement
of lasting rates predicts: by rules, broadcasts of 8 kB took 1.4 times and reductions 3.1 times as long as by default
(`make bench-tuned`).
"""


class Setting(NamedTuple):
    """One setting of an MPI library: from a number of bytes on, an operation goes by this algorithm.

    Attributes:
        operation: as MPI calls it: `bcast`.
        members: number of ranks of the communicators that it is for; 0 = all communicators.
        from_bytes: least bytes of the vector, or of all ranks' blocks for `ALL_BLOCKS`.
        algorithm: the library's number of the algorithm; 0 = the library chooses.
        segment_bytes: bytes of the pieces that trees pass on; 0 = whole messages.
    """

    operation: str
    members: int
    from_bytes: int
    algorithm: int
    segment_bytes: int = 0


@dataclass(frozen=True)
class Algorithm:
    """One algorithm of an operation.

    Attributes:
        number: Open MPI's number in `coll_tuned_*_algorithm`; for MPICH one of our own.
        name: the library's name.
        segmented: whether it passes messages on in pieces.
        halves: whether it passes each half of a message on, and takes another way if a piece is longer than a half.
        powers_only: whether the library falls back to another one unless the number of ranks is a power of 2.
        even_only: whether it falls back unless the number of ranks is even.
        offered: whether a choice may be made for it; False = it is known by name only.
    """

    number: int
    name: str
    segmented: bool = False
    halves: bool = False
    powers_only: bool = False
    even_only: bool = False
    offered: bool = True


# Open MPI 4.1.4, ompi/mca/coll/tuned/coll_tuned_*_decision.c. Those that are not offered: algorithms that are never
# faster than another one of the same operation, and those whose number of requests no rule can set.
_OPEN_MPI: dict[str, tuple[Algorithm, ...]] = {
    "bcast": (
        Algorithm(1, "linear"),
        Algorithm(2, "chain", segmented=True, offered=False),
        Algorithm(3, "pipeline", segmented=True),
        Algorithm(4, "split binary tree", segmented=True, halves=True),
        Algorithm(5, "binary tree", segmented=True),
        Algorithm(6, "binomial tree", segmented=True),
        Algorithm(7, "4-nomial tree", segmented=True),
        Algorithm(8, "scatter and allgather"),
        Algorithm(9, "scatter and ring"),
    ),
    "reduce": (
        Algorithm(1, "linear"),
        Algorithm(2, "chain", segmented=True, offered=False),
        Algorithm(3, "pipeline", segmented=True),
        Algorithm(4, "binary tree", segmented=True),
        Algorithm(5, "binomial tree", segmented=True),
        Algorithm(6, "in-order binary tree", segmented=True, offered=False),
        Algorithm(7, "Rabenseifner"),
    ),
    "allreduce": (
        Algorithm(1, "linear", offered=False),
        Algorithm(2, "reduce and broadcast"),
        Algorithm(3, "recursive doubling"),
        Algorithm(4, "ring"),
        Algorithm(5, "segmented ring", offered=False),
        Algorithm(6, "Rabenseifner"),
    ),
    "allgather": (
        Algorithm(1, "linear", offered=False),
        Algorithm(2, "Bruck"),
        Algorithm(3, "recursive doubling", powers_only=True),
        Algorithm(4, "ring"),
        Algorithm(5, "neighbour exchange", even_only=True),
        Algorithm(6, "two ranks", offered=False),
    ),
    "alltoall": (
        Algorithm(1, "linear"),
        Algorithm(2, "pairwise"),
        Algorithm(3, "Bruck"),
        Algorithm(4, "linear, in step", offered=False),
        Algorithm(5, "two ranks", offered=False),
    ),
    "barrier": (
        Algorithm(1, "linear"),
        Algorithm(2, "double ring", offered=False),
        Algorithm(3, "recursive doubling"),
        Algorithm(4, "Bruck"),
        Algorithm(5, "two ranks", offered=False),
        Algorithm(6, "tree"),
    ),
}

# MPICH 5.0.2, values of MPIR_CVAR_*_INTRA_ALGORITHM. Its barrier has no other algorithm that the replay knows.
_MPICH: dict[str, tuple[Algorithm, ...]] = {
    "bcast": (
        Algorithm(1, "binomial"),
        Algorithm(2, "scatter_recursive_doubling_allgather", powers_only=True),
        Algorithm(3, "scatter_ring_allgather"),
    ),
    "reduce": (Algorithm(1, "binomial"), Algorithm(2, "reduce_scatter_gather")),
    "allreduce": (
        Algorithm(1, "recursive_doubling"),
        Algorithm(2, "reduce_scatter_allgather"),
        Algorithm(3, "ring"),
    ),
    "allgather": (
        Algorithm(1, "brucks"),
        Algorithm(2, "recursive_doubling", powers_only=True),
        Algorithm(3, "ring"),
    ),
    "alltoall": (Algorithm(1, "brucks"), Algorithm(2, "pairwise"), Algorithm(3, "scattered")),
}

ALGORITHMS: dict[Library, dict[str, tuple[Algorithm, ...]]] = {"openmpi": _OPEN_MPI, "mpich": _MPICH}
"""By library and operation: its algorithms."""


def algorithm_name(library: Library, operation: str, number: int) -> str:
    """Return the name of an algorithm; `default` for number 0."""
    names = {each.number: each.name for each in ALGORITHMS[library].get(operation, ())}
    return names.get(number, "default" if number == 0 else f"algorithm {number}")
