"""From which size on a broadcast to Dask's workers is faster than Dask's own scatter, for several numbers of workers.

    make bench-dask [ARGS="--workers 2 4 8 --megabytes 0.5 1 2 4 8 --repetitions 3"]

Each number of workers has a lab of its own with a real scheduler and real workers. Both ways bring arrays of each size to
all workers in turn (`examples/dask/sizes.py`). The last column is what `Scatter` chooses for this size. It says MISS if
that took more than a quarter longer than the other way.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from benches.machine import machine

from gavotte import lab
from gavotte.transfer.dask import pays_from_bytes

PROGRAM = Path(__file__).parents[1] / "examples" / "dask" / "sizes.py"
MISS = 1.25
RUN_S = 900.0


def measured(workers: int, megabytes: list[float], repetitions: int) -> list[dict[str, float]]:
    """Return the sizes with the median seconds of both ways."""
    line = ["--workers", str(workers), "--repetitions", str(repetitions), "--megabytes", *map(str, megabytes)]
    done = subprocess.run([sys.executable, PROGRAM, *line], capture_output=True, text=True, check=False, timeout=RUN_S)
    if done.returncode:
        sys.exit(f"{workers} workers: {done.stderr.strip()[-500:]}")
    rows: list[dict[str, float]] = [json.loads(each) for each in done.stdout.splitlines()]
    return [row for row in rows if "megabytes" in row]


def main() -> None:
    """Print a line for each number of workers and size."""
    parser = argparse.ArgumentParser(prog="bench-dask")
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--megabytes", type=float, nargs="+", default=[0.5, 1.0, 2.0, 4.0, 8.0])
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    if not lab.supported():
        print("skipped: needs a lab")
        return
    print(machine())
    print(f"ports of 100 Mbit/s, median of {options.repetitions} each")
    print("workers  MB    Gavotte s  Dask s  Scatter chooses")
    for workers in options.workers:
        for row in measured(workers, options.megabytes, options.repetitions):
            own = row["megabytes"] * 1e6 >= pays_from_bytes(workers)
            chosen_s, other_s = (row["gavotte_s"], row["dask_s"])[:: 1 if own else -1]
            miss = "  MISS" if chosen_s > MISS * other_s else ""
            way = "a broadcast" if own else "Dask's own"
            print(
                f"{workers:<7}  {row['megabytes']:<4g}  {row['gavotte_s']:<9.3f}  {row['dask_s']:<6.3f}  {way}{miss}",
                flush=True,
            )


if __name__ == "__main__":
    main()
