"""Bring arrays of several sizes to all workers of a Dask cluster in a lab, by Gavotte and by Dask's own way.

    python examples/dask/sizes.py [--workers 4] [--mbit 100] [--repetitions 3] [--megabytes 0.1 0.5 1 2 4 8 16]

It prints a JSON line a size with the median seconds of each way, then the size from which on Gavotte's way is faster.
The ways take turns, after one array each that does not count.
"""

from __future__ import annotations

import json
import statistics
import time

import numpy as np
from cluster import Send, in_lab, parser, senders

MEGABYTES = [0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]


def seconds(send: Send, size: int, seed: int) -> float:
    """Return the seconds until all workers have an array of this many bytes, which none of them has yet."""
    data = np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)
    begin = time.monotonic()
    kept = send(data)
    took_s = time.monotonic() - begin
    del kept
    return took_s


def pays_from(rows: list[dict[str, float]]) -> float | None:
    """Return the least size, in megabytes, from which on Gavotte's way is faster at every size; None = at none."""
    slower = [row["megabytes"] for row in rows if row["gavotte_s"] >= row["dask_s"]]
    return min((row["megabytes"] for row in rows if row["megabytes"] > max(slower, default=0.0)), default=None)


def main() -> None:
    """Run in a new lab, or in the cluster that `--at` names."""
    words = parser(__doc__, repetitions=3)
    words.add_argument("--megabytes", nargs="+", type=float, default=MEGABYTES)
    given = words.parse_args()
    if given.at is None:
        line = ["--workers", str(given.workers), "--repetitions", str(given.repetitions)]
        line += ["--megabytes", *map(str, given.megabytes), "--ways", *given.ways]
        in_lab(__file__, line, workers=given.workers, mbit=given.mbit)
        return
    with senders(given.at, given.hosts, given.workers) as (_, ways):
        rows, seed = [], 0
        for megabytes in (0.01, *sorted(given.megabytes)):
            took: dict[str, list[float]] = {way: [] for way in given.ways}
            for _ in range(given.repetitions if rows or megabytes > 0.01 else 1):
                for way in given.ways:
                    seed += 1
                    took[way].append(seconds(ways[way], int(megabytes * 1e6), seed))
            if megabytes > 0.01:
                row = {"megabytes": megabytes} | {f"{way}_s": round(statistics.median(took[way]), 3) for way in took}
                rows.append(row)
                print(json.dumps(row), flush=True)
        if {"gavotte", "dask"} <= set(given.ways):
            print(json.dumps({"workers": given.workers, "pays_from_megabytes": pays_from(rows)}), flush=True)


if __name__ == "__main__":
    main()
