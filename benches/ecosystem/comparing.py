"""The same job by a framework's own choice of hosts and by ours, in turns."""

from __future__ import annotations

import random
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial

from benches.ecosystem.stage import WORKERS, Asked, Chosen, Stage

GOAL, MOST_SLOWER = 0.2, 0.01
"""At racks with slow uplinks ours saves a fifth of the wall time; nowhere is it more than 1 % slower in the median."""

FEWEST_RUNS, DRAWS = 10, 2000
"""Runs from which on medians have an interval, and draws of the bootstrap that estimates it."""

Cluster = Callable[[Stage, Sequence[str], int], AbstractContextManager[Asked]]
"""Starts a framework on these hosts, with its scheduler at this port."""


@dataclass(frozen=True)
class Row:
    """One job of one framework.

    Attributes:
        component: the framework and its version.
        accepted: what it took from Gavotte.
        job: what ran.
        before: hosts of its own choice.
        chosen: hosts of ours, or of its own with what it took from Gavotte, and the predicted wall time there.
        times: seconds of each run, of its own choice first.
    """

    component: str
    accepted: str
    job: str
    before: tuple[str, ...]
    chosen: Chosen
    times: Mapping[str, Sequence[float]]

    @property
    def medians_s(self) -> tuple[float, float]:
        """Medians of both."""
        own, ours = self.times.values()
        return statistics.median(own), statistics.median(ours)

    @property
    def saved(self) -> float:
        """Share of the wall time that ours saves in the median."""
        own_s, ours_s = self.medians_s
        return 1 - ours_s / own_s

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of what ours saves, by bootstrap of both medians; None = too few runs."""
        if min(map(len, self.times.values())) < FEWEST_RUNS:
            return None
        choice = random.Random(len(self.job))

        def median_s(runs_s: Sequence[float]) -> float:
            return statistics.median(choice.choices(runs_s, k=len(runs_s)))

        own, ours = self.times.values()
        saved = sorted(1 - median_s(ours) / median_s(own) for _ in range(DRAWS))
        return saved[round(0.025 * DRAWS)], saved[round(0.975 * DRAWS) - 1]

    @property
    def same(self) -> bool:
        """Whether Gavotte keeps the framework's own choice. A difference is then chance."""
        return self.before == self.chosen.hosts

    def verdict(self, kind: str) -> str:
        """Compare with the goal for this kind of cloud."""
        if self.same and kind != "racks":
            return "met: the same hosts"
        goal = GOAL if kind == "racks" else -MOST_SLOWER
        if self.saved >= goal:
            return "met"
        if self.interval is not None and self.interval[1] >= goal:
            return f"not shown: the interval includes the goal of {goal:+.0%}"
        return f"MISSED (goal {goal:+.0%})"

    def cells(self) -> list[str]:
        """Return the row of the table."""
        own, ours = self.times.values()
        low_s, high_s = self.chosen.low_s, self.chosen.high_s
        between = "" if self.interval is None else f" ({self.interval[0]:+.0%} to {self.interval[1]:+.0%})"
        predicted = "-" if low_s is None or high_s is None else f"{low_s:.1f} to {high_s:.1f}"
        return [
            f"{self.job} ({self.component})",
            _spread(own),
            _spread(ours),
            f"{self.saved:+.0%}{between}{', same hosts' * self.same}",
            predicted,
            f"{self.chosen.lost:.0%}",
            " ".join(self.before),
            " ".join(self.chosen.hosts),
            self.accepted,
        ]


COLUMNS = [
    "job",
    "own choice, s",
    "with Gavotte, s",
    "saved",
    "predicted, s",
    "lost",
    "own hosts",
    "hosts with Gavotte",
    "taken from Gavotte",
]


def _spread(times_s: Sequence[float]) -> str:
    spread = f" ± {statistics.stdev(times_s):.1f}" if len(times_s) > 1 else ""
    return f"{statistics.median(times_s):.1f}{spread}"


def slug(job: str) -> str:
    """Return a job's name as that of a file."""
    return re.sub(r"\W+", "-", job).lower()


def in_turns(ways: Mapping[str, Callable[[], float]], runs: int, seed: int) -> dict[str, list[float]]:
    """Run each way once in each of `runs` rounds, in random order; return the seconds of each."""
    choice = random.Random(seed)
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(runs):
        for way in choice.sample(list(ways), len(ways)):
            times[way].append(ways[way]())
    return times


def by_hosts(
    stage: Stage, component: str, jobs: Sequence[str], cluster: Cluster, turns: tuple[int, int]
) -> Iterator[Row]:
    """Compare clusters on the first hosts with those on the hosts that Gavotte places the job on.

    Args:
        stage: the lab.
        component: the framework and its version.
        jobs: names of the jobs.
        cluster: starts the framework.
        turns: number of runs of each, and seed of their order.
    """
    hosts = stage.hosts[:WORKERS]
    with cluster(stage, hosts, 7310) as own:
        for number, job in enumerate(jobs):
            own(job)  # a cluster's first job loads libraries
            with stage.watched(slug(job)):
                first_s = own(job)
            chosen = stage.choose(slug(job), hosts, [first_s])
            with ExitStack() as ends:
                ours = own
                if chosen.hosts != tuple(hosts):
                    ours = ends.enter_context(cluster(stage, chosen.hosts, 7320 + 10 * number))
                    ours(job)
                times = in_turns({"own": partial(own, job), "ours": partial(ours, job)}, *turns)
            yield Row(component, "hosts of the cluster", job, tuple(hosts), chosen, times)
