"""Each rank's part of a job: collective operations in random order, with real bytes.

    python worker.py JOB.json

Rank 0 prints one line of JSON: the seconds of each repetition, by case and way. Ranks of a lab share a clock. All begin an operation at a
time that rank 0 chooses, and it ends with its last rank.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

import gavotte.mpi as along
from gavotte.mpi.timing import Call, library_call

LIBRARY = "library"
AHEAD_S = 0.1
"""Time from the choice of a start to the start: busy ranks wake up late."""


def timed(comm: MPI.Intracomm, operation: Call) -> float:
    """Return the seconds from the last rank's start to the last rank's end."""
    comm.Barrier()
    start_s = comm.bcast(time.monotonic() + AHEAD_S)
    time.sleep(max(0.0, start_s - time.monotonic()))
    began_s = time.monotonic()
    operation()
    latest = np.array([began_s, time.monotonic()])
    comm.Allreduce(MPI.IN_PLACE, latest, op=MPI.MAX)
    return float(latest[1] - latest[0])


def ours(comm: MPI.Intracomm, case: dict[str, Any], path: str) -> Call:
    """Return the operation along the trees or the ring of a file."""
    trees, size_bytes = along.read_trees(path), case["bytes"]
    top, dtype = comm.rank == trees[0].root, np.uint8
    part, whole = np.zeros(size_bytes, dtype=dtype), np.zeros(size_bytes * comm.size, dtype=dtype)
    result = np.zeros_like(part)
    calls: dict[str, Call] = {
        "broadcast": lambda: along.bcast(comm, part, trees[0]),
        "reduce": lambda: along.reduce(comm, part, result if top else None, trees[0]),
        "scatter": lambda: along.scatter(comm, whole if top else None, part, trees[0]),
        "gather": lambda: along.gather(comm, part, whole if top else None, trees[0]),
        "allgather": lambda: along.allgather(comm, part, whole, trees),
        "allreduce": lambda: along.allreduce(comm, part, result, trees),
    }
    return calls[case["operation"]]


def main() -> None:
    """Run the job."""
    comm = MPI.COMM_WORLD
    job: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    choice = random.Random(job["seed"])
    times: dict[str, dict[str, list[float]]] = {}
    for case in job["cases"]:
        work = {LIBRARY: library_call(comm, case["operation"], case["bytes"], case["root"])}
        work |= {name: ours(comm, case, path) for name, path in case["trees"].items()}
        for operation in work.values():
            operation()  # opens the connections
        rows: dict[str, list[float]] = {name: [] for name in work}
        for _ in range(case["repetitions"]):
            names = list(work)
            choice.shuffle(names)
            for name in names:
                rows[name].append(timed(comm, work[name]))
        times[case["name"]] = rows
    if comm.rank == 0:
        print(json.dumps(times))


main()
