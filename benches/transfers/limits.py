"""Limits of transfers: a submit of many flows, an interrupt of the controller, and runs at once on a starved machine.

`submit` starts `gavotte transfers serve` in a lab of three hosts, submits a table of `--flows` flows, interrupts the
controller while it carries them, and prints the seconds of each. It does the same with flows that all have different ends,
between hosts whose agents do not exist.

`starved` runs `--at-once` shuffles while `--burners` loops use the processors, and prints how many of the runs lost a host.
The shuffles take much longer than the shortest lease.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benches.machine import machine

from gavotte import lab
from gavotte.agents.fleet import LEAST_LEASE_S
from gavotte.errors import GavotteError
from gavotte.formats.network import write_network
from gavotte.formats.topology import FORMAT, Topology
from gavotte.transfer.planning import nothing_known

NAMES = ("a", "b", "c")
MBIT = 20.0
LIMIT_S = 120.0
GAVOTTE = str(Path(sys.executable).with_name("gavotte"))


@dataclass(frozen=True)
class Took:
    """Seconds that something took, and those in which it had a processor."""

    wall_s: float
    processor_s: float

    def __str__(self) -> str:
        return f"{self.wall_s:.2f} s ({self.processor_s:.2f} s of a processor)"


def children_s() -> float:
    """Return the processor time of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def process_s(number: int) -> float:
    """Return the processor time of a running process."""
    fields = Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cloud() -> Topology:
    """Return a lab of three hosts."""
    hosts = [{"name": name, "switch": "core", "egress": f"{MBIT}mbit", "ingress": f"{MBIT}mbit"} for name in NAMES]
    return Topology.model_validate({"format": FORMAT, "switch": [{"name": "core"}], "host": hosts})


def table(path: Path, flows: Sequence[tuple[str, str, int]]) -> Path:
    """Write flows as `gavotte` reads them."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("source", "target", "bytes"), *flows])
    return path


def interrupted(hosts: Path, names: Sequence[str], flows: Path, folder: Path) -> tuple[Took, Took]:
    """Serve, submit, wait a second and interrupt. Return the seconds of both."""
    socket, network = folder / "t.sock", folder / "n.network.json"
    write_network(network, nothing_known(names))
    serve: list[str | Path] = [
        GAVOTTE,
        "transfers",
        "serve",
        "--hosts",
        hosts,
        "--network",
        network,
        "--socket",
        socket,
    ]
    serve += ["--store", folder / "q.sqlite3"]
    with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True) as controller:
        try:
            while not socket.exists():
                if controller.poll() is not None:
                    raise GavotteError(f"the controller has ended: {controller.communicate()[1].strip()[-300:]}")
                time.sleep(0.05)
            start = children_s()
            submit: list[str | Path] = [GAVOTTE, "transfers", "submit", flows, "--socket", socket, "--json"]
            before, begin = children_s(), time.monotonic()
            done = subprocess.run(submit, capture_output=True, text=True, check=False, timeout=LIMIT_S)
            submitted = Took(time.monotonic() - begin, children_s() - before)
            if done.returncode:
                raise GavotteError(f"the submit has failed: {done.stderr.strip()[-300:]}")
            time.sleep(1.0)
            before, begin = process_s(controller.pid), time.monotonic()
            controller.send_signal(signal.SIGINT)
            controller.communicate(timeout=LIMIT_S)
            end_s = time.monotonic() - begin
            # The controller is the one child that has ended since.
            return submitted, Took(end_s, children_s() - start - submitted.processor_s - before)
        finally:
            controller.kill()


def submits(count: int, base: Path) -> None:
    """Submit tables of many flows, with few and with different ends."""
    with lab.session(cloud(), source="bench") as session:
        ends = list(itertools.permutations(NAMES, 2))
        flows = table(base / "few.csv", [(*ends[number % len(ends)], 100) for number in range(count)])
        (base / "few").mkdir()
        report(
            f"{count} flows, {len(ends)} different ends",
            *interrupted(Path(session.hosts_file), NAMES, flows, base / "few"),
        )
    names = [f"h{number}" for number in range(next(n for n in itertools.count(2) if n * (n - 1) >= count))]
    hosts = base / "far.hosts.toml"
    lines = [
        f'[[host]]\nname = "{name}"\naddress = "10.9.{number // 250}.{number % 250 + 1}"\nagent = "unix:{base}/{name}.sock"\n'
        for number, name in enumerate(names)
    ]
    hosts.write_text('format = "gavotte/hosts/1"\n' + "\n".join(lines))
    pairs = itertools.islice(itertools.permutations(names, 2), count)
    flows = table(base / "different.csv", [(*pair, 100) for pair in pairs])
    (base / "different").mkdir()
    report(f"{count} flows, all with different ends", *interrupted(hosts, names, flows, base / "different"))


def report(what: str, submitted: Took, ended: Took) -> None:
    """Print the result of one table."""
    print(f"{what}: submit {submitted}, end after SIGINT {ended}", flush=True)


def starved(at_once: int, burners: int, mb: float, base: Path) -> None:
    """Run shuffles at once next to loops that use the processors."""
    flows = table(base / "starved.csv", [("a", "b", int(mb * 1e6)), ("b", "c", int(mb * 1e6))])
    with lab.session(cloud(), source="bench") as session:
        shuffle = [GAVOTTE, "shuffle", flows, "--hosts", session.hosts_file, "--json"]
        loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(burners)]
        try:
            begin = time.monotonic()
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            runs = [subprocess.Popen(shuffle, **pipes) for _ in range(at_once)]  # type: ignore[call-overload]
            results = [(run, *run.communicate(timeout=10 * LIMIT_S)) for run in runs]
            took_s = time.monotonic() - begin
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
    kept = [run for run, _, _ in results if run.returncode == 0]
    print(
        f"{len(kept)} of {at_once} runs kept their hosts for {took_s:.1f} s, next to {burners} loops; lease {LEAST_LEASE_S:g} s"
    )
    for run, out, err in results:
        moved = f"moved {json.loads(out)['bytes']} bytes" if run.returncode == 0 else err.strip()[-300:]
        print(f"  exit {run.returncode}: {moved}", flush=True)


def main(words: Sequence[str]) -> None:
    """Run the requested cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["submit", "starved"], nargs="*", default=["submit", "starved"])
    parser.add_argument("--flows", type=int, default=300_000)
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--burners", type=int, default=16)
    parser.add_argument("--mb", type=float, default=10.0, help="of each flow of a shuffle")
    given = parser.parse_args(words)
    print(machine())
    base = Path(tempfile.mkdtemp(prefix="gv", dir="/tmp"))
    try:
        if "submit" in given.only:
            submits(given.flows, base)
        if "starved" in given.only:
            starved(given.at_once, given.burners, given.mb, base)
    finally:
        shutil.rmtree(base, ignore_errors=True)
