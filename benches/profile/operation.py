"""MPI program that carries out one kind of collective: `operation.py OPERATION BYTES ROUNDS`."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from mpi4py import MPI


def main() -> None:
    """Carry it out; BYTES is the vector of a broadcast or a reduction, and each rank's part of the others."""
    operation, size, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    comm = MPI.COMM_WORLD
    ranks = comm.size
    one, every = np.ones(size // 8), np.ones(ranks * (size // 8))
    result, results = np.empty_like(one), np.empty_like(every)
    counts = [size // 8] * ranks
    calls: dict[str, Callable[[], object]] = {
        "bcast": lambda: comm.Bcast(one, 0),
        "reduce": lambda: comm.Reduce(one, result, root=1),
        "allreduce": lambda: comm.Allreduce(one, result),
        "reduce_scatter": lambda: comm.Reduce_scatter(every, result, counts),
        "reduce_scatter_block": lambda: comm.Reduce_scatter_block(every, result),
        "scan": lambda: comm.Scan(one, result),
        "scatter": lambda: comm.Scatter(every, result, root=0),
        "gather": lambda: comm.Gather(one, results, root=2),
        "allgather": lambda: comm.Allgather(one, results),
        "alltoall": lambda: comm.Alltoall(every, results),
        "iallgather": lambda: comm.Iallgather(one, results).Wait(),
    }
    for _ in range(rounds):
        calls[operation]()


if __name__ == "__main__":
    main()
