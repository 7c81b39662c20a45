"""Goals other than time: fewest hosts, lowest price or least latency at little more time, by bisection over a limit."""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gavotte.errors import GavotteError, InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.place.answer import Answer
from gavotte.place.columns import PlacementLimits
from gavotte.place.constraints import latency_s
from gavotte.place.effort import Effort
from gavotte.place.question import Question

FIRST_SHARE = 0.5
LEAST_S = 0.02
"""Share of the time limit for the first answer, and least seconds for another: with less left, a limit fails."""

logger = logging.getLogger(__name__)

GOALS = ("time", "hosts", "price", "latency")

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
    network, limits = question.network, question.limits
    limit_s, repeatable = effort.time_limit_s, effort.repeatable
    if goal.kind == "price" and not network.price_usd_per_gb and not any(host.price_usd for host in network.hosts):
        raise GavotteError("the network has no prices", hint="add `price_usd_per_gb`, or `price_usd` of hosts")
    if goal.kind == "latency" and latencies_s(network) == [0.0]:
        raise GavotteError("the network has no latencies", hint="measure with --method pingpong, or add `latency_s`")
    begin_s = clock()
    if goal.kind == "time":
        return solve(question, effort)
    best = solve(question, replace(effort, time_limit_s=limit_s * FIRST_SHARE))
    most_s = best.placement.completion_s * (1 + goal.within)
    interrupted = best.interrupted

    def tried(limit: PlacementLimits, left: int) -> Answer | None:
        """Return an answer under a limit, if at most `left` more follow."""
        nonlocal interrupted
        if interrupted:
            return None
        left_s = limit_s * (1 - FIRST_SHARE) if repeatable else max(limit_s - (clock() - begin_s), 0.0)
        share_s = left_s / (PRICE_STEPS if repeatable else left)
        if share_s < LEAST_S:
            return None
        try:
            answer = solve(replace(question, limits=limit), replace(effort, time_limit_s=share_s))
        except InfeasibleError as error:
            logger.debug("%s leaves no room: %s", limit, error)
            return None
        except BaseException as error:
            if isinstance(error, Exception):
                raise
            interrupted = True  # a signal: the best answer so far counts
            return None
        interrupted = answer.interrupted
        return answer if answer.placement.completion_s <= most_s * (1 + 1e-9) else None

    if goal.kind == "latency":
        cheapest = _nearest(best, tried, limits, network, question.apps)
    else:
        cheapest = _fewest(best, tried, limits) if goal.kind == "hosts" else _cheapest(best, tried, limits)
    return replace(cheapest, interrupted=interrupted)


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


def latencies_s(network: Network) -> list[float]:
    """Return the known latencies in seconds, ascending: 0 for within a host, then those between hosts."""
    rows = enumerate(network.latency_s)
    known = {each for m, row in rows for n, each in enumerate(row) if m != n and each is not None}
    return [0.0, *sorted(known - {0.0})]


def _nearest(
    best: Answer,
    tried: Callable[[PlacementLimits, int], Answer | None],
    limits: PlacementLimits,
    network: Network,
    apps: Sequence[App],
) -> Answer:
    """Return the answer whose longest link has the least latency, by bisection over known latencies (as in ClouDiA)."""
    steps = latencies_s(network)
    low, high = 0, bisect_left(steps, latency_s(network, apps, best.placement.assignment))
    while low < high:
        middle = (low + high) // 2
        answer = tried(replace(limits, max_latency_s=steps[middle]), (high - low).bit_length())
        if answer is None:
            low = middle + 1
        else:
            best = answer
            high = bisect_left(steps, latency_s(network, apps, answer.placement.assignment))
    return best


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
