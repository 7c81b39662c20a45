"""The least latency: 64 ranks on hosts of a real network, at a short and at a long time limit.

The hosts are nodes of NetLatency's Seattle frames, with half of each measured round trip. All have the same rates, so that
only latencies differ. Programs are mpiP reports and a halo exchange. The best answer of all limits and seeds is what the
short limit is compared with.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from benches.machine import machine
from benches.place.ranks import PROGRAMS, halo
from benches.place.real import DATA
from benches.recorded import write_figure

from gavotte.formats.app import App
from gavotte.formats.network import FORMAT, Host, Network
from gavotte.place import Effort, Goal, Question, decide
from gavotte.profile import profile

SHAPES = ((24, 3), (32, 3), (60, 2), (90, 1))
"""Numbers of hosts and cores for 64 ranks."""

RATE_BPS = 1e9
WITHIN = 1.0
"""A placement may take this much longer than the fastest one, so that latency decides."""


def main(arguments: Sequence[str]) -> None:
    """`latency [--count 8] [--limits 2,20] [--seeds 3] [--seed 0] [--data FOLDER] [--quick] [--record FOLDER]`."""
    parser = argparse.ArgumentParser(prog="bench-place latency")
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--limits", default="2,20", help="seconds, the shortest first")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the instances")
    parser.add_argument("--data", type=Path, default=DATA, help="has mpip-proxyapps/ and netlatency/")
    parser.add_argument("--quick", action="store_true", help="two instances, one seed, limits of 1 and 3 s")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    options = parser.parse_args(arguments)
    if not (options.data / "netlatency").exists():
        print(f"skipped: no netlatency/ in {options.data} (--data FOLDER)")
        return
    if options.quick:
        options.count, options.seeds, options.limits = 2, 1, "1,3"
    limits = [float(limit) for limit in options.limits.split(",")]
    about = machine()
    print(about)
    print(f"{options.count} instances of 64 ranks, seed {options.seed}; {options.seeds} seeds of ours at each limit")
    print(f"longest latency in ms, least to most; ratio: mean at {limits[0]:g} s to the best of all")
    print(f"{'instance':<24}" + "".join(f"{f'{limit:g} s':>20}{'took':>6}" for limit in limits) + f"{'ratio':>8}")
    rows, ratios = [], []
    for index in range(options.count):
        network, app = instance(index, options.seed, options.data)
        longest_ms: list[list[float]] = []
        cells, name = [], f"{app.name} {len(network.hosts)}x{network.hosts[0].cpus:g}"
        for limit_s in limits:
            begin_s = time.perf_counter()
            longest_ms.append([_longest_ms(network, app, limit_s, seed) for seed in range(options.seeds)])
            took_s = (time.perf_counter() - begin_s) / options.seeds
            cells.append(f"{min(longest_ms[-1]):>8.4f} to {max(longest_ms[-1]):>8.4f}{took_s:>6.1f}")
        best_ms = min(map(min, longest_ms))
        ratios.append(statistics.fmean(longest_ms[0]) / best_ms)
        print(f"{name:<24}{''.join(cells)}{ratios[-1]:>8.3f}", flush=True)
        times = [f"{min(each):.3f} to {max(each):.3f}" for each in longest_ms]
        rows.append([name, *times, f"{ratios[-1]:.3f}"])
    print(f"ratio: median {statistics.median(ratios):.3f}, most {max(ratios):.3f}")
    if options.record:
        write_figure(
            options.record / "placement-latency.json",
            title=f"64 ranks: longest latency after {limits[0]:g} s, relative to the best of all",
            command=f'make bench-place ARGS="latency --count {options.count} --limits {options.limits} '
            f'--seeds {options.seeds} --seed {options.seed}"',
            seed=str(options.seed),
            samples=f"{options.seeds} seeds at each limit",
            about=about,
            columns=["instance", *(f"within {limit:g} s, ms" for limit in limits), "ratio to the best"],
            rows=rows,
            plot={"kind": "bars", "columns": [len(limits) + 1], "unit": "ratio"},
        )


def _longest_ms(network: Network, app: App, limit_s: float, seed: int) -> float:
    """Return the longest latency between two tasks that exchange bytes, from the assignment and the matrix alone."""
    answer = decide(Question(network, [app]), Effort(time_limit_s=limit_s, seed=seed), Goal("latency", WITHIN))
    at = {host.name: index for index, host in enumerate(network.hosts)}
    host = {task: at[name] for task, name in answer.placement.assignment.items()}
    far = ((host[transfer.source], host[transfer.target]) for transfer in app.transfer)
    known = [network.latency_s[m][n] for m, n in far if m != n]
    return 1e3 * max((float("inf") if one is None else one for one in known), default=0.0)


def instance(index: int, seed: int, data: Path) -> tuple[Network, App]:
    """Return the instance of this number: shapes and programs take turns."""
    rng = np.random.default_rng([seed, index])
    hosts, cores = SHAPES[index % len(SHAPES)]
    program = PROGRAMS[int(rng.integers(len(PROGRAMS)))]
    reports = sorted((data / "mpip-proxyapps").glob(f"{program}.*.mpiP"))
    app = profile("mpip", reports[0], name=program).app if reports else halo(rng)
    frames = sorted((data / "netlatency" / "Seattle").glob("SeattleData_*"))
    round_trips_s = np.loadtxt(frames[int(rng.integers(len(frames)))])
    chosen = rng.permutation(len(round_trips_s))[:hosts]
    round_trips_s = np.maximum(round_trips_s, round_trips_s.T)[np.ix_(chosen, chosen)]
    latency_s = [
        [None if m == n or rtt_s <= 0 else float(rtt_s) / 2 for n, rtt_s in enumerate(row)]
        for m, row in enumerate(round_trips_s)
    ]
    network = Network(
        format=FORMAT,
        hosts=[Host(name=f"h{m}", cpus=float(cores), egress_bps=RATE_BPS, ingress_bps=RATE_BPS) for m in range(hosts)],
        rate_bps=[],
        latency_s=latency_s,
        sharing="hose",
    )
    return network, app
