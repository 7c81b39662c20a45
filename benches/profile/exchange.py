"""An MPI program that sends a known matrix: rank i sends rank j the bytes in FILE, in rounds.

    mpirun ... python exchange.py FILE ROUNDS [COMPUTING_S]

Before each round a rank sleeps for COMPUTING_S, as if it computed on a processor of its own. It prints the seconds from
when all ranks begin until all have their data. JOB_CPUS is a JSON list of its processors. It runs within the lab, and imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI


def main() -> None:
    """Send, receive, and have rank 0 print the time."""
    if cpus := json.loads(os.environ.get("JOB_CPUS", "[]")):
        os.sched_setaffinity(0, cpus)
    world = MPI.COMM_WORLD
    rank, rounds = world.rank, int(sys.argv[2])
    computing_s = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
    matrix = np.array(json.loads(Path(sys.argv[1]).read_text()), dtype=np.int64)
    # Random bytes, which cannot be compressed on the way.
    noise = np.random.default_rng(rank).integers(0, 256, int(matrix.max()) + 1, dtype=np.uint8)
    room = np.empty(int(matrix[:, rank].max()) * world.size + 1, dtype=np.uint8)
    world.Barrier()
    began_s = MPI.Wtime()
    for number in range(rounds):
        time.sleep(computing_s)
        part = matrix * (number + 1) // rounds - matrix * number // rounds
        waiting, at = [], 0
        for other in range(world.size):
            size = int(part[other, rank])
            if size:
                waiting.append(world.Irecv(room[at : at + size], source=other))
            at += size
        waiting += [
            world.Isend(noise[: int(part[rank, other])], dest=other) for other in range(world.size) if part[rank, other]
        ]
        MPI.Request.Waitall(waiting)
    world.Barrier()
    if rank == 0:
        print(json.dumps({"seconds": MPI.Wtime() - began_s}))


if __name__ == "__main__":
    main()
