"""The value of an estimator in decisions: broadcast and mapping on later snapshots."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from benches.constant.cases import Case, series

from gavotte.formats.history import Floats
from gavotte.model.choosing import EXCESS, choose, estimate, lasting
from gavotte.model.decisions import broadcast_s, earliest_first, mapped, mapping_s, random_tasks

METHODS = ("mean", "median", "mode", "rpca", "mode" + EXCESS, "rpca" + EXCESS)
LATER = 20
ROOTS = 8
GRAPHS = 8


@dataclass
class Decided:
    """Cost of each estimator's decisions relative to the mean's, in logarithms, one a seed.

    Half of `both` is broadcast, half mapping; `picked` has the methods that `auto` took.
    """

    both: dict[str, list[float]] = field(default_factory=dict)
    broadcast: dict[str, list[float]] = field(default_factory=dict)
    mapping: dict[str, list[float]] = field(default_factory=dict)
    picked: list[str] = field(default_factory=list)


def decided(case: Case, size: int, seeds: int, first: int) -> Decided:
    """Learn from 10 snapshots, decide, and score on `LATER` more."""
    result = Decided()
    for seed in range(first, first + seeds):
        rng = np.random.default_rng([seed, size])
        cloud, times, later = series(case, size, 10, rng, LATER)
        roots = rng.permutation(size)[:ROOTS].tolist()
        graphs = [random_tasks(size, 1000 * seed + number) for number in range(GRAPHS)]

        def cost(constant: Floats) -> tuple[float, float]:
            broadcasts = [broadcast_s(earliest_first(constant, root), later).mean() for root in roots]  # noqa: B023
            mappings = [mapping_s(graph, mapped(graph, constant), later).mean() for graph in graphs]  # noqa: B023
            return float(np.log(broadcasts).mean()), float(np.log(mappings).mean())

        costs = {method: cost(estimate(times, method)) for method in METHODS}
        costs["truth"] = cost(cloud.truth_s)
        kept = lasting(times, seed=seed).times
        pick = choose(kept, seed=seed).method
        costs["auto"] = cost(estimate(kept, pick))
        result.picked.append(pick)
        broadcast_mean, mapping_mean = costs["mean"]
        for method, (broadcast, mapping) in costs.items():
            result.broadcast.setdefault(method, []).append(broadcast - broadcast_mean)
            result.mapping.setdefault(method, []).append(mapping - mapping_mean)
            both = (broadcast - broadcast_mean + mapping - mapping_mean) / 2
            result.both.setdefault(method, []).append(both)
    return result


def percent(logs: list[float]) -> str:
    """Return the mean change in percent with its standard error."""
    error = np.std(logs, ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else float("nan")
    return f"{100 * np.expm1(np.mean(logs)):+.1f}±{100 * error:.1f}"
