"""Choose the estimator whose decisions cost the least time on snapshots that were held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gavotte.errors import GavotteError
from gavotte.formats.history import Floats
from gavotte.model.decisions import (
    BroadcastTree,
    Indices,
    TaskGraph,
    binomial,
    broadcast_s,
    earliest_first,
    mapped,
    mapping_s,
    random_tasks,
)
from gavotte.model.estimators import ESTIMATORS, band, fresh
from gavotte.model.excess import expected
from gavotte.model.moved import Cut, cut

HELD_OUT = 2
"""Number of snapshots in each fold, on which candidates are scored."""

MAX_FOLDS = 5
ROOTS = 16
GRAPHS = 8
MAX_HOSTS = 128
"""Largest number of hosts on which decisions are tried; if there are more, a random subset is used.

The best method is the same for any number.
"""

EXCESS = "+excess"
BASE = "mean"
"""Method that the others must beat."""
CANDIDATES = (BASE, "median", "mode", "rpca", "mode" + EXCESS, "rpca" + EXCESS)
RISKY = (BASE, "min", "ewma", "last")
"""Methods that use few values, mostly the newest: scored only on snapshots later than those learnt from."""
SURE, RISKY_SURE = 1.0, 2.0
"""Standard errors by which `CANDIDATES` and `RISKY` methods must beat the mean.

Risky methods need more: a mean of the few first snapshots is hardly better than the last value, which flatters them.
"""


@dataclass(frozen=True)
class Candidate:
    """Time that the decisions of one estimator take on held-out snapshots.

    Attributes:
        method: a key of `ESTIMATORS`, or a key followed by `+excess`.
        broadcast_s: (snapshots, roots) seconds of broadcasts along trees built by the earliest completion first.
        mapping_s: (snapshots, graphs) seconds of greedy mappings.
        fresh: share of the values that do not repeat a pair's last one, 0 to 1. That share of the snapshots carries
            new information.
    """

    method: str
    broadcast_s: Floats
    mapping_s: Floats
    fresh: float = 1.0

    def over(self, other: Candidate) -> tuple[float, float]:
        """Return the logarithm of this candidate's cost divided by another's, and its standard error.

        Broadcasts and mappings are weighted by precision, since the times of mappings of random graphs vary more.
        """
        ratios = []
        for mine, others in ((self.broadcast_s, other.broadcast_s), (self.mapping_s, other.mapping_s)):
            ratio = np.log(mine / others)
            # Both snapshots and roots (graphs) are samples.
            counts = (ratio.shape[1], max(1.0, self.fresh * ratio.shape[0]))
            errors = (ratio.mean(axis=k).std(ddof=1) / np.sqrt(count) for k, count in enumerate(counts))
            ratios.append((float(ratio.mean()), float(np.hypot(*errors))))
        if all(error == 0 for _, error in ratios):
            return sum(mean for mean, _ in ratios) / len(ratios), 0.0
        weights = [1 / max(error, 1e-6) ** 2 for _, error in ratios]
        mean = sum(weight * mean for weight, (mean, _) in zip(weights, ratios, strict=True)) / sum(weights)
        return mean, sum(weights) ** -0.5


@dataclass(frozen=True)
class Choice:
    """The chosen estimator, and the trials that led to the choice.

    Attributes:
        method: the best of the candidates, or `median` if there are too few snapshots or hosts to compare them.
        trials: one for each candidate; empty if nothing could be held out.
        untuned: the binomial tree by rank and the mapping in order of rank, on the same snapshots.
        over_base: logarithm of the chosen method's cost divided by that of the mean.
    """

    method: str
    trials: tuple[Candidate, ...] = ()
    untuned: Candidate | None = None
    over_base: float = 0.0

    def trial(self, method: str) -> Candidate | None:
        """Return the trial of the candidate with this method; None if there is none."""
        return next((trial for trial in self.trials if trial.method == method), None)


def estimate(times: Floats, method: str) -> Floats:
    """Return the (N, N) constant that a method estimates, increased by the expected excess for `+excess` methods.

    Args:
        times: (n, N, N), row = source, NaN = not measured.
        method: a key of `ESTIMATORS`, or a key followed by `+excess`.

    Raises:
        GavotteError: for an unknown method.
    """
    name = method.removesuffix(EXCESS)
    if name not in ESTIMATORS:
        raise GavotteError(f"unknown method `{method}`", hint=f"use one of auto, {', '.join(ESTIMATORS)}")
    estimated = ESTIMATORS[name](times)
    return expected(times, estimated, band(times).width) if method.endswith(EXCESS) else estimated.constant


def undisturbed(method: str) -> str:
    """Return the related method that excludes slow-downs: the same without `+excess`, and `mode` for `mean`.

    A mean includes every slow-down that was measured, so undisturbed times lie below it. To distinguish disturbed from
    undisturbed times, compare them with the constant by this method.
    """
    return "mode" if method == "mean" else method.removesuffix(EXCESS)


def choose(times: Floats, *, seed: int = 0) -> Choice:
    """Choose the estimator whose broadcast trees and mappings take the least time on held-out snapshots.

    Each candidate learns from some snapshots and is scored on up to `MAX_FOLDS` folds of `HELD_OUT` others. The mean is
    chosen if the best candidate's advantage over it may be chance.

    Args:
        times: (n, N, N) transfer times, row = source, NaN = not measured.
        seed: seed of roots and task graphs, and of the hosts if there are more than `MAX_HOSTS`.
    """
    usual = _chosen(trials(times, seed=seed), SURE)
    half = np.arange(len(times) // 2, len(times))
    ahead = np.array_split(half, min(MAX_FOLDS, -(-len(half) // HELD_OUT)))
    risky = _chosen(trials(times, candidates=RISKY, seed=seed, folds=ahead), RISKY_SURE)
    return min(usual, risky, key=lambda choice: choice.over_base)


def lasting(times: Floats, *, seed: int = 0) -> Cut:
    """Return the times without those from before pairs moved, as `cut` does, if decisions do not get worse.

    All times are returned if decisions from the remaining ones cost more on the newest, held-out snapshots.
    """
    recent = cut(times)
    if recent.share:
        newest = [np.arange(len(times) - HELD_OUT, len(times))]
        whole, left = (
            trials(times, candidates=["median"], seed=seed, folds=newest, learnt=each).trials
            for each in (times, recent.times)
        )
        if whole and left:
            mean, error = left[0].over(whole[0])
            return Cut(times) if mean > error else recent
    return recent


def trials(
    times: Floats,
    *,
    candidates: Sequence[str] = CANDIDATES,
    seed: int = 0,
    folds: Sequence[Indices] | None = None,
    learnt: Floats | None = None,
) -> Choice:
    """Score each candidate on held-out snapshots, and return the scores with the mean as the preliminary choice.

    With fewer than three snapshots or hosts, the choice is `median` and there are no trials.

    Args:
        times: as for `choose`.
        candidates: estimators to try.
        seed: as for `choose`.
        folds: snapshots to score on, in order of time, each after learning from all snapshots before it. None = random
            parts of all snapshots, each after learning from all others.
        learnt: (n, N, N) times to learn from, if other than those to score on.
    """
    rng = np.random.default_rng(seed)
    kept = measured_hosts(times)
    if len(kept) > MAX_HOSTS:
        kept = np.sort(rng.permutation(kept)[:MAX_HOSTS])
    snapshots, size = len(times), len(kept)
    if snapshots < 3 or size < 3:
        return Choice("median")
    source = np.ascontiguousarray((times if learnt is None else learnt)[:, kept][:, :, kept])
    times = np.ascontiguousarray(times[:, kept][:, :, kept])
    roots = rng.permutation(size)[:ROOTS].tolist()
    graphs = [random_tasks(size, int(rng.integers(2**31))) for _ in range(GRAPHS)]
    # A value that was not measured costs the pair's usual time, for every method.
    usual = estimate(times, "median")
    order = rng.permutation(snapshots)
    parts = np.array_split(order, min(MAX_FOLDS, -(-snapshots // HELD_OUT)))
    costs: dict[str, tuple[list[Floats], list[Floats]]] = {name: ([], []) for name in (*candidates, "")}
    for fold in folds or [np.sort(part) for part in parts]:
        rest = np.delete(source, fold, axis=0) if folds is None else source[: fold[0]]
        scored = np.where(np.isnan(times[fold]), usual, times[fold])
        for name, (broadcasts, mappings) in costs.items():
            trees, places = _decided(np.ascontiguousarray(rest), name, usual, roots, graphs)
            broadcasts.append(np.stack([broadcast_s(tree, scored) for tree in trees], axis=-1))
            pairs = zip(graphs, places, strict=True)
            mappings.append(np.stack([mapping_s(tasks, place, scored) for tasks, place in pairs], axis=-1))
    new = float(np.isfinite(fresh(times)).sum() / np.isfinite(times).sum())
    candidate_of = {name: Candidate(name, np.concatenate(b), np.concatenate(m), new) for name, (b, m) in costs.items()}
    untuned = candidate_of.pop("")
    return Choice(BASE, tuple(candidate_of.values()), untuned)


def measured_hosts(times: Floats) -> Indices:
    """Return the indices of hosts between which every pair was measured at least once.

    Hosts with the most unmeasured pairs are left out first.
    """
    unknown = ~np.isfinite(times).any(axis=0) & ~np.eye(times.shape[1], dtype=bool)
    kept = np.arange(len(unknown))
    while unknown.any():
        worst = int((unknown.sum(axis=0) + unknown.sum(axis=1)).argmax())
        unknown = np.delete(np.delete(unknown, worst, axis=0), worst, axis=1)
        kept = np.delete(kept, worst)
    return kept


def _decided(
    times: Floats, method: str, usual: Floats, roots: Sequence[int], graphs: Sequence[TaskGraph]
) -> tuple[list[BroadcastTree], list[Indices]]:
    """Return the broadcast trees and mappings that a method's constant gives; an empty method decides by rank."""
    size = times.shape[1]
    if not method:
        return [binomial(size, root) for root in roots], [np.arange(size) for _ in graphs]
    cost = estimate(times, method)
    cost = np.where(np.isnan(cost), usual, cost)
    return [earliest_first(cost, root) for root in roots], [mapped(tasks, cost) for tasks in graphs]


def _chosen(choice: Choice, sure: float) -> Choice:
    base = choice.trial(BASE)
    if base is None:
        return choice
    over = {trial.method: trial.over(base) for trial in choice.trials}
    best = min(over, key=lambda method: over[method][0])
    mean, error = over[best]
    chosen = best if mean < -sure * error else BASE
    return replace(choice, method=chosen, over_base=over[chosen][0])
