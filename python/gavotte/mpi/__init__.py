"""Runs collective operations of mpi4py along trees and rings of `gavotte collective`. Importing it starts MPI.

    import gavotte.mpi as along
    (tree,) = along.read_trees("broadcast.tree.json")
    along.bcast(comm, array, tree)

It needs mpi4py, and of Gavotte nothing else: the folder may be copied to hosts that have no Gavotte.
"""

from gavotte.mpi.operations import allgather, allreduce, bcast, gather, reduce, reorder, scatter
from gavotte.mpi.trees import Tree, read_trees

__all__ = [
    "Tree",
    "allgather",
    "allreduce",
    "bcast",
    "gather",
    "read_trees",
    "reduce",
    "reorder",
    "scatter",
]
