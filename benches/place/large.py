"""10,000 tasks on 1,000 hosts: the multilevel search, compared with Mt-KaHyPar whose blocks are placed on hosts."""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

import numpy as np
from benches.machine import machine
from benches.place.instances import cluster, tenants
from benches.place.judge import Judge
from benches.place.peers import answers, best

from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.place import Effort, Question, decide

CORES = 24.0
LIMIT_S = 10.0
FAMILIES = ("tenants", "power-law", "stencil")
USELESS_GAP = 0.95
ROOM = 1.2
"""Cores for each task of one core."""
PRESETS = ("DEFAULT", "QUALITY")


def main(arguments: Sequence[str]) -> None:
    """`large [--count 3] [--seed 0] [--family tenants] [--full] [--quick]`."""
    parser = argparse.ArgumentParser(prog="bench-place large")
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="one instance of 2,000 tasks on 200 hosts")
    parser.add_argument("--family", choices=FAMILIES, default=FAMILIES[0], help="of the application")
    parser.add_argument("--full", action="store_true", help="a rate for each pair in addition to caps; not for tenants")
    options = parser.parse_args(arguments)
    kind = f"{options.family}{'-full' if options.full else ''}"
    tasks, hosts, count = (2_000, 200, 1) if options.quick else (10_000, 1_000, options.count)
    print(machine())
    print(f"{count} instances of {tasks} tasks on {hosts} hosts ({kind}), seed {options.seed}, 2 threads each")
    print(
        "took: a placement with its check and bound, or the peer alone without relabelling; best of 2 seeds for peers"
    )
    print(f"{'instance':>8} {'method':<20} {'seconds':>9} {'took s':>7} {'peak MB':>8} {'ours/this':>10}", flush=True)
    ratios: list[float] = []
    for index in range(count):
        network, app = instance(kind, tasks, hosts, options.seed, index)
        judge = Judge(network, app)
        ours = _ours(judge, "search", (kind, tasks, hosts, options.seed, index))
        greedy = _ours(judge, "greedy", (kind, tasks, hosts, options.seed, index))
        rows = [("search", *ours[:3]), ("greedy", *greedy[:3])]
        for preset in PRESETS:
            peer = best(answers("mtkahypar", judge, preset=preset, attempts=2, threads=2, exchange=False))
            rows.append((f"Mt-KaHyPar {preset}", peer.seconds, peer.took_s, peer.peak_mb))
        for name, seconds, took_s, peak_mb in rows:
            ratio = ours[0] / seconds if ours[0] is not None and seconds else 0.0
            shown = "overbooked" if seconds is None else f"{seconds:.3f}"
            print(f"{index:>8} {name:<20} {shown:>9} {took_s:>7.2f} {peak_mb:>8.0f} {ratio:>10.3f}", flush=True)
        gap = ours[3]
        peers = [row[1] for row in rows[2:] if row[1] is not None]
        verdict = "no useful bound" if gap > USELESS_GAP else f"gap to the proven bound {gap:.1%}"
        if ours[0] is not None and peers:
            ratios.append(ours[0] / min(peers))
            verdict += f"; no placement is below {ratios[-1] * (1 - gap):.3f} of the best peer"
        print(f"{index:>8} {verdict}", flush=True)
    if ratios:
        middle, worst = statistics.median(ratios), max(ratios)
        print(f"search / best Mt-KaHyPar: median {middle:.3f}, worst {worst:.3f} (goal 0.85 within {LIMIT_S:g} s)")


def instance(kind: str, tasks: int, hosts: int, seed: int, index: int) -> tuple[Network, App]:
    """Return the instance of this number; `kind` is a family, with `-full` for rates of all pairs."""
    rng, family = np.random.default_rng([seed, index]), kind.removesuffix("-full")
    if family == "tenants":
        return tenants(tasks, hosts, CORES, rng)
    return cluster(family, tasks, hosts, tasks / hosts * ROOM, rng, full=kind.endswith("-full"))


def _ours(judge: Judge, method: str, key: tuple[str, int, int, int, int]) -> tuple[float | None, float, float, float]:
    """Return seconds by the judge, time taken, peak memory of a process that only does this, and the gap to its bound."""
    command = [sys.executable, "-m", "benches.place.large", method, *map(str, key)]
    child = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    answer = json.loads(child.stdout)
    return judge.of(answer["assignment"]), float(answer["took_s"]), float(answer["peak_mb"]), float(answer["gap"])


def _child(method: str, kind: str, key: Sequence[int]) -> None:
    tasks, hosts, seed, index = key
    network, app = instance(kind, tasks, hosts, seed, index)
    start_s = time.perf_counter()
    answer = decide(Question(network, [app]), Effort(method, time_limit_s=LIMIT_S, threads=2))
    took_s = time.perf_counter() - start_s
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    report = {"assignment": answer.placement.assignment, "took_s": took_s, "peak_mb": peak_mb, "gap": answer.gap}
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    _child(sys.argv[1], sys.argv[2], list(map(int, sys.argv[3:])))
