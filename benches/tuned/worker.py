"""Times collectives as the OSU micro-benchmarks do, with a barrier between two calls: the mean over calls, of the slowest rank.

The mean over ranks, which those print first, would hide most of a reduction: only its root needs the result.

    python worker.py OPERATION:BYTES:CALLS...

Bytes are those of the vector, or of one rank's block. Rank 0 prints one line of JSON: seconds by OPERATION:BYTES.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

WARM = 2
"""Calls that are not timed: they open the connections."""


def call_of(world: MPI.Intracomm, operation: str, size: int) -> Callable[[], object]:
    """Return one call of a collective."""
    block, whole = np.zeros(size, dtype="b"), np.zeros(size * world.size, dtype="b")
    numbers = np.ones(max(size // 8, 1))
    total = np.empty_like(numbers)
    target = total if world.rank == 0 else None
    calls: dict[str, Callable[[], object]] = {
        "bcast": lambda: world.Bcast(block),
        "reduce": lambda: world.Reduce(numbers, target),
        "allreduce": lambda: world.Allreduce(numbers, total),
        "allgather": lambda: world.Allgather(block, whole),
        "alltoall": lambda: world.Alltoall(whole, np.empty_like(whole)),
        "barrier": world.Barrier,
    }
    return calls[operation]


def main() -> None:
    """Time all cases."""
    world = MPI.COMM_WORLD
    means: dict[str, float] = {}
    for case in sys.argv[1:]:
        operation, size, calls = case.split(":")
        call = call_of(world, operation, int(size))
        taken_s = 0.0
        for number in range(WARM + int(calls)):
            world.Barrier()
            began_s = time.perf_counter()
            call()
            if number >= WARM:
                taken_s += time.perf_counter() - began_s
        means[f"{operation}:{size}"] = world.allreduce(taken_s, MPI.MAX) / int(calls)
    if world.rank == 0:
        print(json.dumps(means))


main()
