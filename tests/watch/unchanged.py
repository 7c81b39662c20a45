"""Each rank's part: broadcasts by MPI alone. python unchanged.py BYTES COUNT"""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

array = np.zeros(int(sys.argv[1]), dtype=np.uint8)
for number in range(int(sys.argv[2])):
    array[:] = number if MPI.COMM_WORLD.rank == 0 else 255
    MPI.COMM_WORLD.Bcast(array, 0)
    assert (array == number).all()
