"""Run collective operations of mpi4py along the trees and rings of `gavotte collective`. The import starts MPI.

    import gavotte.mpi as along
    (tree,) = along.read_trees("broadcast.tree.json")
    along.bcast(comm, array, tree)

The package needs mpi4py and no other part of Gavotte. Its folder may be copied to hosts that have no Gavotte.
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
