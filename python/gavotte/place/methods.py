"""The methods by name. Each turns an instance into a host for each task, with a proven bound.

The exact models and what large problems need are imported where they are used: most of the start of a small problem
would be theirs.

A time limit is wall-clock time. With `repeatable`, work is counted in steps and in a solver's own deterministic time
instead. Both derive from the limit, so the same input, seed and limit give the same answer on any machine.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import InfeasibleError
from gavotte.place.attempt import EXACT_LITERALS, GRACE_S, LEAST_SEARCH_S, Attempt, ease, search, seconds
from gavotte.place.columns import Instance
from gavotte.place.effort import LATEST, Interrupted
from gavotte.place.exact.installed import CPSAT, solver_lacking
from gavotte.place.exact.solution import PROVEN, Solution
from gavotte.place.partitions.starts import Partitions
from gavotte.place.stages import BUILD_S_PER_LITERAL, START_S, Stage, literals, stages
from gavotte.place.strict import Strict

WARM_STEPS = 160_000
"""Steps of the search before a bound or a proof is tried, where tasks have few partners."""

WARM_STEPS_PER_TASK = 4_000
"""Most of these steps for each task. Six tasks on eight hosts need 1,000, and 160,000 would take 0.1 s."""

WARM_SHARE = 0.3
"""Share of the time limit that this first search may take by the clock, on a busy machine."""

LEAST_S = 0.1
"""Seconds that the first search and the bound may each take in any case, so that their results seldom vary."""

MOST_LITERALS = 200_000
"""Largest model, in literals, for which `optimal` tries a proof."""

PARTITION_STEPS = 2_000_000
"""Steps for grouping tasks that belong together, once, before the second stage. They take most of a second."""

CUTS_S_PER_TASK = 2e-5
CUTS_IN_STAGE = 4
"""Seconds of new cuts of a large problem, for each task. A stage starts from them if its search is this many times as
long."""

FIRST_S_PER_TASK = 4e-5
"""Seconds that the first placement of a large problem may take in any case, for each task. Most of
them are for cuts; the short descent at the end makes the placement much faster."""

PARTITION_TASKS = 200
"""From this many tasks on, partitioners work from the beginning; with fewer, only if the first stage proves nothing."""

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

_Hosts = npt.NDArray[np.uint32]


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


def _planned(instance: Instance, method: str, attempt: Attempt) -> Solution:
    """Return the best solution of a search, and of an exact model if that is small enough, within the time limit."""
    with Partitions(instance.core, attempt.seed, lambda: attempt.left_s) as partitions:
        if len(instance.tasks) >= PARTITION_TASKS and not attempt.repeatable:
            partitions.begin()
        if attempt.repeatable or not _at_scale(instance):
            return _in_stages(instance, method, attempt, _bound(instance, attempt), partitions)
        first = _first(instance, attempt)
        if attempt.left_s <= 0:
            return replace(first, stopped=True, bound_stopped=True)
        from gavotte.place.bound_at_scale import ParallelBound

        with ParallelBound(instance, attempt.left_s, attempt.prove) as bound:
            best = _in_stages(instance, method, attempt, first, partitions)
            stopped = bound.end()
        return _judged(instance, replace(best, bound_s=attempt.bound_s, bound_stopped=stopped))


def _in_stages(instance: Instance, method: str, attempt: Attempt, best: Solution, partitions: Partitions) -> Solution:
    """Return a solution at least as good as `best`, after stages of search and of proofs."""
    best = replace(best, bound_s=attempt.bound_s, bound_stopped=attempt.bound_stopped, stopped=False)
    size = literals(instance)
    exact = method != "search" and size <= (EXACT_LITERALS if method == "auto" else MOST_LITERALS)
    if exact and (missing := solver_lacking(CPSAT)) is not None:
        if method == "optimal":
            raise missing
        attempt.unproven, exact = str(missing), False
    strict = Strict(instance, attempt)
    for stage in stages(instance, attempt, size if exact else 0):
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
        more = search(
            instance,
            attempt,
            [*strict.starts(stage, best.hosts), *_starts(instance, best, stage, attempt, partitions)],
            known=best.hosts,
            steps=stage.steps,
            seed=stage.seed,
            limit_s=attempt.left_s,
        )
        best = replace(_better(instance, best, more), stopped=more.stopped)
    return _judged(instance, best)


def _judged(instance: Instance, solution: Solution) -> Solution:
    """Return a solution as optimal if its time has reached its bound."""
    proven = seconds(instance, solution.hosts) <= solution.bound_s * (1 + PROVEN)
    return replace(solution, method="optimal", stopped=False, bound_stopped=False) if proven else solution


def _starts(instance: Instance, best: Solution, stage: Stage, attempt: Attempt, partitions: Partitions) -> list[_Hosts]:
    """Return where a stage's search starts: at the best placement, and in every second stage at new cuts.

    So no answer depends on one start. A large problem has two starts at most, of which its search cools both.
    """
    if stage.number % 2 == 0:
        return [best.hosts]
    partition = partitions.take()
    if _at_scale(instance):
        if partition is None and stage.search_s >= CUTS_IN_STAGE * CUTS_S_PER_TASK * len(instance.tasks):
            partition = search(instance, attempt, steps=1, seed=stage.seed, limit_s=attempt.left_s).hosts
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
        from gavotte.place.bound_at_scale import bound_at_scale

        first = _first(instance, attempt)
        limit_s, strict = (attempt.limit_s, False) if attempt.repeatable else (attempt.left_s, True)
        attempt.bound_stopped = bound_at_scale(instance, limit_s, attempt.prove, attempt.report, strict=strict)
        return first
    # If all tasks exchange data with all others, there are too many sets for the bound by sets.
    attempt.bound_s = instance.core.volume_bound_s()
    most = min(WARM_STEPS, WARM_STEPS_PER_TASK * len(instance.tasks))
    steps = max(min(int(most * ease(instance)), attempt.steps(instance) // 2), 1000)
    limit_s = max(attempt.limit_s * WARM_SHARE, LEAST_S)
    warm = search(instance, attempt, _given(instance, attempt), steps=steps, seed=0, limit_s=limit_s)
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
    """Return the first placement of a large problem, from cuts without a search."""
    attempt.bound_stopped = True  # until the bound is complete
    limit_s = max(attempt.left_s, FIRST_S_PER_TASK * len(instance.tasks))
    return search(instance, attempt, _given(instance, attempt), steps=1, limit_s=limit_s)


def _take(bound: _core.Proven, attempt: Attempt) -> bool:
    """Record a bound in `attempt`, and return whether the work on it was cut short."""
    attempt.bound_s = max(attempt.bound_s, bound.seconds)
    if bound.interrupted:
        raise Interrupted
    return bound.stopped


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


def _proved(instance: Instance, best: Solution, stage: Stage, size: int, attempt: Attempt) -> Solution:
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
