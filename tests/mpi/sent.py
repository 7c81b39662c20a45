"""Calls one collective of each size a few times, and prints the bytes that each rank's host sent meanwhile.

Usage: sent.py OPERATION ROUNDS BYTES...; rank 0 prints a line for each size: the bytes per call, by rank.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI


def sent_bytes() -> int:
    """Return the bytes that this host has sent."""
    line = next(each for each in Path("/proc/net/dev").read_text().splitlines() if each.strip().startswith("eth0:"))
    return int(line.split(":")[1].split()[8])


def call(operation: str, size: int) -> None:
    """Call the collective once."""
    world = MPI.COMM_WORLD
    if operation == "bcast":
        world.Bcast(np.zeros(size, dtype="b"))
    elif operation == "allgather":
        world.Allgather(np.zeros(size, dtype="b"), np.empty(size * world.size, dtype="b"))
    else:
        numbers = np.arange(size // 8, dtype="d") * (1 + 0.1 * world.rank)
        world.Allreduce(numbers, np.empty_like(numbers))


def main() -> None:
    """Call and count."""
    world = MPI.COMM_WORLD
    operation, rounds = sys.argv[1], int(sys.argv[2])
    for size in map(int, sys.argv[3:]):
        call(operation, size)
        world.Barrier()
        before = sent_bytes()
        for _ in range(rounds):
            call(operation, size)
        world.Barrier()
        counts = world.gather((sent_bytes() - before) / rounds)
        if counts is not None:
            print(*(f"{each:.0f}" for each in counts), flush=True)


main()
