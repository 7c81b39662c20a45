"""Chooses between estimators by what their decisions cost on snapshots that they have not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gavotte.errors import GavotteError
from gavotte.formats.history import Floats
from gavotte.model.decisions import (
    Tasks,
    Tree,
    binomial,
    broadcast_s,
    earliest_first,
    mapped,
    mapping_s,
    random_tasks,
)
from gavotte.model.estimators import ESTIMATORS, band
from gavotte.model.excess import expected

HELD_OUT = 2
"""Snapshots that each fold is scored on."""

MAX_FOLDS = 5
ROOTS = 16
GRAPHS = 8
MAX_HOSTS = 128
"""Hosts that decisions are tried on; of more, so many at random. What suits the noise does not hang on their number."""

EXCESS = "+excess"
CANDIDATES = ("mean", "median", "mode", "rpca", "mode" + EXCESS, "rpca" + EXCESS)
BASE = "mean"
"""What the others must beat."""


@dataclass(frozen=True)
class Trial:
    """What the decisions of one estimator cost on held-out snapshots.

    Attributes:
        method: a key of `ESTIMATORS`, or that and `+excess`.
        broadcast_s: (snapshots, roots) of trees by the earliest completion first.
        mapping_s: (snapshots, graphs) of greedy mappings.
    """

    method: str
    broadcast_s: Floats
    mapping_s: Floats

    def over(self, other: Trial) -> tuple[float, float]:
        """Logarithm of its cost over that of another, and its standard error.

        Broadcast and mapping count by how surely each tells: what a mapping of a random graph takes varies more.
        """
        told = []
        for mine, others in ((self.broadcast_s, other.broadcast_s), (self.mapping_s, other.mapping_s)):
            ratio = np.log(mine / others)
            # Both snapshots and roots (graphs) are samples.
            errors = (ratio.mean(axis=axis).std(ddof=1) / np.sqrt(ratio.shape[1 - axis]) for axis in (0, 1))
            told.append((float(ratio.mean()), float(np.hypot(*errors))))
        if all(error == 0 for _, error in told):
            return sum(mean for mean, _ in told) / len(told), 0.0
        weights = [1 / max(error, 1e-6) ** 2 for _, error in told]
        mean = sum(weight * mean for weight, (mean, _) in zip(weights, told, strict=True)) / sum(weights)
        return mean, sum(weights) ** -0.5


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why.

    Attributes:
        method: the best of `CANDIDATES`, or `median` where too few snapshots tell nothing.
        trials: one for each candidate; empty where nothing could be held out.
        untuned: the binomial tree by rank and the mapping in order of rank, on the same snapshots.
    """

    method: str
    trials: tuple[Trial, ...] = ()
    untuned: Trial | None = None

    def trial(self, method: str) -> Trial | None:
        """That of one candidate."""
        return next((trial for trial in self.trials if trial.method == method), None)


def estimate(times: Floats, method: str) -> Floats:
    """(N, N) constant by a method of `ESTIMATORS`, times its expected excess where the name ends so.

    Args:
        times: (n, N, N), row = source, NaN = not measured.
        method: how.

    Raises:
        GavotteError: for an unknown method.
    """
    name = method.removesuffix(EXCESS)
    if name not in ESTIMATORS:
        raise GavotteError(f"no method {method!r}", hint=f"choose one of auto, {', '.join(ESTIMATORS)}")
    found = ESTIMATORS[name](times)
    return expected(times, found, band(times).width) if method.endswith(EXCESS) else found.constant


def undisturbed(method: str) -> str:
    """The method of the constant that holds no slow-downs: the same without `+excess`, and `mode` for `mean`.

    A mean holds every slow-down that it has seen, so it is no constant, and undisturbed times lie below it. What tells
    disturbed from undisturbed times compares with the constant by this method.
    """
    return "mode" if method == "mean" else method.removesuffix(EXCESS)


def choose(times: Floats, *, candidates: Sequence[str] = CANDIDATES, seed: int = 0) -> Choice:
    """Builds trees and mappings from each candidate on a part of the snapshots, scores them on the rest.

    Up to `MAX_FOLDS` folds of `HELD_OUT` snapshots. The candidate of least held-out cost is taken, unless its advantage
    over the mean is within one standard error of chance.

    Args:
        times: (n, N, N) transfer times, row = source, NaN = not measured.
        candidates: estimators to try; the mean must be among them.
        seed: of roots, task graphs, and hosts where there are more than `MAX_HOSTS`.
    """
    return _chosen(trials(times, candidates=candidates, seed=seed))


def trials(times: Floats, *, candidates: Sequence[str] = CANDIDATES, seed: int = 0) -> Choice:
    """The trials of `choose`, with the mean as the choice; median and no trials where nothing can be held out."""
    rng = np.random.default_rng(seed)
    kept = _measured(times)
    if len(kept) > MAX_HOSTS:
        kept = np.sort(rng.permutation(kept)[:MAX_HOSTS])
    snapshots, size = len(times), len(kept)
    if snapshots < 3 or size < 3:
        return Choice("median")
    times = np.ascontiguousarray(times[:, kept][:, :, kept])
    roots = rng.permutation(size)[:ROOTS].tolist()
    graphs = [random_tasks(size, int(rng.integers(2**31))) for _ in range(GRAPHS)]
    # What was not measured costs what the pair usually does, whoever chose it.
    usual = estimate(times, "median")
    order = rng.permutation(snapshots)
    folds = [np.sort(fold) for fold in np.array_split(order, min(MAX_FOLDS, -(-snapshots // HELD_OUT)))]
    costs: dict[str, tuple[list[Floats], list[Floats]]] = {name: ([], []) for name in (*candidates, "")}
    for fold in folds:
        rest = np.ascontiguousarray(np.delete(times, fold, axis=0))
        scored = np.where(np.isnan(times[fold]), usual, times[fold])
        for name, (broadcasts, mappings) in costs.items():
            trees, places = _decided(rest, name, usual, roots, graphs)
            broadcasts.append(np.stack([broadcast_s(tree, scored) for tree in trees], axis=-1))
            pairs = zip(graphs, places, strict=True)
            mappings.append(np.stack([mapping_s(tasks, place, scored) for tasks, place in pairs], axis=-1))
    found = {name: Trial(name, np.concatenate(b), np.concatenate(m)) for name, (b, m) in costs.items()}
    untuned = found.pop("")
    return Choice(BASE, tuple(found.values()), untuned)


def _measured(times: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Hosts between which every pair was measured at least once; those with the most gaps are left out first."""
    unknown = ~np.isfinite(times).any(axis=0) & ~np.eye(times.shape[1], dtype=bool)
    kept = np.arange(len(unknown))
    while unknown.any():
        worst = int((unknown.sum(axis=0) + unknown.sum(axis=1)).argmax())
        unknown = np.delete(np.delete(unknown, worst, axis=0), worst, axis=1)
        kept = np.delete(kept, worst)
    return kept


def _decided(
    times: Floats, method: str, usual: Floats, roots: Sequence[int], graphs: Sequence[Tasks]
) -> tuple[list[Tree], list[np.ndarray[tuple[int], np.dtype[np.int64]]]]:
    """Trees and mappings by a method; by rank for none."""
    size = times.shape[1]
    if not method:
        return [binomial(size, root) for root in roots], [np.arange(size) for _ in graphs]
    cost = estimate(times, method)
    cost = np.where(np.isnan(cost), usual, cost)
    return [earliest_first(cost, root) for root in roots], [mapped(tasks, cost) for tasks in graphs]


def _chosen(choice: Choice) -> Choice:
    base = choice.trial(BASE)
    if base is None or choice.untuned is None:
        return choice
    over = {trial.method: trial.over(base) for trial in choice.trials}
    best = min(over, key=lambda method: over[method][0])
    mean, error = over[best]
    chosen = best if mean < -error else BASE
    return Choice(chosen, choice.trials, choice.untuned)
