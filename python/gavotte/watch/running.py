"""What a move means for an application that runs: stay, or migrate."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.place import evaluate, place

WORTH = 0.05
"""A new placement must save this share to be named; rates are not known much better."""


@dataclass(frozen=True)
class Running:
    """An application and where its tasks are."""

    app: App
    assignment: Mapping[str, str]


@dataclass(frozen=True)
class Review:
    """Stay or migrate.

    Attributes:
        before_s: completion time of the running placement as predicted before the move.
        now_s: the same now.
        best_s: that of the best placement found now.
        assignment: that placement; the running one where it is not worth leaving.
        migration_s: time to send the memory of the tasks that change hosts, all at once; None = a rate is unknown.
        runs: runs after which the migration has paid; None = never, or unknown.
        text: all that in a sentence.
    """

    before_s: float
    now_s: float
    best_s: float
    assignment: dict[str, str]
    migration_s: float | None
    runs: float | None
    text: str


def review(before: Network, now: Network, running: Running, *, seed: int = 0) -> Review | None:
    """Evaluates a running placement again, migration cost included.

    Args:
        before: what was believed.
        now: what is believed.
        running: what runs.
        seed: of the search.

    Returns:
        None when the placement cannot be evaluated, for instance because a host has gone from the Network.
    """
    apps = [running.app]
    try:
        before_s = evaluate(before, apps, running.assignment).completion_s
        now_s = evaluate(now, apps, running.assignment).completion_s
        best = place(now, apps, "search", seed=seed)
    except GavotteError:
        return None
    saved_s = now_s - best.completion_s
    predicted = f"predicted {before_s:.2f} s before, {now_s:.2f} s now"
    if not saved_s > WORTH * now_s:
        return Review(
            before_s, now_s, now_s, dict(running.assignment), 0.0, None, f"{predicted}: no other placement is better"
        )
    migration_s = _migration_s(now, running, best.assignment)
    runs = migration_s / saved_s
    moved = sum(best.assignment[task] != host for task, host in running.assignment.items())
    better = f"{predicted}, {best.completion_s:.2f} s with {moved} tasks moved"
    if math.isinf(migration_s):
        return Review(before_s, now_s, best.completion_s, dict(best.assignment), None, None, better)
    text = f"{better} in {migration_s:.2f} s, which pays after {math.ceil(runs)} runs"
    return Review(before_s, now_s, best.completion_s, dict(best.assignment), migration_s, runs, text)


def _migration_s(network: Network, running: Running, assignment: Mapping[str, str]) -> float:
    """The busiest host's time to send, or to receive, the memory of tasks that move."""
    at = {host.name: i for i, host in enumerate(network.hosts)}
    out: dict[str, float] = defaultdict(float)
    into: dict[str, float] = defaultdict(float)
    for task in running.app.task:
        source, target = running.assignment[task.name], assignment[task.name]
        if source == target:
            continue
        rate_bps = network.rate_bps[at[source]][at[target]]
        seconds = 8 * task.memory_bytes / rate_bps if rate_bps else math.inf
        out[source] += seconds
        into[target] += seconds
    return max([*out.values(), *into.values()], default=0.0)
