"""What a source costs a running job: pairs of runs, one without and one with the source, in random order.

The job has processors of its own, and so have the sources (`--apart`). A pair's two runs follow each other at once, so
that whatever else changes the machine's speed changes both. Each figure is the mean over pairs of the relative
difference, with its 95 % interval (Student's t). The processor time of a job contains what the kernel does for a source
in the job's own system calls; it varies less than the job's time.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benches.profile.job import DaskJob, MpiJob, watched
from benches.profile.observers import spent_s
from scipy.stats import t

GOAL = 0.03
"""The most by which a source may lengthen a job."""
WARM = 2
"""Runs before the first pair: caches, connections, Python's own."""


@dataclass(frozen=True)
class Asked:
    """What to measure.

    Attributes:
        sources: names; those that the job has not are left out.
        runs: number of pairs of each.
        minutes: no pair begins later.
        seed: of the order.
    """

    sources: Sequence[str]
    runs: int
    minutes: float
    seed: int


@dataclass
class Costs:
    """Pairs of one source: without it, with it.

    Attributes:
        seconds: of the job.
        processor_s: of the job's own processes; empty if they end with each run.
        shares: of one processor that the source's programs took on each host.
    """

    seconds: list[tuple[float, float]] = field(default_factory=list)
    processor_s: list[tuple[float, float]] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)


def interval(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the mean relative difference of pairs, and half of its 95 % interval."""
    differences = [with_it / without - 1 for without, with_it in pairs]
    if len(differences) < 2:
        return (differences[0] if differences else float("nan")), float("nan")
    error = statistics.stdev(differences) / len(differences) ** 0.5
    return statistics.fmean(differences), float(t.ppf(0.975, len(differences) - 1)) * error


def one_run(job: MpiJob | DaskJob, source: str | None) -> tuple[float, float, float]:
    """Run the job once; return its seconds, its processor seconds, and the share of one processor of the source a host."""
    own: dict[int, float] = {}
    spans: list[tuple[float, dict[int, float], dict[int, float]]] = []
    words = job.watchers.programs.get(source or "", ())

    def look() -> None:
        own = spent_s(str(job.folder), without="observers")
        spans.append((time.monotonic(), own, spent_s(*words) if words else {}))

    seconds, _ = watched(job, () if source is None else (source,), around=look)
    (began_s, own, theirs), (ended_s, own_after, theirs_after) = spans
    used_s = sum(each - own[process] for process, each in own_after.items() if process in own)
    spent = sum(each - theirs[process] for process, each in theirs_after.items() if process in theirs)
    return seconds, used_s, spent / (ended_s - began_s) / job.size.tasks


def overhead(job: MpiJob | DaskJob, asked: Asked, rows: list[list[str]]) -> bool:
    """Print how much longer the job takes with each source, add a row a source, and report whether all kept the goal."""
    runs, seed = asked.runs, asked.seed
    sources = [each for each in asked.sources if each in job.sources and each != "dask"]  # Dask always keeps its logs
    costs = {each: Costs() for each in sources}
    draw = random.Random(seed)
    began_s = time.monotonic()
    for _ in range(WARM):
        watched(job, ())
    watched(job, tuple(sources))
    print(
        f"\n{job.name}: {runs} pairs with each of {len(sources)} sources; warm after {time.monotonic() - began_s:.0f} s"
    )
    for number in range(runs):
        if time.monotonic() - began_s > 60 * asked.minutes:
            runs = number
            break
        for each in draw.sample(sources, len(sources)):
            order: list[str | None] = draw.sample([None, each], 2)
            pair = {source: one_run(job, source) for source in order}
            costs[each].seconds.append((pair[None][0], pair[each][0]))
            if pair[None][1] and pair[each][1]:
                costs[each].processor_s.append((pair[None][1], pair[each][1]))
            costs[each].shares.append(pair[each][2])
            print(
                f"  pair {number + 1}, {each}: {pair[None][0]:.3f} and {pair[each][0]:.3f} s, the job's processor time "
                f"{pair[None][1]:.2f} and {pair[each][1]:.2f} s, {time.monotonic() - began_s:.0f} s so far",
                file=sys.stderr,
            )
    good = True
    where = "processors of their own" if job.size.apart else "the job's processors"
    print(f"the job with one source on {where}, {runs} pairs each, seed {seed}; 95 % intervals")
    print(f"{'source':>8} {'without':>9} {'with':>9} {'longer by':>17} {'its processor time':>20}  source, a host")
    for each, own in costs.items():
        (longer, half), (busier, around) = interval(own.seconds), interval(own.processor_s)
        without, with_it = (statistics.fmean(side) for side in zip(*own.seconds, strict=True))
        share = statistics.fmean(own.shares)
        good &= longer - half <= GOAL
        cpu = f"{busier:+.1%} ± {around:.1%}" if own.processor_s else "-"
        counted = f"{share:.2%}" if job.watchers.programs.get(each) else "-"
        verdict = "met" if longer + half <= GOAL else "missed" if longer - half > GOAL else "cannot tell"
        print(
            f"{each:>8} {without:>8.3f}s {with_it:>8.3f}s {longer:>+8.1%} ± {half:>5.1%} {cpu:>20}  {counted:>8}  {verdict}"
        )
        rows.append(
            [
                f"{job.library}, `{each}`",
                f"{without:.3f}",
                f"{with_it:.3f}",
                f"{100 * longer:+.1f} ± {100 * half:.1f} %",
                cpu,
                counted,
                verdict,
            ]
        )
    return good
