"""Decision whether to migrate tasks of running applications: only if that saves more time than the moves cost.

Choreo re-evaluates its placement every T minutes (section 2.4). The time to minimise is the sum of the running times,
as in Choreo's evaluation (section 6.3). It includes the cost of migrations: an application pauses while its tasks move.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gavotte.errors import GavotteError, InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.place.effort import Effort
from gavotte.place.explaining import explain
from gavotte.place.merge import check_apps, task_key
from gavotte.place.placing import evaluate, solve
from gavotte.place.question import Question
from gavotte.place.running import Running
from gavotte.place.sequence.live import Live, Places, Projection, moved_on

EFFORT = Effort(time_limit_s=1.0)
"""Default effort for each placement that is tried."""

_STEPS = 6
"""Single moves tried in a row for each application."""

_PRUNED = 3
"""Candidates from which moves that do not pay are taken back."""

_LEAST_GAIN = 1e-6
"""A saving below this share of the time left is rounding."""


@dataclass(frozen=True)
class Migration:
    """Move of a task from one host to another."""

    app: str
    task: str
    source: str
    target: str


@dataclass(frozen=True)
class Decision:
    """Decision whether to move tasks, with the tasks to move and the time that this saves.

    Attributes:
        moves: the tasks that should change their hosts; empty = keep all where it is.
        keep_s: sum over the applications of the time until they end if nothing moves.
        move_s: the same sum for the best migration that was found, pauses included; `keep_s` if there is none.
        cost_s: sum over the applications of the seconds that they pause for the moves.
        assignments: for each application, task to host from now on.
        pause_s: for each application, how long it pauses from now on.
    """

    moves: list[Migration]
    keep_s: float
    move_s: float
    cost_s: float
    assignments: list[dict[str, str]]
    pause_s: list[float]

    @property
    def saving_s(self) -> float:
        """Seconds that moving saves, after its cost."""
        return self.keep_s - self.move_s


def reconsider(
    network: Network,
    live: Sequence[Live],
    projection: Projection,
    *,
    migration_s: float,
    every_s: float | None = None,
    effort: Effort = EFFORT,
) -> Decision:
    """Decide whether tasks of running applications should migrate (Choreo, section 2.4).

    1. It places each application again while the others stay, places all again together, and follows single moves
       downhill.
    2. It takes back each move of an outcome that saves no time.
    3. The best outcome counts if it saves more than it costs.
    4. It also counts only if it is no worse than to keep all, both with the best moves when the next application has
       ended. Otherwise two applications change places while one of them has a second left.

    Nothing is remembered between calls: the remaining bytes of the applications show how far they are.

    Args:
        network: the current Network.
        live: the running applications, with different names.
        projection: says when applications end.
        migration_s: seconds that an application pauses for each of its tasks that moves.
        every_s: seconds until the next decision, and between later ones; None = there will be one when an application
            ends.
        effort: for each placement that is tried.

    Returns:
        The decision, with the tasks to move.

    Raises:
        GavotteError: when `migration_s` is negative or infinite, or applications and network do not belong together.
    """
    if not 0 <= migration_s < math.inf:
        raise GavotteError(f"a migration cannot cost {migration_s:g} s", hint="use 0 or more seconds")
    check_apps([one.app for one in live])
    trial = _Trial(network, effort)
    weigh = _Weigh(live, projection, migration_s)
    now = [dict(one.assignment) for one in live]
    keep_s = weigh(now)
    best_s, best = _best(trial, weigh, keep_s)
    if best != now and len(live) > 1:
        waiting_s, moving_s = (_ahead_s(trial, weigh, each, every_s) for each in (live, weigh.moved(best)))
        if waiting_s < moving_s:
            best_s, best = keep_s, now
    pauses_s = weigh.pauses_s(best)
    return Decision(
        moves=[
            Migration(one.app.name, task, host, places[task])
            for one, places in zip(live, best, strict=True)
            for task, host in one.assignment.items()
            if places[task] != host
        ],
        keep_s=keep_s,
        move_s=best_s,
        cost_s=sum(pause_s - one.pause_s for one, pause_s in zip(live, pauses_s, strict=True)),
        assignments=best,
        pause_s=pauses_s,
    )


@dataclass(frozen=True)
class _Trial:
    """A Network on which tasks are placed again, and how hard to try."""

    network: Network
    effort: Effort

    def place(self, apps: Sequence[App], running: Sequence[Running]) -> dict[str, str] | None:
        """Return the host of each task, by task key; None if the method finds no room."""
        try:
            answer = solve(Question(self.network, apps, running=running), self.effort)
        except InfeasibleError:
            return None
        return answer.placement.assignment

    def fits(self, apps: Sequence[App], places: Sequence[Places]) -> bool:
        """Return whether places keep every rule and overbook no host."""
        try:
            evaluate(self.network, apps, _joined(apps, places))
        except InfeasibleError:
            return False
        return True

    def downhill(self, one: Live, others: Sequence[Running]) -> Iterator[dict[str, str]]:
        """Yield the places of one application after one, two and more single moves, each off its bottleneck link."""
        places = dict(one.assignment)
        for _ in range(_STEPS):
            placement = evaluate(self.network, [one.app], places, running=others)
            move = explain(Question(self.network, [one.app], running=others), placement).runner_up
            if move is None or move.gain_s <= 0:
                return
            places = places | {task: target for task, _, target in move.moves}
            yield places


@dataclass(frozen=True)
class _Weigh:
    """Function that returns the sum of the seconds until the applications end, for places that they might have."""

    live: Sequence[Live]
    projection: Projection
    migration_s: float

    def __call__(self, places: Sequence[Places]) -> float:
        return math.fsum(self.ends_s(self.moved(places)))

    def moved(self, places: Sequence[Places]) -> list[Live]:
        """Return the applications on other places, with the pauses for their moves."""
        return [
            Live(one.app, own, pause_s)
            for one, own, pause_s in zip(self.live, places, self.pauses_s(places), strict=True)
        ]

    def ends_s(self, live: Sequence[Live]) -> list[float]:
        """Return the seconds until each application ends."""
        apps, places, pauses_s = zip(*((one.app, one.assignment, one.pause_s) for one in live), strict=True)
        return self.projection(apps, places, pause_s=pauses_s, for_s=math.inf).finish_s

    def pauses_s(self, places: Sequence[Places]) -> list[float]:
        """Return each application's pause in seconds: the rest of the present one, and that for moves to `places`."""
        return [
            one.pause_s + self.migration_s * sum(own[task] != host for task, host in one.assignment.items())
            for one, own in zip(self.live, places, strict=True)
        ]


def _best(trial: _Trial, weigh: _Weigh, keep_s: float) -> tuple[float, list[dict[str, str]]]:
    """Return the least sum of times that was found, in seconds, and its places: the present ones if no move pays.

    Args:
        trial: places tasks again.
        weigh: the running applications.
        keep_s: the sum if nothing moves, in seconds.
    """
    live, now = weigh.live, [dict(one.assignment) for one in weigh.live]
    tried = {_key(now): (keep_s, now)}
    for places in _candidates(trial, live, now):
        if _key(places) not in tried:
            tried[_key(places)] = (weigh(places), places)
    best_s, best = keep_s, now
    for found_s, places in sorted(tried.values(), key=lambda one: one[0])[:_PRUNED]:
        spared_s, spared = _spared(trial, live, weigh, found_s, places)
        if spared_s < best_s:
            best_s, best = spared_s, spared
    return (keep_s, now) if keep_s - best_s <= _LEAST_GAIN * keep_s else (best_s, best)


def _ahead_s(trial: _Trial, weigh: _Weigh, live: Sequence[Live], every_s: float | None) -> float:
    """Return the sum of times, in seconds, if nothing moves before an application has ended, and the best does then.

    Args:
        trial: places tasks again.
        weigh: has the projection and the cost of moves.
        live: the applications as they run from now on.
        every_s: seconds between decisions; None = there is one when an application ends.
    """
    first_s = min(weigh.ends_s(live))
    # Rounding must not leave the one that ends a last byte.
    wait_s = first_s * (1.0 + 1e-9) if every_s is None else every_s * max(1, math.ceil(first_s / every_s))
    left, ended = moved_on(live, weigh.projection, wait_s)
    then = replace(weigh, live=left)
    then_s = _best(trial, then, math.fsum(then.ends_s(left)))[0] if left else 0.0
    return math.fsum([*(after_s for _, after_s in ended), wait_s * len(left), then_s])


def _candidates(trial: _Trial, live: Sequence[Live], now: list[dict[str, str]]) -> Iterator[list[dict[str, str]]]:
    """Yield places for all applications that may be better than the present ones."""
    free = [number for number, one in enumerate(live) if one.pause_s <= 0]
    for number in free:
        others = [one.running for other, one in enumerate(live) if other != number]
        placed = trial.place([live[number].app], others)
        for places in ([] if placed is None else [placed], trial.downhill(live[number], others)):
            for own in places:
                yield [own if other == number else now[other] for other in range(len(live))]
    if len(free) > 1:
        apps = [live[number].app for number in free]
        placed = trial.place(apps, [one.running for number, one in enumerate(live) if number not in free])
        if placed is not None:
            own_of = {
                number: {task.name: placed[task_key(app, task.name, apps)] for task in app.task}
                for number, app in zip(free, apps, strict=True)
            }
            yield [own_of.get(number, now[number]) for number in range(len(live))]


def _spared(
    trial: _Trial, live: Sequence[Live], weigh: _Weigh, found_s: float, places: list[dict[str, str]]
) -> tuple[float, list[dict[str, str]]]:
    """Take back the moves that cost more than they save; return the sum of times, in seconds, and the places."""
    apps = [one.app for one in live]
    again = True
    while again:
        again = False
        for number, one in enumerate(live):
            for task, host in one.assignment.items():
                if places[number][task] == host:
                    continue
                fewer = [own | {task: host} if at == number else own for at, own in enumerate(places)]
                fewer_s = weigh(fewer)
                if fewer_s <= found_s and trial.fits(apps, fewer):
                    found_s, places, again = fewer_s, fewer, True
    return found_s, places


def _joined(apps: Sequence[App], places: Sequence[Places]) -> dict[str, str]:
    return {
        task_key(app, task.name, apps): own[task.name]
        for app, own in zip(apps, places, strict=True)
        for task in app.task
    }


def _key(places: Sequence[Places]) -> tuple[tuple[tuple[str, str], ...], ...]:
    return tuple(tuple(sorted(own.items())) for own in places)
