"""Collective operations as point-to-point messages along a tree, on a private communicator.

A rank posts all receives first. Then it sends piece by piece, child by child, one blocking send at a time, as the
trees were planned for. The root of a flat scatter sends to all ranks at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from mpi4py import MPI

from gavotte.mpi import rings
from gavotte.mpi.own import Array, Bytes, flat, ours
from gavotte.mpi.trees import Tree

AHEAD = 4
"""Most pieces of a reduction that are on the way to one rank at the same time."""


def bcast(comm: MPI.Intracomm, buffer: Array, tree: Tree) -> None:
    """Copy the array of the tree's root into the arrays of all ranks.

    Args:
        comm: communicator with the ranks that the tree was made for.
        buffer: C-contiguous array, of the same size in all ranks.
        tree: tree of a broadcast.

    Raises:
        ValueError: when the tree is for another operation or number of ranks, or the array is not contiguous.
    """
    own = ours(comm, tree, "broadcast")
    if tree.library:
        comm.Bcast(buffer, tree.root)
        return
    down(own, flat(buffer), tree, shared=True)


def scatter(comm: MPI.Intracomm, send: Array | None, receive: Array, tree: Tree) -> None:
    """Send each rank its block of the root's array.

    Args:
        comm: communicator with the ranks that the tree was made for.
        send: at the root, the blocks of all ranks in their order; ignored in other ranks.
        receive: this rank's block.
        tree: tree of a scatter.

    Raises:
        ValueError: as for `bcast`, or when the sizes do not fit.
    """
    own = ours(comm, tree, "scatter")
    if tree.library:
        comm.Scatter(send, receive, tree.root)
        return
    block = flat(receive)
    below = tree.below(own.rank)
    laid = np.empty(len(block) * len(below), dtype=np.uint8)
    if own.rank == tree.root:
        for place, part in enumerate(_blocks(send, len(block), below)):
            _deal(laid, part, place, len(below), tree, inwards=True)
    down(own, laid, tree, shared=False)
    _deal(laid, block, 0, len(below), tree, inwards=False)


def gather(comm: MPI.Intracomm, send: Array, receive: Array | None, tree: Tree) -> None:
    """Collect the blocks of all ranks in the root's array.

    Args:
        comm: communicator with the ranks that the tree was made for.
        send: this rank's block.
        receive: at the root, room for the blocks of all ranks in their order; ignored in other ranks.
        tree: tree of a gather.

    Raises:
        ValueError: as for `bcast`, or when the sizes do not fit.
    """
    own = ours(comm, tree, "gather")
    if tree.library:
        comm.Gather(send, receive, tree.root)
        return
    block = flat(send)
    below = tree.below(own.rank)
    laid = np.empty(len(block) * len(below), dtype=np.uint8)
    _deal(laid, block, 0, len(below), tree, inwards=True)
    _up(own, laid, tree)
    if own.rank == tree.root:
        for place, part in enumerate(_blocks(receive, len(block), below)):
            _deal(laid, part, place, len(below), tree, inwards=False)


def reduce(comm: MPI.Intracomm, send: Array, receive: Array | None, tree: Tree, op: MPI.Op = MPI.SUM) -> None:
    """Combine the arrays of all ranks into one array at the root, by default their sum.

    Args:
        comm: communicator with the ranks that the tree was made for.
        send: this rank's array.
        receive: at the root, room for the result; ignored in other ranks.
        tree: tree of a reduction.
        op: commutative operator. Floating-point sums depend in their last digits on the order, and so on the tree.

    Raises:
        ValueError: as for `bcast`, or when `op` does not commute.
    """
    own = ours(comm, tree, "reduce")
    if tree.library:
        comm.Reduce(send, receive, op, tree.root)
        return
    if not op.Is_commutative():
        raise ValueError("the operator does not commute; use the library's own reduce")
    children = tree.children[own.rank]
    flat(send)
    total = send.reshape(-1)
    if own.rank == tree.root:
        if receive is None or receive.size != send.size or receive.dtype != send.dtype:
            raise ValueError("at the root, `receive` must be like `send`")
        flat(receive)
        receive[...] = send.reshape(receive.shape)
        total = receive.reshape(-1)
    elif children:
        total = total.copy()
    step = max(1, (tree.segment_bytes or send.nbytes) // max(1, send.itemsize))
    pieces = [(start, min(start + step, total.size)) for start in range(0, total.size, step)]
    slots = np.empty((AHEAD, min(step, total.size)), dtype=send.dtype) if children else np.empty((0, 0))
    work = deque((piece, child) for piece in pieces for child in reversed(children))
    coming: deque[tuple[int, MPI.Request]] = deque()
    number = 0
    for start, end in pieces:
        for _ in children:
            while work and len(coming) < AHEAD:
                (low, high), child = work.popleft()
                coming.append((number % AHEAD, own.Irecv(slots[number % AHEAD, : high - low], source=child)))
                number += 1
            slot, request = coming.popleft()
            request.Wait()
            op.Reduce_local(slots[slot, : end - start], total[start:end])
        if own.rank != tree.root:
            own.Send(total[start:end], dest=tree.parent[own.rank])


def allgather(comm: MPI.Intracomm, send: Array, receive: Array, trees: Sequence[Tree]) -> None:
    """Collect the blocks of all ranks in every rank, round a ring or by a gather and a broadcast.

    Args:
        comm: communicator with the ranks that the trees were made for.
        send: this rank's block.
        receive: room for the blocks of all ranks in their order.
        trees: one ring, or the trees of the gather and the broadcast with one root, as `read_trees` returns them.

    Raises:
        ValueError: as for `bcast`, or when the sizes do not fit.
    """
    if trees[0].library:
        comm.Allgather(send, receive)
        return
    if len(trees) == 1:
        block, whole = flat(send), flat(receive)
        if len(whole) != len(block) * comm.size:
            raise ValueError(f"the array must hold {comm.size} blocks of {len(block)} bytes")
        rings.allgather(ours(comm, trees[0], "allgather"), block, whole, trees[0])
        return
    up, down = trees
    gather(comm, send, receive if comm.rank == up.root else None, up)
    bcast(comm, receive, down)


def allreduce(comm: MPI.Intracomm, send: Array, receive: Array, trees: Sequence[Tree], op: MPI.Op = MPI.SUM) -> None:
    """Combine the arrays of all ranks into one array in every rank, round a ring or by a reduction and a broadcast.

    Args:
        comm: communicator with the ranks that the trees were made for.
        send: this rank's array.
        receive: room for the result, which is the same in all ranks to the last digit.
        trees: one ring, or the trees of the reduction and the broadcast with one root, as `read_trees` returns them.
        op: commutative operator.

    Raises:
        ValueError: as for `reduce`.
    """
    if trees[0].library:
        comm.Allreduce(send, receive, op)
        return
    if len(trees) == 1:
        if not op.Is_commutative():
            raise ValueError("the operator does not commute; use the library's own allreduce")
        if receive.size != send.size or receive.dtype != send.dtype:
            raise ValueError("`receive` must be like `send`")
        flat(send), flat(receive)
        own = ours(comm, trees[0], "allreduce")
        rings.allreduce(own, send.reshape(-1), receive.reshape(-1), trees[0], op)
        return
    up, down = trees
    reduce(comm, send, receive if comm.rank == up.root else None, up, op)
    bcast(comm, receive, down)


def reorder(comm: MPI.Intracomm, keys: list[int]) -> MPI.Intracomm:
    """Return a communicator of the same processes with new ranks, so that neighbouring ranks are on nearby hosts.

    No process moves to another host.

    Args:
        comm: communicator of the processes.
        keys: the new rank of each process, as `gavotte map --reorder` prints them.

    Raises:
        ValueError: when the keys are not a permutation of all ranks.
    """
    if sorted(keys) != list(range(comm.size)):
        raise ValueError(f"the keys must be 0 to {comm.size - 1} in some order")
    made = comm.Split(0, keys[comm.rank])
    assert isinstance(made, MPI.Intracomm)
    return made


def _blocks(whole: Array | None, size: int, below: list[int]) -> list[Bytes]:
    """Return the blocks of the root's array, as bytes, in the order of the ranks in `below`."""
    if whole is None or whole.nbytes != size * len(below):
        raise ValueError(f"at the root, the array must hold {len(below)} blocks of {size} bytes")
    memory = flat(whole)
    return [memory[rank * size : (rank + 1) * size] for rank in below]


def _deal(laid: Bytes, block: Bytes, place: int, count: int, tree: Tree, *, inwards: bool) -> None:
    """Copy the pieces of one rank's contiguous block into (`inwards`) or out of the layout [piece][rank of `below`].

    `place` is the rank's index in `below`, and `count` the number of ranks there.
    """
    for start, end in tree.pieces(len(block)):
        at = count * start + place * (end - start)
        piece = laid[at : at + end - start]
        if inwards:
            piece[:] = block[start:end]
        else:
            block[start:end] = piece


def _parts(own: MPI.Intracomm, tree: Tree, shared: bool) -> tuple[int, list[tuple[int, int, int]]]:
    """Return the number of blocks that this rank handles and, for each child, (rank, first block, end of blocks)."""
    if shared:
        return 1, [(child, 0, 1) for child in tree.children[own.rank]]
    parts, at = [], 1
    for child in tree.children[own.rank]:
        end = at + len(tree.below(child))
        parts.append((child, at, end))
        at = end
    return at, parts


def down(own: MPI.Intracomm, laid: Bytes, tree: Tree, *, shared: bool) -> None:
    """Receive pieces from the parent and pass them to the children.

    Args:
        own: the communicator of the messages.
        laid: bytes of this rank and all below it, in the order of the tree; received here, except at the root.
        tree: the tree that the pieces follow.
        shared: whether all ranks get the same bytes, instead of each its own.
    """
    count, parts = _parts(own, tree, shared)
    pieces = tree.pieces(len(laid) // count)
    coming = []
    if own.rank != tree.root:
        parent = tree.parent[own.rank]
        coming = [own.Irecv([laid[count * a : count * b], MPI.BYTE], source=parent) for a, b in pieces]
    for number, (start, end) in enumerate(pieces):
        if coming:
            coming[number].Wait()
        at, length = count * start, end - start
        if tree.flat and not shared:  # a host may send at a higher rate than one pair carries
            going = [
                own.Isend([laid[at + a * length : at + b * length], MPI.BYTE], dest=child) for child, a, b in parts
            ]
            MPI.Request.Waitall(going)
            continue
        for child, first, last in parts:
            own.Send([laid[at + first * length : at + last * length], MPI.BYTE], dest=child)


def _up(own: MPI.Intracomm, laid: Bytes, tree: Tree) -> None:
    count, parts = _parts(own, tree, shared=False)
    pieces = tree.pieces(len(laid) // count)
    coming = [
        [
            own.Irecv(
                [laid[count * start + first * (end - start) : count * start + last * (end - start)], MPI.BYTE],
                source=child,
            )
            for child, first, last in reversed(parts)
        ]
        for start, end in pieces
    ]
    for requests, (start, end) in zip(coming, pieces, strict=True):
        MPI.Request.Waitall(requests)
        if own.rank != tree.root:
            own.Send([laid[count * start : count * end], MPI.BYTE], dest=tree.parent[own.rank])
