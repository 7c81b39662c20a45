"""Pass messages round a ring of ranks, in the order that `crates/collective/src/ring.rs` predicts times for.

In round r, the member at place i passes on the blocks of group i - r (a member and its hanging ranks).
For a vector it passes on share i - r. It sends them to the next member and to each of its own hanging ranks.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from mpi4py import MPI

from gavotte.mpi.own import Array, Bytes
from gavotte.mpi.trees import Tree


def _place(rank: int, ring: Tree) -> int:
    """Return the place in the ring of a rank, or of the member that the rank hangs from."""
    return next(place for place, group in enumerate(ring.groups) if rank in group)


def allgather(own: MPI.Intracomm, block: Bytes, whole: Bytes, ring: Tree) -> None:
    """Collect the blocks of all ranks in every rank, round the ring.

    Args:
        own: a communicator without other messages.
        block: this rank's block.
        whole: room for the blocks of all ranks in their order.
        ring: ring of an allgather.
    """
    rank, size = own.rank, len(block)
    place, members, pieces = _place(rank, ring), ring.ring, ring.pieces(size)
    hangs = ring.groups[place][0] != rank
    before, after = ring.groups[place - 1][0], ring.groups[(place + 1) % members][0]
    whole[rank * size : (rank + 1) * size] = block
    rounds = [ring.groups[(place - number) % members] for number in range(members)]

    def part(of: int, piece: tuple[int, int]) -> tuple[Bytes, MPI.Datatype]:
        return whole[of * size + piece[0] : of * size + piece[1]], MPI.BYTE

    def source(number: int, of: int) -> int:
        return ring.parent[rank] if hangs else before if number else of

    coming = {
        (of, piece): own.Irecv(part(of, piece), source=source(number, of))
        for number, group in enumerate(rounds)
        for of in group
        for piece in pieces
        if of != rank
    }
    if hangs:
        for piece in pieces:
            own.Send(part(rank, piece), dest=ring.parent[rank])
        MPI.Request.Waitall(list(coming.values()))
        return
    for number, group in enumerate(rounds):
        for of in group:
            for piece in pieces:
                if of != rank:
                    coming[of, piece].Wait()
                if number + 1 < members:
                    own.Send(part(of, piece), dest=after)
                for below in ring.groups[place][1:]:
                    if below != of:
                        own.Send(part(of, piece), dest=below)


def allreduce(own: MPI.Intracomm, send: Array, receive: Array, ring: Tree, op: MPI.Op) -> None:
    """Combine the vectors of all ranks in every rank: each share goes round to be combined, then again complete.

    Args:
        own: a communicator without other messages.
        send: this rank's vector, one axis.
        receive: room for the result, of the same size and type.
        ring: ring of an allreduce.
        op: commutative operator.
    """
    rank, members, place = own.rank, ring.ring, _place(own.rank, ring)
    step = max(1, ring.segment_bytes // max(1, send.itemsize)) if ring.segment_bytes else max(1, send.size)
    most = -(-send.size // members)
    count = -(-most // step)

    def cut(number: int, piece: int) -> slice:
        share = (place - number) % members
        start, end = share * send.size // members, (share + 1) * send.size // members
        return slice(min(start + piece * step, end), min(start + (piece + 1) * step, end))

    if ring.groups[place][0] != rank:
        parent = ring.parent[rank]
        coming = [
            own.Irecv(receive[cut(number, piece)], source=parent)
            for number in range(members - 1, 2 * members - 1)
            for piece in range(count)
        ]
        for number in range(members):
            for piece in range(count):
                own.Send(send[cut(number, piece)], dest=parent)
        MPI.Request.Waitall(coming)
        return
    receive[...] = send
    _combine(
        own, receive, ring, op, [[cut(number, piece) for piece in range(count)] for number in range(2 * members - 1)]
    )


def _combine(own: MPI.Intracomm, total: Array, ring: Tree, op: MPI.Op, rounds: list[list[slice]]) -> None:
    """Carry out one member's part of an allreduce.

    Messages arrive in one order: by round, then by piece, first from the member before and then from each hanging rank.
    Receives are posted ahead, `window` of them at most. This covers whatever the member before may be sending while all
    members send. No receive is posted for a share whose present content is still to be sent.
    """
    members, place = ring.ring, _place(own.rank, ring)
    before, after = ring.groups[place - 1][0], ring.groups[(place + 1) % members][0]
    hung = ring.groups[place][1:]
    work = deque(
        (number, part, source)
        for number, parts in enumerate(rounds)
        for part in parts
        for source in ((before,) if number else ()) + (hung if number < members else ())
    )
    window = (len(rounds[0]) + 1) * (1 + len(hung))
    longest = max((part.stop - part.start for parts in rounds for part in parts), default=0)
    slots = np.empty((window, longest), dtype=total.dtype)
    coming: deque[tuple[int, MPI.Request]] = deque()
    posted = 0

    def post(number: int) -> None:
        nonlocal posted
        while work and len(coming) < window and work[0][0] < number + members:
            then, part, source = work.popleft()
            target = slots[posted % window, : part.stop - part.start] if then < members else total[part]
            coming.append((posted % window, own.Irecv(target, source=source)))
            posted += 1

    for number, parts in enumerate(rounds):
        for part in parts:
            for _ in range((number > 0) + (len(hung) if number < members else 0)):
                post(number)
                slot, request = coming.popleft()
                request.Wait()
                if number < members:
                    op.Reduce_local(slots[slot, : part.stop - part.start], total[part])
            post(number)
            if number + 1 < len(rounds):
                own.Send(total[part], dest=after)
            if number + 1 >= members:
                for below in hung:
                    own.Send(total[part], dest=below)
