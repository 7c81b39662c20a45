"""Each rank's part: the same operations again and again, so that the preloaded library tunes them; checks results.

    python tuning_program.py ROUNDS [BYTES] [one-without]

With `one-without`, the last rank does not ask for self-tuning.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

if "one-without" in sys.argv and (os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMI_RANK")) == "4":
    del os.environ["GAVOTTE_TUNE"]

from mpi4py import MPI

Array = npt.NDArray[Any]


def block(rank: int, turn: int, count: int) -> Array:
    """Return what a rank sends in a turn: whole numbers, so that sums do not depend on their order."""
    return np.random.default_rng([rank, turn]).integers(0, 50, count).astype(np.int32)


def everything(comm: MPI.Intracomm, turn: int, count: int) -> None:
    """Run all operations of one turn; the roots are the first and the last rank."""
    sent = [block(rank, turn, count) for rank in range(comm.size)]
    mine, whole = sent[comm.rank], np.concatenate(sent)
    for root in (0, comm.size - 1):
        top = comm.rank == root
        got = mine.copy()
        comm.Bcast(got, root)
        assert (got == sent[root]).all(), f"bcast {turn}"
        got = np.zeros_like(mine)
        comm.Scatter(whole if top else None, got, root)
        assert (got == mine).all(), f"scatter {turn}"
        got = np.zeros_like(whole)
        comm.Gather(mine, got if top else None, root)
        assert not top or (got == whole).all(), f"gather {turn}"
        got = np.zeros_like(mine)
        comm.Reduce(mine, got if top else None, MPI.SUM, root)
        assert not top or (got == sum(sent)).all(), f"reduce {turn}"
        # The root has gaps where others have none: equal signatures, different types.
        strided = MPI.INT32_T.Create_vector(count, 1, 2).Commit()
        wide = np.zeros(2 * count, dtype=np.int32)
        wide[::2] = mine
        comm.Bcast([wide, 1, strided] if top else [wide, count, MPI.INT32_T], root)
        assert ((wide[::2] if top else wide[:count]) == sent[root]).all(), f"bcast of a vector {turn}"
        strided.Free()
    got = np.zeros_like(whole)
    comm.Allgather(mine, got)
    assert (got == whole).all(), f"allgather {turn}"
    got = np.zeros_like(whole)
    got[comm.rank * count : (comm.rank + 1) * count] = mine
    comm.Allgather(MPI.IN_PLACE, got)
    assert (got == whole).all(), f"allgather in place {turn}"
    got = mine.copy()
    comm.Allreduce(MPI.IN_PLACE, got, MPI.MAX)
    assert (got == np.max(sent, axis=0)).all(), f"allreduce in place {turn}"
    floats = np.random.default_rng([comm.rank, turn]).normal(size=count)
    same = np.zeros_like(floats)
    comm.Allreduce(floats, same)
    assert np.allclose(same, sum(np.random.default_rng([rank, turn]).normal(size=count) for rank in range(comm.size)))


def main() -> None:
    """Run turns on the world, on a part, on communicators that live briefly, and on two at a time by two threads."""
    world = MPI.COMM_WORLD
    turns = int(sys.argv[1])
    count = (int(sys.argv[2]) if len(sys.argv) > 2 else 80_000) // 4
    part = MPI.Intracomm(world.Split(world.rank % 5 == 1, -world.rank))
    both = [MPI.Intracomm(world.Dup()) for _ in range(2)]
    for turn in range(turns):
        everything(world, turn, count)
        if part.size > 2:
            everything(part, turn, count)
        brief = MPI.Intracomm(world.Dup())
        everything(brief, turn, count)
        brief.Free()
    if MPI.Query_thread() == MPI.THREAD_MULTIPLE:

        def alone(comm: MPI.Intracomm) -> None:
            for turn in range(turns):
                everything(comm, turn, count)

        threads = [threading.Thread(target=alone, args=(comm,)) for comm in both]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    print_once(world, f"{turns} turns on {world.size} ranks")


def print_once(world: MPI.Intracomm, text: str) -> None:
    """Print a line at rank 0, when all ranks are here."""
    world.Barrier()
    if world.rank == 0:
        print(text)


main()
