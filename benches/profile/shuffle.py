"""A shuffle of Dask with known bytes: each worker makes blocks, each gathers its own from all others.

    python shuffle.py SCHEDULER FILE ROUNDS LOG

Worker i makes for worker j the bytes given in FILE, at random, which Dask does not compress. It prints the seconds, and
writes the workers' transfer logs. It runs within the lab, and imports nothing of ours.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
from distributed import Client, wait


def make(seed: int, size: int) -> bytes:
    """Return a block."""
    return np.random.default_rng(seed).bytes(size)


def gather(blocks: list[bytes]) -> int:
    """Receive blocks."""
    return sum(map(len, blocks))


def main() -> None:
    """Shuffle, and print the time."""
    scheduler, file, rounds, log = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    matrix = np.array(json.loads(Path(file).read_text()), dtype=np.int64)
    with Client(scheduler) as client:
        client.wait_for_workers(len(matrix), timeout=60)
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
        kept = ("who", "total", "start", "stop")
        transfers = client.run(lambda dask_worker: [{k: e[k] for k in kept} for e in dask_worker.transfer_incoming_log])
        Path(log).write_text(json.dumps(transfers))
        print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
