"""`auto` for each purpose, compared with every method on snapshots later than those it learned from."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from benches.constant.cases import CHANGING, DECISIONS, MESSAGE_BYTES, series
from benches.constant.seattle import frames
from benches.recorded import write_figure

from gavotte.formats.history import Floats, History
from gavotte.model.choosing import CANDIDATES, Purpose, estimate, lasting, measured_hosts, trials
from gavotte.model.constant import find_constant
from gavotte.model.decisions import broadcast_s, earliest_first, mapped, mapping_s, random_tasks
from gavotte.model.estimators import fresh

PURPOSES: tuple[Purpose, ...] = ("trees", "placement", "prediction")
LEARN = (5, 10, 20)
LATER = 10
WINDOWS = 12
ROOTS, GRAPHS = 16, 8
GOAL = 0.03
"""Highest allowed cost of `auto` above that of the method that is best in the mean of a case."""


@dataclass
class Compared:
    """Costs relative to the mean's, one a series: of each method, and of the method that `auto` took."""

    methods: dict[str, list[float]] = field(default_factory=dict)
    auto: list[float] = field(default_factory=list)
    picked: list[str] = field(default_factory=list)

    @property
    def best(self) -> str:
        """The method that is best in the mean, known only afterwards."""
        return min(self.methods, key=lambda method: np.mean(self.methods[method]))

    @property
    def above(self) -> float:
        """Cost of `auto` divided by that of the best method, minus 1."""
        return float(np.mean(self.auto) / np.mean(self.methods[self.best])) - 1


class Judge:
    """Judges constants by snapshots later than those from which they were estimated."""

    def __init__(self, learnt: Floats, later: Floats, seed: int) -> None:
        size = learnt.shape[1]
        rng = np.random.default_rng(seed)
        self._roots = rng.permutation(size)[:ROOTS].tolist()
        self._graphs = [random_tasks(size, 1000 * seed + number) for number in range(GRAPHS)]
        self._usual = estimate(learnt, "median")
        self._known = np.where(np.isnan(later), self._usual, later)
        # A value that repeats a pair's last one is no new measurement.
        self._new = fresh(np.concatenate([learnt, later]))[len(learnt) :]

    def cost(self, constant: Floats) -> dict[Purpose, float]:
        """Return the cost of a constant by purpose: seconds, or the median relative error."""
        constant = np.where(np.isnan(constant), self._usual, constant)
        error = np.abs(self._new / constant - 1)
        trees = [broadcast_s(earliest_first(constant, root), self._known).mean() for root in self._roots]
        placements = [mapping_s(graph, mapped(graph, constant), self._known).mean() for graph in self._graphs]
        return {
            "trees": float(np.mean(trees)),
            "placement": float(np.mean(placements)),
            "prediction": float(np.median(error[np.isfinite(error)])),
        }


def compared(pairs: Iterator[tuple[Floats, Floats]], first: int) -> dict[Purpose, Compared]:
    """Compare `auto` with all methods on series of snapshots to learn from and of later ones."""
    result = {purpose: Compared() for purpose in PURPOSES}
    for seed, (whole, after) in enumerate(pairs, first):
        present = measured_hosts(whole)
        learnt, later = (np.ascontiguousarray(each[:, present][:, :, present]) for each in (whole, after))
        judge = Judge(learnt, later, seed)
        cost = {method: judge.cost(estimate(learnt, method)) for method in CANDIDATES}
        # As `gavotte model` does: `auto` leaves out values from before a move first.
        kept = lasting(learnt, seed=seed).times
        tried = trials(kept, seed=seed)
        for purpose in PURPOSES:
            picked = tried.surest(purpose).method
            base = cost["mean"][purpose]
            entry = result[purpose]
            entry.picked.append(picked)
            entry.auto.append(judge.cost(estimate(kept, picked))[purpose] / base)
            for method, by_purpose in cost.items():
                entry.methods.setdefault(method, []).append(by_purpose[purpose] / base)
    return result


@dataclass(frozen=True)
class _Job:
    """All series of one case, or of Seattle if `case` is None, with `learn` snapshots to learn from."""

    case: str | None
    learn: int
    size: int
    seeds: int
    first: int
    data: Path | None

    def run(self) -> dict[Purpose, Compared]:
        if self.case is None:
            assert self.data is not None
            return compared(_windows(self.data, self.learn), self.first)
        drawn = (_drawn(self.case, self.size, self.learn, seed) for seed in range(self.first, self.first + self.seeds))
        return compared(drawn, self.first)


def table(
    size: int,
    seeds: int,
    first: int,
    data: Path | None,
    kept: dict[tuple[str, Purpose, int], Compared],
    workers: int | None = None,
) -> Iterator[str]:
    """Yield a line for each case and purpose, and the verdict; put each comparison into `kept`.

    `workers` processes compare at the same time; None = one for each processor.
    """
    yield (
        f"cost over the mean's on {LATER} later snapshots, N={size}, {seeds} seeds; best = the best method afterwards\n"
        f"{'case':<24}{'learnt':>7}{'purpose':>12}{'auto':>7}{'best':>7}{'above':>8}  best, and what auto took"
    )
    misses = count = 0

    def lines(name: str, learn: int, by_purpose: dict[Purpose, Compared]) -> Iterator[str]:
        nonlocal misses, count
        for purpose, entry in by_purpose.items():
            kept[name, purpose, learn] = entry
            missed = entry.above > GOAL
            misses, count = misses + missed, count + 1
            taken = ", ".join(f"{entry.picked.count(each)} {each}" for each in sorted(set(entry.picked)))
            yield (
                f"{name:<24}{learn:>7}{purpose:>12}{np.mean(entry.auto):>7.3f}"
                f"{np.mean(entry.methods[entry.best]):>7.3f}{100 * entry.above:>+7.1f}%{'*' if missed else ' '} "
                f"{entry.best}; {taken}"
            )

    cases = [*(case.name for case in (*DECISIONS, *CHANGING)), *[None] * (data is not None)]
    jobs = [_Job(case, learn, size, seeds, first, data) for learn in LEARN for case in cases]
    # A forked process would wait for threads of the compiled code that it does not have.
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        for job, by_purpose in zip(jobs, pool.map(_Job.run, jobs), strict=True):
            yield from lines(job.case or "Seattle", job.learn, by_purpose)
    yield f"within {100 * GOAL:.0f} % of the best method afterwards in {count - misses} of {count}: {'met' if not misses else 'MISSED'}"


def record(path: Path, kept: dict[tuple[str, Purpose, int], Compared], seeds: str, about: str) -> None:
    """Write the comparisons as a figure: a row for each case."""
    cases = list(dict.fromkeys(case for case, _, _ in kept))
    columns = [(purpose, learn) for purpose in PURPOSES for learn in LEARN]
    write_figure(
        path,
        title="Cost of `auto` above the best method's afterwards",
        command='make bench-constant ARGS="--only purposes --data FOLDER"',
        seed=seeds,
        samples=f"{len(kept[cases[0], 'trees', LEARN[0]].auto)} series a case, {WINDOWS} windows of Seattle",
        about=about,
        columns=["% above the best method", *(f"{purpose}, {learn} snapshots" for purpose, learn in columns)],
        rows=[
            [case, *(f"{100 * kept[case, purpose, learn].above:.1f}" for purpose, learn in columns)] for case in cases
        ],
        plot={
            "kind": "bars",
            "columns": [1 + at for at, (_, learn) in enumerate(columns) if learn == LEARN[1]],
            "unit": "%",
        },
    )


def processor_time(seed: int, runs: int) -> Iterator[str]:
    """Yield the processor time that `auto` takes, next to its goal."""
    yield "processor time of `auto`, from the History to the constant"
    for size, count, goal_s in ((196, 100, 5.0), (1024, 4, 3.0)):
        _, times, _ = series(DECISIONS[1], size, count, np.random.default_rng(seed))
        history = History(
            alpha_s=np.where(np.isnan(times), np.nan, 1e-4),
            beta_Bps=MESSAGE_BYTES / times,
            time_s=np.arange(count, dtype=np.float64),
            hosts=tuple(f"h{host}" for host in range(size)),
            hops=np.zeros((size, size), dtype=np.int64),
            cpus=np.ones(size),
            memory_bytes=np.zeros(size, dtype=np.int64),
        )
        took_s = []
        for _ in range(runs):
            begin_s = time.process_time()
            method = find_constant(history, seed=seed).method
            took_s.append(time.process_time() - begin_s)
        took = statistics.median(took_s)
        verdict = "met" if took <= goal_s else "MISSED"
        yield f"{size} hosts x {count} snapshots: {took:.2f} s, median of {runs} ({method}); goal {goal_s:g} s: {verdict}"


def _drawn(name: str, size: int, learn: int, seed: int) -> tuple[Floats, Floats]:
    case = next(case for case in (*DECISIONS, *CHANGING) if case.name == name)
    _, learnt, later = series(case, size, learn, np.random.default_rng([seed, size, learn]), LATER)
    return learnt, later


def _windows(data: Path, learn: int) -> Iterator[tuple[Floats, Floats]]:
    times = frames(data)
    for start in np.linspace(0, len(times) - learn - LATER, WINDOWS).astype(int).tolist():
        yield times[start : start + learn], times[start + learn : start + learn + LATER]
