"""Conjugate gradients on a grid, spread over the ranks of an MPI job (the RPCA paper, section V-A).

The matrix is the five-point Laplacian of a square grid, shifted so that it converges in tens of iterations. Each rank
has a block of its rows. Each iteration multiplies the matrix with a vector that all ranks need whole. As in the paper,
this all-to-all is a gather followed by a broadcast. The program ends when the residual is 1e-5 of the first. Run it as

    mpirun -n 16 python cg.py [--size 262144] [--exchange HOW ...]

where HOW is `allgather` (the library's own), `gather-broadcast` (the library's own two), or a `*.tree.json` of `gavotte
collective --operation allgather`, whose trees or ring are then used. The program runs once for each; rank 0 prints a
line of JSON a run.
"""

from __future__ import annotations

import argparse
import json
import math
import time

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ENOUGH = 1e-5
"""The paper's criterion: |r| <= 1e-5 g0."""


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


def multiplied(whole: Floats, first: int, last: int, side: int, shift: float) -> Floats:
    """Return rows `first` to `last` of the matrix times the vector."""
    rows = np.arange(first, last)
    product = (4 + shift) * whole[first:last]
    for step, inside in (
        (-side, rows >= side),
        (side, rows < len(whole) - side),
        (-1, rows % side > 0),
        (1, rows % side < side - 1),
    ):
        product[inside] -= whole[rows[inside] + step]
    return product


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description="conjugate gradients by MPI")
    parser.add_argument("--size", type=int, default=262144, help="of the vector; rounded to a square of whole blocks")
    parser.add_argument("--shift", type=float, default=0.2, help="added to the diagonal; less takes more iterations")
    parser.add_argument(
        "--exchange", nargs="+", default=["gather-broadcast"], help="allgather, gather-broadcast or FILE.tree.json"
    )
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    for how in asked.exchange:
        run(MPI.COMM_WORLD, asked, how)


def run(comm: MPI.Intracomm, asked: argparse.Namespace, how: str) -> None:
    """Solve one system."""
    side = comm.size * max(1, round(math.sqrt(asked.size) / comm.size))
    share = side * side // comm.size
    first, last = comm.rank * share, (comm.rank + 1) * share
    right = np.random.default_rng(asked.seed).normal(size=side * side)[first:last]
    exchange = exchanger(comm, how)
    solution, residual = np.zeros(share), right.copy()
    direction, whole = residual.copy(), np.empty(side * side)
    comm.Barrier()
    started, talked, iterations = time.perf_counter(), 0.0, 0

    def dot(one: Floats, other: Floats) -> float:
        nonlocal talked
        before = time.perf_counter()
        result = comm.allreduce(float(one @ other))
        talked += time.perf_counter() - before
        return result

    norm = dot(residual, residual)
    goal = ENOUGH**2 * norm
    while norm > goal:
        before = time.perf_counter()
        exchange(direction, whole)
        talked += time.perf_counter() - before
        product = multiplied(whole, first, last, side, asked.shift)
        step = norm / dot(direction, product)
        solution += step * direction
        residual -= step * product
        before_norm, norm = norm, dot(residual, residual)
        direction = residual + norm / before_norm * direction
        iterations += 1
    comm.Barrier()
    total = time.perf_counter() - started
    checksum = comm.reduce(float(np.abs(solution).sum()), root=0)
    talked = comm.reduce(talked, op=MPI.MAX, root=0)
    if comm.rank == 0:
        result = {"program": "cg", "exchange": how, "ranks": comm.size, "block_bytes": direction.nbytes}
        result |= {"steps": iterations, "total_s": total, "communication_s": talked, "checksum": round(checksum, 4)}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
