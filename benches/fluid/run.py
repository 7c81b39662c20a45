#!/usr/bin/env python3
"""Compares the flow simulator with SimGrid on the same flows, in one run.

    run.py             the table: time, memory, ratio, largest difference of finish times
    run.py --full      also the overloaded lists, which take SimGrid 20 minutes
    run.py growth      how our time grows with flows and with hosts
    run.py accuracy    saving and error of --accuracy: 250 racks whose uplinks are 4 times too narrow
    run.py golden      writes the golden files of crates/fluid/tests from SimGrid

Hosts have 1 Gbit/s, racks 10 Gbit/s up to a core without limit, all full duplex. Sizes are lognormal from 1 to 100 MB,
starts uniform over a window, sources and targets uniform. Times are user CPU seconds of the whole process, reading and
writing its files included. Runs alternate between the two, and the least of each is shown with the count of runs.
SimGrid is Debian's libsimgrid-dev with its TCP model switched off (see simgrid_flows.cpp).
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import platform
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SEED = 20140814
HOST_BPS = 1e9
UPLINK_BPS = 10e9

Flow = tuple[int, int, int, float]
"""Source, target, bytes, start in seconds."""


@dataclass(frozen=True)
class Scenario:
    """One list of flows.

    Attributes:
        flows: how many.
        window_s: over how long they start.
        hosts: number of hosts, 32 a rack.
        ours: runs of our simulator.
        simgrid: runs of SimGrid.
    """

    flows: int
    window_s: float
    hosts: int = 1024
    ours: int = 5
    simgrid: int = 3


NORMAL = [Scenario(10_000, 10), Scenario(20_000, 10, simgrid=1), Scenario(100_000, 100, simgrid=1)]
OVERLOADED = [Scenario(30_000, 10, simgrid=1), Scenario(40_000, 10, simgrid=1)]
GROWTH = [
    *(Scenario(n, n / 1000) for n in (1_000, 10_000, 100_000, 1_000_000)),
    *(Scenario(n, 10) for n in (15_000, 20_000, 25_000, 30_000, 40_000, 80_000)),
    *(Scenario(10 * h, 10, hosts=h) for h in (256, 1024, 4096, 16384)),
]


def generate(scenario: Scenario) -> list[Flow]:
    """Return the list of a scenario, sorted by start; the same for the same scenario on any machine."""
    rng = random.Random(SEED)
    rows = []
    for _ in range(scenario.flows):
        source = rng.randrange(scenario.hosts)
        target = rng.randrange(scenario.hosts - 1)
        target += target >= source
        z = math.sqrt(-2.0 * math.log(1.0 - rng.random())) * math.cos(2.0 * math.pi * rng.random())
        size = int(min(100e6, max(1e6, math.exp(math.log(10e6) + z * math.log(10.0) / 2.0))))
        rows.append((round(rng.random() * scenario.window_s, 6), source, target, size))
    rows.sort()
    return [(source, target, size, start_s) for start_s, source, target, size in rows]


def write_flows(path: Path, flows: list[Flow], caps_bps: list[float] | None = None) -> None:
    """Write a flow list as both programs read it."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "source", "target", "bytes", "start_s", *(["cap_bps"] if caps_bps else [])])
        for i, (source, target, size, start_s) in enumerate(flows):
            writer.writerow([i, source, target, size, f"{start_s:.6f}", *([caps_bps[i]] if caps_bps else [])])


def read_finish(path: Path) -> dict[str, float]:
    """Return the finish time by id."""
    with path.open(newline="") as file:
        return {row["id"]: float(row["finish_s"]) for row in csv.DictReader(file)}


@dataclass
class Run:
    """One run of a program.

    Attributes:
        user_s: user CPU time.
        peak_mb: largest resident size.
        finish_s: finish time by id.
    """

    user_s: float
    peak_mb: float
    finish_s: dict[str, float]


def run(
    program: Path, flows: Path, racks: int, hosts: int, host_bps: float, uplink_bps: float, accuracy: float = 0.0
) -> Run:
    """Run a program on a flow list."""
    output = flows.with_suffix(".finish")
    command: list[str | Path] = [program, flows, str(racks), str(host_bps), str(uplink_bps), str(hosts)]
    command += [str(accuracy)] if accuracy else []
    with output.open("w") as stdout:
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
        user_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    # The kernel's account of a child's memory begins with ours, so the programs report their own.
    peak = re.search(r"^VmHWM:\s*(\d+) kB", done.stderr, re.MULTILINE)
    if done.returncode != 0 or peak is None:
        sys.exit(f"{program.name} failed on {flows}: {done.stderr}")
    return Run(user_s, int(peak[1]) * 1024 / 1e6, read_finish(output))


def build_ours() -> Path:
    """Build our program, optimised."""
    command = ["cargo", "build", "--quiet", "--release", "--locked", "--package", "gavotte-fluid", "--example", "flows"]
    subprocess.run(command, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "release" / "examples" / "flows"


def build_simgrid(folder: Path) -> Path | None:
    """Build SimGrid's program, with the library from apt if need be; None if it is missing."""
    if not Path("/usr/include/simgrid/s4u.hpp").exists() or shutil.which("g++") is None:
        sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        install = [*sudo, "apt-get", "install", "-q", "-y", "--no-install-recommends", "libsimgrid-dev", "g++"]
        if shutil.which("apt-get") is None or subprocess.run(install, stdout=sys.stderr, check=False).returncode != 0:
            print("no SimGrid here: apt-get install libsimgrid-dev g++", file=sys.stderr)
            return None
    program = folder / "simgrid_flows"
    source = HERE / "simgrid_flows.cpp"
    subprocess.run(["g++", "-O2", "-std=c++17", source, "-lsimgrid", "-o", program], check=True)
    return program


def machine() -> str:
    """Return the machine in a line."""
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    return f"{model}, {os.cpu_count()} CPUs, Linux {platform.release()}, load {os.getloadavg()[0]:.1f}"


def simgrid_version() -> str:
    """Return the package's version."""
    query = ["dpkg-query", "-W", "-f", "${Version}", "libsimgrid-dev"]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout or "unknown"


def compare(scenarios: list[Scenario], folder: Path) -> None:
    """Print the table."""
    ours, simgrid = build_ours(), build_simgrid(folder)
    print(f"machine: {machine()}\nseed: {SEED}    SimGrid: {simgrid_version()}\n")
    print("| flows / window | ours s | MB | SimGrid s | MB | ratio | runs | largest difference |")
    print("|---|---|---|---|---|---|---|---|")
    worst = 0.0
    for scenario in scenarios:
        flows = folder / "flows.csv"
        write_flows(flows, generate(scenario))
        racks = scenario.hosts // 32
        runs: dict[str, list[Run]] = {"ours": [], "simgrid": []}
        for turn in range(max(scenario.ours, scenario.simgrid)):
            if simgrid is not None and turn < scenario.simgrid:
                runs["simgrid"].append(run(simgrid, flows, racks, scenario.hosts, HOST_BPS, UPLINK_BPS))
            if turn < scenario.ours:
                runs["ours"].append(run(ours, flows, racks, scenario.hosts, HOST_BPS, UPLINK_BPS))
        we = min(runs["ours"], key=lambda r: r.user_s)
        cells = [f"{scenario.flows:,} / {scenario.window_s:g} s", f"{we.user_s:.3f}", f"{we.peak_mb:.1f}"]
        if runs["simgrid"]:
            they = min(runs["simgrid"], key=lambda r: r.user_s)
            difference = max(abs(we.finish_s[i] - t) / max(t, 1e-9) for i, t in they.finish_s.items())
            worst = max(worst, difference)
            ratio = they.user_s / we.user_s
            cells += [f"{they.user_s:.2f}", f"{they.peak_mb:.1f}", f"{ratio:,.0f}"]
            cells += [f"{len(runs['ours'])} + {len(runs['simgrid'])}", f"{difference:.1e}"]
        else:
            cells += ["-", "-", "-", f"{len(runs['ours'])} + 0", "-"]
        print("| " + " | ".join(cells) + " |", flush=True)
    print("\nuser CPU seconds, the least of the runs; MB = peak resident; difference relative to SimGrid's finish time")
    if worst > 1e-6:
        sys.exit("the finish times differ by more than 1e-6")


def growth(folder: Path) -> None:
    """Print how time grows."""
    ours = build_ours()
    print(f"machine: {machine()}\nseed: {SEED}\n")
    print("| flows | window s | hosts | s | MB | us a flow | runs |")
    print("|---|---|---|---|---|---|---|")
    for scenario in GROWTH:
        flows = folder / "flows.csv"
        write_flows(flows, generate(scenario))
        repeats = 3 if scenario.flows < 100_000 else 1
        racks = scenario.hosts // 32
        runs = [run(ours, flows, racks, scenario.hosts, HOST_BPS, UPLINK_BPS) for _ in range(repeats)]
        best = min(runs, key=lambda r: r.user_s)
        each = best.user_s / scenario.flows * 1e6
        cells = [f"{scenario.flows:,}", f"{scenario.window_s:g}", f"{scenario.hosts:,}", f"{best.user_s:.3f}"]
        cells += [f"{best.peak_mb:.1f}", f"{each:.1f}", str(repeats)]
        print("| " + " | ".join(cells) + " |", flush=True)


def accuracy(folder: Path, flows: int) -> None:
    """Print times and errors of approximate simulations, compared with the exact one."""
    ours = build_ours()
    print(f"machine: {machine()}\nseed: {SEED}    {flows:,} flows in 10 s, 10,000 hosts in 250 racks\n")
    rng = random.Random(SEED)
    drawn = []
    for _ in range(flows):
        source, target = rng.sample(range(10_000), 2)
        start_s = round(rng.random() * 10.0, 6)
        # At a million, the uplinks get 1.5 times the traffic that they carry, and a backlog grows.
        size = int(math.exp(rng.gauss(math.log(3e6 * 1_000_000 / flows), 1.0))) + 1
        drawn.append((start_s, source, target, size))
    drawn.sort()
    path = folder / "flows.csv"
    write_flows(path, [(source, target, size, start_s) for start_s, source, target, size in drawn])
    print("| accuracy | s | times as fast | makespan off by | mean completion off by | a flow off by, 99 % of them |")
    print("|---|---|---|---|---|---|")
    exact: Run | None = None
    for share in (0.0, 0.001, 0.01, 0.05):
        done = run(ours, path, 250, 10_000, HOST_BPS, UPLINK_BPS, share)
        exact = exact or done
        took = [(done.finish_s[str(n)] - row[0], exact.finish_s[str(n)] - row[0]) for n, row in enumerate(drawn)]
        off = sorted(abs(own / right - 1) for own, right in took)
        mean = sum(own for own, _ in took) / sum(right for _, right in took) - 1
        makespan = max(done.finish_s.values()) / max(exact.finish_s.values()) - 1
        cells = [f"{share:g}", f"{done.user_s:.2f}", f"{exact.user_s / done.user_s:.1f}", f"{makespan:.3%}"]
        print("| " + " | ".join([*cells, f"{mean:.3%}", f"{off[int(0.99 * len(off))]:.3%}"]) + " |", flush=True)


def golden(folder: Path) -> None:
    """Write the golden files: three small workloads on 1 Gbit/s hosts and 1.5 Gbit/s uplinks."""
    simgrid = build_simgrid(folder)
    if simgrid is None:
        sys.exit(1)
    rng = random.Random(SEED)

    def drawn(count: int, hosts: int, window_s: float) -> list[Flow]:
        pairs = [rng.sample(range(hosts), 2) for _ in range(count)]
        starts = sorted(round(rng.uniform(0, window_s), 6) for _ in pairs)
        return [(s, t, rng.randint(10_000, 50_000_000), at) for (s, t), at in zip(pairs, starts, strict=True)]

    random_flows = drawn(200, 16, 2.0)
    caps = [rng.choice([0.0, 0.0, 5e6, 2e7, 1e8]) for _ in random_flows]
    overload = drawn(400, 32, 0.5)
    shuffle = [(s, t, 1_000_000 * (1 + (s * 5 + t) % 3), 0.0) for s in range(12) for t in range(12) if s != t]
    target = ROOT / "crates" / "fluid" / "tests" / "fluid" / "golden"
    for name, flows, caps_bps, hosts, racks in [
        ("random", random_flows, caps, 16, 4),
        ("overload", overload, None, 32, 4),
        ("shuffle", shuffle, None, 12, 3),
    ]:
        path = target / f"{name}.flows.csv"
        write_flows(path, flows, caps_bps)
        done = run(simgrid, path, racks, hosts, 1e9, 1.5e9)
        path.with_suffix(".finish").unlink()
        with (target / f"{name}.simgrid.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["id", "finish_s"])
            writer.writerows((i, f"{t:.9f}") for i, t in done.finish_s.items())


def main() -> None:
    """Run the requested part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["compare", "growth", "accuracy", "golden"], default="compare")
    parser.add_argument("--flows", type=int, default=1_000_000, help="of `accuracy`")
    parser.add_argument("--full", action="store_true", help="with the overloaded lists")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.what == "golden":
            golden(folder)
        elif arguments.what == "accuracy":
            accuracy(folder, arguments.flows)
        elif arguments.what == "growth":
            growth(folder)
        else:
            compare(NORMAL + (OVERLOADED if arguments.full else []), folder)


if __name__ == "__main__":
    main()
