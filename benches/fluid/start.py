"""The start-up time of commands: CPU time of `gavotte simulate` and `gavotte place` on two hosts, with a transfer.

    python -m benches.fluid start [--runs 12]

The least of the runs counts, since other work on the machine only adds time. Python alone and Python with numpy are for
comparison.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from benches.machine import machine

GOALS_S = {
    "gavotte --version": 0.05,
    "simulate": 0.3,
    "simulate --json": 0.3,
    "place --method greedy": 0.2,
    "place": 0.2,
    "place, to be proven": 0.2,
}
"""Most CPU seconds of each command, on a quiet machine."""

TOPOLOGY = """format = "gavotte/topology/1"
[[switch]]
name = "core"
[[host]]
name = "a"
switch = "core"
rate = "8mbit"
[[host]]
name = "b"
switch = "core"
rate = "8mbit"
"""
FLOWS = "id,source,target,bytes,start_s\n0,a,b,1000000,0\n"
NETWORK = {
    "format": "gavotte/network/1",
    "hosts": [{"name": "a", "egress_bps": 8e6}, {"name": "b", "egress_bps": 8e6}],
    "sharing": "hose",
}
APP = """format = "gavotte/app/1"
name = "copy"
task = [{ name = "from" }, { name = "to" }]
transfer = [{ source = "from", target = "to", bytes = 1000000 }]
"""
RING = """format = "gavotte/app/1"
name = "ring"
task = [{ name = "a", cpus = 0.5 }, { name = "b", cpus = 0.5 }, { name = "c", cpus = 0.5 }]
transfer = [
    { source = "a", target = "b", bytes = 50000000 },
    { source = "b", target = "c", bytes = 40000000 },
    { source = "c", target = "a", bytes = 30000000 },
]
"""


def main(arguments: Sequence[str]) -> None:
    """Print a row for each command."""
    parser = argparse.ArgumentParser(prog="bench-fluid start")
    parser.add_argument("--runs", type=int, default=12)
    options = parser.parse_args(arguments)
    gavotte = str(Path(sys.executable).with_name("gavotte"))
    commands = {
        "python": [sys.executable, "-c", "pass"],
        "python with numpy": [sys.executable, "-c", "import numpy"],
        "gavotte --version": [gavotte, "--version"],
        "simulate": [gavotte, "simulate", "t.topology.toml", "f.csv"],
        "simulate --json": [gavotte, "simulate", "t.topology.toml", "f.csv", "--json"],
        "place --help": [gavotte, "place", "--help"],
        "place --method greedy": [gavotte, "place", "n.network.json", "a.app.toml", "--method", "greedy"],
        "place": [gavotte, "place", "n.network.json", "a.app.toml"],
        "place, to be proven": [gavotte, "place", "n.network.json", "ring.app.toml"],
    }
    spent: dict[str, list[float]] = {known: [] for known in commands}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "t.topology.toml").write_text(TOPOLOGY)
        Path(folder, "f.csv").write_text(FLOWS)
        Path(folder, "n.network.json").write_text(json.dumps(NETWORK))
        Path(folder, "a.app.toml").write_text(APP)
        Path(folder, "ring.app.toml").write_text(RING)
        for run in range(-1, options.runs):
            for known, words in commands.items():
                cpu_s = _cpu_s(words, folder)
                if run >= 0:  # the first one also writes bytecode
                    spent[known].append(cpu_s)
    print(f"{machine()}\nCPU seconds of whole processes, {options.runs} runs in turn")
    print(f"{'command':<22} {'least':>7} {'median':>7} {'goal':>7}")
    for known, values in spent.items():
        goal_s = GOALS_S.get(known)
        verdict = "" if goal_s is None else f" {goal_s:>7.2f} {'met' if min(values) <= goal_s else 'MISSED'}"
        print(f"{known:<22} {min(values):>7.3f} {np.median(values):>7.3f}{verdict}")


def _environment(folder: str) -> dict[str, str]:
    """Return this process's environment, in which Python keeps its bytecode below a folder as after an installation."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": folder}


def _cpu_s(words: Sequence[str], folder: str) -> float:
    """Return the CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    quiet = subprocess.DEVNULL
    subprocess.run(words, cwd=folder, stdout=quiet, stderr=quiet, check=True, env=_environment(folder))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
