"""N bodies that attract each other, spread over the ranks of an MPI job (the RPCA paper, section V-A).

Each rank moves a block of the bodies. In each step every rank needs all of them. As in the paper, this all-to-all is a
gather followed by a broadcast. Run it as

    mpirun -n 16 python nbody.py [--steps 40] [--bodies 1024] [--attributes 960] [--exchange HOW ...]

where HOW is `allgather` (the library's own), `gather-broadcast` (the library's own two), or a `*.tree.json` of `gavotte
collective --operation allgather`, whose trees or ring are then used. The program runs once for each; rank 0 prints a
line of JSON a run.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SOFTENING = 0.05
STEP = 1e-3


def exchanger(comm: MPI.Intracomm, how: str):  # type: ignore[no-untyped-def]
    """Return the function that fills `whole` with every rank's `mine`."""
    if how == "allgather":
        return comm.Allgather
    if how == "gather-broadcast":

        def both(mine: Floats, whole: Floats) -> None:
            comm.Gather(mine, whole, 0)
            comm.Bcast(whole, 0)

        return both
    import gavotte.mpi as along

    trees = along.read_trees(how)
    return lambda mine, whole: along.allgather(comm, mine, whole, trees)


def acceleration(mine: Floats, whole: Floats) -> Floats:
    """Return the new velocities of this rank's bodies; columns 0 to 2 are the position, 3 the mass."""
    apart = whole[None, :, :3] - mine[:, None, :3]
    pull = whole[None, :, 3] / (np.einsum("ijk,ijk->ij", apart, apart) + SOFTENING**2) ** 1.5
    return np.einsum("ij,ijk->ik", pull, apart)


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description="N bodies by MPI")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--bodies", type=int, default=1024)
    parser.add_argument("--attributes", type=int, default=960, help="additional bytes of each body")
    parser.add_argument(
        "--exchange", nargs="+", default=["gather-broadcast"], help="allgather, gather-broadcast or FILE.tree.json"
    )
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    for how in asked.exchange:
        run(MPI.COMM_WORLD, asked, how)


def run(comm: MPI.Intracomm, asked: argparse.Namespace, how: str) -> None:
    """Move the bodies from their first positions."""
    share = -(-asked.bodies // comm.size)
    everything = np.random.default_rng(asked.seed).normal(size=(share * comm.size, 4 + asked.attributes // 8))
    everything[:, 3] = 1 / len(everything)
    mine = np.ascontiguousarray(everything[comm.rank * share : (comm.rank + 1) * share])
    speed = np.zeros((share, 3))
    whole = np.empty_like(everything)
    exchange = exchanger(comm, how)
    comm.Barrier()
    started, talked = time.perf_counter(), 0.0
    for _ in range(asked.steps):
        before = time.perf_counter()
        exchange(mine, whole)
        talked += time.perf_counter() - before
        speed += STEP * acceleration(mine, whole)
        mine[:, :3] += STEP * speed
    comm.Barrier()
    total = time.perf_counter() - started
    checksum = comm.reduce(float(np.abs(mine[:, :3]).sum()), root=0)
    computed = comm.reduce(total - talked, op=MPI.MAX, root=0)
    talked = comm.reduce(talked, op=MPI.MAX, root=0)
    if comm.rank == 0:
        result = {"program": "nbody", "exchange": how, "ranks": comm.size, "block_bytes": mine.nbytes}
        result |= {"steps": asked.steps, "total_s": total, "communication_s": talked, "computing_s": computed}
        result |= {"checksum": round(checksum, 6)}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
