"""What recording the calls of an MPI program costs: its time with and without the preloaded library, in pairs.

Two ranks run on this machine, one on each core, over TCP on the loopback interface. The two runs of a pair follow each
other in random order. The time is from before MPI_Init to after MPI_Finalize, so that it contains the writing of counts
and traces.

On a busy machine the pairs scatter by more than the recorder costs. So one rank also runs alone and sends to itself. It
never waits, so that the processor time which the recorder adds does not depend on other programs.
"""

from __future__ import annotations

import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from gavotte.collective import build_shim

GOAL = 0.02
"""The most by which the recorder may lengthen a program."""
SOURCE = Path(__file__).with_suffix(".c")
PROGRAMS = {
    "pingpong": (20_000, "8 B there and back"),
    "halo": (20_000, "four messages of 1 KiB, then MPI_Waitall"),
    "compute": (1500, "MPI_Allreduce of 8 B after 1 ms of computing"),
    "communicators": (8000, "MPI_Comm_dup, MPI_Allreduce, MPI_Comm_split, MPI_Barrier, two MPI_Comm_free"),
    "kept": (8000, "the same, but the duplicates stay until the end"),
}
"""Iterations of each program, and what one of them does."""
RUN_S = 120.0


def bench(pairs: int, seed: int, rows: list[list[str]], programs: list[str] | None = None) -> bool:
    """Print how much longer each program takes with the recorder; add a row for each. Return whether all keep the goal."""
    good = True
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="gvt-tracing-") as scratch:
        folder = Path(scratch)
        program, library = folder / "tracing", folder / "count.so"
        subprocess.run(["mpicc", "-O2", str(SOURCE), "-o", str(program)], check=True, timeout=RUN_S)
        build_shim(library, counting=True)
        print(f"\nrecording calls, {pairs} pairs of runs each, seed {seed}; medians, quartiles of the pairs' ratios")
        print(f"{'program':>14} {'iterations':>10} {'without':>9} {'with':>9} {'longer by':>10} {'quartiles':>19} "
              f"{'adds alone':>11} {'share':>7}  2 %")  # fmt: skip
        for name in programs or PROGRAMS:
            count, what = PROGRAMS[name]
            times: list[tuple[float, float]] = []
            for _ in range(pairs + 1):
                pair = {with_it: _seconds(program, name, count, folder, library if with_it else None)
                        for with_it in draw.sample([False, True], 2)}  # fmt: skip
                times.append((pair[False], pair[True]))
            del times[0]  # caches
            alone = [
                [_processor_s(program, name, count, folder, each) for each in (None, library)] for _ in range(pairs)
            ]
            added_s = statistics.median(with_s - without_s for without_s, with_s in alone) / count
            ratios = [with_it / without - 1 for without, with_it in times]
            low, middle, high = statistics.quantiles(ratios, n=4)
            without_s, with_s = (statistics.median(side) for side in zip(*times, strict=True))
            share = added_s * count / without_s
            verdict = "met" if max(low, share) <= GOAL else "missed"
            good &= verdict == "met"
            print(
                f"{name:>14} {count:>10} {without_s:>8.3f}s {with_s:>8.3f}s {middle:>+10.1%} "
                f"{f'{low:+.1%} to {high:+.1%}':>19} {1e6 * added_s:>8.2f} us {share:>7.2%}  {verdict}"
            )
            sys.stdout.flush()
            quartiles = f"{100 * low:+.1f} to {100 * high:+.1f} %"
            rows.append(
                [f"`{name}`: {what}", f"{count:,}", f"{without_s:.3f}", f"{with_s:.3f}", f"{100 * middle:+.1f} %",
                 quartiles, f"{1e6 * added_s:.2f} us", f"{share:.2%}", verdict]
            )  # fmt: skip
    return good


def _processor_s(program: Path, name: str, count: int, folder: Path, library: Path | None) -> float:
    """Run a program on one rank, without a launcher; return its processor seconds."""
    recorded = {"GAVOTTE_COUNTS": str(folder / "job"), "GAVOTTE_TRACE": str(folder / "job")}
    extra = {} if library is None else {"LD_PRELOAD": str(library), **recorded}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = [str(program), name, str(count)]
    subprocess.run(line, env={**os.environ, **extra}, check=True, timeout=RUN_S, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _seconds(program: Path, name: str, count: int, folder: Path, library: Path | None) -> float:
    """Run a program on two ranks; return the seconds that rank 0 prints.

    Raises:
        RuntimeError: with what it printed, when it fails.
    """
    line = ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "core", "--mca", "btl", "tcp,self"]
    line += ["--mca", "btl_tcp_if_include", "lo", "--mca", "oob_tcp_if_include", "lo"]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    if library is not None:
        recorded = {"LD_PRELOAD": str(library), "GAVOTTE_COUNTS": str(folder / "job"), "GAVOTTE_TRACE": str(folder / "job")}  # fmt: skip
        for key, value in recorded.items():
            line += ["-x", f"{key}={value}"]
    ran = subprocess.run(
        [*line, str(program), name, str(count)],
        env=environment, capture_output=True, text=True, timeout=RUN_S, check=False,
    )  # fmt: skip
    if ran.returncode:
        raise RuntimeError(ran.stderr[-2000:])
    return float(ran.stdout.split()[-1])
