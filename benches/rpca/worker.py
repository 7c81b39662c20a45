"""Each rank's part of the lab's job: the operations of a job file, trees in random order, with real bytes.

    python worker.py JOB.json

Rank 0 prints one line of JSON: seconds of each repetition, by operation and tree; an operation ends with its last rank.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

import gavotte.mpi as along

LIBRARY = "library"


def timed(comm: MPI.Intracomm, operation: Callable[[], object]) -> float:
    """Return the seconds from a barrier to the last rank's end."""
    comm.Barrier()
    started = time.perf_counter()
    operation()
    return float(comm.allreduce(time.perf_counter() - started, op=MPI.MAX))


def exchange(comm: MPI.Intracomm, messages: list[list[int]], hosts: list[int]) -> None:
    """Send all messages of a task graph, each rank its own one after the other."""
    coming, room = [], []
    for number, (_, target, size_bytes) in enumerate(messages):
        if hosts[target] == comm.rank:
            room.append(np.empty(size_bytes, dtype=np.uint8))
            coming.append(comm.Irecv(room[-1], source=hosts[messages[number][0]], tag=number))
    for number, (source, target, size_bytes) in enumerate(messages):
        if hosts[source] == comm.rank:
            comm.Send(np.zeros(size_bytes, dtype=np.uint8), dest=hosts[target], tag=number)
    MPI.Request.Waitall(coming)


def main() -> None:
    """Run the job."""
    comm = MPI.COMM_WORLD
    job: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    root = job["root"]
    message = np.zeros(job["message_bytes"], dtype=np.uint8)
    block = np.zeros(job["block_bytes"], dtype=np.uint8)
    blocks = np.zeros(job["block_bytes"] * comm.size, dtype=np.uint8) if comm.rank == root else None
    trees = {
        kind: {name: along.read_trees(path)[0] for name, path in job.get(kind, {}).items()}
        for kind in ("broadcast", "scatter")
    }
    choice = random.Random(job["seed"])
    times: dict[str, dict[str, list[float]]] = {}
    for _ in range(job["repetitions"]):
        work: list[tuple[str, str, Callable[[], object]]] = [
            ("broadcast", LIBRARY, lambda: comm.Bcast(message, root)),
            ("scatter", LIBRARY, lambda: comm.Scatter(blocks, block, root)),
        ]
        work = [each for each in work if each[0] in job]
        for name, tree in trees["broadcast"].items():
            work.append(("broadcast", name, partial(along.bcast, comm, message, tree)))
        for name, tree in trees["scatter"].items():
            work.append(("scatter", name, partial(along.scatter, comm, blocks, block, tree)))
        for name, hosts in job.get("mapping", {}).items():
            work.append(("mapping", name, partial(exchange, comm, job["messages"], hosts)))
        choice.shuffle(work)
        for kind, name, operation in work:
            times.setdefault(kind, {}).setdefault(name, []).append(timed(comm, operation))
    if comm.rank == 0:
        print(json.dumps(times))


main()
