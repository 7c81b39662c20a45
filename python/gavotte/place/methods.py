"""The methods by name: an instance in, a host for each task out, with what is proven of it.

Work is counted in steps and in a solver's own deterministic time, both derived from the time limit, so that the same
input, seed and limit give the same answer on any machine. The clock only stops what would take far longer; then the
answer says so.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import InfeasibleError
from gavotte.place.columns import Instance
from gavotte.place.exact.cpsat import PROVEN, feasible, prove
from gavotte.place.exact.highs import solve_ilp
from gavotte.place.exact.solution import Solution

METHODS: tuple[str, ...] = ("auto", "optimal", "ilp", "search", *_core.policies())
"""Names of the methods. The last four are Choreo's greedy and the baselines."""

STEPS_PER_S = 4_000_000
"""Search steps that stand for a second of the time limit: what two cores make of 100 tasks on 50 hosts."""

PARTNERS = 6.0
"""Of a task there, in the mean. A step looks at all of a task's partners: with 30 of them it took six times as long."""

LARGE = 1000
LARGE_STEPS_PER_S = 1_200_000
"""The same from this many tasks on, where every step misses the caches."""

WARM_STEPS = 160_000
"""Steps of the search before a proof is tried."""

MORE_STEPS = 1_000_000
"""Steps of the search between two proofs, at most."""

SOLVER_SHARE = 0.9
"""Deterministic seconds of CP-SAT, with relaxations, that stand for a second of the time limit."""

FIRST_SHARE = 0.15
"""Part of the solver's budget for a first proof. If that fails, more search first finds it a better time to beat."""

LATEST = 3.0
"""Work that is counted in steps is stopped by the clock after this many time limits."""

EXACT_LITERALS = 60_000
"""Largest model, in literals, for which `auto` tries a proof."""

BOUND_WORK_PER_S = 50_000_000
"""Sets times hosts that a bound by sets looks at for a second of the time limit: a tenth of that second, about."""

BOUND_ROUNDS = 10
"""Of that bound, so that it is known to a thousandth of what there is to know."""

BOUND_PLACES = 60_000
"""Most tasks times hosts for which `auto` seeks that bound. Beyond, the work does not suffice for one of any use."""

_Hosts = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Effort:
    """How hard to try.

    Attributes:
        limit_s: time limit.
        seed: of every random choice.
        threads: used at most; no answer depends on them.
    """

    limit_s: float
    seed: int
    threads: int

    def steps(self, instance: Instance) -> int:
        """Search steps that the time limit stands for."""
        compact = instance.core.compact()
        partners = 2 * len(compact.edges) / max(len(compact.members), 1)
        steps_per_s = STEPS_PER_S if len(instance.tasks) < LARGE else LARGE_STEPS_PER_S
        pace = steps_per_s * min(1.0, PARTNERS / max(partners, 1.0))
        return max(int(self.limit_s * pace), 1000)


def default_threads() -> int:
    """As many as this process may run on."""
    return len(os.sched_getaffinity(0))


def run_method(instance: Instance, method: str, effort: Effort) -> Solution:
    """Places by the method of this name.

    Raises:
        InfeasibleError: when it finds no placement.
        GavotteError: when the problem is too large for it.
    """
    if method == "auto":
        if literals(instance) > EXACT_LITERALS:
            return _bounded(instance, _search(instance, effort), effort)
        method = "optimal"
    if method == "search":
        return _search(instance, effort)
    if method == "optimal":
        return _optimal(instance, effort)
    if method == "ilp":
        return solve_ilp(instance, limit_s=effort.limit_s, seed=effort.seed)
    return Solution(instance.core.place(method, effort.seed), 0.0, False, method)


def literals(instance: Instance) -> int:
    """About how many literals the exact model has."""
    compact, hosts = instance.core.compact(), len(instance.hosts)
    return len(compact.members) * hosts + len(compact.edges) * instance.network.deciding_count()


def seconds(instance: Instance, hosts: _Hosts) -> float:
    """Completion time of a placement."""
    return instance.core.evaluate(hosts).seconds


def _search(instance: Instance, effort: Effort, starts: Sequence[_Hosts] = (), steps: int | None = None) -> Solution:
    steps = effort.steps(instance) if steps is None else steps
    latest_s = LATEST * max(effort.limit_s, 1.0)
    try:
        found = instance.core.search(effort.seed, steps, effort.threads, latest_s, list(starts))
    except InfeasibleError:
        if starts or len(instance.tasks) * len(instance.hosts) > EXACT_LITERALS:
            raise
        start = feasible(instance, effort.limit_s, effort.seed)
        if start is None:
            raise
        return _search(instance, effort, [start], steps)
    return Solution(found.hosts, 0.0, found.stopped, "search")


def _bounded(instance: Instance, found: Solution, effort: Effort) -> Solution:
    """The same with a proof of how much better any placement could be."""
    if len(instance.tasks) * len(instance.hosts) > BOUND_PLACES:
        return found
    return replace(found, bound_s=_bound_s(instance, seconds(instance, found.hosts), effort, BOUND_ROUNDS))


def _bound_s(instance: Instance, cap_s: float, effort: Effort, rounds: int) -> float:
    """The best bound without a solver, given the time of a placement; one round says only whether that is the least."""
    if instance.network.sharing == "pipe":
        return instance.core.bound_s()  # a pipe's host is limited by all its pairs together, which no set reaches
    work = int(effort.limit_s * BOUND_WORK_PER_S) * rounds // BOUND_ROUNDS
    return instance.core.sets_bound_s(cap_s, rounds, work)


def _optimal(instance: Instance, effort: Effort) -> Solution:
    steps = effort.steps(instance)
    warm = _search(instance, effort, steps=min(steps, WARM_STEPS))
    cap_s = seconds(instance, warm.hosts)
    bound_s = _bound_s(instance, cap_s, effort, 1)
    if cap_s <= bound_s * (1 + PROVEN) or not math.isfinite(cap_s):
        return Solution(warm.hosts, bound_s, warm.stopped, "optimal")
    best, stopped = warm.hosts, warm.stopped
    for share, left in ((FIRST_SHARE, steps - WARM_STEPS), (1 - FIRST_SHARE, 0)):
        proof = prove(
            instance,
            best,
            bound_s=bound_s,
            limit_s=effort.limit_s * share * LATEST,
            deterministic_s=effort.limit_s * share * SOLVER_SHARE,
            seed=effort.seed,
        )
        best, bound_s, stopped = proof.hosts, proof.bound_s, stopped or proof.stopped
        if seconds(instance, best) <= bound_s * (1 + PROVEN):
            break
        if left > 0:
            more = _search(instance, effort, [best], min(left, MORE_STEPS))
            best, stopped = more.hosts, stopped or more.stopped
            if seconds(instance, best) < cap_s:  # of a shorter time more can be proven
                cap_s = seconds(instance, best)
                bound_s = max(bound_s, _bound_s(instance, cap_s, effort, 1))
            if cap_s <= bound_s * (1 + PROVEN):
                break
    else:
        bound_s = max(bound_s, _bound_s(instance, seconds(instance, best), effort, BOUND_ROUNDS))
    return Solution(best, bound_s, stopped, "optimal")
