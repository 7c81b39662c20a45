"""A shuffle of Dask with known bytes: each worker makes blocks, each gathers its own from all others.

    python shuffle.py SCHEDULER FILE ROUNDS LOG

Worker i makes for worker j the bytes given in FILE, at random, which Dask does not compress. For each line of standard
input it shuffles once, prints the seconds, and writes the workers' transfer logs. It runs within the lab, and imports nothing of ours.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from distributed import Client, Worker, wait

KEPT = ("who", "total", "start", "stop")
"""Fields of a worker's transfer log that the profile needs."""


def make(seed: int, size: int) -> bytes:
    """Return a block."""
    return np.random.default_rng(seed).bytes(size)


def gather(blocks: list[bytes]) -> int:
    """Receive blocks."""
    return sum(map(len, blocks))


def transfers(dask_worker: Worker) -> list[dict[str, Any]]:
    """Return a worker's transfer log."""
    return [{key: each[key] for key in KEPT} for each in dask_worker.transfer_incoming_log]


def shuffle(client: Client, matrix: npt.NDArray[np.int64], rounds: int) -> float:
    """Shuffle once, in rounds; return the seconds of gathering."""
    at = {str(each["name"]): address for address, each in client.scheduler_info(n_workers=-1)["workers"].items()}
    workers = [at[f"h{number}"] for number in range(len(matrix))]
    seconds = 0.0
    for number in range(rounds):
        part = matrix * (number + 1) // rounds - matrix * number // rounds
        blocks = {
            (s, t): client.submit(make, s * 1000 + t, int(size), workers=[workers[s]], pure=False)
            for (s, t), size in np.ndenumerate(part)
            if size
        }
        wait(list(blocks.values()))
        began_s = time.perf_counter()
        sums = [
            client.submit(gather, [b for (_, t), b in blocks.items() if t == target], workers=[workers[target]])
            for target in range(len(matrix))
        ]
        assert client.gather(sums) == [int(each) for each in part.sum(axis=0)]
        seconds += time.perf_counter() - began_s
        del blocks, sums
    return seconds


def main() -> None:
    """Shuffle once for each line of standard input, and print the time."""
    scheduler, file, rounds, log = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    matrix = np.array(json.loads(Path(file).read_text()), dtype=np.int64)
    with Client(scheduler) as client:
        client.wait_for_workers(len(matrix), timeout=60)
        for _ in sys.stdin:
            seconds = shuffle(client, matrix, rounds)
            Path(log).write_text(json.dumps(client.run(transfers)))
            print(json.dumps({"seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
