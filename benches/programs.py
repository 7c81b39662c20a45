"""Captures real MPI programs once, places them by each method, and runs them again for real.

    make bench-programs                                  all five, three runs of each placement
    make bench-programs ARGS="--programs melt salt --runs 5 --network cloud.network.json"

Twelve ranks of LAMMPS (a Lennard-Jones melt, a slab, a molten salt), CP2K (water) and OpenFOAM (a driven cavity) run on
the sixteen hosts of `examples/programs/cloud.topology.toml`. Runs are interleaved: each repetition runs every placement
once.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from benches.machine import machine, processor_times
from benches.recorded import write_figure
from examples.programs.loop import PROGRAMS, RANKS, TOPOLOGY, Loop, available, measured

from gavotte.formats.topology import read_topology
from gavotte.lab import session

METHODS = ("auto", "greedy", "round-robin", "min-machines")
PLACEMENTS = (*((method, 0) for method in METHODS), *(("random", seed) for seed in range(3)))


def label(method: str, seed: int) -> str:
    """Names of the table's rows."""
    return f"{method} {seed}" if method == "random" else method


def bench(name: str, network: Path, folder: Path, runs: int) -> list[str]:
    """Print one program's table; return its row of the figure."""
    with session(read_topology(TOPOLOGY), source=str(TOPOLOGY)) as lab:
        loop = Loop(lab, name, folder, show=False)
        loop.profile()
        files = {label(*each): loop.place(network, *each) for each in PLACEMENTS}
        ranks = {key: loop.ranks(file) for key, file in files.items()}
        replayed = {key: loop.replay(file) for key, file in files.items()}
        walls: dict[str, list[float]] = {key: [] for key in files}
        all_before, idle_before = processor_times()
        for _ in range(runs):
            for key in files:
                walls[key].append(loop.job(ranks[key]))
        all_after, idle_after = processor_times()
    means = {key: statistics.mean(each) for key, each in walls.items()}
    best = min(means, key=lambda key: means[key])
    print(
        f"\n{name}: fastest {best}, cores idle {(idle_after - idle_before) / (all_after - all_before):.0%} of the time"
    )
    print(f"{'placement':14}{'predicted s':>12}{'replayed s':>12}{'wall s':>9}{'+-':>6}{'to auto':>9}")
    spreads = {key: statistics.stdev(each) if runs > 1 else 0.0 for key, each in walls.items()}
    for key, file in files.items():
        predicted_s = json.loads(file.read_text())["completion_s"]
        print(
            f"{key:14}{predicted_s:12.2f}{replayed[key]:12.2f}{means[key]:9.2f}{spreads[key]:6.2f}{means[key] / means['auto']:9.2f}"
        )
    at_random = [second for key, each in walls.items() if key.startswith("random") for second in each]
    spread = statistics.stdev(at_random) if len(at_random) > 1 else 0.0
    fixed = [f"{means[method]:.1f} ± {spreads[method]:.1f}" for method in METHODS]
    return [f"{name}, {PROGRAMS[name].package}", *fixed, f"{statistics.mean(at_random):.1f} ± {spread:.1f}", best]


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="real MPI programs, placed by each method and run")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--runs", type=int, default=3, help="of each placement")
    parser.add_argument("--network", type=Path, help="a Network of this cloud measured before")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    asked = parser.parse_args()
    about, rows = machine(), []
    print(f"{about}\n{RANKS} ranks, {asked.runs} runs of each placement, seeds 0 to 2")
    with tempfile.TemporaryDirectory(prefix="gvt-programs-") as scratch:
        folder = Path(scratch)
        if asked.network:
            network = shutil.copy(asked.network, folder / "cloud.network.json")
        else:
            with session(read_topology(TOPOLOGY), source=str(TOPOLOGY)) as lab:
                network = measured(Loop(lab, asked.programs[0], folder, show=False))
        for name in asked.programs:
            if available(name):
                rows.append(bench(name, Path(network), folder / name, asked.runs))
            else:
                print(f"\n{name}: left out, since Debian's {PROGRAMS[name].package} is not installed")
    if asked.record and rows:
        write_figure(
            asked.record / "programs.json",
            title="Real programs, placed by each method and run",
            command=f'make bench-programs ARGS="--runs {asked.runs}"',
            about=about,
            seed="0 to 2",
            samples=f"{asked.runs} runs of each placement, interleaved, mean ± standard deviation",
            plot={"kind": "bars", "columns": [1, 2, 3, 4, 5], "unit": "wall time, s"},
            columns=["program", *METHODS, "three random", "fastest"],
            rows=rows,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
