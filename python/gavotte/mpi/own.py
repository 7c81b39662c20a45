"""Helpers of all operations: a private communicator, and an array's memory as bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from gavotte.mpi.trees import Tree

Bytes = npt.NDArray[np.uint8]
Array = npt.NDArray[Any]

_KEY = MPI.Comm.Create_keyval(delete_fn=lambda _comm, _key, own: own.Free())


def ours(comm: MPI.Intracomm, tree: Tree, operation: str) -> MPI.Intracomm:
    """Return the private communicator of our messages, so that they are not confused with the program's messages.

    The first call with a communicator splits it, so all its ranks must take part. Later calls return the same one.

    Raises:
        ValueError: when the tree is for another operation or number of ranks.
    """
    if tree.operation != operation:
        raise ValueError(f"the tree is for {tree.operation}, not for {operation}")
    if len(tree.parent) != comm.size:
        raise ValueError(f"the tree is for {len(tree.parent)} ranks, but the communicator has {comm.size}")
    own = comm.Get_attr(_KEY)
    if own is None:
        own = comm.Split(0, comm.rank)
        comm.Set_attr(_KEY, own)
    assert isinstance(own, MPI.Intracomm)
    return own


def flat(array: Array) -> Bytes:
    """Return the array's own memory as bytes, without a copy.

    Raises:
        ValueError: when the array is not contiguous.
    """
    if not array.flags.c_contiguous:
        raise ValueError("the array is not contiguous; pass numpy.ascontiguousarray of it")
    return array.reshape(-1).view(np.uint8)
