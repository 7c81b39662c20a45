"""Each rank's part: random operations, each compared with the expected result.

    python program.py own|preload TREES.json... SEED CASES

`own` runs gavotte.mpi and the library's own operation and compares both. `preload` calls MPI alone, which the preloaded
library answers. It compares with results that every rank can compute, since all draw the same numbers.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

import gavotte.mpi as along

Array = npt.NDArray[Any]
TYPES = (np.uint8, np.int32, np.int64, np.float64)
OPS = {"sum": (MPI.SUM, np.add), "max": (MPI.MAX, np.maximum), "min": (MPI.MIN, np.minimum)}


def values(generator: np.random.Generator, ranks: int, count: int, dtype: Any) -> list[Array]:
    """Return one array for each rank, of whole numbers, so that sums do not depend on their order.

    None overflows: Open MPI 4.1 adds bytes with AVX that saturates, and wraps the last few of an array.
    """
    return [generator.integers(0, 256 // ranks, count).astype(dtype) for _ in range(ranks)]


def own(
    comm: MPI.Intracomm,
    trees: dict[tuple[str, int], along.Tree],
    rings: list[along.Tree],
    generator: np.random.Generator,
) -> None:
    """Run gavotte.mpi next to the library."""
    roots = sorted({root for _, root in trees})
    root, count = int(generator.choice(roots)), int(generator.integers(0, 60_000))
    dtype = TYPES[generator.integers(len(TYPES))]
    mine = values(generator, comm.size, count, dtype)[comm.rank]
    top = comm.rank == root
    ours, theirs = mine.copy(), mine.copy()
    along.bcast(comm, ours, trees["broadcast", root])
    comm.Bcast(theirs, root)
    assert (ours == theirs).all(), "bcast"
    op, _ = OPS[str(generator.choice(list(OPS)))]
    ours, theirs = np.zeros_like(mine), np.zeros_like(mine)
    along.reduce(comm, mine, ours if top else None, trees["reduce", root], op)
    comm.Reduce(mine, theirs if top else None, op, root)
    assert (ours == theirs).all(), "reduce"
    whole = np.concatenate(values(generator, comm.size, count, dtype))
    ours, theirs = np.zeros_like(mine), np.zeros_like(mine)
    along.scatter(comm, whole if top else None, ours, trees["scatter", root])
    comm.Scatter(whole if top else None, theirs, root)
    assert (ours == theirs).all(), "scatter"
    ours, theirs = np.zeros_like(whole), np.zeros_like(whole)
    along.gather(comm, mine, ours if top else None, trees["gather", root])
    comm.Gather(mine, theirs if top else None, root)
    assert (ours == theirs).all(), "gather"
    ours, theirs = np.zeros_like(whole), np.zeros_like(whole)
    along.allgather(comm, mine, ours, (trees["gather", root], trees["broadcast", root]))
    comm.Allgather(mine, theirs)
    assert (ours == theirs).all(), "allgather"
    ours, theirs = np.zeros_like(mine), np.zeros_like(mine)
    along.allreduce(comm, mine, ours, (trees["reduce", root], trees["broadcast", root]), op)
    comm.Allreduce(mine, theirs, op)
    assert (ours == theirs).all(), "allreduce"
    for ring in rings:
        if ring.operation == "allreduce":
            ours = np.zeros_like(mine)
            along.allreduce(comm, mine, ours, (ring,), op)
            assert (ours == theirs).all(), "allreduce round a ring"
        else:
            ours = np.zeros_like(whole)
            along.allgather(comm, mine, ours, (ring,))
            assert (ours == np.concatenate(comm.allgather(mine))).all(), "allgather round a ring"


def preload(comm: MPI.Intracomm, generator: np.random.Generator) -> None:
    """Run every way in which a program may call the operations."""
    root, count = int(generator.integers(comm.size)), int(generator.integers(1, 60_000))
    dtype = TYPES[generator.integers(len(TYPES))]
    all_of = values(generator, comm.size, count, dtype)
    mine, top = all_of[comm.rank], comm.rank == root
    got = mine.copy()
    comm.Bcast(got, root)
    assert (got == all_of[root]).all(), "bcast"
    # The root's type with gaps, the others' without: equal signatures, different types.
    kind = MPI._typedict[np.dtype(dtype).char]
    strided = kind.Create_vector(count, 1, 2).Commit()
    pair = kind.Create_resized(0, 2 * mine.itemsize).Commit()
    wide = np.zeros(2 * count, dtype=dtype)
    wide[::2] = mine
    comm.Bcast([wide, 1, strided] if top or comm.rank % 2 else [wide, count, kind], root)
    present = wide[::2] if top or comm.rank % 2 else wide[:count]
    assert (present == all_of[root]).all(), "bcast of a vector"
    name = str(generator.choice(list(OPS)))
    op, numpys = OPS[name]
    got = mine.copy()
    comm.Reduce(MPI.IN_PLACE if top else mine, got if top else None, op, root)
    if top:
        assert (got == numpys.reduce(all_of, dtype=dtype)).all(), "reduce in place"
    got = np.zeros_like(mine)
    comm.Reduce(mine, got if top else None, op, root)
    if top:
        assert (got == numpys.reduce(all_of, dtype=dtype)).all(), "reduce"
    whole = np.concatenate(all_of)
    got = np.zeros_like(mine)
    comm.Scatter(whole if top else None, got, root)
    assert (got == mine).all(), "scatter"
    comm.Scatter(whole if top else None, MPI.IN_PLACE if top else got, root)
    got = np.zeros_like(wide)
    comm.Scatter(whole if top else None, [got, 1, strided], root)
    assert (got[::2] == mine).all(), "scatter to a vector"
    got = np.zeros_like(whole)
    comm.Gather(mine, got if top else None, root)
    assert not top or (got == whole).all(), "gather"
    if top:
        got[:] = 0
        got[root * count : (root + 1) * count] = mine
    comm.Gather(MPI.IN_PLACE if top else [wide, 1, strided] if comm.rank % 2 else mine, got if top else None, root)
    expected = [all_of[root] if rank % 2 and (rank != root) else all_of[rank] for rank in range(comm.size)]
    assert not top or (got == np.concatenate(expected)).all() or comm.rank % 2 == 0, "gather in place"
    got = np.zeros_like(whole)
    comm.Allgather(mine, got)
    assert (got == whole).all(), "allgather"
    got = np.zeros_like(whole)
    got[comm.rank * count : (comm.rank + 1) * count] = mine
    comm.Allgather(MPI.IN_PLACE, got)
    assert (got == whole).all(), "allgather in place"
    spread, got = np.zeros(2 * count, dtype=dtype), np.zeros(2 * comm.size * count, dtype=dtype)
    spread[::2] = mine
    comm.Allgather([spread, 1, strided], [got, count, pair])
    assert (got[::2] == whole).all(), "allgather of a vector to pairs with gaps"
    assert not got[1::2].any(), "allgather wrote into gaps"
    got = np.zeros_like(mine)
    comm.Allreduce(mine, got, op)
    assert (got == numpys.reduce(all_of, dtype=dtype)).all(), "allreduce"
    got = mine.copy()
    comm.Allreduce(MPI.IN_PLACE, got, op)
    assert (got == numpys.reduce(all_of, dtype=dtype)).all(), "allreduce in place"
    # The preloaded library must take over none of these.
    half = comm.Split(comm.rank % 2, comm.rank)
    got = mine.copy()
    half.Bcast(got, 0)
    assert (got == all_of[comm.rank % 2]).all(), "bcast in a half"
    half.Free()
    left = MPI.Op.Create(lambda a, b, _type: None, commute=False)
    comm.Reduce(np.zeros(count), np.zeros(count) if top else None, left, root)
    got = np.zeros(count)
    comm.Allreduce(np.zeros(count), got, left)
    left.Free()
    strided.Free()
    pair.Free()


def main() -> None:
    """Run the cases on a communicator like the world's, the world, and one freed after use."""
    mode, *files, seed, cases = sys.argv[1:]
    read = [tree for path in files for tree in along.read_trees(path)]
    trees = {(tree.operation, tree.root): tree for tree in read if not tree.ring}
    rings = [tree for tree in read if tree.ring]
    world = MPI.COMM_WORLD
    generator = np.random.default_rng(int(seed))
    for case in range(int(cases)):
        comm = world.Dup() if case % 3 == 0 else world
        if mode == "own":
            own(comm, trees, rings, generator)
        else:
            preload(comm, generator)
        if comm is not world:
            comm.Free()
    names = world.gather(MPI.Get_processor_name(), 0)
    if world.rank == 0:
        assert names is not None
        print(f"{cases} cases on {world.size} ranks of {len(set(names))} hosts")


main()
