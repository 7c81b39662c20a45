"""64 ranks of every mpiP report on 16 full hosts of four cores: ours at several limits and seeds, compared with others.

Rates are drawn from Skyplane's grid as in `ranks`: `hose` (caps and pairs), `caps` (caps alone), `pipe` and `groups`. `cpu s`
is processor time: of one attempt of a partitioner without its start, and of one of ours with its solvers. At each limit, the
annealer gets as much as ours, with as many seeds. `ratio` compares the worst seed of ours with the best answer of any other
that took no more processor time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from benches.machine import machine
from benches.place.judge import Judge
from benches.place.peers import IMBALANCES, PRESETS, anneal, answers, built_annealer
from benches.place.ranks import PEERS, halo, regions
from benches.place.real import DATA
from benches.recorded import command_line, write_figure

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.place import Effort, Question, decide
from gavotte.profile import profile

SHARINGS = ("hose", "caps", "pipe", "groups")
HOSTS, CORES = 16, 4.0
SAME = 0.005
"""Ours may be worse than another by this share."""

COLUMNS = ["network", "programs", "processor time, s", "worst seed / best other, median", "most"]
COLUMNS += ["worse by 0.5 %", "spread of seeds, median", "most ", "gap to the bound, median", "most  "]


@dataclass(frozen=True)
class Judged:
    """An application on a network of this kind."""

    network: Network
    app: App
    sharing: str


@dataclass(frozen=True)
class Case:
    """Answers of ours to one instance at one limit.

    Attributes:
        program: name of the App.
        sharing: kind of the network.
        limit_s: time limit.
        cpu_s: processor time, mean of the seeds.
        times_s: completion time of each seed, by the judge.
        best_s: least completion time of others that took no more processor time.
        bound_s: highest bound that any seed proved.
    """

    program: str
    sharing: str
    limit_s: float
    cpu_s: float
    times_s: Sequence[float]
    best_s: float
    bound_s: float

    @property
    def ratio(self) -> float:
        """Worst seed of ours over the best other."""
        return max(self.times_s) / self.best_s

    @property
    def spread(self) -> float:
        """Share by which the worst seed is above the best."""
        return max(self.times_s) / min(self.times_s) - 1

    @property
    def gap(self) -> float:
        """Gap of the best seed to the bound."""
        return 1 - self.bound_s / min(self.times_s)


def main(arguments: Sequence[str]) -> None:
    """`reports [--limits 1,3,10,30] [--seeds 5] [--seed 0] [--sharing hose] [--data FOLDER] [--no-peers] [--record FOLDER] [--quick]`."""
    parser = argparse.ArgumentParser(prog="bench-place reports")
    parser.add_argument("--limits", default="1,3,10,30", help="seconds for ours")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds of ours and of the annealer")
    parser.add_argument("--seed", type=int, default=0, help="of the network")
    parser.add_argument("--sharing", choices=SHARINGS, action="append", help="only these; may be repeated")
    parser.add_argument("--program", action="append", help="only these, as `lu`; may be repeated")
    parser.add_argument("--data", type=Path, default=DATA, help="has mpip-proxyapps/ and skyplane/")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    parser.add_argument("--quick", action="store_true", help="one program, one seed, limits of 1 and 3 s")
    options = parser.parse_args(arguments)
    reports = sorted((options.data / "mpip-proxyapps").glob("*.mpiP"))
    if not reports or not (options.data / "skyplane").exists():
        print(f"skipped: no mpip-proxyapps/ and skyplane/ in {options.data} (--data FOLDER)")
        return
    if options.quick:
        options.seeds, options.limits, options.program = 1, "1,3", ["lu"]
    limits = [float(limit) for limit in options.limits.split(",")]
    about = machine()
    print(about)
    cases: list[Case] = []
    print(
        f"{HOSTS} hosts of {CORES:g} cores, network seed {options.seed}, {options.seeds} seeds of ours; seconds by the judge"
    )
    with tempfile.TemporaryDirectory() as folder:
        annealer = None if options.no_peers else built_annealer(Path(folder))
        apps: dict[str, App] = {}
        for report in reports:
            name = report.name.split(".")[0]
            try:
                apps[name] = profile("mpip", report, name=name).app
            except GavotteError as error:  # most of its bytes are collectives, which the report has no matrix of
                print(f"{name} skipped: {error}")
        apps["halo"] = halo(np.random.default_rng(options.seed))
        for name, app in apps.items():
            if options.program and name not in options.program:
                continue
            for sharing in options.sharing or SHARINGS:
                if app.transfer:
                    cases += _cases(Judged(_network(options, sharing), app, sharing), options, limits, annealer)
    for limit_s in limits:
        print(_summary(limit_s, [case for case in cases if case.limit_s == limit_s]))
    if options.record is not None and cases:
        _record(options, cases, about)


def _network(options: argparse.Namespace, sharing: str) -> Network:
    grid = options.data / "skyplane" / "throughput_2022-01.csv"
    drawn = regions(grid, HOSTS, CORES, "hose" if sharing == "caps" else sharing, np.random.default_rng(options.seed))
    return drawn.model_copy(update={"rate_bps": []}) if sharing == "caps" else drawn


def _cases(
    judged: Judged, options: argparse.Namespace, limits: Sequence[float], annealer: Path | None
) -> Iterator[Case]:
    judge, app = Judge(judged.network, judged.app), judged.app
    head = f"{app.name:<12} {judged.sharing:<7}"
    others: list[tuple[float, float]] = []
    for peer in () if options.no_peers else PRESETS:
        for preset in PRESETS[peer]:
            known = [each for each in answers(peer, judge, preset=preset) if each.seconds is not None]
            others += [(each.cpu_s, each.seconds or np.inf) for each in known]
            cpu_s = statistics.fmean(each.cpu_s for each in known) if known else 0.0
            _line(head, f"{PEERS[peer]} {preset}".strip(), [each.seconds for each in known], cpu_s)
    if not options.no_peers:
        before_s = _cpu_s()
        answer = decide(Question(judged.network, [app]), Effort("greedy"))
        others.append((_cpu_s() - before_s, judge.of(answer.placement.assignment) or np.inf))
        _line(head, "greedy", [others[-1][1]], others[-1][0])
    for limit_s in limits:
        before_s = _cpu_s()
        ours = [
            decide(Question(judged.network, [app]), Effort(time_limit_s=limit_s, seed=seed))
            for seed in range(options.seeds)
        ]
        cpu_s = (_cpu_s() - before_s) / options.seeds
        times = [judge.of(answer.placement.assignment) or np.inf for answer in ours]
        annealed: list[float] = []
        if annealer is not None:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                ran = pool.map(partial(anneal, annealer, judge, cpu_s), range(options.seeds))
                annealed = [seconds or np.inf for seconds in ran]
            _line(head, f"annealer {limit_s:g} s", annealed, cpu_s)
        best = min([*annealed, *(seconds for used_s, seconds in others if used_s <= cpu_s)], default=np.inf)
        case = Case(
            app.name,
            judged.sharing,
            limit_s,
            cpu_s,
            times,
            best,
            bound_s=max(answer.placement.bound_s or 0.0 for answer in ours),
        )
        proven = sum(answer.placement.optimal for answer in ours)
        _line(
            head, f"ours {limit_s:g} s", times, cpu_s, f" ratio {case.ratio:.3f}, gap {case.gap:.1%}, proven {proven}"
        )
        yield case


def _cpu_s() -> float:
    """Return the processor seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


def _line(head: str, method: str, seconds: Sequence[float | None], cpu_s: float, more: str = "") -> None:
    known = [each for each in seconds if each is not None]
    shown = f"{min(known):>9.4f} to {max(known):>9.4f}" if known else f"{'none':>22}"
    print(f"{head} {method:<32} {shown} {cpu_s:>7.2f} cpu s{more}", flush=True)


def _summary(limit_s: float, cases: Sequence[Case]) -> str:
    return f"{limit_s:g} s, {len(cases)} cases: " + ", ".join(
        f"{name} {cell}" for name, cell in zip(COLUMNS[2:], _cells(cases), strict=True)
    )


def _cells(cases: Sequence[Case]) -> list[str]:
    ratios = [case.ratio for case in cases if np.isfinite(case.best_s)]
    spreads, gaps = [case.spread for case in cases], [case.gap for case in cases]
    return [
        f"{statistics.fmean(case.cpu_s for case in cases):.1f}",
        f"{statistics.median(ratios):.3f}" if ratios else "",
        f"{max(ratios):.3f}" if ratios else "",
        f"{sum(ratio > 1 + SAME for ratio in ratios)} of {len(ratios)}",
        f"{statistics.median(spreads):.1%}",
        f"{max(spreads):.1%}",
        f"{statistics.median(gaps):.1%}",
        f"{max(gaps):.1%}",
    ]


def _record(options: argparse.Namespace, cases: Sequence[Case], about: str) -> None:
    """Write a row for each limit and kind of network, over all programs."""
    rows = []
    for sharing in dict.fromkeys(case.sharing for case in cases):
        for limit_s in dict.fromkeys(case.limit_s for case in cases):
            chosen = [case for case in cases if (case.sharing, case.limit_s) == (sharing, limit_s)]
            rows.append([f"{sharing}, {limit_s:g} s", str(len(chosen)), *_cells(chosen)])
    part = "".join(f"-{sharing}" for sharing in options.sharing or ())
    write_figure(
        options.record / f"placement-reports{part}.json",
        title="64 ranks of real programs on 16 full hosts: ours next to the best other at the same processor time",
        command=command_line("place", options.record),
        seed=str(options.seed),
        samples=f"{options.seeds} seeds of ours and of the annealer, {len(IMBALANCES)} attempts of each preset",
        about=about,
        columns=COLUMNS,
        rows=rows,
        plot={"kind": "bars", "columns": [3, 4], "unit": "time of ours / best other"},
    )
