"""Predicts collective operations, runs them with Open MPI and MPICH in a lab, and compares.

    make bench-collectives
    make bench-collectives ARGS="--clouds racks --libraries mpich --operations scatter gather --repetitions 15"

For each operation and size it prints the library's own time, that of our best tree or ring, and the predictions of both. It also prints
what `auto` chooses if it knows the library's time from an earlier run. Runs are interleaved in random order; each figure is a median.

Rates are those of the cloud. Latencies are measured by ping-pongs of MPI before, since ranks that share two cores wake up late.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches import mpi
from benches.collectives.clouds import CLOUDS, truth
from benches.machine import machine, processor_times
from benches.recorded import command_line, write_figure

from gavotte import lab
from gavotte.collective import TreeSearch, plan, read_library
from gavotte.errors import GavotteError
from gavotte.formats.collective import LIBRARY, Collective, Operation, write_collective
from gavotte.formats.network import Network
from gavotte.formats.record import Record
from gavotte.terms.algorithms import LEAST_SET_BYTES

GOAL = 0.07
"""Largest error of a prediction, and largest loss to the library."""
ROOT = "h2"
SIZES: dict[Operation, tuple[int, ...]] = {
    "broadcast": (2048, 65536, 1 << 20),
    "reduce": (2048, 65536, 1 << 20),
    "allreduce": (2048, 65536, 1 << 20),
    "scatter": (2048, 65536, 1 << 18),
    "gather": (2048, 65536, 1 << 18),
    "allgather": (2048, 65536, 1 << 18),
}
"""Bytes of the message, or of one rank's block. At 4 to 12 Mbit/s each takes as long as 10 times as much at ten times the rate."""
COLUMNS = [
    "cloud, library, operation, bytes",
    "library, s",
    "predicted / measured, library",
    "ours, s",
    "predicted, s",
    "predicted / measured",
    "within 7 %",
    "auto",
]
LIMIT_S = 900.0
PING_PONGS = 15
"""Of each pair of ranks."""


@dataclass(frozen=True)
class Case:
    """One operation of one size.

    Attributes:
        name: operation and bytes.
        operation: the operation.
        size_bytes: the message, or one rank's block.
        ours: the tree or ring that `auto` chooses without the library.
        chosen: what it chooses if it knows the library's time.
        library_s: the prediction of the library's time, without a measurement of it.
    """

    name: str
    operation: Operation
    size_bytes: int
    ours: Collective
    chosen: Collective
    library_s: float


def cases(network: Network, library: str, records: Sequence[Record], asked: argparse.Namespace) -> list[Case]:
    """Plan each operation and size."""
    items = []
    for operation in asked.operations:
        root = None if operation in ("allgather", "allreduce") else ROOT
        for size_bytes in asked.sizes or SIZES[operation]:
            ours, chosen, unknown = (
                plan(network, operation, size_bytes=size_bytes, root=root, search=search)
                for search in (TreeSearch(), TreeSearch(library=records), TreeSearch(mpi=library))
            )
            library_s = unknown.baselines_s.get(LIBRARY, unknown.predicted_s)
            items.append(Case(f"{operation} {size_bytes}", operation, size_bytes, ours, chosen, library_s))
    return items


def run(
    session: lab.Session, library: str, program: list[str | Path], hosts: list[str], scratch: Path
) -> dict[str, Any]:
    """Run a program on all hosts; return what it prints as JSON."""
    ran = mpi.launch(session, library, program, ranks=hosts, scratch=scratch, timeout_s=LIMIT_S, calm=True)
    if ran.returncode:
        raise GavotteError(f"{library} left with status {ran.returncode}", hint=ran.stderr.strip()[-400:])
    answer: dict[str, Any] = json.loads(ran.stdout or "{}")
    return answer


def with_latencies(session: lab.Session, library: str, network: Network, folder: Path) -> Network:
    """Return the Network with the latencies that the library's ranks have between them."""
    program: list[str | Path] = [Path(__file__).with_name("pingpong.py"), str(PING_PONGS)]
    seconds = run(session, library, program, network.names, folder)["seconds"]
    latency_s = [[None if i == j else each for j, each in enumerate(row)] for i, row in enumerate(seconds)]
    return network.model_copy(update={"latency_s": latency_s})


def library_times(
    session: lab.Session, library: str, hosts: list[str], asked: argparse.Namespace, folder: Path
) -> tuple[Record, ...]:
    """Time the library's own operations, as a user does before planning."""
    file = folder / f"{library}.jsonl"
    for operation in asked.operations:
        sizes = [str(size) for size in asked.sizes or SIZES[operation]]
        words = ["--operation", operation, "--bytes", *sizes, "--root", str(hosts.index(ROOT)), "--repetitions", "3"]
        run(session, library, ["-m", "gavotte.mpi.timing", file, *words], hosts, folder)
    return read_library(file)


def compare(
    session: lab.Session, cloud: str, library: str, network: Network, asked: argparse.Namespace, folder: Path
) -> list[list[str]]:
    """Print a table of one cloud and one library; return its rows."""
    hosts = network.names
    network = with_latencies(session, library, network, folder)
    items = cases(network, library, library_times(session, library, hosts, asked, folder), asked)
    listed: list[dict[str, Any]] = []
    for number, case in enumerate(items):
        path = folder / f"{number}.tree.json"
        write_collective(path, case.ours)
        listed.append(
            {
                "name": case.name,
                "operation": case.operation,
                "bytes": case.size_bytes,
                "root": hosts.index(ROOT),
                "trees": {"ours": str(path)},
                "repetitions": asked.repetitions,
            }
        )
    job = folder / "job.json"
    job.write_text(json.dumps({"cases": listed, "seed": asked.seed}))
    before, idle_before = processor_times()
    times = run(session, library, [Path(__file__).with_name("worker.py"), job], hosts, folder)
    after, idle_after = processor_times()
    print(f"\n{cloud}, {library}: cores idle {(idle_after - idle_before) / (after - before):.0%} of the time")
    print(
        f"{'operation':>20} {'library s':>10} {'ratio':>6} {'ours s':>10} {'predicted':>10} {'ratio':>6}       {'auto':>10}  by"
    )
    rows = []
    for case in items:
        library_s, ours_s = (statistics.median(times[case.name][way]) for way in (LIBRARY, "ours"))
        ratio = case.ours.predicted_s / ours_s
        verdict = "ok" if abs(ratio - 1) <= GOAL else "MISS"
        chosen_s = library_s if case.chosen.algorithm == LIBRARY else ours_s
        slower = " SLOWER" if chosen_s > (1 + GOAL) * library_s else ""
        pieces = "/".join(str(stage.segments) for stage in case.ours.stages)
        print(
            f"{case.name:>20} {library_s:10.4f} {case.library_s / library_s:6.2f} {ours_s:10.4f} {case.ours.predicted_s:10.4f} {ratio:6.2f} {verdict:>5}"
            f" {case.chosen.algorithm:>10}{slower}  {case.ours.algorithm} in {pieces}",
            flush=True,
        )
        numbers = [f"{library_s:.4f}", f"{case.library_s / library_s:.2f}"]
        numbers += [f"{ours_s:.4f}", f"{case.ours.predicted_s:.4f}"]
        rows.append(
            [f"{cloud}, {library}, {case.name}", *numbers, f"{ratio:.2f}", verdict, case.chosen.algorithm + slower]
        )
    return rows


def summary(rows: list[list[str]]) -> int:
    """Print how many predictions miss the goal, by operation and by size; return them and the slower choices."""
    print()
    for name in SIZES:
        own = [row for row in rows if f", {name} " in row[0]]
        for least, most in ((0, LEAST_SET_BYTES), (LEAST_SET_BYTES, math.inf)):
            off = [float(row[5]) - 1 for row in own if least <= int(row[0].rsplit(" ", 1)[1]) < most]
            if off:
                missed = sum(abs(each) > GOAL for each in off)
                size = "long" if least else "short"
                print(
                    f"{size} {name}: {missed} of {len(off)} off by more than {GOAL:.0%}, {min(off):+.0%} to {max(off):+.0%}"
                )
    missed = sum(row[6] == "MISS" for row in rows)
    slower = sum("SLOWER" in row[7] for row in rows)
    print(
        f"{missed} of {len(rows)} predictions are off by more than {GOAL:.0%}; {slower} choices were slower than the library"
    )
    print(f"short: below {LEAST_SET_BYTES} bytes, which stay with the library")
    return missed + slower


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="collective operations of real MPI programs, predicted and measured")
    parser.add_argument("--clouds", nargs="+", choices=CLOUDS, default=list(CLOUDS))
    parser.add_argument("--libraries", nargs="+", choices=mpi.IMPLEMENTATIONS, default=list(mpi.IMPLEMENTATIONS))
    parser.add_argument("--operations", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--sizes", nargs="+", type=int, help="bytes of a message or block, for all operations")
    parser.add_argument("--repetitions", type=int, default=9, help="of each operation by each way")
    parser.add_argument("--seed", type=int, default=1, help="of the order of the runs")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    asked = parser.parse_args()
    about, rows = machine(), []
    print(f"{about}\nseed {asked.seed}, medians of {asked.repetitions} interleaved runs")
    for cloud in asked.clouds:
        topology = CLOUDS[cloud]()
        with lab.session(topology, source="bench-collectives", agents=False) as session:
            network = truth(topology)
            mpi.loss_based(session, network.names)
            for library in filter(mpi.available, asked.libraries):
                with tempfile.TemporaryDirectory(prefix="gvt-collectives-") as scratch:
                    rows += compare(session, cloud, library, network, asked, Path(scratch))
    failures = summary(rows)
    if asked.record and rows:
        write_figure(
            asked.record / "collectives.json",
            title="Collective operations, predicted and measured",
            command=command_line("collectives", asked.record),
            about=about,
            seed=str(asked.seed),
            samples=f"8 ranks on 8 hosts, medians of {asked.repetitions} interleaved runs",
            plot={"kind": "bars", "columns": [1, 3, 4], "unit": "s"},
            columns=COLUMNS,
            rows=rows,
        )
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
