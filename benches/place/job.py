"""The verdict on a real MPI job: by the network's time alone, and by the job's own time; then what really happened.

`place` knows the bytes of a job, and not how long it computes and waits. Its verdict "any placement will do" is about
the network alone. A run's time (`--ran`, `--took`) adds the rest. Here N-body (`examples/nbody`) runs on lab hosts:

1. It is placed by round-robin and counted by `pmpi` while it runs.
2. `auto` places it again. One line is the verdict without the run's time, one with it, and one also with the time that
   the busiest rank computed, which the job reports.
3. It runs under both placements in turn. The last line says whether the saving, within two standard errors of the runs,
   is in both predicted intervals.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benches.machine import machine
from benches.mpi import available, launch, loss_based
from tests import builders

from gavotte import lab
from gavotte.collective import build_shim
from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.inventory import read_inventory
from gavotte.measure import measure
from gavotte.model import model
from gavotte.place import Effort, Forecast, Question, Worth, decide
from gavotte.profile import profile

PROGRAM = Path(__file__).parents[2] / "examples" / "nbody" / "nbody.py"
LIBRARY = "openmpi"
RANKS = 4
RATES_MBIT = (20, 60, 30, 60, 40, 60)
"""Egress of the hosts. Round-robin takes the first four."""
JOBS = {
    "little at stake": ["--steps", "12", "--bodies", "384", "--attributes", "0"],
    "mostly sends": ["--steps", "12", "--bodies", "512", "--attributes", "4000"],
}


@dataclass(frozen=True)
class Judged:
    """One job.

    Attributes:
        job: its key in `JOBS`.
        alone: the verdict by the network's time; None if nothing was there to compare with.
        forecast: the verdict by the job's own time.
        informed: the same, with the time that it computed.
        before_s: seconds of its runs under round-robin.
        after_s: seconds of its runs under the new placement.
    """

    job: str
    alone: Worth | None
    forecast: Forecast
    informed: Forecast
    before_s: Sequence[float]
    after_s: Sequence[float]

    @property
    def saving(self) -> float:
        """Share of the time that the new placement saved."""
        return 1 - statistics.fmean(self.after_s) / statistics.fmean(self.before_s)

    @property
    def error(self) -> float:
        """Standard error of the saving, from the scatter of the runs; 0 if a placement ran only once."""
        if min(len(self.before_s), len(self.after_s)) < 2:
            return 0.0
        shares = [
            statistics.stdev(each) / math.sqrt(len(each)) / statistics.fmean(each)
            for each in (self.before_s, self.after_s)
        ]
        return (1 - self.saving) * math.hypot(*shares)

    def held(self, forecast: Forecast) -> bool:
        """Return whether the saving is in a predicted interval."""
        low, high = forecast.saving_low, forecast.saving_high
        if low is None or high is None:
            return False
        return low - 2 * self.error <= self.saving <= high + 2 * self.error


class Bench:
    """A lab, its Network as measured, and the counting library."""

    def __init__(self, session: lab.Session, folder: Path, seed: int) -> None:
        self._session, self._folder, self._seed = session, folder, seed
        names = [f"h{number}" for number in range(len(RATES_MBIT))]
        loss_based(session, names)
        self.network = model(measure(read_inventory(session.hosts_file), seed=seed).history)
        self._shim = folder / "count.so"
        build_shim(self._shim, mpicc=f"mpicc.{LIBRARY}", counting=True)

    def judge(self, job: str, runs: int) -> Judged:
        """Place a job, run it under both placements, and return what was predicted and what happened."""
        blind = decide(Question(self.network, [self._app(job)]), Effort("round-robin", seed=self._seed)).placement
        first_s, computing_s = self._run(job, blind.assignment, counting=True)
        app = self._counted(job)
        question = Question(self.network, [app])
        before = decide(question, Effort("round-robin", seed=self._seed)).placement.assignment
        answer = decide(question, Effort(seed=self._seed))
        forecast, informed = (
            answer.forecast(before, [first_s], computing_s=each) for each in (None, min(computing_s, first_s))
        )
        placements = {"before": before, "after": answer.placement.assignment}
        took_s: dict[str, list[float]] = {name: [] for name in placements}
        for repetition in range(runs):
            for name in random.Random(f"{self._seed} {job} {repetition}").sample(list(placements), 2):
                took_s[name].append(self._run(job, placements[name])[0])
        return Judged(job, answer.worth(), forecast, informed, took_s["before"], took_s["after"])

    def _app(self, job: str) -> App:
        """Return the job as known before its first run: its ranks, without their bytes."""
        names = [f"rank{rank}" for rank in range(RANKS)]
        return builders.app(job.replace(" ", "-"), *((a, b, 1) for a in names for b in names if a != b))

    def _counted(self, job: str) -> App:
        return profile("pmpi", sorted(self._folder.glob("job.*.pmpi")), name=job.replace(" ", "-"), min_bytes=0).app

    def _run(self, job: str, assignment: dict[str, str], *, counting: bool = False) -> tuple[float, float]:
        """Return the seconds of a run, and those in which its busiest rank computed."""
        ranks = [assignment[f"rank{rank}"] for rank in range(RANKS)]
        own = {"LD_PRELOAD": str(self._shim), "GAVOTTE_COUNTS": str(self._folder / "job")} if counting else None
        for old in self._folder.glob("job.*.pmpi") if counting else ():
            old.unlink()
        began_s = time.monotonic()
        done = launch(self._session, LIBRARY, [PROGRAM, *JOBS[job]], ranks=ranks, scratch=self._folder, environment=own)
        if done.returncode:
            raise GavotteError(f"the job failed: {done.stderr.strip()[-300:]}")
        return time.monotonic() - began_s, json.loads(done.stdout.splitlines()[-1])["computing_s"]


def main(arguments: Sequence[str]) -> None:
    """`job [--seed 0] [--runs 3]`."""
    parser = argparse.ArgumentParser(prog="bench-place job")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=3, help="under each placement")
    options = parser.parse_args(arguments)
    if not available(LIBRARY) or not lab.supported():
        print("skipped: needs Open MPI and a lab")
        return
    print(machine())
    print(f"N-body, {RANKS} ranks on {len(RATES_MBIT)} hosts, seed {options.seed}, {options.runs} runs a placement")
    cloud = builders.topology(
        [{"name": f"h{number}", "egress": f"{rate}mbit", "cpus": 1} for number, rate in enumerate(RATES_MBIT)]
    )
    with tempfile.TemporaryDirectory(prefix="gvt-job-") as scratch, lab.session(cloud, source="bench") as session:
        bench = Bench(session, Path(scratch), options.seed)
        for job in JOBS:
            print(row(bench.judge(job, options.runs)), flush=True)


def row(one: Judged) -> str:
    """Return a job's lines: both verdicts, then what happened."""
    alone = "no baseline" if one.alone is None else "; ".join(filter(None, (one.alone.reason, one.alone.unknown)))
    before, after = (statistics.fmean(each) for each in (one.before_s, one.after_s))
    ends = {True: "in the interval", False: "OUTSIDE the interval"}
    return "\n".join(
        [
            one.job,
            f"  the network alone:  {alone}",
            f"  the job's own time: {one.forecast.reason}: {ends[one.held(one.forecast)]}",
            f"                      {one.forecast.hidden or 'computing hides nothing that matters'}",
            f"  its computing, too: {one.informed.reason}: {ends[one.held(one.informed)]}",
            f"  in the model:       {' and '.join(f'{each:.2f} s' for each in one.forecast.modelled_s)}; "
            f"computed {one.informed.computing_s:.2f} s",
            f"  took:               {before:.2f} s before, {after:.2f} s after, {one.saving:.0%} saved "
            f"(standard error {one.error:.1%})",
        ]
    )
