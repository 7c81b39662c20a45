"""Two ranks send each other messages of 250 kB, and continue where they were stopped.

mpirun -n 2 python checkpointed.py CHECKPOINT TIMES
"""

import os
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

checkpoint, times = Path(sys.argv[1]), int(sys.argv[2])
progress = Path(os.environ["GAVOTTE_PROGRESS"])
comm = MPI.COMM_WORLD
begin = comm.bcast(int(checkpoint.read_text()) if comm.rank == 0 and checkpoint.exists() else 0)
sent, received = np.ones(250_000, dtype=np.uint8), np.empty(250_000, dtype=np.uint8)
if comm.rank == 0:
    print(f"from {begin}", flush=True)
for step in range(begin, times):
    comm.Sendrecv(sent, 1 - comm.rank, recvbuf=received, source=1 - comm.rank)
    if comm.rank == 0:
        fresh = checkpoint.with_suffix(".new")
        fresh.write_text(str(step + 1))
        fresh.rename(checkpoint)
        progress.write_text(f"{(step + 1) / times:.4f}")
