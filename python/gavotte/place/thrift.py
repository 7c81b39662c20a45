"""Goals other than time: fewest hosts, lowest price or least latency at little more time.

Hosts and prices are found by bisection over a limit. Latencies have a search of their own (`_core.Problem.nearest`):
a limit on all pairs of tasks leaves a search hardly any feasible moves.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from gavotte.errors import GavotteError, InfeasibleError
from gavotte.place.answer import Answer
from gavotte.place.attempt import ENDLESS_STEPS, default_threads
from gavotte.place.effort import Effort
from gavotte.place.limits import PlacementLimits
from gavotte.place.placing import answer_with
from gavotte.place.question import Question, hosts_of

FIRST_SHARE = 0.5
LEAST_S = 0.02
"""Share of the time limit for the first answer, and least seconds for another: with less left, a limit fails."""

NEAREST_FIRST_SHARE = 0.3
"""Share of the time limit for the first answer if the goal is latency."""

logger = logging.getLogger(__name__)

GOALS = ("time", "hosts", "price", "latency")

MOST_HOSTS = 4096
"""Most hosts whose latencies are compared: as many as `_core.Problem.nearest` takes."""

NEAREST_SHARE = 0.85
"""Share of the time left for the search for the least latency; the rest is for less time at this latency."""

NEAREST_STEPS_PER_S = 2_000_000
"""Steps of that search that stand for a second of the time limit, if work is counted."""

PRICE_STEPS = 8
"""Number of bisections of the price, to within 0.4 % of what can be saved."""


@dataclass(frozen=True)
class Goal:
    """Quantity to minimise, and the completion time that this may add.

    Attributes:
        kind: one of `GOALS`.
        within: share of the least completion time that a goal other than time may add: 0.05 = 5 %.
    """

    kind: str = "time"
    within: float = 0.05

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            GavotteError: naming the value that makes no sense, and the remedy.
        """
        if self.kind not in GOALS:
            raise GavotteError(f"unknown goal `{self.kind}`", hint=f"use {', '.join(GOALS)}")
        if not 0 <= self.within < 1e6:
            raise GavotteError(f"cannot stay within {self.within:g} of the least time", hint="use 0 or more, e.g. 0.05")


LEAST_TIME = Goal()


def spend(
    question: Question,
    effort: Effort,
    goal: Goal,
    solve: Callable[[Question, Effort], Answer],
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Answer:
    """Return the answer of least completion time, or of fewest hosts, lowest price or least latency at little more.

    With a goal other than time, the answer's bound and proof hold under the limit that was found. `solve` finds whether
    a limit can be kept. If `solve` misses a placement, the answer has more hosts, price or latency than needed.

    Args:
        question: its limits always hold. Its Network needs prices or latencies if these are the goal.
        effort: its time limit is for all answers together; the first has half of it if there are more.
        goal: what to minimise.
        solve: answers a question with the least completion time.
        clock: seconds.

    Raises:
        InfeasibleError: when no placement keeps the question's limits.
        GavotteError: when the Network lacks what the goal needs.
    """
    limits = question.limits
    limit_s, repeatable = effort.time_limit_s, effort.repeatable
    check_goal(question, goal)
    begin_s = clock()
    if goal.kind == "time":
        return solve(question, effort)
    first_share = NEAREST_FIRST_SHARE if goal.kind == "latency" else FIRST_SHARE
    best = solve(question, replace(effort, time_limit_s=limit_s * first_share))
    most_s = best.total_s * (1 + goal.within)
    interrupted = best.interrupted

    def tried(limit: PlacementLimits, left: int, start: Answer | None = None) -> Answer | None:
        """Return an answer under a limit, if at most `left` more follow."""
        nonlocal interrupted
        if interrupted:
            return None
        left_s = limit_s * (1 - first_share) if repeatable else max(limit_s - (clock() - begin_s), 0.0)
        share_s = left_s / (PRICE_STEPS if repeatable else left)
        if share_s < LEAST_S:
            return None
        try:
            given = {} if start is None else start.placement.assignment
            tighter = replace(effort, time_limit_s=share_s, start=given, explain=False)
            answer = solve(replace(question, limits=limit), tighter)
        except InfeasibleError as error:
            logger.debug("%s leaves no room: %s", limit, error)
            return None
        except BaseException as error:
            if isinstance(error, Exception):
                raise
            interrupted = True  # a signal: the best answer so far counts
            return None
        interrupted = answer.interrupted
        return answer if answer.total_s <= most_s * (1 + 1e-9) else None

    if goal.kind == "latency":
        left_s = limit_s * (1 - first_share) if repeatable else max(limit_s - (clock() - begin_s), LEAST_S)
        try:
            cheapest = nearest(best, most_s, replace(effort, time_limit_s=left_s * NEAREST_SHARE))
        except BaseException as error:
            if isinstance(error, Exception):
                raise
            interrupted, cheapest = True, best
        # Within this latency, a faster placement may exist.
        faster = tried(replace(limits, max_latency_s=cheapest.latency_s), 1, cheapest)
        cheapest = cheapest if faster is None or faster.total_s > cheapest.total_s else faster
    else:
        cheapest = _fewest(best, tried, limits) if goal.kind == "hosts" else _cheapest(best, tried, limits)
    return replace(cheapest, interrupted=interrupted)


def check_goal(question: Question, goal: Goal) -> None:
    """Refuse a goal that the Network does not know enough for.

    Raises:
        GavotteError: naming what is missing.
    """
    network = question.network
    if goal.kind == "price" and not network.price_usd_per_gb and not any(host.price_usd for host in network.hosts):
        raise GavotteError("the network has no prices", hint="add `price_usd_per_gb`, or `price_usd` of hosts")
    if goal.kind == "latency":
        if not network.knows_latency:
            raise GavotteError(
                "the network has no latencies", hint="measure with --method pingpong, or add `latency_s`"
            )
        if len(network.hosts) > MOST_HOSTS:
            raise GavotteError(
                f"{len(network.hosts)} hosts are more than the {MOST_HOSTS} whose latencies are compared",
                hint="leave hosts out, or use another --goal",
            )


def _fewest(best: Answer, tried: Callable[[PlacementLimits, int], Answer | None], limits: PlacementLimits) -> Answer:
    too_few = 0
    while (used := len(set(best.placement.assignment.values()))) - too_few > 1:
        most = (used + too_few) // 2
        answer = tried(replace(limits, max_hosts=most), (used - too_few).bit_length())
        if answer is None:
            too_few = most
        else:
            best = answer
    return best


def nearest(best: Answer, most_s: float, effort: Effort) -> Answer:
    """Return an answer of at most `most_s` seconds with a lower latency than a known answer, or that one."""
    question, instance = best.question, best.question.instance
    threads = effort.threads or default_threads()
    steps = int(effort.time_limit_s * NEAREST_STEPS_PER_S) if effort.repeatable else ENDLESS_STEPS
    limit_s = math.inf if effort.repeatable else effort.time_limit_s
    hosts = instance.core.nearest(
        effort.seed, steps, threads, limit_s, [hosts_of(instance, best.placement.assignment)], most_s
    )
    return best if hosts is None else answer_with(question, effort, hosts, best)


def _cheapest(best: Answer, tried: Callable[[PlacementLimits, int], Answer | None], limits: PlacementLimits) -> Answer:
    too_low = 0.0
    for step in range(PRICE_STEPS):
        if best.price_usd <= too_low:
            break
        most = (best.price_usd + too_low) / 2
        answer = tried(replace(limits, max_price_usd=most), PRICE_STEPS - step)
        if answer is None:
            too_low = most
        else:
            best = answer
    return best
