"""Takes the processor time that commands need to start: the least of several runs, in turns.

    make bench-start [ARGS="--runs 5"]

Each command does as little as its verb can: on eight hosts and six tasks, on an empty store, or without any host. The
goal is 0.2 s for each and 0.05 s for `--version`. The last rows are what Python and the libraries take alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from benches.machine import machine

from gavotte.formats.app import App, write_app
from gavotte.formats.network import Network, write_network
from gavotte.store import open_store

GAVOTTE = str(Path(sys.executable).with_name("gavotte"))
GOAL_S, VERSION_GOAL_S = 0.2, 0.05
USAGE = 2
COMMANDS = (
    "--version",
    "--help",
    "config",
    "hosts list --hosts a,b",
    "schema network",
    "simulate p.placement.json a.app.toml --network n.network.json",
    "place n.network.json a.app.toml --method greedy",
    "export n.network.json --format topograph",
    "compare n.network.json n.network.json",
    "collective n.network.json --operation broadcast --bytes 1mb",
    "history list --store s.sqlite3",
    "transfers list",
    "guarantee status --hosts lab",
    "report --network n.network.json -o r.html",
)
LIBRARIES = ("sys", "typer", "pydantic", "numpy", "grpc", "sqlalchemy")


def prepare(folder: Path) -> None:
    """Write the files that the commands read."""
    rates = np.full((8, 8), 1e8)
    rates[:4, :4] = rates[4:, 4:] = 1e9
    sizes = np.random.default_rng(0).integers(1, 10**8, (6, 6))
    np.fill_diagonal(sizes, 0)
    write_network(folder / "n.network.json", Network.from_numpy([f"h{i}" for i in range(8)], rates))
    write_app(folder / "a.app.toml", App.from_numpy("started", sizes))
    with open_store(folder / "s.sqlite3"):
        pass
    placed = "place n.network.json a.app.toml --method greedy -o p.placement.json"
    subprocess.run([GAVOTTE, *placed.split()], cwd=folder, capture_output=True, check=True)


def cpu_s(words: list[str], folder: Path) -> float:
    """Run a command, and return its processor time."""
    before = os.times()
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    # With it, each run would compile all modules again, which no user's does.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode == USAGE:
        sys.exit(f"{' '.join(words)}: {done.stderr.decode()}")
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    """Print a row for each command, with the goal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="runs of each command (default: 5)")
    asked = parser.parse_args()
    lines = {f"gavotte {each}": [GAVOTTE, *each.split()] for each in COMMANDS}
    lines |= {f"python -c 'import {each}'": [sys.executable, "-c", f"import {each}"] for each in LIBRARIES}
    took: dict[str, list[float]] = {name: [] for name in lines}
    with tempfile.TemporaryDirectory() as made:
        prepare(Path(made))
        for _ in range(asked.runs):
            for name, words in lines.items():
                took[name].append(cpu_s(words, Path(made)))
    print(f"{'command':<62} {'least':>7} {'median':>7}  goal")
    for name, seconds in took.items():
        goal_s = VERSION_GOAL_S if name.endswith("--version") else GOAL_S
        verdict = ""
        if name.startswith("gavotte"):
            verdict = f"{goal_s:g} s, kept" if min(seconds) <= goal_s else f"{goal_s:g} s, missed"
        print(f"{name:<62} {min(seconds):>5.2f} s {float(np.median(seconds)):>5.2f} s  {verdict}")
    print(f"{asked.runs} interleaved runs; {machine()}")


if __name__ == "__main__":
    main()
