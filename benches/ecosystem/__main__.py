"""Whole jobs of real frameworks, where they run by themselves and where they run with what Gavotte measured.

    tools/peers ecosystem && make bench-ecosystem
    make bench-ecosystem ARGS="--only dask --only slurm --cloud equal --runs 7"

Eight hosts are in two racks, named in turn as a provider's list names them. A rack's uplink carries 40 Mbit/s, and a host
60. With `--cloud equal` uplinks have no limit, so that nothing can be gained. With `--cloud uneven` each rack has one host of
15 Mbit/s, which schedulers' trees cannot express. Each job runs once while `gavotte profile live` counts its
bytes. `place` then predicts it on other hosts. Both ways run in turns.

- Dask, Spark: a cluster of the first four hosts, and one of the four that `place` chose.
- Ray: a placement group of Ray's own choice, and one in a rack by the labels of `export --format ray`.
- Slurm: a batch job on four nodes without a topology, and with that of `export --format slurm-conf`.
- Kubernetes: pods of an Indexed Job by the default scheduler, and by one that asks `gavotte serve`.
- torchrun: the hosts' own order, and `gavotte launch`.

"lost" is how much longer the messages take on the hosts of a scheduler than on the best ones, by the measured rates.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from types import ModuleType

from benches.ecosystem import dask_job, kubernetes_job, ray_job, slurm_job, spark_job, torchrun_job
from benches.ecosystem.comparing import COLUMNS, FEWEST_RUNS, Row
from benches.ecosystem.stage import FailedError, staged
from benches.machine import machine
from benches.recorded import write_figure

from gavotte.errors import GavotteError

FRAMEWORKS: dict[str, ModuleType] = {
    "slurm": slurm_job,
    "torchrun": torchrun_job,
    "dask": dask_job,
    "spark": spark_job,
    "ray": ray_job,
    "kubernetes": kubernetes_job,
}

CLOUDS = {"racks": "two racks", "equal": "equal links", "uneven": "two racks, each with a slow host"}


def main() -> int:
    """Print a row for each job, and what missed its goal."""
    parser = argparse.ArgumentParser(prog="bench-ecosystem", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", choices=FRAMEWORKS, help="only these; may be repeated")
    parser.add_argument("--cloud", choices=CLOUDS, default="racks")
    parser.add_argument("--runs", type=int, default=5, help="runs of each job in each way")
    parser.add_argument("--seed", type=int, default=0, help="of the order of runs")
    parser.add_argument("--json", action="store_true", help="print every run's seconds, too")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    asked = parser.parse_args()
    # A SIGTERM ends the lab and removes its folder, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    about = machine()
    print(f"{about}; cloud {asked.cloud}, {asked.runs} runs of each, seed {asked.seed}", flush=True)
    rows: list[Row] = []
    failed = 0
    for name in asked.only or FRAMEWORKS:
        framework = FRAMEWORKS[name]
        if not framework.version():
            print(f"{name}: not installed; run tools/peers ecosystem")
            continue
        try:
            with staged(asked.cloud, framework.SHARING) as stage:
                for row in framework.compared(stage, asked.runs, asked.seed):
                    rows.append(row)
                    shown = zip(COLUMNS, row.cells(), strict=True)
                    print(
                        "; ".join(f"{column}: {cell}" for column, cell in shown), row.verdict(asked.cloud), flush=True
                    )
        except (FailedError, GavotteError) as error:
            failed += 1
            print(f"{name}: failed: {error}", flush=True)
    missed = [row for row in rows if not row.verdict(asked.cloud).startswith("met")]
    print(f"{len(rows) - len(missed)} of {len(rows)} jobs met their goal")
    if asked.json:
        print(json.dumps([{"job": row.job, **{way: list(each) for way, each in row.times.items()}} for row in rows]))
    if asked.record and rows:
        record(asked.record / f"ecosystem-{asked.cloud}.json", rows, about, asked)
    return int(not rows or bool(missed) or failed > 0)


def record(path: Path, rows: list[Row], about: str, asked: argparse.Namespace) -> None:
    """Write the table; rows of jobs that did not run now stay as they were recorded."""
    only = "".join(f" --only {name}" for name in asked.only or ())
    interval = ", savings with 95 % intervals by bootstrap" * (asked.runs >= FEWEST_RUNS)
    write_figure(
        path,
        title=f"Whole jobs by themselves and with Gavotte, {CLOUDS[asked.cloud]}",
        command=f'make bench-ecosystem ARGS="--cloud {asked.cloud}{only} --runs {asked.runs}"',
        about=about,
        seed=str(asked.seed),
        samples=f"{asked.runs} runs of each, interleaved, median ± standard deviation{interval}",
        columns=COLUMNS,
        rows=[row.cells() for row in rows],
        plot={"kind": "bars", "columns": [1, 2], "unit": "s"},
        keep=True,
    )


if __name__ == "__main__":
    sys.exit(main())
