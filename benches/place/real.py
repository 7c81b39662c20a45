"""Real MPI matrices (mpiP, 64 ranks) on 16 real cloud regions (Skyplane's iperf3 grid): predicted and simulated gain.

Skyplane measured the rates between AWS regions in January 2022, by 64 connections for 5 s. A region's egress and
ingress are the highest rates that it was seen to send and receive. Each of the 16 hosts has 5 cores and each rank needs
one. Programs with little point-to-point traffic (EP, IS) are negative cases, in which placement cannot gain. The others
then run with real transfers in the lab (`replayed`).
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
from collections.abc import Sequence
from pathlib import Path

from benches.machine import machine
from benches.place import replayed

from gavotte import lab
from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.network import FORMAT, Host, Network
from gavotte.place import (
    Effort,
    Question,
    Worth,
    build_instance,
    decide,
    worth,
)
from gavotte.profile import profile
from gavotte.simulate import replay_placement

DATA = Path(os.environ.get("GAVOTTE_BENCH_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
HOSTS, CORES = 16, 5.0
METHODS = ("auto", "greedy", "round-robin", "min-machines", "random")
LIMIT_S = 10.0


def main(arguments: Sequence[str]) -> None:
    """`real [--data FOLDER] [--seed 0] [--quick] [--programs bt lu] [--no-lab] [--repetitions 3]`."""
    parser = argparse.ArgumentParser(prog="bench-place real")
    parser.add_argument("--data", type=Path, default=DATA, help="has mpip-proxyapps/ and skyplane/")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="two programs, a second each")
    parser.add_argument("--programs", nargs="+", metavar="NAME", help="only these, as bt; all if left out")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds for a placement")
    parser.add_argument("--no-lab", action="store_true", help="no real transfers")
    parser.add_argument("--repetitions", type=int, default=3, help="runs of each method in the lab")
    parser.add_argument("--tries", type=int, default=2, help="of a run in the lab, at most, while the machine is busy")
    parser.add_argument(
        "--total", type=float, default=replayed.TOTAL_BPS / 1e6, help="Mbit/s of all lab hosts together"
    )
    options = parser.parse_args(arguments)
    reports = sorted((options.data / "mpip-proxyapps").glob("*.mpiP"))[: 2 if options.quick else None]
    reports = [one for one in reports if _name(one) in (options.programs or [_name(one)])]
    grid = options.data / "skyplane" / "throughput_2022-01.csv"
    if not reports or not grid.exists():
        print(f"skipped: no mpip-proxyapps/ and skyplane/ in {options.data} (--data FOLDER)")
        return
    network = regions(grid)
    print(machine())
    print(f"{len(reports)} programs of 64 ranks on {HOSTS} AWS regions of {CORES:g} cores, seed {options.seed}")
    print(f"regions: {' '.join(network.names)}")
    print(
        "seconds predicted / simulated (max-min fair flows, all at once); then time saved by auto, predicted / simulated"
    )
    print("gap: (predicted - proven bound) / predicted; stars: what it is by the star-knapsack bound alone")
    heads = [*(f"{name:>19}" for name in METHODS), f"{'gap':>8}{'stars':>8}{'over greedy':>15}{'over r-robin':>15}"]
    print(f"{'program':<12}" + "".join(heads))
    over: dict[str, list[float]] = {"greedy": [], "round-robin": []}
    limit_s, talking = 1.0 if options.quick else options.limit, []
    for report in reports:
        app = profile("mpip", report, name=_name(report)).app
        times_s, gap, stars, value = _program(network, app, limit_s, options.seed)
        if value is not None and value.worthwhile:
            talking.append(app)
        ours = times_s["auto"]
        cells = "".join(f"{_pair(times_s[name]):>19}" for name in METHODS)
        saved = {}
        for other in over:
            predicted, simulated = (1 - a / b if b else 0.0 for a, b in zip(ours, times_s[other], strict=True))
            saved[other] = f"{predicted:.0%} / {simulated:.0%}"
            over[other].append(simulated)
        print(
            f"{app.name:<12}{cells}{gap:>8.1%}{stars:>8.1%}{saved['greedy']:>15}{saved['round-robin']:>15}", flush=True
        )
        print(f"{'':<12}{value.reason if value else 'no baseline'}; {app.total_bytes / 1e9:.2f} GB in all")
    for other, gains in over.items():
        print(
            f"simulated time saved over {other}: median {statistics.median(gains):.0%}, "
            f"least {min(gains):.0%}, most {max(gains):.0%} of {len(gains)} programs"
        )
    if options.no_lab or not talking:
        return
    if not lab.supported():
        print(f"not replayed: no lab can run here: {lab.missing()}")
        return
    replayed.replay(
        network,
        talking,
        total_bps=options.total * 1e6,
        repetitions=options.repetitions,
        limit_s=limit_s,
        tries=options.tries,
        seed=options.seed,
    )


def _name(report: Path) -> str:
    """Return the name of the program: `bt` of `bt.C.64.64.106554.1.mpiP`."""
    return report.name.split(".")[0]


def _program(
    network: Network, app: App, limit_s: float, seed: int
) -> tuple[dict[str, tuple[float, float]], float, float, Worth | None]:
    """Predicted and simulated seconds by method, the gap of ours, that by stars alone, and the verdict on the gain."""
    times_s: dict[str, tuple[float, float]] = {}
    stars_s, value = build_instance(network, [app], network.sharing).core.bound_s(), None
    gap = stars = 0.0
    for method in METHODS:
        answer = decide(Question(network, [app]), Effort(method, time_limit_s=limit_s, seed=seed))
        simulated_s = replay_placement(network, [app], answer.placement).completion_s
        times_s[method] = answer.placement.completion_s, simulated_s
        if method == "auto":
            predicted_s = answer.placement.completion_s
            stars = 1 - stars_s / predicted_s if predicted_s else 0.0
            gap, value = answer.gap, worth(Question(network, [app]), answer.placement, seed=seed)
    return times_s, gap, stars, value


def regions(grid: Path) -> Network:
    """Return the first AWS regions, by name, that were measured both ways with all others, as a Network."""
    rate: dict[tuple[str, str], float] = {}
    with grid.open(newline="") as file:
        for row in csv.DictReader(file):
            ends = row["src_region"], row["dst_region"]
            if row["success"] == "True" and all(end.startswith("aws:") for end in ends):
                rate[ends] = max(rate.get(ends, 0.0), float(row["throughput_received"]))
    chosen: list[str] = []
    for region in sorted({source for source, _ in rate}):
        if len(chosen) < HOSTS and all(
            (a, b) in rate for other in chosen for a, b in ((region, other), (other, region))
        ):
            chosen.append(region)
    if len(chosen) < HOSTS:
        raise GavotteError(f"{grid} has only {len(chosen)} regions that were measured with each other")
    names = [region.removeprefix("aws:") for region in chosen]
    matrix = [[rate.get((a, b)) if a != b else None for b in chosen] for a in chosen]
    return Network(
        format=FORMAT,
        hosts=[
            Host(
                name=name,
                cpus=CORES,
                egress_bps=max(rate[a, b] for b in chosen if a != b),
                ingress_bps=max(rate[b, a] for b in chosen if a != b),
            )
            for name, a in zip(names, chosen, strict=True)
        ],
        rate_bps=matrix,
        latency_s=[[None] * HOSTS for _ in range(HOSTS)],
        sharing="hose",
    )


def _pair(times: tuple[float, float]) -> str:
    return f"{times[0]:.3g} / {times[1]:.3g}"
