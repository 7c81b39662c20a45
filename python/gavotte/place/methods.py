"""The methods by name. Each turns an instance into a host for each task, with a proven bound.

The exact models are imported where they are used: most of the start of a small problem would be theirs.

A time limit is wall-clock time. With `repeatable`, work is counted in steps and in a solver's own deterministic time
instead. Both derive from the limit, so the same input, seed and limit give the same answer on any machine.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import InfeasibleError
from gavotte.place.bound_at_scale import BoundBeside, bound_at_scale
from gavotte.place.columns import Instance
from gavotte.place.effort import LATEST, Effort, Interrupted
from gavotte.place.exact.installed import CPSAT, solver_lacking
from gavotte.place.exact.solution import PROVEN, Solution
from gavotte.place.partitions.starts import Partitions

STEPS_PER_S = 4_000_000
"""Search steps that stand for a second of the time limit: what two cores make of 100 tasks on 50 hosts."""

PARTNERS = 6.0
"""Mean number of a task's partners behind `STEPS_PER_S`. A step looks at them all: 30 took six times as long."""

LARGE = 1000
LARGE_STEPS_PER_S = 1_200_000
"""Search steps per second for `LARGE` tasks or more, where every step misses the caches."""

WARM_STEPS = 160_000
"""Steps of the search before a bound or a proof is tried, where tasks have few partners."""

WARM_SHARE = 0.3
"""Share of the time limit that this first search may take by the clock, on a busy machine."""

LEAST_S = 0.1
"""Seconds that the first search and the bound may each take in any case, so that their results seldom vary."""

SOLVER_SHARE = 0.9
"""Deterministic seconds of CP-SAT, with relaxations, that stand for a second of the time limit."""

EXACT_LITERALS = 60_000
"""Largest model, in literals, for which `auto` tries a proof."""

MOST_LITERALS = 200_000
"""Largest model, in literals, for which `optimal` tries a proof."""

BUILD_S_PER_LITERAL = 2e-5
START_S = 0.4
"""Seconds to build an exact model, for each literal, and seconds to start its solver."""

GRACE_S = 0.4
"""Seconds that proofs may take beyond the time limit. Without them, a limit of a tenth of a second allows no proof."""

HARD_LITERALS = 20_000
"""Above this, proofs seldom succeed, and most of the time goes to the search."""

MIX = 0x9E3779B97F4A7C15
"""Multiplier of a stage's number, which is added to the seed."""

PROOF_SHARE = 0.5
HARD_PROOF_SHARE = 0.15
"""Share of a stage for a proof by the exact model, on small and on hard models."""

STAGE_S = 0.15
STAGE_GROWTH = 2
"""Seconds that the first stage's search stands for, and the factor from each stage to the next. A stage is as long as
all before it, so little is lost when the limit ends it."""

PROOF_S = 1.0
"""Least deterministic seconds of the first proof. Most small problems are proven in less."""

PARTITION_STEPS = 2_000_000
"""Steps for grouping tasks that belong together, once, before the second stage. They take most of a second."""

CUTS_S_PER_TASK = 2e-5
CUTS_IN_STAGE = 4
"""Seconds of new cuts of a large problem, for each task. A stage starts from them if its search is this many times as
long."""

PARTITION_TASKS = 200
"""From this many tasks on, partitioners work from the beginning; with fewer, only if the first stage proves nothing."""

IN_VAIN = 15_000
"""Steps without a better placement after which the method `search` ends, for each task and host. The other methods
search until the limit unless their placement is proven."""

BOUND_WORK_PER_S = 40_000_000
"""Work on the bound by sets, in sets times hosts, per second of the time limit: about a tenth of that second."""

BOUND_WORK = 400_000_000
"""Most work on the bound by sets, in sets times hosts."""

BOUND_SHARE = 0.4
"""Share of the time limit that the bound by sets may take by the clock, on a busy machine."""

BOUND_ROUNDS = 10
"""Rounds of the bound by sets. Each after the first halves its possible error, to a few thousandths in all."""

BOUND_PLACES = 60_000
"""Most tasks times hosts for which the bound by sets is computed. Above this, the work limit allows no useful one."""

ENDLESS_STEPS = 1 << 62

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


def ease(instance: Instance) -> float:
    """Return a search's steps, as a share of those for tasks with few partners."""
    compact = instance.core.compact()
    partners = 2 * len(compact.edges) / max(len(compact.members), 1)
    return min(1.0, PARTNERS / max(partners, 1.0))


def default_threads() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def run_method(instance: Instance, method: str, attempt: Attempt) -> Solution:
    """Place all tasks by the method of this name, and compute a bound.

    The bound is the same whatever the method, unless a solver proves more. A signal ends the work with its own error or
    with `Interrupted`; `attempt` then holds the best placement so far.

    Raises:
        InfeasibleError: when the method finds no placement.
        GavotteError: when the problem is too large for the method.
        UnsupportedError: for `optimal` or `ilp` without their solver.
    """
    if method in ("auto", "optimal", "search"):
        return _planned(instance, method, attempt)
    if method != "ilp":
        attempt.solution = Solution(instance.core.place(method, attempt.seed), 0.0, False, method)
    try:
        _bound(instance, attempt)
    except InfeasibleError:  # from constraints that the simple methods ignore
        attempt.bound_s = instance.core.bound_s()
    answer = attempt.solution
    if method == "ilp" or answer is None:
        from gavotte.place.exact.highs import solve_ilp

        answer = solve_ilp(instance, limit_s=max(attempt.left_s - START_S, 0.1), seed=attempt.seed)
    return replace(answer, bound_s=max(answer.bound_s, attempt.bound_s), bound_stopped=attempt.bound_stopped)


def run_at_once(instance: Instance, method: str, attempt: Attempt) -> Solution:
    """Return a placement without any search, for when a signal comes before a search has begun.

    Raises:
        InfeasibleError: when no placement is found.
    """
    if method in _core.policies():
        return Solution(instance.core.place(method, attempt.seed), 0.0, True, method)
    return Solution(instance.core.search(attempt.seed, 1, 1, math.inf, []).hosts, 0.0, True, "search")


def literals(instance: Instance) -> int:
    """Return the approximate number of literals in the exact model."""
    compact, hosts = instance.core.compact(), len(instance.hosts)
    return len(compact.members) * hosts + len(compact.edges) * instance.network.deciding_count()


def seconds(instance: Instance, hosts: _Hosts) -> float:
    """Return the completion time of a placement with the price of the rules that it breaks, in seconds."""
    return instance.total_s(hosts)


def _planned(instance: Instance, method: str, attempt: Attempt) -> Solution:
    """Return the best solution of a search, and of an exact model if that is small enough, within the time limit."""
    with Partitions(instance.core, attempt.seed, lambda: attempt.left_s) as partitions:
        if len(instance.tasks) >= PARTITION_TASKS and not attempt.repeatable:
            partitions.begin()
        if attempt.repeatable or not _at_scale(instance):
            return _in_stages(instance, method, attempt, _bound(instance, attempt), partitions)
        attempt.bound_stopped = True
        first = _first(instance, attempt)
        with BoundBeside(instance, attempt.left_s, attempt.prove) as beside:
            best = _in_stages(instance, method, attempt, first, partitions)
            attempt.bound_stopped = beside.end() and best.method != "optimal"
        return replace(best, bound_s=attempt.bound_s, bound_stopped=attempt.bound_stopped)


def _in_stages(instance: Instance, method: str, attempt: Attempt, best: Solution, partitions: Partitions) -> Solution:
    """Return a solution at least as good as `best`, after stages of search and of proofs."""
    best = replace(best, bound_s=attempt.bound_s, bound_stopped=attempt.bound_stopped, stopped=False)
    size = literals(instance)
    exact = method != "search" and size <= (EXACT_LITERALS if method == "auto" else MOST_LITERALS)
    if exact and (missing := solver_lacking(CPSAT)) is not None:
        if method == "optimal":
            raise missing
        attempt.unproven, exact = str(missing), False
    for stage in _stages(instance, attempt, size if exact else 0):
        before_s = seconds(instance, best.hosts)
        if exact:
            best = _proved(instance, best, stage, size, attempt)
        best = replace(best, bound_s=max(best.bound_s, attempt.bound_s))
        if not _open(instance, best):
            break
        if not attempt.repeatable and attempt.left_s <= 0:
            best = replace(best, stopped=True)
            break
        if stage.number > 0 and not attempt.repeatable:
            partitions.begin()
        more = _search(
            instance,
            attempt,
            _starts(instance, best, stage, attempt, partitions),
            steps=stage.steps,
            seed=stage.seed,
            limit_s=attempt.left_s,
        )
        best = replace(_better(instance, best, more), stopped=more.stopped)
        if method == "search" and seconds(instance, best.hosts) >= before_s and stage.enough:
            best = replace(best, stopped=False)
            break
    proven = seconds(instance, best.hosts) <= best.bound_s * (1 + PROVEN)
    return replace(best, method="optimal", stopped=False, bound_stopped=False) if proven else best


@dataclass(frozen=True)
class _Stage:
    """One stage of the work on a placement. Stages do not depend on the limit, which only ends the last one.

    So a longer limit continues where a shorter one ends, and its answer is at least as good.

    Attributes:
        number: counts from 0.
        seed: of the stage's random choices.
        steps: of its search.
        search_s: seconds that these steps stand for.
        solver_s: deterministic seconds of its proof; 0 = no proof in this stage.
        enough: whether a search after it would hardly find anything better.
    """

    number: int
    seed: int
    steps: int
    search_s: float
    solver_s: float
    enough: bool


def _stages(instance: Instance, attempt: Attempt, size: int) -> Iterator[_Stage]:
    """Yield stages of growing length, without end or, if work is counted, as many as the limit allows.

    `size` is that of the exact model in literals; 0 = no proofs.
    """
    per_s = attempt.steps(instance) / attempt.limit_s
    share = PROOF_SHARE if size <= HARD_LITERALS else HARD_PROOF_SHARE
    worthwhile_s = (START_S + BUILD_S_PER_LITERAL * size) / 2
    left_s = attempt.limit_s if attempt.repeatable else math.inf
    for number in itertools.count():
        search_s = STAGE_S * STAGE_GROWTH**number
        solver_s = search_s * share / (1 - share) if size else 0.0
        solver_s = max(solver_s, PROOF_S) if size and number == 0 and size <= HARD_LITERALS else solver_s
        solver_s = solver_s if solver_s >= worthwhile_s else 0.0
        left_s -= solver_s + search_s
        if number > 0 and left_s < 0:
            return  # part of a stage would be another search, perhaps with a better answer than the whole stage
        yield _Stage(
            number,
            (attempt.seed + number * MIX) % 2**64,
            int(search_s * per_s),
            search_s,
            solver_s * SOLVER_SHARE,
            search_s * per_s >= IN_VAIN * len(instance.tasks) * len(instance.hosts),
        )


def _starts(
    instance: Instance, best: Solution, stage: _Stage, attempt: Attempt, partitions: Partitions
) -> list[_Hosts]:
    """Return where a stage's search starts: at the best placement, and in every second stage at new cuts.

    So no answer depends on one start. A large problem has two starts at most, of which its search cools both.
    """
    if stage.number % 2 == 0:
        return [best.hosts]
    partition = partitions.take()
    if _at_scale(instance):
        if partition is None and stage.search_s >= CUTS_IN_STAGE * CUTS_S_PER_TASK * len(instance.tasks):
            partition = _search(instance, attempt, steps=1, seed=stage.seed, limit_s=attempt.left_s).hosts
        return [best.hosts] if partition is None else [best.hosts, partition]
    own = _partition(instance, attempt) if stage.number == 1 else []
    return own if partition is None else [*own, partition]


def _open(instance: Instance, solution: Solution) -> bool:
    """Return whether a solution's time is finite and above its bound, so that a faster one may exist."""
    time_s = seconds(instance, solution.hosts)
    return math.isfinite(time_s) and time_s > solution.bound_s * (1 + PROVEN)


def _better(instance: Instance, one: Solution, other: Solution) -> Solution:
    """Return the faster of two solutions, with the bound of the first."""
    faster = seconds(instance, other.hosts) < seconds(instance, one.hosts)
    return replace(one, hosts=other.hosts) if faster else one


def _bound(instance: Instance, attempt: Attempt) -> Solution:
    """Set the best bound without a solver in `attempt`, and return the placement that it starts from.

    That placement is from a short search which does not depend on the method or the seed, so the bound does not either.
    Large problems start from cuts without a search. The search and the bound each have their own share of the work. The
    clock only cuts them short, and `attempt` records whether it did.

    Raises:
        InfeasibleError: when no placement is found.
    """
    attempt.bound_stopped = True  # until the bound is complete
    if _at_scale(instance):
        first = _first(instance, attempt)
        limit_s, strict = (attempt.limit_s, False) if attempt.repeatable else (attempt.left_s, True)
        attempt.bound_stopped = bound_at_scale(instance, limit_s, attempt.prove, attempt.report, strict=strict)
        return first
    # If all tasks exchange data with all others, there are too many sets for the bound by sets.
    attempt.bound_s = instance.core.volume_bound_s()
    steps = max(min(int(WARM_STEPS * ease(instance)), attempt.steps(instance) // 2), 1000)
    limit_s = max(attempt.limit_s * WARM_SHARE, LEAST_S)
    warm = _search(instance, attempt, _given(instance, attempt), steps=steps, seed=0, limit_s=limit_s)
    if attempt.at_bound(seconds(instance, warm.hosts)):
        attempt.bound_stopped = False
        return warm
    work = min(int(attempt.limit_s * BOUND_WORK_PER_S), BOUND_WORK)
    limit_s = math.inf if attempt.repeatable else max(attempt.limit_s * BOUND_SHARE, LEAST_S)
    bound = instance.core.sets_bound_s(seconds(instance, warm.hosts), BOUND_ROUNDS, work, limit_s, attempt.tick)
    attempt.bound_stopped = _take(bound, attempt) or warm.stopped
    return warm


def _given(instance: Instance, attempt: Attempt) -> list[_Hosts]:
    """Return the placement that the effort starts from; empty if it has none."""
    if not attempt.effort.start:
        return []
    at = {name: index for index, name in enumerate(instance.hosts)}
    return [np.array([at[attempt.effort.start[task]] for task in instance.tasks], dtype=np.uint32)]


def _at_scale(instance: Instance) -> bool:
    """Return whether a problem is too large for the bound by sets, and so for searches from several cuts."""
    return len(instance.tasks) * len(instance.hosts) > BOUND_PLACES


def _first(instance: Instance, attempt: Attempt) -> Solution:
    """Return the first placement of a large problem, from cuts without a search, and set the least bound."""
    attempt.bound_s = instance.core.volume_bound_s()
    return _search(instance, attempt, _given(instance, attempt), steps=1, limit_s=max(attempt.left_s, LEAST_S))


def _take(bound: _core.Proven, attempt: Attempt) -> bool:
    """Record a bound in `attempt`, and return whether the work on it was cut short."""
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
    seed: int | None = None,
    limit_s: float | None = None,
) -> Solution:
    """Search for `steps` steps, or for the time left. `limit_s` only cuts it short.

    The search ends as soon as its best time is proven. Where work is counted it does not: the step at which it ends
    would depend on the machine. If the search has tried all placements, its best time is also the bound.
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
        too_large = len(instance.tasks) * len(instance.hosts) > EXACT_LITERALS
        if starts or too_large or solver_lacking(CPSAT) is not None:
            raise
        from gavotte.place.exact.cpsat import feasible

        start = feasible(instance, max(attempt.left_s / 2, GRACE_S), seed)
        if start is None:
            raise
        return _search(instance, attempt, [start], steps=steps, seed=seed, limit_s=limit_s)
    if searched.tried_all and math.isfinite(best_s := seconds(instance, searched.hosts)):
        attempt.bound_s = max(attempt.bound_s, best_s)
    solution = Solution(searched.hosts, attempt.bound_s, searched.stopped and not proven, "search")
    attempt.keep(instance, solution)
    if searched.interrupted and not proven:
        raise Interrupted
    attempt.report(seconds(instance, searched.hosts))
    return solution


def _partition(instance: Instance, attempt: Attempt) -> list[_Hosts]:
    """Return a placement that groups tasks which belong together, as if all hosts were alike; empty if there is none.

    If hosts are full, single moves seldom find such a placement.
    """
    limit_s = math.inf if attempt.repeatable else max(attempt.left_s, LEAST_SEARCH_S)
    steps = int(PARTITION_STEPS * ease(instance))
    try:
        even = instance.even()
        searched = even.search(attempt.seed, steps, attempt.threads, limit_s, [], attempt.tick, paced=False)
    except InfeasibleError:
        return []
    if searched.interrupted:
        raise Interrupted
    return [searched.hosts]


def _proved(instance: Instance, best: Solution, stage: _Stage, size: int, attempt: Attempt) -> Solution:
    """Return this solution or a better one, with the bound that CP-SAT proves in a stage.

    The solution is unchanged if it is proven already or too little time is left.
    """
    if not _open(instance, best) or not stage.solver_s:
        return best
    limit_s = attempt.limit_s * LATEST
    if not attempt.repeatable:
        limit_s = attempt.left_s - START_S - BUILD_S_PER_LITERAL * size
        limit_s += GRACE_S if stage.number == 0 else 0.0
        if limit_s <= 0:
            return best
    from gavotte.place.exact.cpsat import prove

    proof = prove(
        instance,
        best.hosts,
        bound_s=best.bound_s,
        limit_s=limit_s,
        deterministic_s=stage.solver_s,
        seed=attempt.seed,
        strict=not attempt.repeatable,
        tick=attempt.report,
    )
    attempt.bound_s = proof.bound_s
    better = replace(proof, method=best.method, stopped=best.stopped or proof.stopped, bound_stopped=best.bound_stopped)
    attempt.keep(instance, better)
    return better
