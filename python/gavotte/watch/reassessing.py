"""Decide what running applications should do after an event: stay, restart lost tasks, or migrate."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gavotte.errors import GavotteError, InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.parts.counting import counted
from gavotte.formats.placement import Placement
from gavotte.place import Running, evaluate, place
from gavotte.place.merge import task_key
from gavotte.watch.belief import without

WORTH = 0.05
"""Least share of the completion time, 0 to 1, that a recommended placement saves. Rates are no more precise."""

SHOWN_TASKS = 4
"""Most tasks named in the sentence; the assignment names all."""


@dataclass(frozen=True)
class Reassessment:
    """The advice for running applications after an event: stay, restart or migrate.

    Attributes:
        before_s: completion time of the running placement as predicted before the event, with all hosts present.
        now_s: the same now, with the lost tasks started again where they fit best; None = nothing fits.
        best_s: completion time of the best placement found now; None = nothing fits.
        assignment: the best placement if it is worth migrating to. Otherwise the running one, with the lost tasks
            elsewhere. None = nothing fits.
        restart: tasks whose hosts are gone. They start again where `assignment` says: no state is left to send.
        migration_s: time to send the memory of the tasks that change hosts, all at once; None = a rate is unknown.
        runs: runs after which the migration has paid; None = never, or unknown.
        text: the decision and its times in a sentence.
        advised: `assignment` as a Placement, if it differs from the running one; None = stay, or nothing fits.
    """

    before_s: float
    now_s: float | None
    best_s: float | None
    assignment: dict[str, str] | None
    restart: tuple[str, ...]
    migration_s: float | None
    runs: float | None
    text: str
    advised: Placement | None = field(default=None, repr=False)

    @property
    def document(self) -> dict[str, Any]:
        """The advice as a dictionary that can be written as JSON."""
        return {name: value for name, value in vars(self).items() if name != "advised"}


def reassess(
    before: Network, now: Network, running: Running, *, gone: Collection[str] = (), seed: int = 0
) -> Reassessment:
    """Evaluate a running placement again after an event, and compare it with the best one, migration cost included.

    Args:
        before: the Network before the event.
        now: the Network as it is now.
        running: the applications that run, and where.
        gone: hosts of `now` that are gone. No task is placed on them.
        seed: seed of the search.

    Raises:
        GavotteError: when the placement cannot be evaluated, for instance because a host is not in the Network.
    """
    apps, places = running.placement.in_order(running.apps), running.placement.assignment
    before_s = evaluate(before, apps, places).completion_s
    lost = tuple(task for task, host in places.items() if host in gone)
    try:
        left = without(now, gone)
        stay = _restarted(left, apps, places, lost, seed) if lost else evaluate(left, apps, places)
        best = place(left, apps, "search", seed=seed)
    except GavotteError as error:
        if not lost:
            raise
        text = f"the hosts of {_named(lost)} are gone, and no other placement fits: {error}"
        return Reassessment(before_s, None, None, None, lost, None, None, text)
    saved_s = stay.completion_s - best.completion_s
    worth = saved_s > WORTH * stay.completion_s
    chosen = best if worth else stay
    migration_s = _migration_s(left, apps, places, chosen.assignment, lost)
    # Tasks without memory move at once.
    how = f" in {migration_s:.2f} s" if 0 < migration_s < math.inf else ""
    runs = migration_s / saved_s if worth and math.isfinite(migration_s) else None
    moved = sum(chosen.assignment[task] != host for task, host in places.items()) - len(lost)
    text = f"predicted {before_s:.2f} s before, {stay.completion_s:.2f} s now"
    if lost:
        text += " with what was lost restarted"
    if worth:
        text += f", {chosen.completion_s:.2f} s with {counted(moved, 'task')} moved{how}"
        text += f", which pays after {counted(math.ceil(runs), 'run')}" if runs else ""
    elif moved:
        text += f" and {counted(moved, 'task')} moved{how}"
    elif not lost:
        text += ": no other placement is better"
    if lost:
        text += "; restart " + _named([f"{task} on {chosen.assignment[task]}" for task in lost])
    return Reassessment(
        before_s,
        stay.completion_s,
        chosen.completion_s,
        dict(chosen.assignment),
        lost,
        None if math.isinf(migration_s) else migration_s,
        runs,
        text,
        chosen if chosen.assignment != places else None,
    )


def _restarted(
    network: Network, apps: Sequence[App], places: Mapping[str, str], lost: Collection[str], seed: int
) -> Placement:
    """Place the lost tasks where they fit best and move no others. If that is impossible, place all tasks again."""
    held = {task: [host] for task, host in places.items() if task not in lost}
    try:
        return place(network, apps, "search", seed=seed, allowed=held)
    except InfeasibleError:
        return place(network, apps, "search", seed=seed)


def _named(words: Sequence[str]) -> str:
    more = f" and {len(words) - SHOWN_TASKS} more" if len(words) > SHOWN_TASKS else ""
    return ", ".join(words[:SHOWN_TASKS]) + more


def _migration_s(
    network: Network, apps: Sequence[App], before: Mapping[str, str], after: Mapping[str, str], lost: Collection[str]
) -> float:
    """Return the busiest host's seconds to send or receive the memory of tasks that move. Lost tasks send none."""
    at = {host.name: i for i, host in enumerate(network.hosts)}
    out: dict[str, float] = defaultdict(float)
    into: dict[str, float] = defaultdict(float)
    for app in apps:
        for task in app.task:
            key = task_key(app, task.name, apps)
            source, target = before[key], after[key]
            if source == target or key in lost:
                continue
            rate_bps = network.pair_bps(at[source], at[target])
            seconds = 8 * task.memory_bytes / rate_bps if rate_bps else math.inf
            out[source] += seconds
            into[target] += seconds
    return max([*out.values(), *into.values()], default=0.0)
