"""Broadcasts in the lab beside what else brings a file to many hosts; prints how many times the lower bound each took.

The bound is the object over the slowest necessary port at the goodput of one TCP hop (1448/1514 of the wire rate), as the
topology says, so that no measurement is in it. Ways are interleaved, and each line says what share of the
processors was idle meanwhile: where that is little, the processor is measured and not the network.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benches.machine import machine, processor_times
from benches.mpi import available, launch

from gavotte import lab
from gavotte.errors import GavotteError
from gavotte.formats.inventory import read_inventory
from gavotte.formats.network import Network
from gavotte.formats.topology import FORMAT, Topology
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.transfer import broadcast, plan_broadcast

CASES = ("equal", "slow", "mixed", "racks", "death")
PRINTED = {
    "equal": "equal uplinks",
    "slow": "one uplink at a quarter",
    "mixed": "mixed uplinks",
    "racks": "three racks",
}
PRINTED["death"] = "a relay dies half-way"
OURS = ("auto", "chain", "tree", "binomial", "mesh", "cornet", "topology", "clustering")
PEERS = ("http", "openmpi", "openmpi-pipeline")
PORT = 8000
LIMIT_S = 300.0

MPI = """
import hashlib, json, sys, time
import numpy as np
from mpi4py import MPI
world, path, size = MPI.COMM_WORLD, sys.argv[1], int(sys.argv[2])
data = np.fromfile(path, np.uint8) if world.rank == 0 else np.empty(size, np.uint8)
world.Barrier()
begin = time.monotonic()
world.Bcast(data, 0)
took = world.gather((time.monotonic() - begin, hashlib.blake2b(data).hexdigest()))
if world.rank == 0:
    print(json.dumps({"seconds": [each[0] for each in took[1:]], "same": len({each[1] for each in took}) == 1}))
"""

FETCH = """
import shutil, sys, time, urllib.request
begin = time.monotonic()
with urllib.request.urlopen(sys.argv[1], timeout=280) as reply, open(sys.argv[2], "wb") as copy:
    shutil.copyfileobj(reply, copy, 1 << 16)
print(time.monotonic() - begin)
"""


@dataclass(frozen=True)
class Case:
    """A cloud, what its ports carry, and who has the object."""

    topology: Topology
    network: Network


def case(kind: str, receivers: int, rate_mbit: float, *, seed: int) -> Case:
    """The source and so many receivers.

    They are equal (in the case of a death, too), one has a quarter of the uplink, all are mixed, or they are in three racks.
    """
    draw = random.Random(seed)
    names = [f"h{i}" for i in range(receivers + 1)]
    up = dict.fromkeys(names, rate_mbit)
    if kind == "slow":
        up[names[len(names) // 2]] = rate_mbit / 4
    if kind == "mixed":
        up = {name: rate_mbit * draw.choice([0.4, 0.7, 1.0]) for name in names}
        up["h0"] = rate_mbit
    racks = 3 if kind == "racks" else 1
    # The line between racks carries what two hosts can send.
    line_mbit = 2 * rate_mbit
    place = {name: (number - 1) % racks if number else 0 for number, name in enumerate(names)}
    switches: list[dict[str, Any]] = [{"name": "core"}]
    if racks > 1:
        switches += [{"name": f"rack{r}", "parent": "core", "up": f"{line_mbit}mbit"} for r in range(racks)]
    hosts = [
        {
            "name": name,
            "switch": f"rack{place[name]}" if racks > 1 else "core",
            "egress": f"{up[name]}mbit",
            "ingress": f"{rate_mbit}mbit",
            "cpus": 4.0,
        }
        for name in names
    ]
    goodput = 1e6 * GOODPUT_PER_WIRE
    groups = [
        {
            "name": f"rack{r}",
            "members": [name for name in names if place[name] == r],
            "up_bps": line_mbit * goodput,
            "down_bps": line_mbit * goodput,
        }
        for r in range(racks)
    ]
    unknown: list[list[None]] = [[None] * len(names) for _ in names]
    network = {
        "format": "gavotte/network/1",
        "hosts": [
            {"name": name, "egress_bps": up[name] * goodput, "ingress_bps": rate_mbit * goodput} for name in names
        ],
        "rate_bps": unknown,
        "latency_s": unknown,
        "groups": groups if racks > 1 else [],
        "sharing": "groups" if racks > 1 else "hose",
    }
    return Case(
        Topology.model_validate({"format": FORMAT, "switch": switches, "host": hosts}), Network.model_validate(network)
    )


def kill(session: lab.Session, name: str) -> None:
    """Ends a host's agent, as a crash would."""
    mark = f"{session.folder}/{name}.sock"
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                if mark in (folder / "cmdline").read_text().split("\0"):
                    os.kill(int(folder.name), signal.SIGKILL)


def ours(
    session: lab.Session, cloud: Case, file: Path, scratch: Path, *, mechanism: str, dying: str | None = None
) -> list[float]:
    """Seconds of each receiver by one of our mechanisms; without that of one that dies when it has half."""
    watched: list[str] = []

    def watch(name: str, held: int, total: int) -> None:
        if name == dying and 2 * held >= total and not watched:
            watched.append(name)
            kill(session, name)

    result = broadcast(
        str(file),
        read_inventory(session.hosts_file),
        "h0",
        str(scratch / "copy-{host}"),
        network=cloud.network,
        mechanism=mechanism,  # type: ignore[arg-type]
        max_seconds=LIMIT_S,
        times=scratch.parent / "times.json",
        watch=watch,
    )
    if set(result.lost) != set(watched):
        raise GavotteError(f"{mechanism} lost {result.lost}")
    return [each.finish_s for each in result.receivers if each.finish_s is not None]


def http(session: lab.Session, cloud: Case, file: Path, scratch: Path) -> list[float]:
    """Seconds of each receiver that fetches from one HTTP server, all at once."""
    address = next(host.address for host in read_inventory(session.hosts_file).host if host.name == "h0")
    serve = [sys.executable, "-m", "http.server", str(PORT), "--directory", str(file.parent)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = session.exec("h0", serve, **quiet)
    try:
        time.sleep(1.0)
        url = f"http://{address}:{PORT}/{file.name}"
        fetching = [
            session.exec(
                name, [sys.executable, "-c", FETCH, url, str(scratch / f"copy-{name}")], stdout=subprocess.PIPE
            )
            for name in cloud.network.names[1:]
        ]
        return [float(each.communicate(timeout=LIMIT_S)[0]) for each in fetching]
    finally:
        server.kill()
        server.wait()


def openmpi(session: lab.Session, cloud: Case, file: Path, scratch: Path, *, pipeline: bool) -> list[float]:
    """Seconds of each rank in `MPI_Bcast`, by default or pipelined in pieces of 16 kB; connections are made before."""
    program = scratch / "bcast.py"
    program.write_text(MPI)
    tuned = {
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_coll_tuned_bcast_algorithm": "3",
        "OMPI_MCA_coll_tuned_bcast_algorithm_segmentsize": "16384",
    }
    done = launch(
        session,
        "openmpi",
        [program, file, str(file.stat().st_size)],
        ranks=cloud.network.names,
        scratch=scratch,
        environment=tuned if pipeline else {},
        timeout_s=LIMIT_S,
        calm=True,
    )
    if done.returncode:
        raise GavotteError(f"Open MPI failed: {done.stderr.strip()[-200:]}")
    told = json.loads(done.stdout.strip().splitlines()[-1])
    if not told["same"]:
        raise GavotteError("Open MPI's ranks have different bytes")
    return [float(each) for each in told["seconds"]]


def ways(wanted: list[str], dying: str | None) -> dict[str, Callable[..., list[float]]]:
    """What carries out each way, as far as it is installed."""
    found: dict[str, Callable[..., list[float]]] = {}
    for name in wanted:
        if name == "http":
            found[name] = http
        elif name.startswith("openmpi"):
            if not available("openmpi"):
                print(f"{name}: not installed")
                continue
            found[name] = partial(openmpi, pipeline=name != "openmpi")
        else:
            found[name] = partial(ours, mechanism=name, dying=dying)
    return found


@contextmanager
def folder(parent: Path) -> Iterator[Path]:
    """A folder that is gone afterwards."""
    path = Path(tempfile.mkdtemp(dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def record(folder: Path, rows: list[list[str]], about: str, given: argparse.Namespace) -> None:
    """Writes the numbers as `bench-figures` reads them."""
    words = ["--case", *given.case, "--receivers", *map(str, given.receivers), "--runs", str(given.runs)]
    words += ["--ways", *given.ways]
    figure = {
        "title": "Broadcast",
        "command": f'make bench-broadcast ARGS="{" ".join(words)}"',
        "machine": about,
        "date": time.strftime("%Y-%m-%d"),
        "seed": str(given.seed),
        "samples": f"{given.runs} runs each, {given.mb:g} MB at {given.mbit:g} Mbit/s",
        "plot": {"kind": "bars", "columns": [1], "unit": "last receiver, times the lower bound"},
        "columns": ["case and way", "x bound, median", "all runs", "last / median receiver", "least idle share"],
        "rows": rows,
    }
    path = folder / "orchestra-broadcast.json"
    path.write_text(json.dumps(figure, indent=1, ensure_ascii=False) + "\n", "utf-8")


def main() -> None:
    """Runs the ways in turn and prints each one's times over the bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES, nargs="*", default=list(CASES))
    parser.add_argument("--receivers", type=int, nargs="*", default=[10, 25])
    parser.add_argument("--mbit", type=float, default=20.0, help="rate of a port")
    parser.add_argument("--mb", type=float, default=10.0, help="size of the object")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--ways", nargs="*", choices=[*OURS, *PEERS], default=["auto", "mesh", "cornet", *PEERS])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, help="write every receiver's time as JSON lines")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    given = parser.parse_args()
    about_machine = machine()
    print(about_machine, f"seed {given.seed}", sep="\n")
    lines: list[str] = []
    rows: list[list[str]] = []
    with folder(Path(tempfile.gettempdir())) as base:
        file = base / "object"
        file.write_bytes(random.Random(given.seed).randbytes(int(given.mb * 1e6)))
        for kind in given.case:
            for receivers in given.receivers:
                cloud = case(kind, receivers, given.mbit, seed=given.seed)
                plan = plan_broadcast(cloud.network, "h0", cloud.network.names[1:], file.stat().st_size)
                assert plan.bound_s is not None
                print(
                    f"{kind}, {receivers} receivers: bound {plan.bound_s:.3f} s by {plan.port}, auto = {plan.mechanism}"
                )
                runs: dict[str, list[tuple[list[float], float]]] = {}
                # A host that has died is no host for the next run.
                dying = cloud.network.names[len(cloud.network.names) // 2] if kind == "death" else None
                sessions = given.runs if dying else 1
                for first in range(sessions):
                    with lab.session(cloud.topology, source="bench") as session:
                        for run in [first] if dying else range(given.runs):
                            for name, way in ways(given.ways[:1] if dying else given.ways, dying).items():
                                with folder(base) as scratch:
                                    before = processor_times()
                                    try:
                                        seconds = way(session, cloud, file, scratch)
                                    except (GavotteError, subprocess.TimeoutExpired, ValueError) as error:
                                        print(f"  {name}: run {run} failed: {error}")
                                        continue
                                    after = processor_times()
                                idle = (after[1] - before[1]) / max(1.0, after[0] - before[0])
                                runs.setdefault(name, []).append((seconds, idle))
                                about = {"case": kind, "receivers": receivers, "way": name, "run": run, "idle": idle}
                                lines.append(json.dumps(about | {"bound_s": plan.bound_s, "seconds": seconds}))
                for name, done in runs.items():
                    lasts = [max(seconds) for seconds, _ in done]
                    spread = statistics.median(max(s) / statistics.median(s) for s, _ in done)
                    print(
                        f"  {name:18} {statistics.median(lasts) / plan.bound_s:6.2f} x bound "
                        f"({min(lasts) / plan.bound_s:.2f} to {max(lasts) / plan.bound_s:.2f}, n = {len(lasts)}), "
                        f"last / median receiver {spread:.2f}, idle {min(idle for _, idle in done):.0%}",
                        flush=True,
                    )
                    over = [last / plan.bound_s for last in lasts]
                    rows.append(
                        [
                            f"{PRINTED[kind]}, {receivers} receivers: `{name}`",
                            f"{statistics.median(over):.2f}",
                            f"{min(over):.2f} to {max(over):.2f}",
                            f"{spread:.2f}",
                            f"{min(idle for _, idle in done):.0%}",
                        ]
                    )
    if given.record is not None:
        record(given.record, rows, about_machine, given)
    if given.output is not None:
        given.output.write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    os.environ.setdefault("XDG_CACHE_HOME", tempfile.gettempdir())
    main()
