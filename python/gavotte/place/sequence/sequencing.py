"""Applications in sequence: each is placed when it arrives, and all are reviewed from time to time.

Choreo sections 2.4 and 6.3: the traffic of running applications is cross traffic to an arriving one.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gavotte.errors import GavotteError, InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement
from gavotte.place.effort import Effort
from gavotte.place.merge import check_apps, task_key
from gavotte.place.placing import evaluate, solve
from gavotte.place.question import Question
from gavotte.place.sequence.live import Live, Projection, given_placement, moved_on
from gavotte.place.sequence.migrating import EFFORT, Decision, reconsider

_ROUND_ROBIN = "round-robin"
_AUTO = "auto"


@dataclass(frozen=True)
class Arrival:
    """Arrival of an application, with the Placement that it got.

    Attributes:
        app: the application's name.
        time_s: when it arrived.
        beside: names of the applications that ran at that time.
        placement: where its tasks went.
    """

    app: str
    time_s: float
    beside: list[str]
    placement: Placement


@dataclass(frozen=True)
class Review:
    """Review of the places of all running applications, with its decision.

    Attributes:
        time_s: time of the review.
        live: the applications that ran at that time, with the bytes that were still to come.
        decision: which tasks moved.
    """

    time_s: float
    live: list[Live]
    decision: Decision

    @property
    def apps(self) -> list[str]:
        """Names of the applications that ran at the review."""
        return [one.app.name for one in self.live]


@dataclass(frozen=True)
class InSequence:
    """Result of a sequence from the first arrival to the last end, with all times in seconds.

    Attributes:
        arrivals: in order of time.
        reviews: in order of time.
        running_s: how long each application ran from its arrival, pauses included, by its name.
        placement: all applications as they were first placed, which `run` and `simulate` replay with their arrivals;
            its completion is from the first arrival to the last end if nothing ever migrates. `unfold` adds migrations.
        final: host of each task when its application ended, by application and task.
    """

    arrivals: list[Arrival]
    reviews: list[Review]
    running_s: dict[str, float]
    placement: Placement
    final: dict[str, dict[str, str]]

    @property
    def sum_s(self) -> float:
        """Sum of the running times in seconds, which Choreo's section 6.3 compares."""
        return math.fsum(self.running_s.values())


def arrive(
    network: Network,
    app: App,
    live: Sequence[Live],
    projection: Projection,
    effort: Effort = EFFORT,
) -> Placement:
    """Place an application next to running ones (Choreo, section 2.4).

    Running applications keep their room, and their remaining bytes load the links. `auto` also tries the placement
    without these bytes, and greedy's. The projection chooses the one with the least sum of the times until all end.
    `round-robin` continues behind the last host that a running application uses.

    Args:
        network: the current Network.
        app: the arriving application.
        live: the running applications.
        projection: says when applications end.
        effort: for each placement that is tried.

    Raises:
        InfeasibleError: when the method finds no room next to the running applications.
        GavotteError: when the request makes no sense.
    """
    running_apps = [one.running for one in live]
    method = effort.method
    if method == _ROUND_ROBIN and live:
        network = _turned(network, list(live[-1].assignment.values())[-1])

    def placed(how: str, share: float) -> Placement:
        running = [replace(one, share=share) for one in running_apps]
        return solve(Question(network, [app], running=running), replace(effort, method=how)).placement

    first = placed(method, 1.0)
    if method != _AUTO or not live:
        return first

    def sum_s(placement: Placement) -> float:
        apps, places = [*(one.app for one in live), app], [*(one.assignment for one in live), placement.assignment]
        pause_s = [*(one.pause_s for one in live), 0.0]
        return math.fsum(projection(apps, places, pause_s=pause_s, for_s=math.inf).finish_s)

    candidates = [first, placed(method, 0.0)]
    with contextlib.suppress(InfeasibleError):  # greedy can get stuck, and does not keep every rule
        candidates.append(placed("greedy", 1.0))
    best = min(candidates, key=sum_s)
    return best if best is first else _predicted(network, app, best, live).model_copy(update={"seed": effort.seed})


def sequence(
    network: Network,
    apps: Sequence[App],
    projection: Projection,
    *,
    every_s: float | None = None,
    migration_s: float = 0.0,
    effort: Effort = EFFORT,
) -> InSequence:
    """Place applications as they arrive, and advance them by the projection until all have ended.

    Nothing is known of an application before its arrival.

    Args:
        network: the current Network.
        apps: the applications, each with its arrival.
        projection: moves applications forward in time, as `simulate.Advance` does.
        every_s: how often all are reconsidered, from the first arrival on; None = never.
        migration_s: seconds that an application pauses for each of its tasks that moves.
        effort: for each placement that is tried.

    Raises:
        InfeasibleError: when an application finds no room next to the running ones.
        GavotteError: when the request makes no sense.
    """
    check_apps(apps)
    if every_s is not None and not 0 < every_s < math.inf:
        raise GavotteError(f"cannot reconsider every {every_s:g} s", hint="use more than 0 seconds")
    waiting = sorted(apps, key=lambda app: app.arrival_s)
    start_s = now_s = waiting[0].arrival_s
    live: list[Live] = []
    arrivals: list[Arrival] = []
    reviews: list[Review] = []
    end_s: dict[str, float] = {}
    final: dict[str, dict[str, str]] = {}
    checks = 1
    while waiting or live:
        arrival_s = waiting[0].arrival_s if waiting else math.inf
        check_s = math.inf
        if every_s is not None:  # reviews that fell into a time when nothing ran are skipped
            checks = max(checks, math.ceil((now_s - start_s) / every_s))
            check_s = max(start_s + checks * every_s, now_s)
        until_s = min(arrival_s, check_s) if live else arrival_s
        live, ended = moved_on(live, projection, until_s - now_s)
        for one, after_s in ended:
            end_s[one.app.name], final[one.app.name] = now_s + after_s, dict(one.assignment)
        if math.isinf(until_s):
            break
        now_s = until_s
        if arrival_s <= now_s:
            app = waiting.pop(0)
            placement = arrive(network, app, live, projection, effort)
            arrivals.append(Arrival(app.name, now_s, [one.app.name for one in live], placement))
            live.append(Live(app, placement.assignment))
            continue
        checks += 1
        if not live:
            continue
        decision = reconsider(network, live, projection, migration_s=migration_s, every_s=every_s, effort=effort)
        reviews.append(Review(now_s, live, decision))
        live = [
            Live(one.app, places, pause_s)
            for one, places, pause_s in zip(live, decision.assignments, decision.pause_s, strict=True)
        ]
    return InSequence(
        arrivals=arrivals,
        reviews=reviews,
        running_s={app.name: end_s[app.name] - app.arrival_s for app in apps},
        placement=_whole(apps, arrivals, projection, effort),
        final={app.name: final[app.name] for app in apps},
    )


def _turned(network: Network, last: str) -> Network:
    """Return the network with its hosts rotated, so that the host after `last` comes first."""
    size = len(network.hosts)
    first = (network.names.index(last) + 1) % size
    return network.of_hosts([(first + step) % size for step in range(size)])


def _predicted(network: Network, app: App, chosen: Placement, live: Sequence[Live]) -> Placement:
    """Return a placement that was found without loads, predicted with the loads of the running applications."""
    predicted = evaluate(network, [app], chosen.assignment, running=[one.running for one in live])
    return predicted.model_copy(update={"method": _AUTO, "elapsed_s": chosen.elapsed_s})


def _whole(apps: Sequence[App], arrivals: Sequence[Arrival], projection: Projection, effort: Effort) -> Placement:
    """Return one Placement with all applications as first placed, and their completion if nothing ever migrates."""
    first = {one.app: one.placement.assignment for one in arrivals}
    delays_s = [app.arrival_s - arrivals[0].time_s for app in apps]
    unmoved = projection(apps, [first[app.name] for app in apps], pause_s=delays_s, for_s=math.inf)
    assignment = {task_key(app, task.name, apps): first[app.name][task.name] for app in apps for task in app.task}
    return given_placement(apps, assignment).model_copy(
        update={
            "method": effort.method,
            "completion_s": max(unmoved.finish_s),
            "bottleneck": "placed in sequence",
            "elapsed_s": math.fsum(one.placement.elapsed_s for one in arrivals),
            "seed": effort.seed,
        }
    )
