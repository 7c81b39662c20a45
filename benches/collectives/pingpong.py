"""Each rank's part of a job that measures the latency of MPI's messages between all pairs of ranks.

    python pingpong.py REPETITIONS

Rank 0 prints one line of JSON: half the median round trip of a byte in seconds, by sender and receiver.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from itertools import combinations

import numpy as np
from mpi4py import MPI


def main() -> None:
    """Run the job."""
    comm, repetitions = MPI.COMM_WORLD, int(sys.argv[1])
    byte = np.zeros(1, dtype=np.uint8)
    latencies_s: dict[str, float] = {}
    for one, other in combinations(range(comm.size), 2):
        comm.Barrier()
        if comm.rank == one:
            times_s = []
            for _ in range(repetitions + 1):  # the first opens the connection
                began_s = time.perf_counter()
                comm.Send(byte, dest=other)
                comm.Recv(byte, source=other)
                times_s.append(time.perf_counter() - began_s)
            latencies_s[f"{one} {other}"] = statistics.median(times_s[1:]) / 2
        elif comm.rank == other:
            for _ in range(repetitions + 1):
                comm.Recv(byte, source=one)
                comm.Send(byte, dest=one)
    parts = comm.gather(latencies_s)
    if parts is not None:
        seconds = [[0.0] * comm.size for _ in range(comm.size)]
        for part in parts:
            for pair, value in part.items():
                one, other = map(int, pair.split())
                seconds[one][other] = seconds[other][one] = value
        print(json.dumps({"seconds": seconds}))


main()
