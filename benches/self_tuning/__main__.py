"""Runs N-body, CG and a loop of broadcasts in a lab: by the library, self-tuning, and along trees that were planned before.

    make bench-self-tuning
    make bench-self-tuning ARGS="--clouds equal --libraries mpich --runs 5"

Each job is one mpirun. Ways alternate in random order. Times include the first operations, which go the library's own way, and
all that self-tuning tries. Those of planned trees do not include the measurement.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benches import mpi
from benches.machine import machine, processor_times
from benches.recorded import command_line, write_figure
from benches.rpca import cloud
from benches.tuned.__main__ import measured

from gavotte import lab
from gavotte.collective import build_shim, plan, shim_text
from gavotte.errors import GavotteError
from gavotte.formats.network import Network
from gavotte.formats.topology import FORMAT, Topology

SIZE = cloud.Size(per_rack=4, egress_mbps=(20, 70), uplink_mbps=(80, 160))
EQUAL_MBPS = 45
"""Rate of all hosts of the equal cloud: as much in all as the unequal hosts have."""
EXAMPLES = Path(__file__).parents[2] / "examples"
LIMIT_S = 900.0
LEAST_SAVING = {"nbody": 25, "cg": 31}
"""The goals on the unequal cloud, in %: what the RPCA paper gained, its calibration included."""
MOST_LOSS = 1
"""The goal on the equal cloud, in %."""
COLUMNS = [
    "cloud, library, program",
    "library, s",
    "self-tuning, s",
    "planned, s",
    "self-tuning saves, %",
    "planned saves, %",
]


@dataclass(frozen=True)
class Program:
    """One program.

    Attributes:
        words: its command line.
        gathers_bytes: of a rank's block in each gather; 0 = it only broadcasts.
        broadcasts_bytes: of each broadcast.
    """

    words: tuple[str | Path, ...]
    gathers_bytes: int
    broadcasts_bytes: int


def programs(steps: int) -> dict[str, Program]:
    """Return the programs, with about this many steps each."""
    shift = 300 / steps**2
    return {
        "nbody": Program(
            (EXAMPLES / "nbody" / "nbody.py", "--bodies", "1024", "--steps", str(steps)), 64 * 992, 16 * 64 * 992
        ),
        "cg": Program((EXAMPLES / "cg" / "cg.py", "--size", "65536", "--shift", f"{shift:.6f}"), 32_768, 524_288),
        "broadcast": Program((Path(__file__).with_name("worker.py"), str(steps), "1000000"), 0, 1_000_000),
    }


def equal() -> Topology:
    """As many hosts, all alike, behind one switch."""
    hosts = [{"name": name, "switch": "core", "egress": f"{EQUAL_MBPS}mbit", "cpus": 4.0} for name in SIZE.hosts]
    return Topology.model_validate({"format": FORMAT, "switch": [{"name": "core"}], "host": hosts})


def unequal(seed: int) -> Topology:
    """Hosts with rates of their own in racks with uplinks of their own."""
    whole = cloud.topology(seed, SIZE)
    return whole.model_copy(update={"host": [host for host in whole.host if host.name in SIZE.hosts]})


def planned(network: Network, program: Program) -> str:
    """Return the preloaded library's trees for a program."""
    root = SIZE.hosts[0]
    trees = [plan(network, "broadcast", size_bytes=program.broadcasts_bytes, root=root, ranks=SIZE.hosts)]
    if program.gathers_bytes:
        trees.append(plan(network, "gather", size_bytes=program.gathers_bytes, root=root, ranks=SIZE.hosts))
    return shim_text(trees)


@dataclass(frozen=True)
class Ran:
    """One run of a program: its seconds, steps and checksum, and what the preloaded library printed."""

    total_s: float
    steps: int
    checksum: float
    message: str


@dataclass(frozen=True)
class Job:
    """A program with an MPI library on the hosts of a lab.

    Attributes:
        session: the lab.
        library: one of `mpi.IMPLEMENTATIONS`.
        program: the program.
        folder: folder for files.
    """

    session: lab.Session
    library: str
    program: Program
    folder: Path

    def run(self, more: dict[str, str]) -> Ran:
        """Run it once, with more variables for the ranks."""
        words = self.program.words
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            ran = mpi.launch(
                self.session,
                self.library,
                words,
                ranks=SIZE.hosts,
                scratch=Path(scratch),
                environment=more,
                timeout_s=LIMIT_S,
                calm=True,
            )
        lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
        if ran.returncode or not lines:
            raise GavotteError(f"{words[0]} left with status {ran.returncode}", hint=ran.stderr.strip()[-400:])
        report = json.loads(lines[0])
        message = "\n".join(line for line in ran.stderr.splitlines() if line.startswith("gavotte: "))
        return Ran(report["total_s"], report["steps"], report["checksum"], message)


def compare(name: str, topology: Topology, asked: argparse.Namespace) -> list[list[str]]:
    """Print one cloud's table; return its rows."""
    choice, rows = random.Random(asked.seed), []
    with (
        lab.session(topology, source="bench-self-tuning") as session,
        tempfile.TemporaryDirectory(prefix="gvt-self-", dir="/tmp") as scratch,
    ):
        folder = Path(scratch)
        mpi.loss_based(session, SIZE.hosts)
        network = measured(session, folder, asked.seed)
        for library in filter(mpi.available, asked.libraries):
            shim = folder / f"{library}.so"
            build_shim(shim, mpicc=mpi.compiler(library))
            for key in asked.programs:
                program = programs(asked.steps)[key]
                trees = folder / f"{library}-{key}.txt"
                trees.write_text(planned(network, program))
                loaded = {"LD_PRELOAD": str(shim), "GAVOTTE_VERBOSE": "1", "GAVOTTE_MIN_BYTES": "16384"}
                ways: dict[str, dict[str, str]] = {
                    "library": {},
                    "self-tuning": loaded | {"GAVOTTE_TUNE": "self"},
                    "planned": loaded | {"GAVOTTE_TREES": str(trees)},
                }
                job = Job(session, library, program, folder)
                rows.append(in_all_ways(f"{name}, {library}, {key}", job, ways, asked.runs, choice))
    return rows


def in_all_ways(title: str, job: Job, ways: dict[str, dict[str, str]], runs: int, choice: random.Random) -> list[str]:
    """Run one program in all ways; print the times, and return its row."""
    times: dict[str, list[Ran]] = {way: [] for way in ways}
    before, idle_before = processor_times()
    for _ in range(runs):
        order = list(ways)
        choice.shuffle(order)
        for way in order:
            times[way].append(job.run(ways[way]))
    after, idle_after = processor_times()
    every = [each for seen in times.values() for each in seen]
    if not np.allclose([each.checksum for each in every], every[0].checksum, rtol=1e-6):
        raise GavotteError(f"{title} has different results by different ways", hint="a way is wrong")
    medians = {way: statistics.median(each.total_s for each in seen) for way, seen in times.items()}
    saves = {way: 100 * (1 - medians[way] / medians["library"]) for way in ways}
    idle = (idle_after - idle_before) / (after - before)
    print(f"\n{title}: {every[0].steps} steps, cores idle {idle:.0%} of the time")
    for way, seen in times.items():
        all_s = " ".join(f"{each.total_s:.1f}" for each in seen)
        print(f"  {way:12} {medians[way]:8.2f} s, saves {saves[way]:6.1f} %   ({all_s})", flush=True)
    print(re.sub("^", "    ", times["self-tuning"][-1].message, flags=re.MULTILINE), flush=True)
    numbers = [f"{medians[way]:.2f}" for way in ways]
    return [title, *numbers, f"{saves['self-tuning']:.1f}", f"{saves['planned']:.1f}"]


def goals(rows: list[list[str]]) -> None:
    """Print whether each program reaches its goal."""
    for title, *_, saved, _ in rows:
        name, _, program = title.split(", ")
        least = -MOST_LOSS if name == "equal" else LEAST_SAVING.get(program)
        if least is not None:
            print(f"{title}: saves {saved} %, goal {least} %: {'reached' if float(saved) >= least else 'missed'}")


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="collectives tuned while programs run")
    parser.add_argument("--clouds", nargs="+", choices=("unequal", "equal"), default=["unequal", "equal"])
    parser.add_argument("--programs", nargs="+", choices=programs(1), default=list(programs(1)))
    parser.add_argument("--libraries", nargs="+", choices=mpi.IMPLEMENTATIONS, default=list(mpi.IMPLEMENTATIONS))
    parser.add_argument("--steps", type=int, default=100, help="of each program, about")
    parser.add_argument("--runs", type=int, default=3, help="of each program in each way")
    parser.add_argument("--seed", type=int, default=1, help="of the cloud, the measurement and the order of jobs")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    asked = parser.parse_args()
    about, rows = machine(), []
    print(f"{about}\nseed {asked.seed}, medians of {asked.runs} jobs each, which alternate in random order")
    for name in asked.clouds:
        rows += compare(name, unequal(asked.seed) if name == "unequal" else equal(), asked)
    print()
    goals(rows)
    if asked.record and rows:
        write_figure(
            asked.record / "self-tuning.json",
            title="Collectives tuned while programs run",
            command=command_line("self-tuning", asked.record),
            about=about,
            seed=str(asked.seed),
            samples=f"16 ranks on 16 hosts, medians of {asked.runs} jobs of each kind, which alternate",
            plot={"kind": "bars", "columns": [1, 2, 3], "unit": "s"},
            columns=COLUMNS,
            rows=rows,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
