"""Runs commands on Networks of many hosts that caps and groups alone limit: no matrix, so memory grows with hosts.

    python -m benches.fluid hosts [--hosts 10000 100000] [--flows 1000000] [--tasks 10000] [--limit 10]

Racks have 40 hosts with 1 Gbit/s each behind an uplink of 20 Gbit/s. Flows are those of `run.py` (1 to 100 MB, uniform
pairs), over ten seconds for each flow that a host sends; the application is a stencil. Time and memory are those of
whole processes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from benches.fluid.run import SEED, Scenario, generate, write_flows
from benches.machine import machine
from benches.place.instances import cluster

from gavotte.formats.app import write_app
from gavotte.formats.network import FORMAT, Group, Host, Network, write_network

RACK = 40
HOST_BPS = 1e9
UPLINK_BPS = 20e9
CPUS = 4.0


def main(arguments: Sequence[str]) -> None:
    """Print a row for each command."""
    parser = argparse.ArgumentParser(prog="bench-fluid hosts")
    parser.add_argument("--hosts", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--flows", type=int, default=1_000_000)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--limit", type=float, default=10.0, help="time limit of `place`, in seconds")
    options = parser.parse_args(arguments)
    print(
        f"{machine()}\nseed {SEED}, {options.flows:,} flows, {options.tasks:,} tasks, racks of {RACK}, one run each\n"
    )
    print(f"{'hosts':>8} {'command':<34} {'wall s':>8} {'CPU s':>8} {'peak MB':>8}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for count in options.hosts:
            network, flows, app = folder / "n.network.json", folder / "flows.csv", folder / "a.app.json"
            write_network(network, of_racks(count))
            window_s = 10.0 * options.flows / count
            write_flows(flows, generate(Scenario(options.flows, window_s, count)))
            write_app(
                app, cluster("stencil", options.tasks, 2, options.tasks, np.random.default_rng(SEED), full=False)[1]
            )
            placed = folder / "p.placement.json"
            commands = {
                "simulate": ["simulate", network, flows],
                "simulate --accuracy 0.01": ["simulate", network, flows, "--accuracy", "0.01"],
                "place": ["place", network, app, "--time-limit", options.limit, "-o", placed],
                "simulate of the placement": ["simulate", placed, app, "--network", network],
            }
            print(f"{count:>8,} {f'{network.stat().st_size / 1e6:.1f} MB Network':<34}")
            for known, words in commands.items():
                wall_s, cpu_s, peak_mb = _timed([str(word) for word in words])
                print(f"{count:>8,} {known:<34} {wall_s:>8.2f} {cpu_s:>8.2f} {peak_mb:>8.0f}", flush=True)


def of_racks(count: int) -> Network:
    """Return hosts in racks, without a rate or latency of any pair."""
    hosts = [Host(name=f"h{m}", cpus=CPUS, egress_bps=HOST_BPS, ingress_bps=HOST_BPS) for m in range(count)]
    groups = [
        Group(
            name=f"rack{first // RACK}",
            members=[host.name for host in hosts[first : first + RACK]],
            up_bps=UPLINK_BPS,
            down_bps=UPLINK_BPS,
        )
        for first in range(0, count, RACK)
    ]
    return Network(format=FORMAT, hosts=hosts, groups=groups, sharing="groups")


_WRAPPED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
sys.stderr.write(done.stderr if done.returncode else "")
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
sys.exit(done.returncode)
"""
"""Starts a command from a small process: the kernel's account of a child's memory begins with its parent's."""


def _timed(words: list[str]) -> tuple[float, float, float]:
    """Return wall and CPU seconds and peak MB of a command."""
    command = [sys.executable, "-c", _WRAPPED, str(Path(sys.executable).with_name("gavotte")), *words]
    begin_s = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall_s = time.perf_counter() - begin_s
    if done.returncode != 0:
        sys.exit(f"gavotte {' '.join(words)} failed: {done.stderr}")
    cpu_s, peak_mb = map(float, done.stdout.split())
    return wall_s, cpu_s, peak_mb
