"""PageRank over an R-MAT graph, spread over the ranks of an MPI job.

The graph is Graph500's power-law graph without the shuffling of its vertices. Low numbers are therefore the popular
pages, as in a crawl that is ordered by site. Vertices are cut into one block a rank, and a rank keeps the edges that
end in its block. At the start, the ranks exchange lists of the vertices they need. After that an iteration moves only
those values (`Alltoallv`). The traffic is therefore as skewed as the graph.

Run it as `mpirun -n 16 python pagerank.py`. Rank 0 prints one line of JSON: the checksum of the result, and the bytes
of payload that each rank sent to each other one, counted in the program. The scalars of `Allreduce` are not counted:
they are 16 bytes a rank and iteration, and the library chooses their way.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from rmat import Graph, Ids

DAMPING = 0.85

Floats = NDArray[np.float64]


@dataclass
class Exchange:
    """The vertices that each rank needs from each other one, agreed once, and the bytes that this rank has sent."""

    comm: MPI.Intracomm
    give: Ids  # positions in this rank's block, grouped by the rank that needs them
    give_counts: Ids
    need_counts: Ids
    sent_bytes: Ids = field(repr=False)

    @classmethod
    def agree(cls, comm: MPI.Intracomm, bounds: Ids, needed: Ids) -> Exchange:
        """Send every rank the list of its vertices that this one needs.

        Args:
            comm: all ranks.
            bounds: the first vertex of each rank's block, and the number of vertices at the end.
            needed: the vertices that this rank needs, each once, in rising order.
        """
        need_counts = np.diff(np.searchsorted(needed, bounds))
        give_counts = np.empty_like(need_counts)
        comm.Alltoall(need_counts, give_counts)
        asked = np.empty(int(give_counts.sum()), dtype=np.int64)
        comm.Alltoallv([needed, need_counts], [asked, give_counts])
        sent_bytes = need_counts * needed.itemsize + need_counts.itemsize
        return cls(comm, asked - bounds[comm.rank], give_counts, need_counts, sent_bytes)

    def values(self, own: Floats) -> Floats:
        """Send the needed values of this rank's block; return those of all needed vertices, in order."""
        received = np.empty(int(self.need_counts.sum()))
        self.comm.Alltoallv([own[self.give], self.give_counts], [received, self.need_counts])
        self.sent_bytes += self.give_counts * own.itemsize
        return received

    def matrix(self) -> Ids | None:
        """The payload bytes of all pairs (row = sender, nothing on the diagonal), on rank 0 only."""
        rows = self.comm.gather(self.sent_bytes)
        if rows is None:
            return None
        matrix: Ids = np.stack(rows)
        np.fill_diagonal(matrix, 0)
        return matrix


@dataclass
class Block:
    """A rank's share of the graph: its vertices and the edges that end in them."""

    first: int
    degree: Floats  # edges out of each own vertex
    source: Ids  # for each edge, the vertex where it starts
    target: Ids  # for each edge, its end's position in the block

    @classmethod
    def of(cls, graph: Graph, first: int, end: int) -> Block:
        """Draw the whole graph and keep the edges that end in vertices from `first` to before `end`."""
        degree = np.zeros(end - first)
        sources, targets = [], []
        for source, target in graph.chunks():
            degree += np.bincount(source[(source >= first) & (source < end)] - first, minlength=end - first)
            mine = (target >= first) & (target < end)
            sources.append(source[mine])
            targets.append(target[mine] - first)
        return cls(first, degree, np.concatenate(sources), np.concatenate(targets))


@dataclass(frozen=True)
class Result:
    """Result of the iterations; `rank` is this rank's block of the answer."""

    rank: Floats
    iterations: int
    change: float
    sent_bytes: Ids | None


def pagerank(comm: MPI.Intracomm, graph: Graph, iterations: int, tolerance: float) -> Result:
    """Iterate until the ranks change by less than `tolerance` in sum, or `iterations` times."""
    bounds = graph.vertices * np.arange(comm.size + 1, dtype=np.int64) // comm.size
    first, end = int(bounds[comm.rank]), int(bounds[comm.rank + 1])
    block = Block.of(graph, first, end)
    needed, edge_source = np.unique(block.source, return_inverse=True)
    exchange = Exchange.agree(comm, bounds, needed)

    dangling = block.degree == 0
    rank = np.full(end - first, 1 / graph.vertices)
    sums = np.empty(2)  # the weight of the pages without links, and the change
    comm.Allreduce(np.array([rank[dangling].sum(), 0.0]), sums)
    done = 0
    for done in range(1, iterations + 1):  # noqa: B007
        share = rank / np.maximum(block.degree, 1)
        arrived = exchange.values(share)[edge_source]
        inflow = np.bincount(block.target, weights=arrived, minlength=end - first)
        fresh = (1 - DAMPING) / graph.vertices + DAMPING * (inflow + sums[0] / graph.vertices)
        local = np.array([fresh[dangling].sum(), np.abs(fresh - rank).sum()])
        rank = fresh
        comm.Allreduce(local, sums)
        if sums[1] < tolerance:
            break
    return Result(rank, done, float(sums[1]), exchange.matrix())


def main() -> int:
    """Run the job; rank 0 prints the JSON line."""
    parser = argparse.ArgumentParser(description="PageRank over an R-MAT graph, under mpirun")
    parser.add_argument("--scale", type=int, default=19, help="2**SCALE vertices")
    parser.add_argument("--edge-factor", type=int, default=16, help="edges a vertex")
    parser.add_argument("--iterations", type=int, default=20, help="at most this many")
    parser.add_argument("--tolerance", type=float, default=0.0, help="stop at a smaller change, in sum")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", type=Path, metavar="FILE.npy", help="where rank 0 writes the answer")
    options = parser.parse_args()

    comm = MPI.COMM_WORLD
    graph = Graph(options.scale, options.edge_factor, options.seed)
    start = time.monotonic()
    result = pagerank(comm, graph, options.iterations, options.tolerance)
    elapsed_s = time.monotonic() - start
    total = comm.allreduce(float(result.rank.sum()))
    squares = comm.allreduce(float(np.square(result.rank).sum()))
    hosts = comm.gather(platform.node())
    if options.save:
        blocks = comm.gather(result.rank)
        if blocks is not None:
            np.save(options.save, np.concatenate(blocks))
    if result.sent_bytes is not None:
        answer = {
            "scale": graph.scale,
            "edge_factor": graph.edge_factor,
            "seed": graph.seed,
            "iterations": result.iterations,
            "change": result.change,
            "sum": total,
            "checksum": f"{squares:.12e}",
            "elapsed_s": round(elapsed_s, 3),
            "hosts": hosts,
            "payload_bytes": result.sent_bytes.tolist(),
        }
        sys.stdout.write(json.dumps(answer) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
