"""Share of coflows that meet their deadlines in the fluid model: per-flow sharing, EDF, and Varys' admission.

    make bench-transfers ARGS="deadlines [--seeds 2 --slack 1 --gbit 1 --trace FB2010-1Hr-150-0.txt --step 0.5
                               --record docs/results/data]"

A coflow's deadline is the time that it takes alone, times 1 + U(0, slack), and at least 0.2 s, as in Varys' evaluation.
The hours are those of fluid.py. Slower ports make them busier. A promise that is not kept is counted, and there must
be none.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benches.machine import machine
from benches.recorded import write_figure

from gavotte.transfer import read_trace, simulate_transfers, synthetic_trace, with_deadlines
from gavotte.transfer.simulating import Admission

WAYS: dict[str, tuple[str, Admission]] = {
    "`fair`, no admission": ("fair", "open"),
    "`sebf`, no admission": ("sebf", "open"),
    "`edf`, no admission": ("edf", "open"),
    "admission over `fair`": ("fair", "refuse"),
    "admission over `sebf`": ("sebf", "refuse"),
    "admission over `sebf`, late ones demoted": ("sebf", "demote"),
    "admission over `edf`, late ones demoted": ("edf", "demote"),
}

PAPER = {"admission over `sebf`": "up to 2 x per-flow (Varys)"}


@dataclass(frozen=True)
class Met:
    """Coflows of one hour under one way.

    Attributes:
        coflows: all of them.
        met: met their deadline.
        promised: were promised it.
        broken: were promised it and missed it.
    """

    coflows: int
    met: int
    promised: int
    broken: int


def hour_child(source: int | str, way: str, slack: float, step_s: float | None, port_bps: float) -> Met:
    """Simulate one hour in a process of its own."""
    trace = synthetic_trace(source) if isinstance(source, int) else read_trace(source)
    trace = with_deadlines(trace, slack, seed=source if isinstance(source, int) else 0, port_bps=port_bps)
    policy, admission = WAYS[way]
    done = simulate_transfers(trace, policy, step_s=step_s, admission=admission, port_bps=port_bps)
    return Met(len(trace), int(done.met.sum()), int(done.guaranteed.sum()), int((done.guaranteed & ~done.met).sum()))


def row(way: str, about: str, hours: Sequence[Met], fair: float) -> list[str]:
    """Return the cells of a way."""
    coflows = sum(hour.coflows for hour in hours)
    met, promised = sum(hour.met for hour in hours) / coflows, sum(hour.promised for hour in hours) / coflows
    shares = [100 * hour.met / hour.coflows for hour in hours]
    return [
        f"{about}: {way}",
        f"{100 * met:.1f}",
        f"{min(shares):.1f} to {max(shares):.1f}",
        f"{met / fair:.2f}",
        f"{100 * promised:.1f}" if promised else "-",
        str(sum(hour.broken for hour in hours)),
        PAPER.get(way, "-"),
    ]


def main(words: Sequence[str]) -> None:
    """Print one row for each way and slack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2, help="synthetic hours, from seed 0 on")
    parser.add_argument("--trace", type=Path, help="a coflow trace instead of synthetic ones")
    parser.add_argument("--slack", type=float, nargs="*", default=[1.0], help="largest extra time")
    parser.add_argument("--gbit", type=float, nargs="*", default=[1.0], help="rate of each port, in Gbit/s")
    parser.add_argument("--step", type=float, default=0.5, help="seconds that a share may idle; 0 = exact")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    given = parser.parse_args(words)
    about = machine()
    sources: list[int | str] = [str(given.trace)] if given.trace else list(range(given.seeds))
    seed = "0" if given.trace else f"0 to {given.seeds - 1}"
    print(f"{about}; seed {seed}, samples {len(sources)}, steps of {given.step:g} s")
    columns = ["deadlines and way", "in time, %", "by seed, %", "x fair", "promised, %", "promises broken", "paper"]
    print("  ".join(columns), flush=True)
    rows = []
    spawn = multiprocessing.get_context("spawn")
    for slack, gbit in [(slack, gbit) for slack in given.slack for gbit in given.gbit]:
        fair = 1.0
        for way in WAYS:
            with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as pool:
                hours = list(
                    pool.map(
                        hour_child, sources, *([each] * len(sources) for each in (way, slack, given.step, 1e9 * gbit))
                    )
                )
            if way == next(iter(WAYS)):
                fair = sum(hour.met for hour in hours) / sum(hour.coflows for hour in hours)
            rows.append(row(way, f"slack {slack:g}, {gbit:g} Gbit/s", hours, fair))
            print("  ".join(rows[-1]), flush=True)
    broken = sum(int(each[5]) for each in rows)
    print(f"no promise is broken: {'kept' if broken == 0 else f'MISSED, {broken} are'}")
    if given.record:
        trace = f" --trace {given.trace.name}" if given.trace else f" --seeds {given.seeds}"
        write_figure(
            given.record / ("varys-deadlines-trace.json" if given.trace else "varys-deadlines.json"),
            title="Coflows that meet their deadlines",
            command=f'make bench-transfers ARGS="deadlines{trace} --step {given.step:g}"',
            about=about,
            seed=seed,
            samples=f"{len(sources)} hours, steps of {given.step:g} s",
            plot={"kind": "bars", "columns": [1, 4], "unit": "coflows, %"},
            columns=columns,
            rows=rows,
        )
