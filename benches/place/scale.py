"""Large placements by the whole command at several time limits, compared with partitioners whose blocks are laid by rank.

The judge times every answer. Ours is `gavotte place` with files, from its start to its end: a limit of 10 s includes reading
them. `cpu s` is the processor time of the process, which a busy machine does not change.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benches.machine import machine
from benches.place.families import FAMILIES, scaled
from benches.place.judge import Judge
from benches.place.peers import anneal, ask, built_annealer

from gavotte.formats.app import write_app
from gavotte.formats.network import write_network

PEERS = {"metis": "METIS", "mtkahypar": "Mt-KaHyPar", "kahip": "KaHIP"}
PRESETS = {"metis": [""], "kahip": [""], "mtkahypar": ["DEFAULT", "QUALITY", "LARGE_K"]}
IMBALANCES = (0.001, 0.01)
"""Each bisection of METIS may add as much. With more, some of the blocks overbook their hosts."""

MOST_KAHIP_HOSTS = 2000
"""KaHIP and the slower presets of Mt-KaHyPar take minutes for more blocks."""


@dataclass(frozen=True)
class Row:
    """One answer: its seconds by the judge (None = overbooked or failed), and what it took."""

    name: str
    seconds: float | None
    took_s: float
    cpu_s: float
    peak_mb: float


def main(arguments: Sequence[str]) -> None:
    """`scale [--tasks 10000] [--hosts 1000] [--family F] [--limits 1,3,10,30] [--seeds 5] [--no-peers] [--quick]`."""
    parser = argparse.ArgumentParser(prog="bench-place scale")
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--family", choices=FAMILIES, action="append", help="only these; may be repeated")
    parser.add_argument("--limits", default="1,3,10,30", help="seconds for ours")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds of ours")
    parser.add_argument("--seed", type=int, default=0, help="of the instances")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--quick", action="store_true", help="2,000 tasks on 200 hosts, one seed, limits of 1 and 3 s")
    options = parser.parse_args(arguments)
    if options.quick:
        options.tasks, options.hosts, options.seeds, options.limits = 2_000, 200, 1, "1,3"
    limits = [float(limit) for limit in options.limits.split(",")]
    print(machine())
    print(
        f"{options.tasks} tasks on {options.hosts} hosts, instance seed {options.seed}, {options.seeds} seeds of ours"
    )
    print(
        f"{'family':<12} {'method':<22} {'seconds':>9} {'took s':>7} {'cpu s':>7} {'peak MB':>8} {'of best peer':>13}"
    )
    for family in options.family or FAMILIES:
        _family(family, options, limits)


def _family(family: str, options: argparse.Namespace, limits: Sequence[float]) -> None:
    network, app = scaled(family, options.tasks, options.hosts, options.seed)
    judge = Judge(network, app)
    rows: list[Row] = []
    for peer in () if options.no_peers else PEERS:
        few = options.hosts <= MOST_KAHIP_HOSTS
        presets = PRESETS[peer] if few else [] if peer == "kahip" else PRESETS[peer][-1:]
        rows += [_peer(judge, peer, preset) for preset in presets]
    least = min((row.seconds for row in rows if row.seconds is not None), default=None)
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "a.network.json", Path(folder) / "a.app.toml"
        write_network(files[0], network)
        write_app(files[1], app)
        if options.hosts <= MOST_KAHIP_HOSTS:
            rows += [_ours(judge, files, "greedy", 0, 10.0)]
            rows += [] if options.no_peers else _annealed(judge, Path(folder), limits[-1])
        for limit_s in limits:
            rows += [_ours(judge, files, "auto", seed, limit_s) for seed in range(options.seeds)]
    for row in rows:
        shown = "none" if row.seconds is None else f"{row.seconds:.3f}"
        ratio = f"{row.seconds / least:.3f}" if row.seconds and least else ""
        numbers = f"{shown:>9} {row.took_s:>7.2f} {row.cpu_s:>7.2f} {row.peak_mb:>8.0f} {ratio:>13}"
        print(f"{family:<12} {row.name:<22} {numbers}", flush=True)


def _peer(judge: Judge, peer: str, preset: str) -> Row:
    name = f"{PEERS[peer]} {preset}".strip()
    before = os.times()
    try:
        answer = ask(
            peer, judge, preset=preset, imbalances=IMBALANCES, attempts=len(IMBALANCES), threads=2, exchange=False
        )
    except (subprocess.TimeoutExpired, ImportError):
        return Row(name, None, 0.0, 0.0, 0.0)
    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return Row(name, answer.seconds, answer.took_s, cpu_s, answer.peak_mb)


def _annealed(judge: Judge, folder: Path, limit_s: float) -> list[Row]:
    program = built_annealer(folder)
    if program is None:
        return []
    return [Row(f"annealer {limit_s:g} s", anneal(program, judge, limit_s, 0), limit_s, limit_s, 0.0)]


def _ours(judge: Judge, files: tuple[Path, Path], method: str, seed: int, limit_s: float) -> Row:
    target = files[0].with_name("a.placement.json")
    command = [sys.executable, "-m", "gavotte", "place", *map(str, files), "--method", method, "--seed", str(seed)]
    command += ["--time-limit", f"{limit_s:g}", "-o", str(target)]
    start_s = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert child.stderr is not None
    child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    took_s = time.perf_counter() - start_s
    seconds = judge.of(json.loads(target.read_text())["assignment"]) if child.returncode == 0 else None
    name = method if method != "auto" else f"ours {limit_s:g} s, seed {seed}"
    return Row(name, seconds, took_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
