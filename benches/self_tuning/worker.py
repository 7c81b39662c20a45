"""Broadcasts from rank 0 again and again, with a little computing between.

    python worker.py TIMES BYTES

Rank 0 prints one line of JSON, like the programs in `examples`.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from mpi4py import MPI


def main() -> None:
    """Broadcast and check."""
    times, size = map(int, sys.argv[1:])
    world = MPI.COMM_WORLD
    data = np.empty(size, dtype=np.uint8)
    world.Barrier()
    began_s = time.perf_counter()
    for turn in range(times):
        if world.rank == 0:
            data[:] = turn % 251
        world.Bcast(data)
        if data[0] != turn % 251 or data[-1] != turn % 251:
            raise ValueError(f"broadcast {turn} brought other bytes")
    world.Barrier()
    if world.rank == 0:
        print(json.dumps({"steps": times, "total_s": time.perf_counter() - began_s, "checksum": float(data.sum())}))


main()
