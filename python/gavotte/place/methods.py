"""The methods by name. Each turns an instance into a host for each task, with a proven bound.

A time limit is wall-clock time. With `repeatable`, work is counted in steps and in a solver's own deterministic time
instead. Both derive from the limit, so the same input, seed and limit give the same answer on any machine.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import InfeasibleError
from gavotte.place.columns import Instance
from gavotte.place.effort import Effort
from gavotte.place.exact.cpsat import PROVEN, feasible, prove
from gavotte.place.exact.highs import solve_ilp
from gavotte.place.exact.hubs import hub_bound_s
from gavotte.place.exact.solution import Solution

STEPS_PER_S = 4_000_000
"""Search steps that stand for a second of the time limit: what two cores make of 100 tasks on 50 hosts."""

PARTNERS = 6.0
"""Of a task there, in the mean. A step looks at all of a task's partners: with 30 of them it took six times as long."""

LARGE = 1000
LARGE_STEPS_PER_S = 1_200_000
"""The same from this many tasks on, where every step misses the caches."""

WARM_STEPS = 160_000
"""Steps of the search before a bound or a proof is tried, where tasks have few partners."""

WARM_SHARE = 0.3
"""Of the time limit that this search may take by the clock, on a busy machine."""

LEAST_S = 0.1
"""What it and the bound may each take in any case, so that they are the same as far as can be."""

MORE_STEPS = 1_000_000
"""Steps of the search between two proofs, at most."""

SOLVER_SHARE = 0.9
"""Deterministic seconds of CP-SAT, with relaxations, that stand for a second of the time limit."""

FIRST_SHARE = 0.15
"""Part of the solver's budget for a first proof. If that fails, more search first finds it a better time to beat."""

LATEST = 3.0
"""Repeatable work of a solver is stopped by the clock after this many times what it should take."""

EXACT_LITERALS = 60_000
"""Largest model, in literals, for which `auto` tries a proof."""

MOST_LITERALS = 200_000
"""The same for `optimal`."""

BUILD_S_PER_LITERAL = 2e-5
START_S = 0.4
"""What it takes to build an exact model and to start its solver."""

GRACE_S = 0.4
"""What proofs may take beyond the time limit, or none could be tried within a tenth of a second."""

HARD_LITERALS = 20_000
"""Above this, proofs seldom succeed, and most of the time goes to the search."""

SEARCH_SHARE = 0.5
HARD_SEARCH_SHARE = 0.85
"""Of the time that a first proof leaves, for the search before the second."""

PARTITION_SHARE = 0.25
PARTITION_STEPS = 2_000_000
"""The same for tasks that belong together, before the search: most of a second, or on a busy machine a part of what is
left of the time."""

BOUND_WORK_PER_S = 40_000_000
"""Sets times hosts that a bound by sets looks at for a second of the time limit: a tenth of that second, about."""

BOUND_WORK = 400_000_000
"""The most of that."""

BOUND_SHARE = 0.4
"""Of the time limit that the bound may take by the clock, on a busy machine."""

BOUND_ROUNDS = 10
"""Of that bound, so that it is known to a thousandth of what there is to know."""

BOUND_PLACES = 60_000
"""Most tasks times hosts for which that bound is sought. Beyond, the work does not suffice for one of any use."""

FLOWS_WORK_PER_S = 2_000_000
FLOWS_WORK = 20_000_000
FLOWS_SHARE = 0.2
"""There, of the bound by flows: transfers looked at for a second of the time limit, the most of that, and the part of
the limit that it may take by the clock."""

HUBS_SHARE = 0.15
"""There, of the bound by the tasks that exchange most: the part of the limit that it may take by the clock."""

ENDLESS_STEPS = 1 << 62

_Hosts = npt.NDArray[np.uint32]


class Interrupted(BaseException):
    """A signal ended a search; compiled code keeps the signal's own error. The best result so far is the answer."""


@dataclass
class Attempt:
    """An effort under way.

    Attributes:
        effort: how hard to try.
        clock: seconds, for the time limit.
        best_s: completion time of the best placement so far.
        bound_s: the best bound so far.
        bound_stopped: whether the work on the bound was cut short.
        solution: the answer if a signal ends the work now.
    """

    effort: Effort
    clock: Callable[[], float] = time.monotonic
    best_s: float = field(default=math.inf, init=False)
    bound_s: float = field(default=0.0, init=False)
    bound_stopped: bool = field(default=False, init=False)
    solution: Solution | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._begin_s = self.clock()

    @property
    def limit_s(self) -> float:
        """Time limit."""
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
        """Time spent."""
        return self.clock() - self._begin_s

    @property
    def left_s(self) -> float:
        """Time left; all of it where work is counted."""
        return self.limit_s if self.repeatable else max(self.limit_s - self.gone_s, 0.0)

    def report(self, best_s: float = math.inf) -> None:
        """Report the best time, the bound and the share of the time spent to the effort's watcher."""
        self.best_s = min(self.best_s, best_s)
        if self.effort.watch is not None:
            self.effort.watch(self.best_s, self.bound_s, min(self.gone_s / self.limit_s, 1.0))

    def keep(self, instance: Instance, solution: Solution) -> None:
        """Remembers the best placement so far. What a method has that makes one at once stays its answer."""
        if self.solution is None or (
            self.solution.method not in _core.policies()
            and seconds(instance, solution.hosts) < seconds(instance, self.solution.hosts)
        ):
            self.solution = solution

    def tick(self, _best_s: float) -> None:
        """Report progress, but not the best time, which is that of another problem."""
        self.report()

    def steps(self, instance: Instance) -> int:
        """Search steps that the time limit stands for."""
        steps_per_s = STEPS_PER_S if len(instance.tasks) < LARGE else LARGE_STEPS_PER_S
        return max(int(self.limit_s * steps_per_s * ease(instance)), 1000)


def ease(instance: Instance) -> float:
    """Return a search's steps, as a share of those for tasks with few partners."""
    compact = instance.core.compact()
    partners = 2 * len(compact.edges) / max(len(compact.members), 1)
    return min(1.0, PARTNERS / max(partners, 1.0))


def default_threads() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def run_method(instance: Instance, method: str, attempt: Attempt) -> Solution:
    """Places by the method of this name. The bound is the same whatever the method, unless a solver proves more.

    A signal's error comes out of it as it is, or as `Interrupted`; `attempt` knows the best until then.

    Raises:
        InfeasibleError: when it finds no placement.
        GavotteError: when the problem is too large for it.
    """
    if method in ("auto", "optimal", "search"):
        return _planned(instance, method, attempt)
    if method != "ilp":
        attempt.solution = Solution(instance.core.place(method, attempt.seed), 0.0, False, method)
    try:
        _bound(instance, attempt)
    except InfeasibleError:  # of what the simple methods do not know
        attempt.bound_s = instance.core.bound_s()
    answer = attempt.solution
    if method == "ilp" or answer is None:
        answer = solve_ilp(instance, limit_s=max(attempt.left_s - START_S, 0.1), seed=attempt.seed)
    return replace(answer, bound_s=max(answer.bound_s, attempt.bound_s), bound_stopped=attempt.bound_stopped)


def run_at_once(instance: Instance, method: str, attempt: Attempt) -> Solution:
    """A placement without any search, for when a signal comes before one has begun.

    Raises:
        InfeasibleError: when that finds none.
    """
    if method in _core.policies():
        return Solution(instance.core.place(method, attempt.seed), 0.0, True, method)
    return Solution(instance.core.search(attempt.seed, 1, 1, math.inf, []).hosts, 0.0, True, "search")


def literals(instance: Instance) -> int:
    """About how many literals the exact model has."""
    compact, hosts = instance.core.compact(), len(instance.hosts)
    return len(compact.members) * hosts + len(compact.edges) * instance.network.deciding_count()


def seconds(instance: Instance, hosts: _Hosts) -> float:
    """Completion time of a placement."""
    return instance.core.evaluate(hosts).seconds


def _planned(instance: Instance, method: str, attempt: Attempt) -> Solution:
    """The best that a search, and an exact model where it is small enough, find within the time limit."""
    best = _bound(instance, attempt)
    if best is None:
        return replace(_search(instance, attempt), bound_stopped=attempt.bound_stopped)
    best = replace(best, bound_s=attempt.bound_s, bound_stopped=attempt.bound_stopped, stopped=False)
    size = literals(instance)
    exact = method != "search" and size <= (EXACT_LITERALS if method == "auto" else MOST_LITERALS)
    if exact:
        best = _proved(instance, best, FIRST_SHARE, size, attempt)
    if _open(instance, best):
        steps = attempt.steps(instance)
        share = 1.0
        if exact:
            share = SEARCH_SHARE if size <= HARD_LITERALS else HARD_SEARCH_SHARE
            steps = min(steps, MORE_STEPS) if size <= HARD_LITERALS else steps
        more = _search(instance, attempt, [best.hosts, *_partition(instance, attempt)], steps=steps, share=share)
        best = replace(_better(instance, best, more), stopped=best.stopped or more.stopped)
    if exact:
        best = _proved(instance, best, 1 - FIRST_SHARE, size, attempt)
    proven = seconds(instance, best.hosts) <= best.bound_s * (1 + PROVEN)
    return replace(best, method="optimal", stopped=False, bound_stopped=False) if proven else best


def _open(instance: Instance, solution: Solution) -> bool:
    """Whether a better placement is looked for."""
    time_s = seconds(instance, solution.hosts)
    return math.isfinite(time_s) and time_s > solution.bound_s * (1 + PROVEN)


def _better(instance: Instance, one: Solution, other: Solution) -> Solution:
    """The faster of two, with the bound of the first."""
    faster = seconds(instance, other.hosts) < seconds(instance, one.hosts)
    return replace(one, hosts=other.hosts) if faster else one


def _bound(instance: Instance, attempt: Attempt) -> Solution | None:
    """The best bound without a solver, and the placement that it starts from; None where that is too much work.

    Before and apart from any method, from a short search that is the same whatever method and seed: so is the bound.
    Each of the two has its own share of the work. The clock only cuts them short, and `attempt` knows whether it did.

    Raises:
        InfeasibleError: when no placement is found.
    """
    attempt.bound_stopped = True  # until it is whole
    # Where all exchange with all, there are too many sets for the bound by them.
    attempt.bound_s = instance.core.volume_bound_s()
    if len(instance.tasks) * len(instance.hosts) > BOUND_PLACES:
        attempt.bound_stopped = _bound_at_scale(instance, attempt)
        return None
    steps = max(min(int(WARM_STEPS * ease(instance)), attempt.steps(instance) // 2), 1000)
    warm = _search(instance, attempt, steps=steps, seed=0, limit_s=max(attempt.limit_s * WARM_SHARE, LEAST_S))
    work = min(int(attempt.limit_s * BOUND_WORK_PER_S), BOUND_WORK)
    limit_s = math.inf if attempt.repeatable else max(attempt.limit_s * BOUND_SHARE, LEAST_S)
    bound = instance.core.sets_bound_s(seconds(instance, warm.hosts), BOUND_ROUNDS, work, limit_s, attempt.tick)
    attempt.bound_stopped = _take(bound, attempt) or warm.stopped
    return warm


def _bound_at_scale(instance: Instance, attempt: Attempt) -> bool:
    """By flows, and by the tasks that exchange most; whether the clock cut that short."""
    work = min(int(attempt.limit_s * FLOWS_WORK_PER_S), FLOWS_WORK)
    limit_s = math.inf if attempt.repeatable else max(attempt.limit_s * FLOWS_SHARE, LEAST_S)
    stopped = _take(instance.core.flows_bound_s(work, limit_s, attempt.tick), attempt)
    # If all partners of every task fit on its host, no single task gives a bound.
    if instance.core.bound_s() <= 0:
        return stopped
    limit_s = attempt.limit_s * (LATEST if attempt.repeatable else HUBS_SHARE)
    hub_s, cut = hub_bound_s(instance, limit_s=limit_s, strict=not attempt.repeatable, tick=attempt.report)
    attempt.bound_s = max(attempt.bound_s, hub_s)
    return stopped or cut


def _take(bound: _core.Proven, attempt: Attempt) -> bool:
    """Notes a bound; whether it was cut short."""
    attempt.bound_s = max(attempt.bound_s, bound.seconds)
    if bound.interrupted:
        raise Interrupted
    return bound.stopped


def _search(
    instance: Instance,
    attempt: Attempt,
    starts: Sequence[_Hosts] = (),
    *,
    steps: int | None = None,
    share: float = 1.0,
    seed: int | None = None,
    limit_s: float | None = None,
) -> Solution:
    """Search for `steps` steps, or for a share of the time left. `limit_s` only cuts it short."""
    seed = attempt.seed if seed is None else seed
    steps = attempt.steps(instance) if steps is None else steps
    paced = limit_s is None
    if attempt.repeatable:
        most_s = math.inf
    elif limit_s is not None:
        most_s = limit_s
    else:
        most_s = max(attempt.left_s * share, 0.02)
        # A search that is no preparation continues while it improves, within the time limit.
        steps = steps if steps <= MORE_STEPS else ENDLESS_STEPS
    try:
        searched = instance.core.search(seed, steps, attempt.threads, most_s, list(starts), attempt.report, paced=paced)
    except InfeasibleError:
        if starts or len(instance.tasks) * len(instance.hosts) > EXACT_LITERALS:
            raise
        start = feasible(instance, max(attempt.left_s / 2, GRACE_S), seed)
        if start is None:
            raise
        return _search(instance, attempt, [start], steps=steps, share=share, seed=seed, limit_s=limit_s)
    solution = Solution(searched.hosts, attempt.bound_s, searched.stopped, "search")
    attempt.keep(instance, solution)
    if searched.interrupted:
        raise Interrupted
    attempt.report(seconds(instance, searched.hosts))
    return solution


def _partition(instance: Instance, attempt: Attempt) -> list[_Hosts]:
    """Tasks that belong together, as if all hosts were alike: where these are full, single moves seldom get there."""
    limit_s = math.inf if attempt.repeatable else max(attempt.left_s * PARTITION_SHARE, 0.02)
    steps = int(PARTITION_STEPS * ease(instance))
    try:
        searched = instance.even().search(attempt.seed, steps, attempt.threads, limit_s, [], attempt.tick)
    except InfeasibleError:
        return []
    if searched.interrupted:
        raise Interrupted
    return [searched.hosts]


def _proved(instance: Instance, best: Solution, share: float, size: int, attempt: Attempt) -> Solution:
    """The same or a better one, with what CP-SAT proves in a share of the time; as it was where there is too little."""
    if not _open(instance, best):
        return best
    limit_s = attempt.limit_s * share * LATEST
    if not attempt.repeatable:
        limit_s = min(attempt.limit_s * share, attempt.left_s) if share < SEARCH_SHARE else attempt.left_s
        limit_s += GRACE_S - START_S - BUILD_S_PER_LITERAL * size
        if limit_s <= 0:
            return best
    proof = prove(
        instance,
        best.hosts,
        bound_s=best.bound_s,
        limit_s=limit_s,
        deterministic_s=attempt.limit_s * share * SOLVER_SHARE,
        seed=attempt.seed,
        strict=not attempt.repeatable,
        tick=attempt.report,
    )
    attempt.bound_s = proof.bound_s
    better = replace(proof, method=best.method, stopped=best.stopped or proof.stopped, bound_stopped=best.bound_stopped)
    attempt.keep(instance, better)
    return better
