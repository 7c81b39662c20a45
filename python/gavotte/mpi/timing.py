"""Time the MPI library's own collective operations, for `gavotte collective --library`.

    mpirun ... python -m gavotte.mpi.timing library.jsonl --operation broadcast --root 2 --bytes 65536 1048576

All ranks of the job take part. Rank 0 appends one Record for each operation, root and size to the file.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from mpi4py import MPI

ROOTED = ("broadcast", "reduce", "scatter", "gather")
OPERATIONS = (*ROOTED, "allgather", "allreduce")

Call = Callable[[], object]


def library_call(comm: MPI.Intracomm, operation: str, size_bytes: int, root: int) -> Call:
    """Return a call of the library's own operation on arrays of bytes.

    Args:
        comm: the ranks.
        operation: one of `OPERATIONS`.
        size_bytes: the message, or one rank's block.
        root: rank of the root; ignored by allgather and allreduce.

    Raises:
        KeyError: for another operation.
    """
    part = np.zeros(size_bytes, dtype=np.uint8)
    blocks = operation in ("scatter", "gather", "allgather")
    whole = np.zeros(size_bytes * (comm.size if blocks else 1), dtype=np.uint8)
    at_root = whole if comm.rank == root else None
    calls: dict[str, Call] = {
        "broadcast": lambda: comm.Bcast(part, root),
        "reduce": lambda: comm.Reduce(part, at_root, root=root),
        "scatter": lambda: comm.Scatter(at_root, part, root=root),
        "gather": lambda: comm.Gather(part, at_root, root=root),
        "allgather": lambda: comm.Allgather(part, whole),
        "allreduce": lambda: comm.Allreduce(part, whole),
    }
    return calls[operation]


def seconds_of(comm: MPI.Intracomm, call: Call) -> float:
    """Return the seconds from a barrier to the end of the slowest rank."""
    comm.Barrier()
    began_s = time.perf_counter()
    call()
    return float(comm.allreduce(time.perf_counter() - began_s, op=MPI.MAX))


def main(words: Sequence[str] | None = None) -> None:
    """Time the operations and append their Records."""
    parser = argparse.ArgumentParser(prog="python -m gavotte.mpi.timing", description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, metavar="LIBRARY.jsonl", help="file to append to; only rank 0 writes it")
    parser.add_argument("--operation", nargs="+", choices=OPERATIONS, default=list(OPERATIONS))
    parser.add_argument("--bytes", nargs="+", type=int, default=[65536, 1 << 20, 8 << 20], help="sizes to time")
    parser.add_argument("--root", nargs="+", type=int, default=[0], help="ranks of the roots")
    parser.add_argument("--ranks", help="host of each rank, as the Network names them (default: their host names)")
    parser.add_argument("--repetitions", type=int, default=7, help="runs of each; the file gets the median")
    asked = parser.parse_args(words)
    comm = MPI.COMM_WORLD
    hosts = asked.ranks.split(",") if asked.ranks else comm.allgather(socket.gethostname())
    if len(hosts) != comm.size:
        parser.error(f"--ranks names {len(hosts)} hosts for {comm.size} ranks")
    if not all(0 <= root < comm.size for root in asked.root):
        parser.error(f"--root must be from 0 to {comm.size - 1}")
    if min(asked.bytes) < 1 or asked.repetitions < 1:
        parser.error("--bytes and --repetitions must be at least 1")
    for operation in asked.operation:
        for root in asked.root if operation in ROOTED else [None]:
            for size_bytes in asked.bytes:
                call = library_call(comm, operation, size_bytes, root or 0)
                call()  # opens the connections
                median_s = statistics.median(seconds_of(comm, call) for _ in range(asked.repetitions))
                if comm.rank == 0:
                    labels = {
                        "operation": operation,
                        "bytes": size_bytes,
                        "root": None if root is None else hosts[root],
                        "ranks": ",".join(hosts),
                        "repetitions": asked.repetitions,
                        "library": MPI.Get_library_version().splitlines()[0].rstrip("\x00")[:80],
                    }
                    _append(asked.file, median_s, labels)


def _append(path: Path, median_s: float, labels: dict[str, object]) -> None:
    record = {
        "format": "gavotte/record/1",
        "kind": "collective",
        "metric": "library_s",
        "value": median_s,
        "time_s": time.time(),
        "labels": labels,
    }
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
