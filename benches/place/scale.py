"""Large placements by the whole command at several time limits, compared with partitioners whose blocks are laid by rank.

The judge times every answer. Ours is `gavotte place` with files, from its start to its end: a limit of 10 s includes reading
them. `cpu s` is the processor time of the process, which a busy machine does not change; that of a partitioner is one
attempt's alone, without its start. Tasks that overbook a host in its answer move to others. The annealer gets, for each limit,
the processor time that ours took in the mean, with as many seeds. At the end of each family, the answers at each limit are
compared with those at the longest. `--priced` adds constraints with prices to compare with the same as hard ones.
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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benches.machine import machine
from benches.place.families import FAMILIES, partners, scaled
from benches.place.judge import Judge
from benches.place.peer_child import resident_mb
from benches.place.peers import PRESETS, anneal, answers, built_annealer
from benches.recorded import command_line, write_figure

from gavotte.formats.app import Constraints, write_app
from gavotte.formats.network import write_network
from gavotte.place import Effort, Question, decide

PEERS = {"metis": "METIS", "mtkahypar": "Mt-KaHyPar", "kahip": "KaHIP"}
IMBALANCES = (0.001, 0.01)
"""Each bisection of METIS may add as much. With more, many of the blocks overbook their hosts."""

ATTEMPTS = 5
LOOK_S = 0.005
"""Interval at which the memory of the command is read. Its `ru_maxrss` is at least what this program had."""

PEER_S = 120.0
"""Longest that the attempts of one preset may take, twice the longest limit of ours on two processors."""

MOST_GREEDY_HOSTS = 2000
"""The annealer and the greedy method take minutes for more."""

PRICES_S = (0.001, 0.01, 0.1, 1.0)
"""Prices of each task that shares a host although it should not."""


@dataclass(frozen=True)
class Row:
    """One answer: its seconds by the judge (None = failed), what it took, and the bound that it proved."""

    name: str
    seconds: float | None
    took_s: float
    cpu_s: float
    peak_mb: float
    limit_s: float = 0.0
    bound_s: float = 0.0


def main(arguments: Sequence[str]) -> None:
    """`scale [--tasks 10000] [--hosts 1000] [--family F] [--limits 1,3,10,30] [--seeds 5] [--last-seeds 1] [--peer metis] [--no-peers] [--priced] [--record FOLDER] [--quick]`."""
    parser = argparse.ArgumentParser(prog="bench-place scale")
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--family", choices=FAMILIES, action="append", help="only these; may be repeated")
    parser.add_argument("--limits", default="1,3,10,30", help="seconds for ours")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds of ours")
    parser.add_argument("--last-seeds", type=int, help="fewer seeds for the longest limit")
    parser.add_argument("--seed", type=int, default=0, help="of the instances")
    parser.add_argument("--peer", choices=PEERS, action="append", help="only these; may be repeated")
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
        f"{'family':<12} {'method':<33} {'seconds':>9} {'took s':>7} {'cpu s':>7} {'peak MB':>8} {'of best peer':>13}"
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
    for peer in () if options.no_peers else options.peer or PEERS:
        for preset in PRESETS[peer]:
            rows += _peer(judge, peer, preset)
    least = min((row.seconds for row in rows if row.seconds is not None), default=None)
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "a.network.json", Path(folder) / "a.app.toml"
        write_network(files[0], network)
        write_app(files[1], app)
        small = options.hosts <= MOST_GREEDY_HOSTS and not options.no_peers
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
                with ThreadPoolExecutor(os.cpu_count()) as pool:
                    annealed = pool.map(partial(anneal, annealer, judge, cpu_s), range(options.seeds))
                rows += [Row("annealer", each, cpu_s, cpu_s, 0.0, limit_s) for each in annealed]
    for row in rows:
        shown = "none" if row.seconds is None else f"{row.seconds:.3f}"
        ratio = f"{row.seconds / least:.3f}" if row.seconds and least else ""
        numbers = f"{shown:>9} {row.took_s:>7.2f} {row.cpu_s:>7.2f} {row.peak_mb:>8.0f} {ratio:>13}"
        gap = f" gap {1 - row.bound_s / row.seconds:.1%}" if row.bound_s and row.seconds else ""
        print(f"{family:<12} {row.name:<33} {numbers}{gap}", flush=True)
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
    """Write quality against time: for each limit ours, and the best of others that took no more processor time."""
    cells = []
    for limit_s in sorted({row.limit_s for row in rows if row.limit_s}):
        ours = [row for row in rows if row.limit_s == limit_s and row.name.startswith("ours")]
        seconds = [row.seconds for row in ours if row.seconds is not None]
        cpu_s = statistics.fmean(row.cpu_s for row in ours)
        annealed = [row for row in rows if row.limit_s == limit_s and row.name == "annealer"]
        others = [[row for row in rows if row.name.startswith(peer)] for peer in PEERS.values()]
        others += [[row for row in rows if row.name == "greedy"], annealed]
        known = [row.seconds for each in others for row in each if row.seconds and row.cpu_s <= cpu_s]
        bound_s = max(row.bound_s for row in ours)
        spread = f" ± {statistics.stdev(seconds):.2f}" if len(seconds) > 1 else ""
        cells.append(
            [
                f"{cpu_s:.1f}",
                f"{limit_s:g}",
                f"{statistics.fmean(seconds):.2f}{spread}" if seconds else "none",
                *(_best(each, cpu_s) for each in others),
                f"{statistics.fmean(seconds) / min(known):.3f}" if seconds and known else "",
                f"{max(seconds) / min(seconds) - 1:.1%}" if seconds else "",
                f"{1 - bound_s / statistics.fmean(seconds):.0%}" if seconds else "",
                f"{max(row.took_s for row in ours):.1f}",
                f"{max(row.peak_mb for row in ours):.0f}",
            ]
        )
    size = f"{options.tasks:,} tasks on {options.hosts:,} hosts"
    columns = ["processor time, s", "limit, s", "ours", *PEERS.values(), "greedy", "annealer", "ours / best other"]
    columns += ["worst seed above best", "gap to the bound", "wall time, s", "peak memory, MB"]
    write_figure(
        options.record / f"placement-scale-{family}{'-large' if options.hosts > MOST_GREEDY_HOSTS else ''}.json",
        title=f"{family}, {size}: seconds of the placement by processor time",
        command=command_line("place", options.record),
        seed=str(options.seed),
        samples=f"{options.seeds} seeds of ours at each limit; ± is their standard deviation",
        about=about,
        columns=columns,
        rows=cells,
        plot={
            "kind": "lines",
            "columns": [at for at in range(2, 8) if any(row[at][:1].isdigit() for row in cells)],
            "unit": "seconds",
            "scale": "log",
            "across": "log",
        },
    )


def _best(rows: Sequence[Row], cpu_s: float) -> str:
    """Return the least seconds of those that took no more processor time, or why there is none."""
    if not rows:
        return "not run"
    answered = [row for row in rows if row.seconds is not None]
    times = [row.seconds for row in answered if row.seconds is not None and row.cpu_s <= cpu_s]
    return f"{min(times):.2f}" if times else "too slow" if answered else "no answer"


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


def _peer(judge: Judge, peer: str, preset: str) -> list[Row]:
    name = f"{PEERS[peer]} {preset}".strip()
    known = answers(
        peer,
        judge,
        preset=preset,
        imbalances=IMBALANCES,
        attempts=ATTEMPTS,
        threads=2,
        exchange=False,
        most_s=PEER_S,
    )
    if not known:
        return [Row(f"{name}, over {PEER_S:g} s", None, PEER_S, PEER_S, 0.0)]
    return [
        Row(
            f"{name}{f', {each.overbooked} moved' * bool(each.overbooked)}",
            each.seconds,
            each.took_s,
            each.cpu_s,
            each.peak_mb,
        )
        for each in known
    ]


def _ours(judge: Judge, files: tuple[Path, Path], method: str, seed: int, limit_s: float) -> Row:
    target = files[0].with_name("a.placement.json")
    program = str(Path(sys.executable).with_name("gavotte"))
    command = [program, "place", *map(str, files), "--method", method, "--seed", str(seed)]
    command += ["--time-limit", f"{limit_s:g}", "-o", str(target)]
    start_s = time.perf_counter()
    with tempfile.TemporaryFile() as complaints:
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=complaints)
        peak_mb = 0.0
        while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            peak_mb = max(peak_mb, resident_mb(str(child.pid)))
            time.sleep(LOOK_S)
        complaints.seek(0)
        complaint = complaints.read().decode()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    took_s = time.perf_counter() - start_s
    if child.returncode:
        print(f"{' '.join(command[1:2])} by {method}: {complaint.strip()}", flush=True)
    document = json.loads(target.read_text()) if child.returncode == 0 else None
    seconds = judge.of(document["assignment"]) if document else None
    bound_s = float(document["bound_s"] or 0.0) if document and method == "auto" else 0.0
    name = method if method != "auto" else f"ours {limit_s:g} s, seed {seed}"
    cpu_s = used.ru_utime + used.ru_stime
    return Row(name, seconds, took_s, cpu_s, peak_mb, limit_s if method == "auto" else 0.0, bound_s)
