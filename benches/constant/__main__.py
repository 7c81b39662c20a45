"""Compares methods that find the constant, and pyrpca, on times with a known truth: error, time, memory and decisions.

    make bench-constant [ARGS="--quick --seeds 8 --data FOLDER"]

Error: root mean square of relative errors of the constant, the common scale removed, 10 snapshots. Speed: each run
alone in a child process, methods in turn; memory is the peak above the process's memory before. Decisions: broadcast
(earliest completion first) and mapping (greedy) from 10 snapshots, scored on 20 later ones, as change of cost compared
with the plain mean. Purposes: `auto` for trees, placements and predictions, compared with the method that is best
afterwards. Auto's speed: processor time of `find_constant`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from itertools import chain
from pathlib import Path

import numpy as np
from benches.constant.calibration import stopping, subsets
from benches.constant.cases import DECISIONS, MORE, NOTES, series
from benches.constant.decisions import METHODS, decided, percent
from benches.constant.once import methods, off
from benches.constant.purposes import Compared, processor_time
from benches.constant.purposes import record as record_purposes
from benches.constant.purposes import table as purposes
from benches.constant.seattle import table, windows
from benches.machine import machine

from gavotte.model.choosing import Purpose

GOALS_S = {("rpca", 196): 0.1, ("rpca", 1024): 2.0, ("mode", 1024): 0.5}
PARTS = ("speed", "recovery", "decisions", "purposes", "calibration", "seattle")
WORST = 0.015
"""Highest allowed cost of `auto` above the mean's, in any case."""


def recovery(size: int, seeds: int, first: int, peer: bool) -> None:
    """Print the error of each method."""
    run = {name: method for name, method in methods().items() if peer or name != "pyrpca"}
    print(f"\nerror of the constant, N={size}, n=10, mean of {seeds} seeds, * = least")
    print(f"{'case':<20}" + "".join(f"{name:>9}" for name in run))
    for case in (*NOTES, *MORE):
        errors: dict[str, list[float]] = {name: [] for name in run}
        for seed in range(first, first + seeds):
            cloud, times, _ = series(case, size, 10, np.random.default_rng([seed, size]))
            for name, method in run.items():
                if name == "pyrpca" and case.missing:
                    errors[name].append(float("nan"))  # it accepts no missing cells
                else:
                    errors[name].append(off(method(times), cloud.truth_s))
        means = {name: float(np.mean(values)) for name, values in errors.items()}
        least = min(value for value in means.values() if value == value)
        cells = ("-" if value != value else f"{value:.3f}{'*' * (value <= least)}" for value in means.values())
        print(f"{case.name:<20}" + "".join(f"{cell:>9}" for cell in cells), flush=True)


def speed(sizes: list[int], runs: int, seed: int, peer: bool) -> None:
    """Print time and memory, methods in turn."""
    names = ["rpca", "mode", "median", "mean", *["pyrpca"] * peer]
    print(f"\ntime and memory at p=.10, median of {runs} runs each in a process of its own; x = by ours of rpca")
    print(f"{'N':>5} {'method':<8} {'wall s':>8} {'cpu s':>8} {'peak MB':>8} {'rms':>6} {'x':>6}  goal")
    for size in sizes:
        rows_of: dict[str, list[dict[str, float]]] = {name: [] for name in names}
        for _ in range(runs):
            for name in names:
                command = [sys.executable, "-m", "benches.constant.once", name, str(size), str(seed)]
                # numpy's SVD of ten rows is faster on one thread than on two that wait for each other.
                environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
                ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
                if ran.returncode == 0:
                    rows_of[name].append(json.loads(ran.stdout))
                else:
                    print(f"{name} at {size}: {(ran.stderr.strip().splitlines() or ['ended'])[-1]}")
        ours = statistics.median(row["wall_s"] for row in rows_of["rpca"])
        for name, rows in rows_of.items():
            if not rows:
                continue
            middle = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
            goal = GOALS_S.get((name, size))
            verdict = "" if goal is None else f"<= {goal} s: {'met' if middle['wall_s'] <= goal else 'MISSED'}"
            print(
                f"{size:>5} {name:<8} {middle['wall_s']:>8.3f} {middle['cpu_s']:>8.3f} {middle['peak_mb']:>8.0f} "
                f"{middle['rms']:>6.3f} {middle['wall_s'] / ours:>6.2f}  {verdict}",
                flush=True,
            )


def decisions(size: int, seeds: int, first: int) -> None:
    """Print the cost of decisions by each method."""
    columns = (*METHODS[1:], "truth", "auto")
    print(
        f"\ncost of decisions against the mean's in %, N={size}, {seeds} seeds ± standard error: broadcast, then mapping\n"
        f"{'case':<20}" + "".join(f"{name:>13}" for name in columns) + "  auto, both"
    )
    misses = []
    for case in (*DECISIONS, *MORE):
        decision = decided(case, size, seeds, first)
        auto = float(np.expm1(np.mean(decision.both["auto"])))
        if auto > WORST:
            misses.append(f"{case.name} ({100 * auto:+.1f} %)")
        print(
            f"{case.name:<20}"
            + "".join(f"{percent(decision.broadcast[name]):>13}" for name in columns)
            + f"  {percent(decision.both['auto'])}\n{'':<20}"
            + "".join(f"{percent(decision.mapping[name]):>13}" for name in columns)
            + f"  {', '.join(f'{decision.picked.count(p)} {p}' for p in sorted(set(decision.picked)))}",
            flush=True,
        )
    goal = "met" if not misses else f"MISSED: {', '.join(misses)}"
    print(f"auto never above the mean by more than {100 * WORST:.1f} % of cost in any case: {goal}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, two seeds")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--runs", type=int, default=3, help="of each method and size, for speed")
    parser.add_argument("--data", type=Path, help="folder of the NetLatency series of Seattle")
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--workers", type=int, help="processes that compare purposes; default: one for each processor")
    parser.add_argument(
        "--record", type=Path, help="folder to write the numbers of purposes to, as docs/results has them"
    )
    arguments = parser.parse_args()
    try:
        import pyrpca  # noqa: F401
    except ImportError:
        peer = False
    else:
        peer = True
    seeds = 2 if arguments.quick else arguments.seeds
    about, range_of_seeds = machine(), f"{arguments.seed} to {arguments.seed + seeds - 1}"
    print(f"machine: {about}\nseeds: {range_of_seeds}")
    if not peer:
        print("pyrpca is not installed and left out")
    wanted = {arguments.only} if arguments.only else set(PARTS)
    if "speed" in wanted:
        speed([64, 196] if arguments.quick else [64, 196, 512, 1024], arguments.runs, arguments.seed, peer)
    if "recovery" in wanted:
        recovery(64, seeds, arguments.seed, peer)
    if "decisions" in wanted:
        decisions(64 if arguments.quick else 128, seeds, arguments.seed)
    if "purposes" in wanted:
        data = arguments.data if arguments.data is not None and arguments.data.is_dir() else None
        kept: dict[tuple[str, Purpose, int], Compared] = {}
        print(flush=True)
        for line in chain(
            processor_time(arguments.seed, arguments.runs),
            [""],
            purposes(40, seeds, arguments.seed, data, kept, arguments.workers),
        ):
            print(line, flush=True)
        if arguments.record is not None:
            record_purposes(arguments.record / "rpca-purposes.json", kept, range_of_seeds, about)
    if "calibration" in wanted:
        size = 64 if arguments.quick else 196
        print("\nstopping rule, N=64\n" + "\n".join(stopping(64, seeds, arguments.seed)), flush=True)
        print("\nsome pairs only\n" + "\n".join(subsets(size, seeds, arguments.seed)), flush=True)
    if "seattle" in wanted:
        if arguments.data is not None and arguments.data.is_dir():
            rows = table(arguments.data, arguments.seed) + windows(arguments.data, arguments.seed)
            print("\nNetLatency, Seattle\n" + "\n".join(rows))
        else:
            print("\nno --data with the NetLatency series of Seattle: left out")
    print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
