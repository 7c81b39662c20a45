"""Measures all pairs while other traffic fills every uplink, and without it: answered paths and time.

Hosts of 30 Mbit/s are in four racks with uplinks of 100, whose queues of 1 MB hold 80 ms. The other traffic is eight
CUBIC connections between the racks, two out of each.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.formats.topology import FORMAT, Topology
from gavotte.measure import METHODS, Measurement, measure
from gavotte.measure.plan.methods.bulk import bulk
from gavotte.measure.plan.methods.method import Method

RACKS, OTHERS = 4, 8
BULK_S = 0.5
SETTLE_S = 2.0
MOST_S = 600.0
GOAL = 1.3


def cloud_of(hosts: int) -> Topology:
    """Return hosts and other senders in turn behind the racks' uplinks."""
    own = [{"name": f"vm{i}", "switch": f"rack{i % RACKS}", "egress": "30mbit"} for i in range(hosts)]
    racks = [{"name": f"rack{i}", "parent": "core", "up": "100mbit", "queue": "1mb"} for i in range(RACKS)]
    others = [{"name": f"x{i}", "switch": f"rack{i % RACKS}"} for i in range(OTHERS)]
    return Topology.model_validate({"format": FORMAT, "switch": [{"name": "core"}, *racks], "host": own + others})


@contextmanager
def _ended(processes: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    try:
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def main(asked: argparse.Namespace) -> None:
    """Print a line for each method."""
    program = [sys.executable, str(Path(__file__).with_name("source.py"))]
    methods: dict[str, Method] = {"train": METHODS["train"], "bulk": bulk(seconds=BULK_S)}
    print(
        f"uplinks that others fill: {asked.hosts} hosts in {RACKS} racks; goal for the seconds: {GOAL} times the quiet ones"
    )
    print(f"{'method':<8} {'others':<8} {'paths':>9} {'by TCP':>7} {'seconds':>8} {'MB':>7} {'times':>6}")
    with lab.session(cloud_of(asked.hosts), source="bench-cross") as session:
        inventory = read_inventory(session.hosts_file)
        own = inventory.model_copy(update={"host": [host for host in inventory.host if host.name.startswith("vm")]})
        sinks = [session.exec(f"x{i}", [*program, "sink"]) for i in range(OTHERS)]
        with _ended(sinks):
            time.sleep(SETTLE_S)
            for name, method in methods.items():
                quiet = measure(own, method=method, seed=asked.seed)
                with _ended(
                    [
                        session.exec(f"x{i}", [*program, "full", f"x{(i + 1) % OTHERS}", str(MOST_S)])
                        for i in range(OTHERS)
                    ]
                ):
                    time.sleep(SETTLE_S)
                    full = measure(own, method=method, seed=asked.seed)
                _line(name, "none", quiet, quiet)
                _line(name, "full", full, quiet)


def _line(method: str, others: str, result: Measurement, quiet: Measurement) -> None:
    print(
        f"{method:<8} {others:<8} {f'{result.answered}/{result.paths}':>9} {len(result.busy):>7} {result.seconds:>8.1f} "
        f"{result.bytes_sent / 1e6:>7.0f} {result.seconds / quiet.seconds:>6.2f}  {result.stopped}",
        flush=True,
    )
