"""A run of a method under an effort: its clock, its best results so far, and its searches."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import InfeasibleError
from gavotte.place.columns import Instance
from gavotte.place.effort import Effort, Interrupted
from gavotte.place.exact.installed import CPSAT, solver_lacking
from gavotte.place.exact.solution import PROVEN, Solution

STEPS_PER_S = 4_000_000
"""Search steps that stand for a second of the time limit: what two cores make of 100 tasks on 50 hosts."""

PARTNERS = 6.0
"""Mean number of a task's partners behind `STEPS_PER_S`. A step looks at them all: 30 took six times as long."""

LARGE = 1000
LARGE_STEPS_PER_S = 1_200_000
"""Search steps per second for `LARGE` tasks or more, where every step misses the caches."""

ENDLESS_STEPS = 1 << 62

EXACT_LITERALS = 60_000
"""Largest model, in literals, for which `auto` tries a proof."""

GRACE_S = 0.4
"""Seconds that proofs may take beyond the time limit. Without them, a limit of a tenth of a second allows no proof."""

LEAST_SEARCH_S = 0.02
"""Seconds that a search may take in any case."""

_Hosts = npt.NDArray[np.uint32]


class Proven(Exception):  # noqa: N818 -- it reports success
    """The best time of a search has reached the bound, so that nothing is left to search for."""


@dataclass
class Attempt:
    """Run of a method under an effort: its clock, and its best results so far.

    Attributes:
        effort: how hard to try.
        clock: seconds, for the time limit.
        best_s: completion time of the best placement so far.
        bound_s: the best bound so far.
        bound_stopped: whether the work on the bound was cut short.
        solution: the answer if a signal ends the work now.
        unproven: why a proof that is part of the method was not tried; empty = it was, or none is.
    """

    effort: Effort
    clock: Callable[[], float] = time.monotonic
    best_s: float = field(default=math.inf, init=False)
    bound_s: float = field(default=0.0, init=False)
    bound_stopped: bool = field(default=False, init=False)
    solution: Solution | None = field(default=None, init=False)
    unproven: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._begin_s = self.clock()

    @property
    def limit_s(self) -> float:
        """Time limit in seconds."""
        return self.effort.time_limit_s

    @property
    def seed(self) -> int:
        """Seed of every random choice."""
        return self.effort.seed

    @property
    def threads(self) -> int:
        """The most threads to use."""
        return self.effort.threads or default_threads()

    @property
    def repeatable(self) -> bool:
        """Whether to count work instead of time."""
        return self.effort.repeatable

    @property
    def gone_s(self) -> float:
        """Seconds of the limit that are gone: before the attempt began, and since."""
        return self.effort.spent_s + self.clock() - self._begin_s

    @property
    def left_s(self) -> float:
        """Seconds left of the time limit; the whole limit if work is counted instead of time."""
        return self.limit_s if self.repeatable else max(self.limit_s - self.gone_s - self.effort.kept_s, 0.0)

    def report(self, best_s: float = math.inf) -> None:
        """Report the best time, the bound and the share of the time spent to the effort's watcher."""
        self.best_s = min(self.best_s, best_s)
        if self.effort.watch is not None:
            self.effort.watch(self.best_s, self.bound_s, min(self.gone_s / self.limit_s, 1.0))

    def prove(self, bound_s: float) -> None:
        """Take over a proven bound, in seconds, if it is the best."""
        self.bound_s = max(self.bound_s, bound_s)

    def at_bound(self, best_s: float) -> bool:
        """Return whether a placement of this time is proven to be as fast as any."""
        return self.bound_s > 0 and best_s <= self.bound_s * (1 + PROVEN)

    def keep(self, instance: Instance, solution: Solution) -> None:
        """Remember a placement if it is faster than the best so far. A simple method's placement is never replaced."""
        if self.solution is None or (
            self.solution.method not in _core.policies()
            and seconds(instance, solution.hosts) < seconds(instance, self.solution.hosts)
        ):
            self.solution = solution

    def tick(self, _best_s: float) -> None:
        """Report progress, but not the best time, which is that of another problem."""
        self.report()

    def steps(self, instance: Instance) -> int:
        """Return the number of search steps that stand for the time limit."""
        steps_per_s = STEPS_PER_S if len(instance.tasks) < LARGE else LARGE_STEPS_PER_S
        return max(int(self.limit_s * steps_per_s * ease(instance)), 1000)


PRICED = 0.3
"""Share of a search's steps if rules have prices. 200 groups of 2,000 tasks make each step as much slower."""


def ease(instance: Instance) -> float:
    """Return a search's steps, as a share of those for tasks with few partners."""
    units, edges = instance.core.unit_counts()
    partners = 2 * edges / max(units, 1)
    return min(1.0, PARTNERS / max(partners, 1.0)) * (PRICED if instance.priced else 1.0)


def default_threads() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def seconds(instance: Instance, hosts: _Hosts) -> float:
    """Return the completion time of a placement with the price of the rules that it breaks, in seconds."""
    return instance.total_s(hosts)


def search(
    instance: Instance,
    attempt: Attempt,
    starts: Sequence[_Hosts] = (),
    *,
    known: _Hosts | None = None,
    steps: int | None = None,
    seed: int | None = None,
    limit_s: float | None = None,
) -> Solution:
    """Search for `steps` steps, or for the time left. `limit_s` only cuts it short.

    The search ends as soon as its best time is proven. Where work is counted it does not: the step at which it ends
    would depend on the machine. If the search has tried all placements, its best time is also the bound. Where nothing
    else keeps all rules, it starts from `known`, which does.
    """
    proven = False

    def watch(best_s: float) -> None:
        nonlocal proven
        attempt.report(best_s)
        proven = not attempt.repeatable and attempt.at_bound(best_s)
        if proven:
            raise Proven

    seed = attempt.seed if seed is None else seed
    steps = attempt.steps(instance) if steps is None else steps
    paced = limit_s is None
    if attempt.repeatable:
        most_s = math.inf
    elif limit_s is not None:
        most_s = max(limit_s, LEAST_SEARCH_S)
    else:
        most_s = max(attempt.left_s, LEAST_SEARCH_S)
    try:
        searched = instance.core.search(seed, steps, attempt.threads, most_s, list(starts), watch, paced=paced)
    except InfeasibleError:
        if known is not None:
            return search(instance, attempt, [known], steps=steps, seed=seed, limit_s=limit_s)
        too_large = len(instance.tasks) * len(instance.hosts) > EXACT_LITERALS
        if starts or too_large or solver_lacking(CPSAT) is not None:
            raise
        from gavotte.place.exact.cpsat import feasible

        start = feasible(instance, max(attempt.left_s / 2, GRACE_S), seed)
        if start is None:
            raise
        return search(instance, attempt, [start], steps=steps, seed=seed, limit_s=limit_s)
    if searched.tried_all and math.isfinite(best_s := seconds(instance, searched.hosts)):
        attempt.bound_s = max(attempt.bound_s, best_s)
    solution = Solution(searched.hosts, attempt.bound_s, searched.stopped and not proven, "search")
    attempt.keep(instance, solution)
    if searched.interrupted and not proven:
        raise Interrupted
    attempt.report(seconds(instance, searched.hosts))
    return solution
