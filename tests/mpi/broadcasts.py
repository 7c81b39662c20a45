"""Each rank's part: broadcasts from rank 0, again and again.

python broadcasts.py TIMES BYTES
"""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

times, size = map(int, sys.argv[1:])
world = MPI.COMM_WORLD
for turn in range(times):
    data = np.full(size, turn if world.rank == 0 else 255, dtype=np.uint8)
    world.Bcast(data)
    assert (data == turn).all(), turn
