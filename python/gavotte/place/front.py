"""Front: placements of which none is better than another in both time and price, number of hosts, or latency."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from gavotte.errors import GavotteError, InfeasibleError
from gavotte.place.answer import Answer
from gavotte.place.effort import Effort
from gavotte.place.placing import solve
from gavotte.place.question import Question
from gavotte.place.thrift import Goal, check_goal, nearest, spend

FIRST_SHARE, LAST_SHARE = 0.15, 0.35
"""Shares of the time limit for the two ends of the front: the fastest placement, and the best for the goal."""

LEAST_S = 0.05
"""Least seconds for a placement between the ends; with less left, the front has fewer placements."""

ANY_TIME = 1e5
"""Share of the least time that the best placement for the goal may add: in practice, any time."""

BY: dict[str, Callable[[Answer], float]] = {
    "hosts": lambda answer: float(answer.hosts_used),
    "price": lambda answer: answer.price_usd,
    "latency": lambda answer: answer.latency_s,
}
"""What a front has next to time, by the name of the goal."""


@dataclass(frozen=True)
class Front:
    """Placements that are not worse than any other found in both time and the goal.

    Attributes:
        goal: `hosts`, `price` or `latency`.
        answers: the fastest first, and the best for the goal last.
    """

    goal: str
    answers: list[Answer]

    def within(self, share: float) -> Answer:
        """Return the best answer for the goal that takes at most this share longer than the fastest."""
        most_s = self.answers[0].total_s * (1 + share) * (1 + 1e-9)
        return [answer for answer in self.answers if answer.total_s <= most_s][-1]


def front(
    question: Question, effort: Effort, goal: str, count: int, *, clock: Callable[[], float] = time.monotonic
) -> Front:
    """Return placements between the fastest and the one of fewest hosts, lowest price or least latency.

    Limits on hosts or price are spread evenly between the ends; so are limits on time if the goal is latency.

    Args:
        question: its limits always hold.
        effort: its time limit is for all placements together.
        goal: `hosts`, `price` or `latency`.
        count: most placements, at least 2.
        clock: seconds.

    Raises:
        InfeasibleError: when no placement keeps the question's limits.
        GavotteError: when the goal is unknown, or the Network lacks what it needs.
    """
    if goal not in BY:
        raise GavotteError(f"a front needs another goal than `{goal}`", hint=f"use {', '.join(BY)}")
    if count < 2:
        raise GavotteError(f"a front of {count} placements is too small", hint="use 2 or more")
    check_goal(question, Goal(goal))
    begin_s = clock()
    fastest = solve(question, replace(effort, time_limit_s=effort.time_limit_s * FIRST_SHARE))
    answers = [fastest]
    if not fastest.interrupted:
        last = replace(effort, time_limit_s=effort.time_limit_s * LAST_SHARE)
        answers.append(spend(question, last, Goal(goal, ANY_TIME), solve))
    steps = list(_between(answers, goal, count))
    for number, limit in enumerate(steps):
        left_s = effort.time_limit_s - (clock() - begin_s)
        share_s = effort.time_limit_s * (1 - FIRST_SHARE - LAST_SHARE) / len(steps)
        share_s = share_s if effort.repeatable else left_s / (len(steps) - number)
        if answers[-1].interrupted or share_s < LEAST_S:
            break
        part = replace(effort, time_limit_s=share_s)
        if goal == "latency":
            try:
                answers.append(nearest(fastest, limit, part))
            except BaseException as error:
                if isinstance(error, Exception):
                    raise
                answers = [replace(answer, interrupted=True) for answer in answers]  # a signal: these are the front
            continue
        if goal == "hosts":
            limits = replace(question.limits, max_hosts=math.floor(limit))
        else:
            limits = replace(question.limits, max_price_usd=limit)
        try:
            answers.append(solve(replace(question, limits=limits), part))
        except InfeasibleError:  # the search found none under this limit
            continue
    return Front(goal, undominated(answers, BY[goal]))


def _between(answers: Sequence[Answer], goal: str, count: int) -> Iterator[float]:
    """Yield limits between the two ends: on seconds for latency, and else on the goal."""
    if len(answers) < 2:
        return
    if goal == "latency":
        ends = answers[0].total_s, answers[1].total_s
    else:
        ends = BY[goal](answers[1]), BY[goal](answers[0])
    low, high = ends
    inner = count - 2
    if goal == "hosts":
        inner = min(inner, max(round(high - low) - 1, 0))
    for number in range(1, inner + 1):
        yield low + (high - low) * number / (inner + 1)


def undominated(answers: Sequence[Answer], value: Callable[[Answer], float]) -> list[Answer]:
    """Return the answers that no other beats or equals in both time and value, the fastest first."""
    kept: list[Answer] = []
    for answer in sorted(answers, key=lambda answer: (answer.total_s, value(answer))):
        if not kept or value(answer) < value(kept[-1]):
            kept.append(answer)
    return kept
