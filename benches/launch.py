"""Runs real MPI programs by `gavotte launch` in a lab, next to other orders of their ranks.

    make bench-launch                                           three inputs of LAMMPS, eight repetitions of each order
    make bench-launch ARGS="--programs melt --runs 3 --seeds 1"

Twelve ranks run on the sixteen hosts of `examples/programs/cloud.topology.toml`. The first launch measures the hosts and
counts the messages. Then each repetition runs every order once: the launcher's own, ranks dealt out to all hosts in turn,
random ones, and ours, which is another `gavotte launch`. All hosts share this machine's cores.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from benches.machine import machine, processor_times
from examples.programs.loop import GAVOTTE, HERE, JOB_S, PROGRAMS, RANKS, TOPOLOGY, VARIABLES

from gavotte.formats.topology import read_topology
from gavotte.lab import Session, session
from gavotte.launch.launchers import Wanted, recognise
from gavotte.launch.running import run

MCA = {"btl": "tcp,self", "btl_tcp_if_include": "eth0", "oob_tcp_if_include": "eth0", "mpi_yield_when_idle": "1"}
OURS = "ours"


@dataclass(frozen=True)
class Job:
    """One program in a lab.

    Attributes:
        lab: the lab.
        folder: folder for its files, with the store.
        name: one of `PROGRAMS`.
    """

    lab: Session
    folder: Path
    name: str

    @property
    def words(self) -> list[str]:
        """The command line, without an order."""
        words = ["mpirun", "-n", str(RANKS), "--wdir", str(self.folder)]
        words += [word for key, value in MCA.items() for word in ("--mca", key, value)]
        words += [word for key in VARIABLES for word in ("-x", key)]
        return [*words, *(word.format(inputs=HERE) for word in PROGRAMS[self.name].line)]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the launcher."""
        return {**self.lab.environment(), **VARIABLES, "XDG_CACHE_HOME": str(self.folder / "cache")}

    def launch(self, *options: str) -> dict[str, Any]:
        """Run `gavotte launch`; return its result.

        Raises:
            RuntimeError: with what it printed, when it fails.
        """
        result, output = self.folder / "run.json", self.folder / "output"
        own = [
            "launch",
            "--hosts",
            "lab",
            "--store",
            str(self.folder.parent / "store"),
            "--json",
            str(result),
            *options,
        ]
        with output.open("w") as stream:
            status = subprocess.run(
                [GAVOTTE, *own, "--", *self.words],
                env=self.environment,
                stdout=stream,
                stderr=subprocess.STDOUT,
                timeout=JOB_S,
                check=False,
            ).returncode
        if status:
            raise RuntimeError(output.read_text(errors="replace")[-2000:])
        document: dict[str, Any] = json.loads(result.read_text())
        return document

    def in_order(self, hosts: Sequence[str], slots: dict[str, int]) -> float:
        """Run the program with rank i on the i-th of these hosts; return its wall time in seconds.

        Raises:
            RuntimeError: when it fails.
        """
        launcher = recognise(self.words)
        file = self.folder / "order"
        placed = list(hosts) != launcher.default(RANKS, slots)
        start = launcher.start(launcher.read(self.words), Wanted(hosts, slots, placed, str(file)))
        file.write_text(start.text)
        words = ["sh", "-c", 'exec "$@" >quiet 2>&1', "sh", *start.words]
        ended = run(self.lab.command(hosts[0], ["env", "-C", str(self.folder), *words]), self.environment, entered=True)
        if ended.status:
            raise RuntimeError((self.folder / "quiet").read_text(errors="replace")[-2000:])
        return ended.wall_s


def bench(lab: Session, folder: Path, name: str, runs: int, seeds: int) -> None:
    """Print one program's table."""
    job = Job(lab, folder / name, name)
    job.folder.mkdir(parents=True)
    first = job.launch()
    plan = job.launch("--dry-run")
    hosts = [host.name for host in lab.status().hosts]
    slots = dict.fromkeys(hosts, max(map(plan["default_order"].count, plan["default_order"])))
    orders = {"own": plan["default_order"], "in turn": list(islice(cycle(hosts), RANKS))}
    for seed in range(seeds):
        places = [host for host, count in slots.items() for _ in range(count)]
        orders[f"random {seed}"] = random.Random(seed).sample(places, RANKS)
    if orders["in turn"] == orders["own"]:
        del orders["in turn"]
    walls: dict[str, list[float]] = {key: [] for key in [*orders, OURS]}
    predictions: list[dict[str, Any]] = []
    all_before, idle_before = processor_times()
    for _ in range(runs):
        for key, order in orders.items():
            walls[key].append(job.in_order(order, slots))
        result = job.launch()
        walls[OURS].append(result["wall_s"])
        predictions.append(result)
    all_after, idle_after = processor_times()
    idle = (idle_after - idle_before) / (all_after - all_before)
    print(f"\n{name}: messages {plan['default_messages_s']:.3g} s in the own order, {plan['messages_s']:.3g} s in ours")
    print(f"first run, measured and counted: {first['wall_s']:.2f} s; cores idle {idle:.0%} of the time")
    own_s = statistics.median(walls["own"])
    print(f"{'order':12}{'median s':>10}{'least':>8}{'most':>8}{'to own':>8}")
    for key, each in walls.items():
        middle_s = statistics.median(each)
        print(f"{key:12}{middle_s:10.2f}{min(each):8.2f}{max(each):8.2f}{middle_s / own_s:8.2f}")
    for number, result in enumerate(predictions):
        if result["predicted_s"] is None:
            print(f"run {number}: no prediction, took {result['wall_s']:.2f} s")
            continue
        off = result["wall_s"] / result["predicted_s"] - 1
        inside = result["low_s"] <= result["wall_s"] <= result["high_s"]
        print(
            f"run {number}: predicted {result['predicted_s']:.2f} s ({result['low_s']:.2f} to {result['high_s']:.2f}), "
            f"took {result['wall_s']:.2f} s, {off:+.0%}{'' if inside else ', outside'}"
        )


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="real MPI programs by `gavotte launch`, next to other orders")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=["melt", "slab", "salt"])
    parser.add_argument("--runs", type=int, default=8, help="repetitions of each order")
    parser.add_argument("--seeds", type=int, default=2, help="number of random orders")
    asked = parser.parse_args()
    print(f"{machine()}\n{RANKS} ranks, {asked.runs} interleaved runs of each order, seeds 0 to {asked.seeds - 1}")
    with (
        tempfile.TemporaryDirectory(prefix="gvt-launch-") as scratch,
        session(read_topology(TOPOLOGY), source=str(TOPOLOGY)) as lab,
    ):
        for name in asked.programs:
            if not (shutil.which("mpirun") and shutil.which(PROGRAMS[name].line[0])) or PROGRAMS[name].prepare:
                print(f"\n{name}: left out, since Debian's {PROGRAMS[name].package} is missing or needs a set-up")
                continue
            bench(lab, Path(scratch), name, asked.runs, asked.seeds)
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
