"""Orders of transfers in the fluid model: Orchestra's cases, and an hour of coflows with the public trace's shape.

    make bench-transfers [ARGS="--seeds 5 --trace FB2010-1Hr-150-0.txt --step 2 --record docs/results/data"]

The cases are four equal shuffles, three high-priority shuffles during a low one (section 7.4), and the topologies of
Fig. 13 (section 7.3). The hour is on ports of 1 Gbit/s: synthetic ones of its shape by seed, all coflows of all seeds
together, or the real one by its path. Each simulation of an hour runs in a process of its own, which reports its time
and peak memory.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benches.machine import machine
from benches.recorded import write_figure

from gavotte import _core
from gavotte.transfer import POLICIES, Trace, read_trace, simulate_transfers, synthetic_trace

HOSTS = 30
LEAST = (("sebf", 2.8), ("bssi", 2.8), ("d-clas", 1.9))
"""Goals: how many times as fast as fair sharing, on an hour like the public one."""
COMMAND = "make bench-transfers"
Row = tuple[float, int, float]
"""Arrival, class, and total bytes that each host sends."""


@dataclass(frozen=True)
class Hour:
    """Report of one simulation."""

    completion_s: np.ndarray
    seconds: float
    peak_mb: float


def shuffles(rows: Sequence[Row]) -> bytes:
    """Shuffles among all hosts, the same bytes from each to each, as a table."""
    lines = ["coflow,arrival_s,class,source,target,bytes"]
    for number, (arrival_s, class_, bytes_a_host) in enumerate(rows):
        for source in range(HOSTS):
            for target in range(HOSTS):
                lines.append(f"{number},{arrival_s!r},{class_},{source},{target},{bytes_a_host / HOSTS!r}")
    return "\n".join(lines).encode()


def completions(text: bytes, policy: str, port_bps: float) -> list[float]:
    done = simulate_transfers(Trace(_core.CoflowTrace.read(text)), policy, port_bps=port_bps)
    return [float(seconds) for seconds in done.completion_s]


def show(columns: list[str], rows: list[list[str]]) -> None:
    widths = [max(len(row[at]) for row in [columns, *rows]) for at in range(len(columns))]
    for row in [columns, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print(flush=True)


def four_shuffles() -> tuple[list[str], list[list[str]]]:
    """Fig. 15: 1 GB to each of 30 hosts, four times at once. T is the time of one alone."""
    fluid = {"fair": 4.0, "fifo": 2.5, "fifo+": 2.580}
    paper = {"fair": "1.45 x FIFO", "fifo": "34.6 s"}
    rows = []
    for policy in ("fair", "fifo", "fifo+", "weighted"):
        ends = [seconds / 8.0 for seconds in completions(shuffles([(0.0, 0, 1e9)] * 4), policy, 1e9)]
        average = sum(ends) / 4
        fluid_text = f"{fluid[policy]:.3f}" if policy in fluid else "-"
        rows.append(
            [policy, f"{average:.3f}", fluid_text, " ".join(f"{end:.3f}" for end in ends), paper.get(policy, "-")]
        )
    fifo, fair = (float(row[1]) for row in (rows[1], rows[0]))
    print(f"FIFO is {fair / fifo:.2f} x as fast as fair on average (paper: 1.45, 1.6 in theory)")
    print(f"FIFO's average <= 1.03 x 2.5 T: {'kept' if fifo <= 1.03 * 2.5 else 'MISSED'}")
    return ["policy", "average, T", "fluid value, T", "ends, T", "paper"], rows


def priorities() -> tuple[list[str], list[list[str]]]:
    """Fig. 14: 2 GB a host in the background; from 10 s on three shuffles of 256 MB a host, one after the other."""
    # A rate such that the low class takes the paper's 45.6 s without any order: the links are never idle before it
    # ends.
    port_bps = 8 * (2e9 + 3 * 256e6) / 45.6
    values = {}
    for policy in ("fair", "priority"):
        arrivals = [10.0]
        while True:
            ends = completions(shuffles([(0.0, 1, 2e9), *((at, 0, 256e6) for at in arrivals)]), policy, port_bps)
            if len(arrivals) == 3:
                break
            arrivals.append(arrivals[-1] + ends[-1])
        values[policy] = (float(np.mean(ends[1:])), ends[0])
    paper = {"fair": ("14.1", "45.6"), "priority": ("8.1", "48.7")}
    rows = [[name, f"{high:.1f}", f"{low:.1f}", *paper[name]] for name, (high, low) in values.items()]
    faster = 1 - values["priority"][0] / values["fair"][0]
    slower = max(0.0, values["priority"][1] / values["fair"][1] - 1)
    print(
        f"high class {100 * faster:.1f} % faster (paper 43 %), low class {100 * slower:.1f} % slower (paper 7 %): ",
        end="",
    )
    print("kept" if faster >= 0.43 and slower <= 0.07 else "MISSED")
    return ["policy", "high class, s", "low class, s", "paper: high, s", "paper: low, s"], rows


def figure_13() -> tuple[list[str], list[list[str]]]:
    """One unit from each own sender, as many from the shared one; a port sends one unit in one unit of time."""
    rows = []
    for name, private, measured in (("A", 2, 18), ("B", 3, 24), ("C", 4, 29)):
        lines = ["coflow,arrival_s,source,target,bytes"]
        for receiver in "xy":
            lines += [f"0,0,{receiver}{sender},{receiver},1" for sender in range(private)]
            lines.append(f"0,0,shared,{receiver},{private}")
        fair, weighted = (completions("\n".join(lines).encode(), policy, 8.0)[0] for policy in ("fair", "weighted"))
        gain = f"{100 * (fair / weighted - 1):.1f} %"
        rows.append(
            [name, f"{fair:.3f}", f"{weighted:.3f}", gain, f"{100 * (0.5 - 1 / (2 * private)):.1f} %", f"{measured} %"]
        )
    return ["topology", "fair, units", "weighted, units", "speed-up", "paper: predicted", "paper: measured"], rows


def hour_child(source: int | str, policy: str, step_s: float | None) -> Hour:
    trace = synthetic_trace(source) if isinstance(source, int) else read_trace(source)
    began = time.monotonic()
    done = simulate_transfers(trace, policy, step_s=step_s)
    seconds = time.monotonic() - began
    return Hour(done.completion_s, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def hour(
    sources: Sequence[int | str], policies: Sequence[str], step_s: float | None
) -> tuple[list[str], list[list[str]]]:
    """Print all policies on all sources."""
    paper = {"sebf": "3.16 (Varys)", "d-clas": "1.93 (Aalo)"}
    for source in sources:
        trace = synthetic_trace(source) if isinstance(source, int) else read_trace(source)
        alone_s = trace.core.bounds_s(1e9).mean()
        name = f"seed {source}" if isinstance(source, int) else source
        print(
            f"{name}: {len(trace)} coflows, {trace.flow_count} flows, {trace.bytes / 1e12:.1f} TB, "
            f"{len(trace.ports)} ports; alone {alone_s:.1f} s on average"
        )
    values: dict[str, list[Hour]] = {}
    spawn = multiprocessing.get_context("spawn")
    for policy in policies:
        with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as pool:
            values[policy] = list(pool.map(hour_child, sources, [policy] * len(sources), [step_s] * len(sources)))
        print(f"{policy}: {sum(each.seconds for each in values[policy]):.0f} s", flush=True)
    print()

    def average_s(each: Sequence[Hour]) -> float:
        return float(np.concatenate([hour.completion_s for hour in each]).mean())

    rows = []
    for policy, each in values.items():
        together = np.concatenate([hour.completion_s for hour in each])
        times = [average_s([fair]) / average_s([own]) for fair, own in zip(values["fair"], each, strict=True)]
        rows.append(
            [
                policy,
                f"{together.mean():.1f}",
                f"{average_s(values['fair']) / together.mean():.2f}",
                f"{min(times):.2f} to {max(times):.2f}",
                paper.get(policy, "-"),
                f"{np.quantile(together, 0.95):.1f}",
                f"{together.max():.0f}",
                f"{max(hour.seconds for hour in each):.1f}",
                f"{max(hour.peak_mb for hour in each):.0f}",
            ]
        )
    for policy, least in ((name, least) for name, least in LEAST if name in values):
        gain = average_s(values["fair"]) / average_s(values[policy])
        print(f"{policy} >= {least} x fair: {gain:.2f}, {'kept' if gain >= least else 'MISSED'}")
    columns = [
        "policy",
        "average, s",
        "compared with fair",
        "by seed",
        "paper",
        "p95, s",
        "longest, s",
        "run, s",
        "peak, MB",
    ]
    return columns, rows


def record(
    folder: Path,
    name: str,
    samples: str,
    seed: str,
    parts: tuple[list[str], list[list[str]]],
    plot: Mapping[str, object],
    title: str,
) -> None:
    """Write the numbers for docs/results."""
    columns, rows = parts
    write_figure(
        folder / f"{name}.json",
        title=title,
        command=COMMAND,
        seed=seed,
        samples=samples,
        plot=plot,
        columns=columns,
        rows=[[f"`{row[0]}`" if row[0] in POLICIES else row[0], *row[1:]] for row in rows],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="synthetic hours, from seed 0 on")
    parser.add_argument("--trace", type=Path, help="a coflow trace instead of synthetic ones")
    parser.add_argument(
        "--policies", nargs="*", default=POLICIES, choices=POLICIES, help="of the hours, fair among them"
    )
    parser.add_argument("--step", type=float, help="seconds that a share may idle; 0 = exact; left out = 2")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    args = parser.parse_args()
    sources: list[int | str] = [str(args.trace)] if args.trace else list(range(args.seeds))
    seed = "none" if args.trace else f"0 to {args.seeds - 1}"
    print(f"{machine()}; seed {seed}, samples {len(sources)}\n")
    parts = {}
    for title, run in (
        ("four equal shuffles (Fig. 15)", four_shuffles),
        ("priorities (Fig. 14)", priorities),
        ("one shuffle (Fig. 13)", figure_13),
        ("an hour of coflows", lambda: hour(sources, args.policies, args.step)),
    ):
        print(f"{title}:")
        parts[title] = run()
        show(*parts[title])
    if args.record:
        four, high, one, all_day = parts.values()
        bars = {"kind": "bars", "columns": [1], "unit": "average completion time, T"}
        record(args.record, "orchestra-four", "exact events", "none", four, bars, "Four equal shuffles")
        bars = {"kind": "bars", "columns": [1, 2, 3, 4], "unit": "completion time, s"}
        record(args.record, "orchestra-priority", "exact events", "none", high, bars, "Priorities")
        bars = {"kind": "bars", "columns": [1, 2], "unit": "completion time, units"}
        record(args.record, "orchestra-fig13", "exact events", "none", one, bars, "One shuffle")
        bars = {"kind": "bars", "columns": [1], "unit": "average completion time, s"}
        count = f"{len(sources)} hours of 526 coflows"
        record(args.record, "orchestra-hour", count, seed, all_day, bars, "An hour of coflows")
