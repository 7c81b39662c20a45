"""Fig. 3 and 4: sources that come and go, and one connection's estimate of them, compared with the truth over time.

a: ten pairs over one link; `--rate` replaces the paper's 1 Gbit/s. b: links of hosts a tenth of that between switches,
the paper's 1 and 10 Gbit/s, and up to twenty sources. Fewer than ten others are not visible in b.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from gavotte import lab
from gavotte.formats.history import Floats
from gavotte.formats.inventory import read_inventory
from gavotte.formats.topology import FORMAT, Topology
from gavotte.measure.cross import CrossQuestion, CrossTraffic, cross
from gavotte.terms.goodput import GOODPUT_PER_WIRE

MEAN_S = 5.0
"""The paper's mean time on and off."""
SECONDS = 10.0
SETTLE_S = 2.0
"""Sources run for this long before the estimate."""
STEP_S = 0.5
"""Step of the rows printed."""
SOURCES = {"a": 9, "b": 20}


def cloud_of(figure: str, rate_bps: float, queue_s: float) -> Topology:
    """Return senders at one switch, receivers at the other."""
    queue = f"{int(rate_bps * queue_s / 8)}b"
    link = {"rate": f"{int(rate_bps / 10)}bit"} if figure == "b" else {}
    senders = [f"s{i}" for i in range(SOURCES[figure] + 1)]
    return Topology.model_validate(
        {
            "format": FORMAT,
            "switch": [
                {"name": "core"},
                {"name": "tor", "parent": "core", "up": f"{int(rate_bps)}bit", "queue": queue},
            ],
            "host": [{"name": name, "switch": "tor"} | link for name in senders]
            + [{"name": "r0", "switch": "core"}, {"name": "r1", "switch": "core"}],
        }
    )


def active(logs: list[Path], edges: Floats) -> Floats:
    """Return the mean number of active sources in each window between two `edges`, Unix time."""
    total = np.zeros(len(edges) - 1)
    for log in logs:
        rows = np.loadtxt(log, ndmin=2)
        for (start, state), end in zip(rows[:-1], rows[1:, 0], strict=True):
            if state:
                covered = np.minimum(edges[1:], end) - np.maximum(edges[:-1], start)
                total += np.maximum(covered, 0) / np.diff(edges)
    return total


def watched(figure: str, rate_bps: float, queue_s: float, seed: int) -> tuple[CrossTraffic, Floats]:
    """Return the estimate, and the truth in its windows."""
    program = [sys.executable, str(Path(__file__).with_name("source.py"))]
    with (
        lab.session(cloud_of(figure, rate_bps, queue_s), source="bench-cross") as session,
        tempfile.TemporaryDirectory() as kept,
    ):
        inventory = read_inventory(session.hosts_file)
        logs = [Path(kept, str(number)) for number in range(1, SOURCES[figure] + 1)]
        started: list[subprocess.Popen[bytes]] = [session.exec("r1", [*program, "sink"])]
        try:
            time.sleep(0.5)
            for number, log in enumerate(logs, start=1):
                words = [str(1000 * seed + number), str(MEAN_S), str(SECONDS + SETTLE_S + 8), "r1", str(log)]
                started.append(session.exec(f"s{number}", [*program, *words]))
            time.sleep(SETTLE_S)
            traffic = cross(CrossQuestion(inventory, "s0", "r0", max_bps=rate_bps * GOODPUT_PER_WIRE, seconds=SECONDS))
            for process in started[1:]:
                process.wait(timeout=30)
        finally:
            for process in started:
                process.kill()
                process.wait()
        half = (traffic.time_s[1] - traffic.time_s[0]) / 2
        edges = traffic.start_s + np.append(traffic.time_s - half, traffic.time_s[-1] + half)
        return traffic, active(logs, edges)


def main(asked: argparse.Namespace) -> None:
    """Print both figures' curves and how far they are apart."""
    for figure in asked.figures:
        rate = asked.rate * 1e6
        floor = 9.0 if figure == "b" else 0.0
        errors, after = [], []
        for seed in range(asked.seed, asked.seed + asked.runs):
            result, truth = watched(figure, rate, asked.queue_ms / 1000, seed)
            visible = np.maximum(truth, floor)
            errors.append(float(np.abs(result.connections - visible).mean()))
            rows = round(STEP_S / (result.time_s[1] - result.time_s[0]))
            whole = len(truth) // rows * rows
            time_s, actual, estimate = (
                each[:whole].reshape(-1, rows).mean(axis=1) for each in (result.time_s, truth, result.connections)
            )
            after.append(float(np.abs(estimate - np.maximum(actual, floor)).mean()))
            print(
                f"\nFig. 4 {figure}, seed {seed}: {SOURCES[figure]} sources, on and off for {MEAN_S:g} s in the mean, link "
                f"{asked.rate:g} Mbit/s (paper: {'10 Gbit/s' if figure == 'b' else '1 Gbit/s'})\n"
                f"{'time s':>7} {'actual':>7} {'estimated':>10}"
            )
            for row in zip(time_s, actual, estimate, strict=True):
                print(f"{row[0]:>7.2f} {row[1]:>7.1f} {row[2]:>10.1f}")
        spread = f" ± {np.std(after, ddof=1) / len(after) ** 0.5:.2f}" if len(after) > 1 else ""
        print(
            f"Fig. 4 {figure}: mean |estimated - actual| over {asked.runs} runs of {SECONDS:g} s: {np.mean(errors):.2f} connections in "
            f"windows of 100 ms, {np.mean(after):.2f}{spread} in windows of {STEP_S:g} s (paper: ns-2, drawn, no number"
            f"{'; values below 9 count as 9' if floor else ''})",
            flush=True,
        )
