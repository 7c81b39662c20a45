"""Choose the estimator whose decisions, or predictions, are best on snapshots later than those it learned from."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

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
from gavotte.model.estimators import ESTIMATORS, Estimate, band, fresh, mode_and_band
from gavotte.model.excess import expected
from gavotte.model.moved import Cut, cut

Purpose = Literal["any", "trees", "placement", "prediction"]
"""What a constant is used for: broadcast trees, placements, predictions of single transfers; `any` = the first two."""

PURPOSES: tuple[Purpose, ...] = ("any", "trees", "placement", "prediction")

HELD_OUT = 2
"""Number of snapshots in random parts, and of the newest ones on which `lasting` compares."""

MAX_FOLDS = 5
ROOTS = 16
GRAPHS = 8
MAX_HOSTS = 64
"""Largest number of hosts on which decisions are tried; if there are more, a random subset is used.

The best method is the same for any number, and the cost grows with the square of the hosts.
"""

EXCESS = "+excess"
BASE = "mean"
"""Method with which the others are compared."""
CANDIDATES = (BASE, "median", "mode", "rpca", "mode" + EXCESS, "rpca" + EXCESS, "min", "ewma", "last")
SURE = 1.0
"""Standard errors that count against a method: the one whose advantage over the base is surest is chosen.

0.3 decides by luck where slow-downs belong to hosts, and 2 is late where rates step (`purposes` of
`make bench-constant`).
"""

SPIKY, SPIKY_BASE = 0.78, "mode" + EXCESS
"""Where the mode's error of predictions is surely less than this share of the mean's, slow-downs are chance.

The base is then `SPIKY_BASE`: five snapshots seldom prove that its trees are better, but they are, by up to 7 %.
"""

TRIED_BY_RPCA = 50
"""Most snapshots, the newest, from which `rpca` learns in trials. With 100, trials took half of the time of `auto`."""

LEAST_SNAPSHOTS = 1.5
"""Held-out snapshots with new values, weighted, below which a comparison says nothing.

Where most reports repeat, one new value a pair would decide: on such a series the choice once cost 47 % more.
"""

LEAST_ERROR = 1e-4
"""Relative errors of predictions below this count as equal."""


@dataclass(frozen=True)
class Candidate:
    """Cost of the decisions and predictions of one estimator on held-out snapshots.

    Attributes:
        method: a key of `ESTIMATORS`, or a key followed by `+excess`.
        broadcast_s: (snapshots, roots) seconds of broadcasts along trees built by the earliest completion first.
        mapping_s: (snapshots, graphs) seconds of greedy mappings.
        error: (snapshots,) median relative error of the predicted time of a pair; NaN = the snapshot has no new value.
        fresh: share of the values that do not repeat a pair's last one, 0 to 1. That share of the snapshots carries
            new information.
    """

    method: str
    broadcast_s: Floats
    mapping_s: Floats
    error: Floats
    fresh: float = 1.0

    @property
    def mean_error(self) -> float:
        """Mean of the predictions' median relative errors; NaN if no snapshot has a new value."""
        known = self.error[np.isfinite(self.error)]
        return float(known.mean()) if known.size else float("nan")

    def over(self, other: Candidate, purpose: Purpose = "any") -> tuple[float, float]:
        """Return the logarithm of this candidate's cost divided by another's, and its standard error.

        For `any`, broadcasts and mappings are weighted by precision, since the times of mappings of random graphs vary
        more. For `prediction`, errors take the place of costs.
        """
        if purpose == "prediction":
            return self._mean(np.log(np.maximum(self.error, LEAST_ERROR) / np.maximum(other.error, LEAST_ERROR)))
        trees = self._mean(np.log(self.broadcast_s / other.broadcast_s))
        placements = self._mean(np.log(self.mapping_s / other.mapping_s))
        if purpose != "any":
            return trees if purpose == "trees" else placements
        ratios = (trees, placements)
        if all(error == 0 for _, error in ratios):
            return sum(mean for mean, _ in ratios) / len(ratios), 0.0
        if all(math.isinf(error) for _, error in ratios):
            return sum(mean for mean, _ in ratios) / len(ratios), math.inf
        weights = [1 / max(error, 1e-6) ** 2 for _, error in ratios]
        mean = sum(weight * mean for weight, (mean, _) in zip(weights, ratios, strict=True)) / sum(weights)
        return mean, sum(weights) ** -0.5

    def _mean(self, ratio: Floats) -> tuple[float, float]:
        """Return the mean of (snapshots,) or (snapshots, samples) values, and its standard error.

        Snapshot k of n has the weight k: what is true now counts for more than what was true before a change.
        """
        rows = ratio if ratio.ndim == 2 else ratio[np.isfinite(ratio)][:, None]
        if len(rows) < 2:
            return float(rows.mean()) if rows.size else 0.0, math.inf
        weights = np.arange(1.0, len(rows) + 1)
        weights /= weights.sum()
        by_sample = weights @ rows
        mean = float(by_sample.mean())
        # Both snapshots and samples (roots, graphs) are drawn at random.
        count = 1 / float(weights @ weights)
        if self.fresh * count < LEAST_SNAPSHOTS:
            return mean, math.inf
        variance = float(weights @ (rows.mean(axis=1) - mean) ** 2) * count / (count - 1)
        error = math.sqrt(variance / (self.fresh * count))
        if rows.shape[1] > 1:
            error = math.hypot(error, float(by_sample.std(ddof=1)) / math.sqrt(rows.shape[1]))
        return mean, error


@dataclass(frozen=True)
class Choice:
    """The chosen estimator, and the trials that led to the choice.

    Attributes:
        method: the best of the candidates, or `median` if there are too few snapshots or hosts to compare them.
        trials: one for each candidate; empty if nothing could be held out.
        untuned: the binomial tree by rank and the mapping in order of rank, on the same snapshots.
        purpose: what the method was chosen for.
    """

    method: str
    trials: tuple[Candidate, ...] = ()
    untuned: Candidate | None = None
    purpose: Purpose = "any"

    def trial(self, method: str) -> Candidate | None:
        """Return the trial of the candidate with this method; None if there is none."""
        return next((trial for trial in self.trials if trial.method == method), None)

    def over_base(self, method: str) -> tuple[float, float] | None:
        """Return the logarithm of a method's cost divided by the mean's, and its error; None without trials."""
        trial, base = self.trial(method), self.trial(BASE)
        return None if trial is None or base is None else trial.over(base, self.purpose)

    def surest(self, purpose: Purpose) -> Choice:
        """Return the choice of the method whose cost over the base's is least if `SURE` standard errors are added."""
        choice = replace(self, purpose=purpose)
        base = choice._base()
        if base is None:
            return choice
        most = {base.method: 0.0}
        for trial in choice.trials:
            if trial is not base:
                mean, error = trial.over(base, purpose)
                most[trial.method] = mean + SURE * error
        return replace(choice, method=min(most, key=lambda method: most[method]))

    def _base(self) -> Candidate | None:
        """Return the trial with which the others are compared: `BASE`, or `SPIKY_BASE` if slow-downs are chance."""
        base, mode, spiky = (self.trial(method) for method in (BASE, "mode", SPIKY_BASE))
        if base is None or mode is None or spiky is None or self.purpose == "prediction":
            return base
        mean, error = mode.over(base, "prediction")
        return spiky if mean + error < math.log(SPIKY) else base


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
    if not method.endswith(EXCESS):
        return ESTIMATORS[name](times).constant
    by_mode, scatter = mode_and_band(times)
    return expected(times, by_mode if name == "mode" else ESTIMATORS[name](times), scatter.width)


def undisturbed(method: str) -> str:
    """Return the related method that excludes slow-downs: the same without `+excess`, and `mode` for `mean`.

    A mean includes every slow-down that was measured, so undisturbed times lie below it. To distinguish disturbed from
    undisturbed times, compare them with the constant by this method.
    """
    return "mode" if method == "mean" else method.removesuffix(EXCESS)


def choose(times: Floats, *, purpose: Purpose = "any", seed: int = 0) -> Choice:
    """Choose the estimator that serves a purpose best on later snapshots.

    1. The newer half of the snapshots is divided into up to `MAX_FOLDS` folds, in order of time.
    2. Before each fold, each candidate learns from all snapshots before the fold.
    3. Its trees, placements and predictions are scored on the fold's values. Values that repeat a pair's last one are
       no new measurements and do not count.
    4. The method is chosen whose cost, relative to the base's, is least if `SURE` standard errors are added. The base
       is the mean, or the mode with expected excess where the mode predicts surely better (see `SPIKY`).

    Args:
        times: (n, N, N) transfer times, row = source, NaN = not measured.
        purpose: what the constant is used for.
        seed: seed of roots and task graphs, and of the hosts if there are more than `MAX_HOSTS`.
    """
    return trials(times, seed=seed).surest(purpose)


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
    ordered: bool = True,
) -> Choice:
    """Score each candidate on held-out snapshots, and return the scores with the mean as the preliminary choice.

    With fewer than three snapshots or hosts, the choice is `median` and there are no trials.

    Args:
        times: as for `choose`.
        candidates: estimators to try.
        seed: as for `choose`.
        folds: snapshots to score on, in order of time. None = parts of the newer half.
        learnt: (n, N, N) times to learn from, if other than those to score on.
        ordered: learn from the snapshots before each fold. Otherwise the folds are random parts of all snapshots, each
            scored after learning from all others: twice as many scores, which do not show drift.
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
    new = fresh(times)
    share = float(np.isfinite(new).sum() / np.isfinite(times).sum())
    scorable = np.arange(snapshots // 2, snapshots) if ordered else rng.permutation(snapshots)
    parts = np.array_split(scorable, min(MAX_FOLDS, len(scorable) if ordered else -(-snapshots // HELD_OUT)))
    costs: dict[str, tuple[list[Floats], list[Floats], list[Floats]]] = {
        name: ([], [], []) for name in (*candidates, "")
    }
    for fold in folds or [np.sort(part) for part in parts]:
        rest = source[: fold[0]] if ordered else np.delete(source, fold, axis=0)
        scored = np.where(np.isnan(new[fold]), usual, new[fold])
        constants = dict(_constants(np.ascontiguousarray(rest), candidates))
        for name, (broadcasts, mappings, errors) in costs.items():
            cost = constants.get(name)
            trees, places = _decided(cost, usual, roots, graphs)
            broadcasts.append(np.stack([broadcast_s(tree, scored) for tree in trees], axis=-1))
            pairs = zip(graphs, places, strict=True)
            mappings.append(np.stack([mapping_s(tasks, place, scored) for tasks, place in pairs], axis=-1))
            errors.append(_errors(new[fold], usual if cost is None else np.where(np.isnan(cost), usual, cost)))
    candidate_of = {
        name: Candidate(name, np.concatenate(b), np.concatenate(m), np.concatenate(e), share)
        for name, (b, m, e) in costs.items()
    }
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


def _constants(times: Floats, methods: Iterable[str]) -> Iterable[tuple[str, Floats]]:
    """Yield each method with its constant. Methods with and without `+excess` share the estimate."""
    estimates: dict[str, Estimate] = {}
    width = None
    for method in methods:
        name = method.removesuffix(EXCESS)
        learnt = times[-TRIED_BY_RPCA:] if name == "rpca" else times
        if name == "mode" and width is None:
            estimates[name], scatter = mode_and_band(times)
            width = scatter.width
        elif name not in estimates:
            estimates[name] = ESTIMATORS[name](learnt)
        if method == name:
            yield method, estimates[name].constant
            continue
        if width is None:
            width = band(times).width
        yield method, expected(learnt, estimates[name], width)


def _decided(
    cost: Floats | None, usual: Floats, roots: Sequence[int], graphs: Sequence[TaskGraph]
) -> tuple[list[BroadcastTree], list[Indices]]:
    """Return the broadcast trees and mappings that a constant gives; without one, those by rank."""
    size = len(usual)
    if cost is None:
        return [binomial(size, root) for root in roots], [np.arange(size) for _ in graphs]
    cost = np.where(np.isnan(cost), usual, cost)
    return [earliest_first(cost, root) for root in roots], [mapped(tasks, cost) for tasks in graphs]


def _errors(times: Floats, constant: Floats) -> Floats:
    """Return the (n,) median relative error of the (N, N) constant in each snapshot; NaN = it has no value."""
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmedian(np.abs(times / constant - 1).reshape(len(times), -1), axis=1))
