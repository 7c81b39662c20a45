"""64 ranks of MPI programs on 16 to 32 real cloud regions, some exactly full: ours and others.

The others are the baselines, partitioners and annealing. Programs are mpiP reports and a halo exchange in three
dimensions. Rates are Skyplane's iperf3 grid between regions of three clouds, drawn by the seed:

- `pipe`: each pair has its own rate;
- `hose`: a region's egress and ingress are the highest rates that it was seen to send and receive;
- `groups`: also, regions are in racks of four whose links carry half of their hosts' caps.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from benches.machine import machine
from benches.place.judge import Judge
from benches.place.peers import anneal, answers, best, built_annealer
from benches.place.real import DATA
from benches.recorded import write_figure

from gavotte.errors import InfeasibleError
from gavotte.formats.app import FORMAT as APP_FORMAT
from gavotte.formats.app import App, Task, Transfer
from gavotte.formats.network import FORMAT, Group, Host, Network
from gavotte.place import Effort, Question, decide
from gavotte.profile import profile

SHARINGS = ("pipe", "hose", "groups")
SHAPES = ((16, 4), (16, 5), (24, 3), (32, 2), (32, 3))
"""Numbers of hosts and cores: 16 x 4 and 32 x 2 are exactly full."""

PROGRAMS = ("bt", "clover_leaf", "lu", "mg", "miniAMR", "halo")
RANKS = 64
BASELINES = ("greedy", "round-robin", "min-machines", "random")
PEERS = {"mtkahypar": "Mt-KaHyPar", "kahip": "KaHIP", "metis": "METIS"}
LIMIT_S = 10.0
RACK = 4


@dataclass
class Row:
    """Results on one instance, by method; `gap` is that of ours."""

    name: str
    seconds: dict[str, float | None] = field(default_factory=dict)
    gap: float = 0.0
    took_s: float = 0.0


def main(arguments: Sequence[str]) -> None:
    """`ranks [--count 9] [--seed 0] [--limit 10] [--sharing pipe] [--first 0] [--data FOLDER] [--quick] [--no-peers]`.

    `--record FOLDER` writes the gaps to the proven bound, as docs/results has them.
    """
    parser = argparse.ArgumentParser(prog="bench-place ranks")
    parser.add_argument("--count", type=int, default=9)
    parser.add_argument("--first", type=int, default=0, help="number of the first instance")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds for ours, and for the annealer")
    parser.add_argument("--sharing", choices=SHARINGS, help="only this; all in turn if left out")
    parser.add_argument("--data", type=Path, default=DATA, help="has mpip-proxyapps/ and skyplane/")
    parser.add_argument("--quick", action="store_true", help="three instances, 2 s each")
    parser.add_argument("--no-peers", action="store_true", help="only ours and the baselines")
    parser.add_argument("--record", type=Path, help="folder to write the gaps to, as docs/results has them")
    options = parser.parse_args(arguments)
    about = machine()
    count, limit_s = (3, 2.0) if options.quick else (options.count, options.limit)
    if not (options.data / "skyplane").exists():
        print(f"skipped: no mpip-proxyapps/ and skyplane/ in {options.data} (--data FOLDER)")
        return
    print(about)
    print(
        f"{count} instances of {RANKS} ranks, seed {options.seed}; {limit_s:g} s for ours and for the annealer (one thread)"
    )
    peers = [] if options.no_peers else [*PEERS, "annealer"]
    heads = "".join(f"{name:>13}" for name in (*BASELINES, *(PEERS.get(peer, peer) for peer in peers)))
    print(f"{'instance':<28} {'ours s':>9} {'gap':>7} {'took':>6}   others, as a multiple of ours\n{'':<53}{heads}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        annealer = None if options.no_peers else built_annealer(Path(folder))
        for index in range(options.first, options.first + count):
            sharing = options.sharing or SHARINGS[index % len(SHARINGS)]
            rows.append(_row(index, sharing, options.seed, limit_s, options.data, peers, annealer))
            print(_row_text(rows[-1], peers), flush=True)
    _summary(rows, [*BASELINES, *peers])
    if options.record:
        _record(options, rows, limit_s, about)


def _record(options: argparse.Namespace, rows: Sequence[Row], limit_s: float, about: str) -> None:
    """Write the gap of each instance, and their median, for each sharing model."""
    gaps = {sharing: [row for row in rows if f" {sharing} " in row.name] for sharing in SHARINGS}
    for sharing, chosen in gaps.items():
        if not chosen:
            continue
        cells = [[row.name, f"{row.seconds['ours']:.4g} s", f"{100 * row.gap:.1f} %"] for row in chosen]
        median = statistics.median(row.gap for row in chosen)
        cells.append(["median", "", f"{100 * median:.1f} %"])
        write_figure(
            options.record / f"placement-gap-{sharing}.json",
            title=f"{RANKS} ranks on 16 to 32 regions under {sharing}: gap to the proven bound",
            command=f'make bench-place ARGS="ranks --no-peers --sharing {sharing} --count {len(chosen)} --limit {limit_s:g} '
            f'--seed {options.seed}"',
            seed=str(options.seed),
            samples="one run an instance",
            about=about,
            columns=["instance", "predicted", "gap"],
            rows=cells,
            plot={"kind": "bars", "columns": [2], "unit": "% of the predicted time"},
        )


def _row(
    index: int, sharing: str, seed: int, limit_s: float, data: Path, peers: Sequence[str], annealer: Path | None
) -> Row:
    network, app = instance(index, sharing, seed, data)
    judge = Judge(network, app)
    row = Row(f"{index} {sharing} {app.name} {len(network.hosts)}x{network.hosts[0].cpus:g}")
    for method in BASELINES:
        try:
            placed = decide(Question(network, [app]), Effort(method, seed=seed)).placement
        except InfeasibleError:
            row.seconds[method] = None
        else:
            row.seconds[method] = judge.of(placed.assignment)
    start_s = time.perf_counter()
    answer = decide(Question(network, [app]), Effort("auto", time_limit_s=limit_s, seed=seed))
    row.took_s = time.perf_counter() - start_s
    row.seconds["ours"], row.gap = judge.of(answer.placement.assignment), answer.gap
    for peer in peers:
        if peer == "annealer":
            row.seconds[peer] = None if annealer is None else anneal(annealer, judge, limit_s, seed)
        else:
            row.seconds[peer] = best(answers(peer, judge, preset="HIGHEST_QUALITY")).seconds
    return row


def _row_text(row: Row, peers: Sequence[str]) -> str:
    ours = row.seconds["ours"] or float("nan")
    cells = [row.seconds[name] for name in (*BASELINES, *peers)]
    shown = "".join(f"{'none' if cell is None else f'{cell / ours:.4f}':>13}" for cell in cells)
    return f"{row.name:<28} {ours:>9.4f} {row.gap:>7.1%} {row.took_s:>6.1f}{shown}"


def _summary(rows: Sequence[Row], others: Sequence[str]) -> None:
    for other in others:
        ratios = [
            present / ours
            for row in rows
            if (present := row.seconds[other]) is not None and (ours := row.seconds["ours"])
        ]
        if ratios:
            beaten = sum(ratio < 1 - 1e-9 for ratio in ratios)
            median = statistics.median(ratios)
            print(
                f"{PEERS.get(other, other):<13} median {median:.3f} of ours, below ours in {beaten} of {len(ratios)} (goal 0)"
            )
    for sharing in SHARINGS:
        gaps = [row.gap for row in rows if f" {sharing} " in row.name]
        if gaps:
            proven = sum(gap == 0 for gap in gaps)
            print(
                f"gap under {sharing}: median {statistics.median(gaps):.1%}, most {max(gaps):.1%}, proven {proven} of {len(gaps)}"
            )
    print(f"took at most {max(row.took_s for row in rows):.1f} s")


def instance(index: int, sharing: str, seed: int, data: Path) -> tuple[Network, App]:
    """Return the instance of this number; programs, shapes and sharing models take turns."""
    rng = np.random.default_rng([seed, index])
    hosts, cores = SHAPES[int(rng.integers(len(SHAPES)))]
    program = PROGRAMS[int(rng.integers(len(PROGRAMS)))]
    reports = sorted((data / "mpip-proxyapps").glob(f"{program}.*.mpiP"))
    app = profile("mpip", reports[0], name=program).app if reports else halo(rng)
    return regions(data / "skyplane" / "throughput_2022-01.csv", hosts, float(cores), sharing, rng), app


def halo(rng: np.random.Generator) -> App:
    """Ranks in a periodic grid of 4 x 4 x 4, as molecular dynamics exchanges its halos; bytes vary by some percent."""
    ranks = np.arange(RANKS).reshape(4, 4, 4)
    sums: dict[tuple[int, int], int] = {}
    for axis in range(3):
        for step in (1, -1):
            for a, b in zip(ranks.ravel(), np.roll(ranks, step, axis).ravel(), strict=True):
                sums[int(a), int(b)] = int(8e7 * rng.lognormal(0.0, 0.03))
    return App(
        format=APP_FORMAT,
        name="halo",
        task=[Task(name=f"rank{rank}") for rank in range(RANKS)],
        transfer=[Transfer(source=f"rank{a}", target=f"rank{b}", bytes=size) for (a, b), size in sums.items()],
    )


def regions(grid: Path, hosts: int, cores: float, sharing: str, rng: np.random.Generator) -> Network:
    """Draw random regions that were measured both ways with all others drawn before."""
    rate: dict[tuple[str, str], float] = {}
    with grid.open(newline="") as file:
        for row in csv.DictReader(file):
            ends = row["src_region"], row["dst_region"]
            rate[ends] = max(rate.get(ends, 0.0), float(row["throughput_received"]))
    names = list(_connected(rate, hosts, rng))
    far = [[rate[a, b] if a != b else None for b in names] for a in names]
    egress = [max(bps for bps in row if bps) for row in far]
    ingress = [max(bps for bps in column if bps) for column in zip(*far, strict=True)]
    capped = sharing != "pipe"
    racks = [range(at, min(at + RACK, hosts)) for at in range(0, hosts, RACK)]
    return Network(
        format=FORMAT,
        hosts=[
            Host(
                name=f"h{m}",
                cpus=cores,
                egress_bps=egress[m] if capped else None,
                ingress_bps=ingress[m] if capped else None,
            )
            for m in range(hosts)
        ],
        rate_bps=far,
        latency_s=[[None] * hosts for _ in range(hosts)],
        groups=[
            Group(
                name=f"rack{at}",
                members=[f"h{m}" for m in rack],
                up_bps=sum(egress[m] for m in rack) / 2,
                down_bps=sum(ingress[m] for m in rack) / 2,
            )
            for at, rack in enumerate(racks if sharing == "groups" else ())
        ],
        sharing=sharing,
    )


def _connected(rate: dict[tuple[str, str], float], hosts: int, rng: np.random.Generator) -> Iterator[str]:
    every = sorted({source for source, _ in rate})
    chosen: list[str] = []
    for at in rng.permutation(len(every)):
        region = every[at]
        if len(chosen) < hosts and all((region, one) in rate and (one, region) in rate for one in chosen):
            chosen.append(region)
            yield region
