"""Proofs by CP-SAT: the best placement with a bound, any placement, or a smallest set of demands that contradict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gavotte.errors import GavotteError
from gavotte.place.columns import Instance
from gavotte.place.exact.compact import build, keep_room, keep_rules, places
from gavotte.place.exact.solver import Solver
from gavotte.place.exact.text import Model

CHILD = "cpsat_child.py"

_Hosts = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Proof:
    """What the solver found and proved.

    Attributes:
        hosts: (J,) the host of each task in the best placement known.
        bound_s: no placement is faster.
        stopped: whether the clock ended it before its deterministic budget.
    """

    hosts: _Hosts
    bound_s: float
    stopped: bool


def parameters(*, limit_s: float, deterministic_s: float, seed: int) -> str:
    """CP-SAT's parameters, as text.

    One worker is deterministic without further ado, and linear relaxations say nothing here (see `stars`): without
    them it proved each of six hard instances of 12 to 20 tasks within 10 s; two workers with them did not.
    """
    return (
        f"num_workers: 1 linearization_level: 0 random_seed: {seed % (2**31 - 1)} "
        f"max_time_in_seconds: {limit_s:.6f} max_deterministic_time: {deterministic_s:.6f}"
    )


def prove(
    instance: Instance, known: _Hosts, *, bound_s: float, limit_s: float, deterministic_s: float, seed: int
) -> Proof:
    """Looks for a placement faster than a known one, and for a proof that there is none.

    Args:
        instance: what to place.
        known: (J,) a placement that keeps all rules and takes some time.
        bound_s: a bound proven before.
        limit_s: seconds by the clock.
        deterministic_s: seconds by the solver's own count, which is the same on every machine.
        seed: of the solver.

    Raises:
        GavotteError: when the solver fails.
    """
    compact = instance.core.compact()
    cap_s = instance.core.evaluate(known).seconds
    hint = [int(known[tasks[0]]) for tasks in compact.members]
    built = build(instance, cap_s=cap_s, bound_s=bound_s, hint=hint)
    answer = _ask(built.model, parameters(limit_s=limit_s, deterministic_s=deterministic_s, seed=seed), limit_s)
    best = known
    if answer["solution"]:
        hosts = built.units_on(answer["solution"])
        found = np.array([hosts[unit] for unit in compact.unit_of], dtype=np.uint32)
        if instance.core.evaluate(found).seconds < cap_s:
            best = found
    proven_s = max(bound_s, float(answer["bound"]) * built.tick_s)
    early = answer["status"] != "OPTIMAL" and answer["deterministic_s"] < deterministic_s
    return Proof(best, min(proven_s, instance.core.evaluate(best).seconds), early)


def feasible(instance: Instance, limit_s: float, seed: int) -> _Hosts | None:
    """Any placement that keeps room and rules; None if there is none or none was found in time."""
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
        raise GavotteError("CP-SAT refuses the exact model", hint="use --method search")
    return answer
