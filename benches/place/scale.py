"""Large placements by the whole command at several time limits, compared with partitioners whose blocks are laid by rank.

The judge times every answer. Ours is `gavotte place` with files, from its start to its end: a limit of 10 s includes reading
them. `cpu s` is the processor time of the process, which a busy machine does not change. The annealer gets, for each limit,
the processor time that ours took in the mean. At the end of each family, the answers at each limit are compared with those at
the longest. `--priced` adds constraints with prices to compare with the same as hard ones.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benches.machine import machine
from benches.place.families import FAMILIES, partners, scaled
from benches.place.judge import Judge
from benches.place.peers import anneal, ask, built_annealer
from benches.recorded import write_figure

from gavotte.formats.app import Constraints, write_app
from gavotte.formats.network import write_network
from gavotte.place import Effort, Question, decide

PEERS = {"metis": "METIS", "mtkahypar": "Mt-KaHyPar", "kahip": "KaHIP"}
PRESETS = {"metis": [""], "kahip": ["FAST", "ECO"], "mtkahypar": ["DEFAULT", "QUALITY", "LARGE_K"]}
IMBALANCES = (0.001, 0.01)
"""Each bisection of METIS may add as much. With more, some of the blocks overbook their hosts."""

MOST_KAHIP_HOSTS = 2000
"""KaHIP and the slower presets of Mt-KaHyPar take minutes for more blocks."""

PRICES_S = (0.001, 0.01, 0.1, 1.0)
"""Prices of each task that shares a host although it should not."""


@dataclass(frozen=True)
class Row:
    """One answer: its seconds by the judge (None = overbooked or failed), and what it took."""

    name: str
    seconds: float | None
    took_s: float
    cpu_s: float
    peak_mb: float
    limit_s: float = 0.0


def main(arguments: Sequence[str]) -> None:
    """`scale [--tasks 10000] [--hosts 1000] [--family F] [--limits 1,3,10,30] [--seeds 5] [--last-seeds 1] [--no-peers] [--priced] [--record FOLDER] [--quick]`."""
    parser = argparse.ArgumentParser(prog="bench-place scale")
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--family", choices=FAMILIES, action="append", help="only these; may be repeated")
    parser.add_argument("--limits", default="1,3,10,30", help="seconds for ours")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds of ours")
    parser.add_argument("--last-seeds", type=int, help="fewer seeds for the longest limit")
    parser.add_argument("--seed", type=int, default=0, help="of the instances")
    parser.add_argument("--no-peers", action="store_true", help="only ours")
    parser.add_argument("--quick", action="store_true", help="2,000 tasks on 200 hosts, one seed, limits of 1 and 3 s")
    parser.add_argument("--priced", action="store_true", help="only ours, with constraints that have prices")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    options = parser.parse_args(arguments)
    if options.quick:
        options.tasks, options.hosts, options.seeds, options.limits = 2_000, 200, 1, "1,3"
    limits = [float(limit) for limit in options.limits.split(",")]
    about = machine()
    print(about)
    if options.priced:
        for family in options.family or FAMILIES:
            _priced(family, options, limits)
        return
    print(
        f"{options.tasks} tasks on {options.hosts} hosts, instance seed {options.seed}, {options.seeds} seeds of ours"
    )
    print(
        f"{'family':<12} {'method':<22} {'seconds':>9} {'took s':>7} {'cpu s':>7} {'peak MB':>8} {'of best peer':>13}"
    )
    for family in options.family or FAMILIES:
        rows = _family(family, options, limits)
        for line in _shares(family, rows):
            print(line, flush=True)
        if options.record is not None:
            _record(family, options, rows, about)


def _family(family: str, options: argparse.Namespace, limits: Sequence[float]) -> list[Row]:
    """Print every answer for one family, and return them all."""
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
        small = options.hosts <= MOST_KAHIP_HOSTS and not options.no_peers
        if small:
            rows.append(_ours(judge, files, "greedy", 0, 10.0))
        annealer = built_annealer(Path(folder)) if small else None
        for limit_s in limits:
            last = limit_s == max(limits) and options.last_seeds is not None
            seeds = range(options.last_seeds if last else options.seeds)
            ours = [_ours(judge, files, "auto", seed, limit_s) for seed in seeds]
            rows += ours
            if annealer is not None:
                cpu_s = statistics.fmean(row.cpu_s for row in ours)
                rows.append(Row("annealer", anneal(annealer, judge, cpu_s, 0), cpu_s, cpu_s, 0.0, limit_s))
    for row in rows:
        shown = "none" if row.seconds is None else f"{row.seconds:.3f}"
        ratio = f"{row.seconds / least:.3f}" if row.seconds and least else ""
        numbers = f"{shown:>9} {row.took_s:>7.2f} {row.cpu_s:>7.2f} {row.peak_mb:>8.0f} {ratio:>13}"
        print(f"{family:<12} {row.name:<22} {numbers}", flush=True)
    return rows


def _shares(family: str, rows: Sequence[Row]) -> list[str]:
    """Return a line for each limit but the longest: wall time of the command, and its answers next to the longest's mean."""
    limits = sorted({row.limit_s for row in rows if row.limit_s})
    ours = {limit_s: [row for row in rows if row.limit_s == limit_s and row.name != "annealer"] for limit_s in limits}
    lines = []
    for limit_s in limits[:-1]:
        last = [row.seconds for row in ours[limits[-1]] if row.seconds is not None]
        shares = [row.seconds / statistics.fmean(last) for row in ours[limit_s] if row.seconds is not None and last]
        took = [row.took_s for row in ours[limit_s]]
        if shares:
            lines.append(
                f"{family:<12} {limit_s:g} s: the command takes {min(took):.2f} to {max(took):.2f} s; "
                f"{min(shares):.3f} to {max(shares):.3f} of {limits[-1]:g} s, mean {statistics.fmean(shares):.3f}"
            )
    return lines


def _record(family: str, options: argparse.Namespace, rows: Sequence[Row], about: str) -> None:
    """Write quality against time: for each limit ours, the annealer, and partitioners that took no more processor time."""
    cells = []
    for limit_s in sorted({row.limit_s for row in rows if row.limit_s}):
        ours = [row for row in rows if row.limit_s == limit_s and row.name.startswith("ours")]
        seconds = [row.seconds for row in ours if row.seconds is not None]
        cpu_s = statistics.fmean(row.cpu_s for row in ours)
        peers = {
            peer: [row.seconds for row in rows if row.name.startswith(peer) and row.seconds and row.cpu_s <= cpu_s]
            for peer in PEERS.values()
        }
        annealed = [row.seconds for row in rows if row.limit_s == limit_s and row.name == "annealer" and row.seconds]
        spread = f" ± {statistics.stdev(seconds):.2f}" if len(seconds) > 1 else ""
        cells.append(
            [
                f"{cpu_s:.1f}",
                f"{limit_s:g}",
                f"{statistics.fmean(seconds):.2f}{spread}" if seconds else "",
                *(f"{min(times):.2f}" if times else "" for times in (*peers.values(), annealed)),
                f"{max(row.took_s for row in ours):.1f}",
                f"{max(row.peak_mb for row in ours):.0f}",
            ]
        )
    size = f"{options.tasks:,} tasks on {options.hosts:,} hosts"
    write_figure(
        options.record / f"placement-scale-{family}{'-large' if options.hosts > MOST_KAHIP_HOSTS else ''}.json",
        title=f"{family}, {size}: seconds of the placement by processor time",
        command=f'make bench-place ARGS="scale --tasks {options.tasks} --hosts {options.hosts} --family {family} '
        f'--limits {options.limits} --seeds {options.seeds}"',
        seed=str(options.seed),
        samples=f"{options.seeds} seeds of ours at each limit; ± is their standard deviation",
        about=about,
        columns=[
            "processor time, s",
            "limit, s",
            "ours",
            *PEERS.values(),
            "annealer",
            "wall time, s",
            "peak memory, MB",
        ],
        rows=cells,
        plot={
            "kind": "lines",
            "columns": [at for at in range(2, 7) if any(row[at] for row in cells)],
            "unit": "seconds",
            "scale": "log",
            "across": "log",
        },
    )


def _priced(family: str, options: argparse.Namespace, limits: Sequence[float]) -> None:
    """Print the time and the penalty if groups of partners should be apart, at several prices and as hard constraints."""
    network, app = scaled(family, options.tasks, options.hosts, options.seed)
    groups = partners(app, options.tasks // 10)
    print(
        f"{family}: {len(groups)} groups of 2 to 4 partners, apart\n{'price s':>8} {'limit s':>8} {'total':>9} {'penalty':>9}"
    )
    for limit_s in limits:
        for price_s in (None, *PRICES_S):
            apart = [{"tasks": group, "price_s": price_s} for group in groups]
            rules = Constraints.model_validate({"apart": apart})
            answer = decide(
                Question(network, [app.model_copy(update={"constraints": rules})]), Effort(time_limit_s=limit_s)
            )
            price = "hard" if price_s is None else f"{price_s:g}"
            print(f"{price:>8} {limit_s:>8g} {answer.total_s:>9.3f} {answer.placement.penalty_s:>9.3f}", flush=True)


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


def _ours(judge: Judge, files: tuple[Path, Path], method: str, seed: int, limit_s: float) -> Row:
    target = files[0].with_name("a.placement.json")
    program = str(Path(sys.executable).with_name("gavotte"))
    command = [program, "place", *map(str, files), "--method", method, "--seed", str(seed)]
    command += ["--time-limit", f"{limit_s:g}", "-o", str(target)]
    start_s = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert child.stderr is not None
    complaint = child.stderr.read().decode()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    took_s = time.perf_counter() - start_s
    if child.returncode:
        print(f"{' '.join(command[1:2])} by {method}: {complaint.strip()}", flush=True)
    seconds = judge.of(json.loads(target.read_text())["assignment"]) if child.returncode == 0 else None
    name = method if method != "auto" else f"ours {limit_s:g} s, seed {seed}"
    cpu_s = used.ru_utime + used.ru_stime
    return Row(name, seconds, took_s, cpu_s, used.ru_maxrss / 1024, limit_s if method == "auto" else 0.0)
