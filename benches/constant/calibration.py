"""How much calibration is enough: when the stopping rule stops, and the loss from measuring some pairs only."""

from __future__ import annotations

import math

import numpy as np
from benches.constant.cases import Case, pairs, series

from gavotte.model.choosing import estimate
from gavotte.model.decisions import broadcast_s, earliest_first
from gavotte.model.filling import filled
from gavotte.model.stopping import settled
from gavotte.model.subset import cost_of_subset, random_rings, usual_degree

MOST = 20
ROOTS = 8


def stopping(size: int, seeds: int, first: int) -> list[str]:
    """Print the snapshots until the rule stops, and the decision's cost compared with that from all `MOST`."""
    lines = [f"{'case':<20} {'stops after':>12} {'costs more':>11}  (than after {MOST} snapshots, later snapshots)"]
    cases = [Case(f"p={p:.2f}", pairs(p)) for p in (0.02, 0.1, 0.2, 0.3)]
    for case in (*cases, Case("band sd .15, p=.1", pairs(0.1), band=0.15)):
        stops, regrets = [], []
        for seed in range(first, first + seeds):
            rng = np.random.default_rng([seed, size])
            _, times, later = series(case, size, MOST, rng, 20)
            stop = next((count for count in range(1, MOST) if settled(times[:count], seed=seed).stop), MOST)
            roots = rng.permutation(size)[:ROOTS].tolist()

            def cost(count: int) -> float:
                constant = estimate(times[:count], "mode")  # noqa: B023
                return float(np.mean([broadcast_s(earliest_first(constant, r), later).mean() for r in roots]))  # noqa: B023

            stops.append(stop)
            regrets.append(cost(stop) / cost(MOST) - 1)
        lines.append(f"{case.name:<20} {np.mean(stops):>12.1f} {100 * np.mean(regrets):>+10.1f} %")
    return lines


def subsets(size: int, seeds: int, first: int) -> list[str]:
    """Print the gain over the binomial tree, for trees over measured pairs alone, and over all pairs with guesses."""
    usual = usual_degree(size)
    lines = [
        f"N={size}, p=.10, gain over the binomial tree, later snapshots; guesses: the rest filled, their median error",
        f"{'pairs a host':<20} {'of all':>8} {'measured alone':>17} {'with guesses':>17} {'guesses off':>12}",
    ]
    degrees = [usual, 2 * usual, 4 * usual, size - 1]
    for degree in [min(degree, size - 1) for degree in degrees]:
        gains, guessed, errors, share = [], [], [], math.nan
        for seed in range(first, first + seeds):
            rng = np.random.default_rng([seed, size])
            _, times, later = series(Case("", pairs(0.10)), size, 10, rng, 20)
            measured = random_rings(size, degree, seed=seed)
            constant = estimate(times, "mode")
            result = cost_of_subset(constant, measured, truth=later, seed=seed)
            gains.append(result.gain)
            share = result.share
            whole = filled(np.where(measured, constant, np.nan), seed=seed)
            guessed.append(cost_of_subset(whole.values, np.ones_like(measured), truth=later, seed=seed).gain)
            never = ~measured & ~np.eye(size, dtype=bool)
            errors.append(float(np.median(np.abs(whole.values / constant - 1)[never])) if never.any() else math.nan)
        name = f"{degree} (2 log2 N)" if degree == usual else f"{degree}"
        wrong = f"{100 * np.mean(errors):.0f} %" if degree < size - 1 else "-"
        lines.append(f"{name:<20} {100 * share:>6.0f} % {_percent(gains):>17} {_percent(guessed):>17} {wrong:>12}")
    return lines


def _percent(gains: list[float]) -> str:
    error = np.std(gains, ddof=1) / math.sqrt(len(gains)) if len(gains) > 1 else math.nan
    return f"{100 * np.mean(gains):.1f} % ±{100 * error:.1f}"
