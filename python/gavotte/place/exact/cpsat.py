"""Calls of CP-SAT, to find the best placement with a bound, any placement, or a minimal set of conflicting demands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gavotte.errors import GavotteError
from gavotte.place.columns import Instance
from gavotte.place.exact.compact import build, keep_room, keep_rules, places
from gavotte.place.exact.installed import CPSAT
from gavotte.place.exact.solution import PROVEN, Solution
from gavotte.place.exact.solver import Solver, race
from gavotte.place.exact.text import Model

CHILD = CPSAT

PLAIN_PACE = 2.2
"""Deterministic seconds that CP-SAT counts without linear relaxations in the time of one second with them."""

_Hosts = npt.NDArray[np.uint32]


def parameters(*, limit_s: float, deterministic_s: float, seed: int, relaxed: bool = False) -> str:
    """Return CP-SAT's parameters as text.

    One worker is deterministic without further settings. Linear relaxations over single tasks prove nothing (see
    `stars`). Without them CP-SAT proved each of six hard instances of 12 to 20 tasks within 10 s; two workers with them
    did not. With `columns` under the hose model, relaxations make the difference, so `relaxed` turns them on.
    """
    return (
        f"num_workers: 1 linearization_level: {int(relaxed)} random_seed: {seed % (2**31 - 1)} "
        f"max_time_in_seconds: {limit_s:.6f} max_deterministic_time: {deterministic_s:.6f}"
    )


def prove(
    instance: Instance,
    known: _Hosts,
    *,
    bound_s: float,
    limit_s: float,
    deterministic_s: float,
    seed: int,
    strict: bool = False,
    tick: Callable[[], object] = lambda: None,
) -> Solution:
    """Search for a placement faster than a known one, or for a proof that none exists.

    Args:
        instance: what to place.
        known: (J,) host of each task in a placement that keeps all rules and takes more than 0 s.
        bound_s: a lower bound proven before.
        limit_s: limit in seconds by the clock.
        deterministic_s: limit in the solver's own seconds with relaxations, which are the same on every machine.
        seed: seed of the solver.
        strict: end soon after `limit_s`, even if the solver does not, with less proven.
        tick: called while the solver works.

    Raises:
        GavotteError: when the solver fails.
    """
    compact = instance.core.compact()
    cap_s = instance.total_s(known)
    hint = [int(known[tasks[0]]) for tasks in compact.members]
    # Only truly better placements are of interest: this rules out more before the search starts.
    target_s = cap_s * (1 - PROVEN / 2)
    if target_s <= bound_s:
        return Solution(known, bound_s, False, "optimal")
    built = [build(instance, cap_s=target_s, bound_s=bound_s, hint=hint, partition=part) for part in (False, True)]
    built = built if built[1].partitioned else built[:1]
    relaxed = [one.partitioned and instance.network.sharing != "pipe" for one in built]
    budgets_s = [deterministic_s if relax else deterministic_s * PLAIN_PACE for relax in relaxed]
    settings = [
        parameters(limit_s=limit_s, deterministic_s=budget_s, seed=seed, relaxed=relax)
        for budget_s, relax in zip(budgets_s, relaxed, strict=True)
    ]
    requests: list[dict[str, object]] = [
        {"model": one.model.text(), "parameters": text} for one, text in zip(built, settings, strict=True)
    ]
    best, least_s = known, bound_s
    # Either model may end the race, but the second only without a placement: the first one's takes precedence.
    answers = race(
        CHILD,
        requests,
        limit_s,
        lambda number, answer: _ended(answer) and not (number and answer["solution"]),
        strict=strict,
        tick=tick,
    )
    for one, answer in zip(built, answers, strict=True):
        if answer is None:
            continue
        if answer["status"] == "MODEL_INVALID":
            raise GavotteError("CP-SAT rejects the exact model", hint="use --method search")
        least_s = max(least_s, target_s if answer["status"] == "INFEASIBLE" else answer["bound"] * one.tick_s)
        if answer["solution"]:
            hosts = one.units_on(answer["solution"])
            candidate = np.array([hosts[unit] for unit in compact.unit_of], dtype=np.uint32)
            if instance.total_s(candidate) < instance.total_s(best):
                best = candidate
    answered = [(answer, budget_s) for answer, budget_s in zip(answers, budgets_s, strict=True) if answer is not None]
    proven = any(_ended(answer) for answer, _ in answered)
    early = not proven and (not answered or any(answer["deterministic_s"] < budget_s for answer, budget_s in answered))
    return Solution(best, min(least_s, instance.total_s(best)), early, "optimal")


def _ended(answer: dict[str, Any]) -> bool:
    return answer["status"] in ("OPTIMAL", "INFEASIBLE", "MODEL_INVALID")


def feasible(instance: Instance, limit_s: float, seed: int) -> _Hosts | None:
    """Return any placement that keeps room and rules; None if none exists or none is found in time."""
    model = Model()
    at = places(instance, model)
    for literals in at:
        model.exactly_one(literals.values())
    keep_room(instance, model, at)
    keep_rules(instance, model, at)
    answer = _ask(model, parameters(limit_s=limit_s, deterministic_s=limit_s, seed=seed), limit_s)
    if not answer["solution"]:
        return None
    solution = answer["solution"]
    hosts = [next(host for host, literal in literals.items() if solution[literal]) for literals in at]
    return np.array([hosts[unit] for unit in instance.core.compact().unit_of], dtype=np.uint32)


def _ask(model: Model, parameters: str, limit_s: float) -> dict[str, Any]:
    with Solver(CHILD) as solver:
        answer = solver.ask({"model": model.text(), "parameters": parameters}, limit_s)
    if answer["status"] == "MODEL_INVALID":
        raise GavotteError("CP-SAT rejects the exact model", hint="use --method search")
    return answer
