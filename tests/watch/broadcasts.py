"""Each rank's part: observed broadcasts along a tree. python broadcasts.py TREE.json TIMES.jsonl BYTES COUNT"""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

import gavotte.mpi as along
from gavotte.mpi.observing import Observer

(tree,) = along.read_trees(sys.argv[1])
array = np.zeros(int(sys.argv[3]), dtype=np.uint8)
with Observer(MPI.COMM_WORLD, sys.argv[2], tree_file=sys.argv[1]) as observer:
    for number in range(int(sys.argv[4])):
        array[:] = number if MPI.COMM_WORLD.rank == tree.root else 255
        observer.bcast(array, tree)
        assert (array == number).all()
