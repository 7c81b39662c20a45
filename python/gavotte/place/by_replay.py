"""Place the ranks of a traced job: bytes first, then a local search on the replayed time of the whole job.

1. A search by bytes gets half of the time limit. Its placement is a start, and tasks dealt out in turn are another.
2. Swaps of two tasks and moves of one are replayed, as in `place.replaying`. Those that break a rule are rejected.
   Tasks that must share a host move together.
3. The placement by bytes stays unless another one saves `LEAST_SAVING` of the replayed time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gavotte.errors import GavotteError, InfeasibleError
from gavotte.place.answer import Answer
from gavotte.place.constraints import check_constraints
from gavotte.place.effort import LEAST_LIMIT_S, Effort
from gavotte.place.placing import answer_with
from gavotte.place.question import Question
from gavotte.place.replaying import BYTES_SHARE, Job, OrderSearch, check_ranks, choose_order
from gavotte.place.thrift import Goal


def decide_by_replay(
    question: Question, job: Job, effort: Effort, goal: Goal, by_bytes: Callable[[Question, Effort], Answer]
) -> Answer:
    """Decide which task runs on which host by the replayed time of a job.

    Args:
        question: what to place where: one application, whose i-th task is rank i.
        job: the job.
        effort: how hard to try.
        goal: the least time; others are refused.
        by_bytes: answers a question by its bytes.

    Raises:
        InfeasibleError: when no placement keeps all constraints.
        GavotteError: when a job cannot be placed in this way, or its replay cannot go on.
    """
    _check(question, job, goal)
    begin_s, limit_s = effort.clock(), effort.remaining.time_limit_s
    first = by_bytes(question, replace(effort.remaining, time_limit_s=limit_s * BYTES_SHARE))
    if first.interrupted:
        return first
    left_s = limit_s * BYTES_SHARE if effort.repeatable else max(limit_s - (effort.clock() - begin_s), LEAST_LIMIT_S)
    rules = _Rules(first.question)
    search = OrderSearch(
        slots=dict.fromkeys(rules.hosts, len(rules.tasks)),
        replayed=job.seconds,
        effort=replace(effort.remaining, time_limit_s=left_s),
        keeps=rules.keep,
        penalty_s=rules.penalty_s,
        units=rules.units(),
    )
    start = [first.placement.assignment[task] for task in rules.tasks]
    choice = choose_order(search, by_bytes=start, given=rules.dealt_out(effort.seed), stays=start)
    answer = first if choice.hosts == start else answer_with(first.question, effort, rules.numbers(choice.hosts), first)
    placement = answer.placement.model_copy(update={"elapsed_s": effort.clock() - begin_s})
    return replace(
        answer,
        effort=effort,
        placement=placement,
        stopped=first.stopped or choice.replayed is None or not choice.replayed.ended,
        interrupted=choice.interrupted,
        replayed=choice.replayed,
    )


def _check(question: Question, job: Job, goal: Goal) -> None:
    """Refuse questions that a replay cannot answer.

    Raises:
        GavotteError: naming the reason and the remedy.
    """
    if len(question.apps) != 1:
        raise GavotteError(
            f"a trace is of one job, and {len(question.apps)} applications are to be placed", hint="place one at a time"
        )
    check_ranks(job, question.apps[0])
    if goal.kind != "time":
        raise GavotteError(f"a replay finds the least time, not the least {goal.kind}", hint="leave out the trace")
    if question.running:
        raise GavotteError("a replay knows no traffic of running applications", hint="leave out the trace")
    if question.state_bytes:
        raise GavotteError("a replay knows no moves between phases", hint="leave `state_bytes` empty, or the trace out")


class _Rules:
    """The rules of a question, for orders of host names."""

    def __init__(self, question: Question) -> None:
        self._question, self._instance = question, question.instance
        self.tasks, self.hosts = self._instance.tasks, self._instance.hosts
        self._at = {name: number for number, name in enumerate(self.hosts)}

    def numbers(self, order: Sequence[str]) -> npt.NDArray[np.uint32]:
        """Return the host of each task by its index."""
        return np.array([self._at[host] for host in order], dtype=np.uint32)

    def keep(self, order: Sequence[str]) -> bool:
        """Return whether an order keeps capacities, pins, constraints and limits."""
        question = self._question
        assignment = dict(zip(self.tasks, order, strict=True))
        try:
            self._instance.core.evaluate(self.numbers(order))
            check_constraints(question.network, question.apps, assignment, "the replay", question.limits)
        except InfeasibleError:
            return False
        return True

    def penalty_s(self, order: Sequence[str]) -> float:
        """Return the price of the rules that an order breaks, in seconds."""
        return self._instance.core.evaluate(self.numbers(order)).penalty_s if self._instance.priced else 0.0

    def dealt_out(self, seed: int) -> list[str] | None:
        """Return the order with the tasks dealt out in turn; None = it breaks a rule."""
        try:
            order = [self.hosts[host] for host in self._instance.core.place("round-robin", seed)]
        except InfeasibleError:
            return None
        return order if self.keep(order) else None

    def units(self) -> list[list[int]]:
        """Return groups of tasks that must share a host, and all other tasks alone."""
        group_of = list(range(len(self.tasks)))
        (app,) = self._question.apps
        at = {task.name: number for number, task in enumerate(app.task)}
        for group in app.constraints.groups_together:
            if group.by == "host" and group.price_s is None:
                members = {group_of[at[task]] for task in group.tasks}
                group_of = [min(members) if each in members else each for each in group_of]
        units: dict[int, list[int]] = {}
        for task, group_number in enumerate(group_of):
            units.setdefault(group_number, []).append(task)
        return list(units.values())
