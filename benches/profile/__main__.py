"""Compares profiles with the truth: real jobs observed by every source at once, costs, readers, predictors, the loop.

    make bench-profile                                      all of it, 25 minutes
    make bench-profile ARGS="job"                           the matrices of Open MPI and Dask side by side
    make bench-profile ARGS="collectives"                   the shim's counts of each collective next to a capture
    make bench-profile ARGS="overhead --runs 5"             the cost of each source to these jobs
    make bench-profile ARGS="overhead --apart"              the same, the sources on processors of their own
    make bench-profile ARGS="tracing --runs 15"             the cost of recording an MPI program's calls
    make bench-profile ARGS="loop"                          profiled, placed again, run again
    make bench-profile ARGS="readers --gigabytes 2"         speed and memory next to tcpdump, tshark and sfcapd
    make bench-profile ARGS="predictors"                    errors on made weeks and on a recorded series
    make bench-profile ARGS="spark --spark V/bin/python"    an event log of real Spark next to a capture

Each part prints its tables.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from benches.machine import machine
from benches.profile import collectives, predictors, readers, spark, tracing
from benches.profile.job import DaskJob, MpiJob, Size, compare, missing, standing
from benches.profile.loop import loop
from benches.profile.overhead import Asked, overhead
from benches.profile.recording import Recording

PARTS = ("job", "collectives", "overhead", "tracing", "loop", "readers", "predictors", "spark")

COLLECTIVE_BYTES = (4096, 262_144)
"""Bytes of each rank in the comparison of collectives: below and above the thresholds of the libraries."""


def main() -> int:
    """Run the requested parts; the status is 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; by default all")
    parser.add_argument("--programs", nargs="+", choices=("mpi", "dask"), default=["mpi", "dask"])
    parser.add_argument("--sources", nargs="+", default=["pcap", "live", "sflow", "pmpi"], help="for overhead")
    parser.add_argument("--minutes", type=float, default=60.0, help="for overhead: no pair begins later")
    parser.add_argument("--tasks", type=int, default=6, help="of a job, a host each")
    parser.add_argument("--rate", type=int, default=100, help="of each host, Mbit/s")
    parser.add_argument("--unit", type=float, default=0.5, help="MB; pairs send one to eight")
    parser.add_argument("--sampling", type=int, default=10, help="one packet in N, for sFlow")
    parser.add_argument("--apart", action="store_true", help="half of the processors for the job, half for the sources")
    parser.add_argument("--runs", type=int, default=5, help="of each way")
    parser.add_argument("--gigabytes", type=float, default=2.0, help="of the capture that is made and read")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each reader of exports")
    parser.add_argument("--seeds", type=int, default=10, help="of made weeks")
    parser.add_argument(
        "--trace",
        type=Path,
        help="a recorded series for predictors: the public FB2010-1Hr-150-0.txt, JSON of `gavotte profile --every`, or "
        "a CSV with a row of N x N bytes for each interval, as Abilene's and GEANT's traffic matrices",
    )
    parser.add_argument("--spark", type=Path, help="a Python with PySpark; without one no Spark is run")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if wrong := set(asked.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(wrong)}")
    parts = asked.parts or PARTS
    print(f"{machine()}, seed {asked.seed}")
    good = True
    # A shell starts its background programs with Ctrl-C ignored, and their children inherit that: no tcpdump would end.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if lacking := missing():
        print(f"without {', '.join(lacking)}: no jobs are run")
        parts = [each for each in parts if each in ("readers", "predictors", "tracing")]
    size = Size(asked.tasks, asked.rate, int(asked.unit * 1e6), asked.sampling, asked.apart)
    known: dict[str, type[MpiJob | DaskJob]] = {"mpi": MpiJob, "dask": DaskJob}
    recording = Recording(asked.record, asked.seed)
    seen: list[list[str]] = []
    costs: list[list[str]] = []
    if {"job", "overhead"} & set(parts):
        for kind in (known[each] for each in asked.programs):
            with standing(kind, size, asked.seed) as job:
                if "job" in parts:
                    good &= compare(job, seen)
                if "overhead" in parts:
                    good &= overhead(job, Asked(asked.sources, asked.runs, asked.minutes, asked.seed), costs)
    what = f"{asked.tasks} tasks, {asked.unit:g} to {8 * asked.unit:g} MB a pair, sFlow 1 in {asked.sampling}"
    columns = ["source", "largest error of a pair", "in all", "pairs within the interval", "goal"]
    bars = {"kind": "bars", "columns": [1], "unit": "% of a pair's bytes"}
    if seen:
        recording.keep("profile-sources", "One run, seen by all at once", "job", what, columns, seen, bars)
    columns = [
        "source",
        "without, s",
        "with it, s",
        "longer by",
        "job's processor time",
        "source's share, a host",
        "3 %",
    ]
    bars = {"kind": "bars", "columns": [3], "unit": "% of the job's time"}
    if costs:
        apart = " --apart" if asked.apart else ""
        programs = "" if len(asked.programs) > 1 else f" --programs {asked.programs[0]}"
        origin = (
            f"at most {asked.runs} pairs of runs each. Intervals are of 95 %. Load: {what}, {asked.rate} Mbit/s a host"
        )
        recording.keep(
            "profile-overhead",
            "What a source costs the job",
            f"overhead{apart}{programs} --sources {' '.join(asked.sources)} --tasks {asked.tasks} --rate {asked.rate} --runs {asked.runs}",
            origin,
            columns,
            costs,
            bars,
        )
    rows: list[list[str]] = []
    if "collectives" in parts:
        good &= collectives.bench(asked.tasks, COLLECTIVE_BYTES, rows)
        columns = ["collective", "misplaced (wire)", "counts", "misplaced (call)", "pairs within the interval"]
        bars = {"kind": "bars", "columns": [1, 3], "unit": "% of the bytes"}
        origin = f"{asked.tasks} ranks, a host each"
        recording.keep(
            "profile-collectives", "Collectives counted and captured", "collectives", origin, columns, rows, bars
        )
    if "tracing" in parts:
        rows = []
        good &= tracing.bench(asked.runs, asked.seed, rows)
        columns = ["program", "iterations", "without, s", "with it, s", "longer by", "quartiles", "adds alone", "share"]
        columns.append("2 %")
        bars = {"kind": "bars", "columns": [4], "unit": "% of the program's time"}
        recording.keep(
            "profile-tracing",
            "What recording the calls costs",
            f"tracing --runs {asked.runs}",
            f"{asked.runs} pairs of runs each, 2 ranks. Medians of the runs and of the pairs' ratios. One rank alone: processor time that is added to an iteration",
            columns,
            rows,
            bars,
        )
    if "loop" in parts:
        rows = []
        good &= loop(size.unit_bytes, asked.runs, asked.seed, rows)
        columns = ["setting", "as it was, s", "placed again, s", "by the model", "predicted", "saved", "within"]
        bars = {"kind": "bars", "columns": [1, 2], "unit": "seconds"}
        recording.keep(
            "profile-loop", "Profiled, placed again, run again", "loop", f"{asked.runs} runs", columns, rows, bars
        )
    if "spark" in parts:
        if asked.spark is None:
            print("\nwithout --spark PYTHON, which has PySpark: no Spark job is run")
        else:
            good &= spark.bench(asked.spark.absolute(), asked.rate)
    if "readers" in parts:
        rows = []
        good &= readers.bench(asked.gigabytes, min(asked.runs, 3), asked.seconds, rows)
        flows = [[name, pace, memory] for name, pace, _, memory in rows if " flows" in name]
        rows = [row for row in rows if " flows" not in row[0]]
        columns = ["", "GB a CPU-second", "datagrams a CPU-second", "most memory, MB"]
        bars = {"kind": "bars", "columns": [1], "unit": "GB a CPU-second", "scale": "log"}
        origin = f"a capture of {asked.gigabytes:g} GB"
        recording.keep("profile-readers", "Readers compared with other tools", "readers", origin, columns, rows, bars)
        columns, bars = ["", "GB a CPU-second", "most memory, MB"], {"kind": "bars", "columns": [2], "unit": "MB"}
        origin = "one run each, two packets or one record a flow, each between another pair of hosts"
        recording.keep("profile-flows", "Memory of readers with many flows", "readers", origin, columns, flows, bars)
    if "predictors" in parts:
        rows = []
        predictors.bench(asked.seeds, asked.trace, rows)
        columns = ["series", "previous", "time of day", "combined"]
        bars = {"kind": "bars", "columns": [1, 2, 3], "unit": "% of the bytes"}
        origin = f"{asked.seeds} made weeks of each kind, {max(1, asked.seeds // 3)} of each gravity model"
        recording.keep("profile-predictors", "Error of the next interval", "predictors", origin, columns, rows, bars)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
