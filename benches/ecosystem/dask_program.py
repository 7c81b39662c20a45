"""Dask's own operations on a cluster: SCHEDULER WORKERS, and a job in each line of stdin; prints its seconds."""

import sys
import time

import dask
import dask.array as da
import dask.datasets
from distributed import Client, wait

PARTITIONS, ROWS, CHUNK = 4, 250_000, 450
"""Partitions a worker, rows of each of 24 bytes, and rows of a chunk of the array."""


def shuffle(client: Client, workers: int, method: str) -> float:
    """Shuffle a table of random rows by one of its columns."""
    days = PARTITIONS * workers
    with dask.config.set({"dataframe.shuffle.method": method}):
        table = dask.datasets.timeseries(
            "2026-01-01", f"2026-01-{days + 1:02}", freq=f"{86_400_000 // ROWS}ms", dtypes={"id": int, "x": float}
        )
        table = client.persist(table)
        wait(table)
        begin = time.monotonic()
        wait(client.persist(table.shuffle("id")))
        return time.monotonic() - begin


def transpose(client: Client, workers: int) -> float:
    """Add a matrix and its transpose."""
    side = PARTITIONS * workers * CHUNK
    array = client.persist(da.random.random((side, side), chunks=(CHUNK * 2, CHUNK * 2)))
    wait(array)
    begin = time.monotonic()
    wait(client.persist((array + array.T).sum(axis=0)))
    return time.monotonic() - begin


def main() -> None:
    scheduler, workers = sys.argv[1], int(sys.argv[2])
    with Client(scheduler, timeout=120) as client:
        client.wait_for_workers(workers, timeout=120)
        for line in sys.stdin:
            job = line.strip()
            took_s = (
                transpose(client, workers)
                if job.startswith("array")
                else shuffle(client, workers, job.rpartition(" ")[2])
            )
            print(f"seconds {took_s:.3f}", flush=True)


if __name__ == "__main__":
    main()
