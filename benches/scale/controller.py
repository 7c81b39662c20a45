"""What a controller spends on many agents.

    make bench-scale ARGS="controller [--sizes 1000 2000 4000 10000]"

All agents are real ones, in a few processes on this machine, each with an address, a control socket and a data port of its
own. With up to `--most-direct` agents, the controller also calls each of them itself. Otherwise some agents forward calls.

Times are the controller's processor seconds. *connect* opens all connections and asks each agent for its health. *enrol* lets
all agents know each other. *call* is one short call to all agents, the median of five. *round* is one round in which each
agent sends a byte to the next one and back. The agents need 1 ms each of this machine, so that with more than `--most-round` of
them, others would wait in vain. *failed* are probes of that round without a result.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path

from benches.machine import machine
from benches.recorded import command_line, write_figure

from gavotte.agents import Budget, Fleet, forwarding, reaching
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.schedule import Step, carry_out
from gavotte.formats.inventory import FORMAT, Inventory

ROOT = Path(__file__).parents[2]
MANY = ROOT / "target" / "release" / "examples" / "many"
FIRST = IPv4Address("127.64.0.0")
A_PROCESS = 1000
"""Agents of one process. An agent takes up to ten file descriptors, of which a process may have 20,000."""

CALLS = 5
SECONDS = 900.0
WAIT_S = 120.0
COLUMNS = ["agents", "connect", "enrol", "call", "round", "failed", "peak MB"]
WIDTHS = [30, 9, 9, 9, 9, 7, 8]
GOAL = ["goal for 10,000", "", "", "", "at most 1 s", "", "at most 1,000"]


@contextmanager
def agents(count: int) -> Iterator[Inventory]:
    """Run agents; yield their inventory."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        folder = Path(place)
        starts = range(0, count, A_PROCESS)
        lines = [[str(MANY), place, str(first), str(min(A_PROCESS, count - first))] for first in starts]
        processes = [subprocess.Popen(line, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) for line in lines]
        try:
            until_s = time.monotonic() + WAIT_S
            while len(list(folder.iterdir())) < count:
                if time.monotonic() > until_s:
                    raise SystemExit("the agents do not start")
                time.sleep(0.1)
            hosts = [
                {"name": f"h{number:05}", "address": str(FIRST + number), "agent": f"unix:{folder}/{number}.sock"}
                for number in range(count)
            ]
            yield Inventory.model_validate({"format": FORMAT, "host": hosts})
        finally:
            for process in processes:
                assert process.stdin is not None
                process.stdin.close()
                process.wait()


def spent(count: int, *, direct: bool, probes: bool) -> dict[str, float]:
    """Return the controller's processor seconds of each step, its peak memory in MB, and the failed probes."""
    forwarding.DIRECT = count if direct else forwarding.DIRECT
    seconds: dict[str, float] = {}
    with agents(count) as inventory, reaching(inventory) as reach:
        begin_s = time.process_time()
        fleet = Fleet(inventory, reach, purpose="bench", shared=True)
        fleet.check()
        seconds["connect"], begin_s = time.process_time() - begin_s, time.process_time()
        fleet.enrol(Budget(10**9, SECONDS))
        fleet.attend()
        seconds["enrol"] = time.process_time() - begin_s
        assert len(fleet.hosts) == count, fleet.missing
        calls = []
        for _ in range(CALLS):
            begin_s = time.process_time()
            fleet.renew()
            calls.append(time.process_time() - begin_s)
            assert not fleet.silent
        seconds["call"] = statistics.median(calls)
        if probes:
            names = [host.name for host in fleet.hosts]
            ring = zip(names, [*names[1:], names[0]], strict=True)
            steps = [Step(source, target, pb.Probe(echo=pb.Echo(bytes=1))) for source, target in ring]
            begin_s = time.process_time()
            answers = list(carry_out(fleet, [steps], round_s=30.0))
            seconds["round"] = time.process_time() - begin_s
            seconds["failed"] = sum(bool(answer.error) for answer in answers)
        fleet.release()
    seconds["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return seconds


def cells(count: int, *, direct: bool, probes: bool) -> list[str]:
    """Measure in a process of its own. Return the row of the table."""
    words = [str(count), *["--direct"] * direct, *["--probes"] * probes]
    line = [sys.executable, "-m", "benches.scale.controller", "one", *words]
    done = subprocess.run(line, stdout=subprocess.PIPE, check=True, cwd=ROOT)
    got = json.loads(done.stdout)
    times = [f"{got[name]:.2f} s" if name in got else "not run" for name in ("connect", "enrol", "call", "round")]
    failed = f"{got['failed']:.0f}" if "failed" in got else ""
    name = f"{count:,}, each called" if direct else f"{count:,}, calls forwarded"
    return [name, *times, failed, f"{got['peak']:,.0f}"]


def main(arguments: list[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 2000, 4000, 10_000], help="numbers of agents")
    parser.add_argument("--most-direct", type=int, default=2000, help="most agents that the controller calls itself")
    parser.add_argument("--most-round", type=int, default=4000, help="most agents that have a round of probes")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    args = parser.parse_args(arguments)
    subprocess.run(
        ["cargo", "build", "--quiet", "--release", "--locked", "--package", "gavotte-agent", "--example", "many"],
        check=True,
        cwd=ROOT,
    )
    about = machine()
    print(about)
    table = [GOAL]
    for row in (COLUMNS, GOAL):
        print(" ".join(f"{cell:>{width}}" for cell, width in zip(row, WIDTHS, strict=True)), flush=True)
    for count in args.sizes:
        for direct in (True, False):
            if not direct or count <= args.most_direct:
                table.append(cells(count, direct=direct, probes=count <= args.most_round))
                print(" ".join(f"{cell:>{width}}" for cell, width in zip(table[-1], WIDTHS, strict=True)), flush=True)
    if args.record is not None:
        write_figure(
            args.record / "many-hosts-controller.json",
            title="What a controller spends on many agents: a call to all of them",
            command=command_line("scale", args.record),
            seed="none",
            samples="one run of each row, five calls",
            about=about,
            columns=COLUMNS,
            rows=table,
            plot={"kind": "bars", "columns": [COLUMNS.index("call")], "unit": "processor seconds"},
        )


def one(arguments: list[str]) -> None:
    """Measure one row, and print it as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("--direct", action="store_true")
    parser.add_argument("--probes", action="store_true")
    args = parser.parse_args(arguments)
    print(json.dumps(spent(args.count, direct=args.direct, probes=args.probes)))


if __name__ == "__main__":
    one(sys.argv[2:])
