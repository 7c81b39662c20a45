"""One placement by one method, and what a given assignment takes."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from gavotte.errors import GavotteError, InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement
from gavotte.place.answer import Answer
from gavotte.place.attempt import Attempt
from gavotte.place.columns import Instance
from gavotte.place.constraints import broken_rules, check_constraints, price_usd
from gavotte.place.effort import Effort
from gavotte.place.exact.solution import PROVEN, Solution
from gavotte.place.methods import run_at_once, run_method
from gavotte.place.question import Question, bottleneck_text, hosts_of
from gavotte.place.running import Running
from gavotte.place.sums import check_quotas, check_sums

logger = logging.getLogger(__name__)

GIVEN = "given"
"""The method of a Placement whose assignment came from outside."""

CONFLICT_S = 0.5
"""Least time for finding the reason why no placement exists."""

_PLANNING = ("auto", "optimal", "ilp", "search")
"""Methods for which a failure may mean that no placement exists; the others are known to get stuck."""


def solve(question: Question, effort: Effort) -> Answer:
    """Find one placement for all phases, with the least completion time under the question's limits.

    A signal whose handler raises something that is no `Exception`, such as `KeyboardInterrupt`, ends the work. The
    answer is then the best placement found so far; the error comes out only if there is none.

    Raises:
        InfeasibleError: when the method finds no placement that keeps all constraints.
        GavotteError: when the question makes no sense.
    """
    limits = question.limits
    if (limits.max_hosts or 1) < 1 or not 0 <= (limits.max_price_usd or 0.0) < math.inf:
        raise GavotteError("the limits allow no host or a negative price", hint="use at least 1 host and 0 USD")
    work = _Work(question, effort)
    try:
        return work.answer(work.outcome())
    except BaseException as signal:
        if isinstance(signal, Exception):
            raise
        known = work.known()
        if known is None:
            raise
        return work.answer(replace(known, stopped=True, interrupted=True))


def answer_with(question: Question, effort: Effort, hosts: npt.NDArray[np.uint32], like: Answer) -> Answer:
    """Return the answer with this placement, which keeps all rules, and with the bound and the history of another."""
    work = _Work(question, effort)
    outcome = Solution(hosts, like.placement.bound_s, like.stopped, like.chosen, bound_stopped=like.bound_stopped)
    answer = work.answer(outcome)
    elapsed_s = like.placement.elapsed_s
    return replace(answer, placement=answer.placement.model_copy(update={"elapsed_s": elapsed_s}))


@dataclass
class _Work:
    """One call of `solve`, whose parts can be done again after a signal."""

    question: Question
    effort: Effort
    begin_s: float = field(init=False)
    attempt: Attempt = field(init=False)

    def __post_init__(self) -> None:
        self.begin_s = self.effort.clock()
        self.attempt = Attempt(self.effort)

    def outcome(self) -> Solution:
        """Return what the method finds."""
        question, method, attempt = self.question, self.effort.method, self.attempt
        instance = question.instance
        check_sums(question.network, question.apps, question.running)
        check_quotas(question.limits.quotas)
        try:
            attempt.solution = run_method(instance, method, attempt)
        except InfeasibleError:
            if self.effort.explain and method in _PLANNING:
                from gavotte.place.conflict import find_conflict

                conflict_s = attempt.limit_s if attempt.repeatable else max(attempt.left_s, CONFLICT_S)
                conflict = find_conflict(question, limit_s=conflict_s)
                if conflict is not None:
                    raise conflict from None
            raise
        return attempt.solution

    def known(self) -> Solution | None:
        """Return the best when a signal came, with what is proven; None if there is no placement."""
        solution = self.attempt.solution
        if solution is None:  # too early: the search's starts take no time
            try:
                solution = run_at_once(self.question.instance, self.effort.method, self.attempt)
            except InfeasibleError:
                return None
        attempt = self.attempt
        return replace(solution, bound_s=max(solution.bound_s, attempt.bound_s), bound_stopped=attempt.bound_stopped)

    def answer(self, outcome: Solution) -> Answer:
        """Return the answer with the placement that a method found."""
        question, effort = self.question, self.effort
        instance = question.instance
        elapsed_s = effort.clock() - self.begin_s
        logger.info(
            "%d tasks on %d hosts: %s chose %s, which took %.2f s%s",
            len(instance.tasks),
            len(instance.hosts),
            effort.method,
            outcome.method,
            elapsed_s,
            " and was stopped by the clock" if outcome.stopped else "",
        )
        assignment = _assignment(instance, outcome.hosts)
        check_constraints(question.network, question.apps, assignment, effort.method, question.limits)
        used = question.as_used(assignment)
        # The method has proven its bound by the rates of another assignment.
        bound_s = 0.0 if question.depends_on_use else outcome.bound_s
        placement = _placement(used, outcome.hosts, bound_s).model_copy(
            update={"method": effort.method, "seed": effort.seed, "elapsed_s": elapsed_s},
        )
        total_s = placement.completion_s + placement.penalty_s
        gap = 1 - placement.bound_s / total_s if total_s > 0 else 0.0
        return Answer(
            question=used,
            effort=effort,
            placement=placement,
            chosen=outcome.method,
            stopped=outcome.stopped or outcome.bound_stopped,
            gap=0.0 if placement.optimal else gap,
            price_usd=price_usd(question.network, question.apps, assignment),
            interrupted=outcome.interrupted,
            bound_stopped=outcome.bound_stopped,
            unproven=self.attempt.unproven,
        )


def evaluate(
    network: Network,
    apps: Sequence[App],
    assignment: Mapping[str, str],
    *,
    sharing: str | None = None,
    running: Sequence[Running] = (),
) -> Placement:
    """Predict the completion time of a given assignment.

    Args:
        network: the current Network.
        apps: one or more applications.
        assignment: task to host, for every task; with several applications a task is `app/task`.
        sharing: `hose`, `pipe` or `groups`; None = the Network's own.
        running: applications that already hold room and load links.

    Returns:
        A Placement with method `given`.

    Raises:
        InfeasibleError: when the assignment overbooks a host or breaks a constraint.
        GavotteError: when it misses a task, or names an unknown task or host.
    """
    question = Question(network, apps, sharing, running=running)
    hosts = hosts_of(question.instance, assignment)
    placed = _assignment(question.instance, hosts)
    check_constraints(network, apps, placed, "the given assignment")
    return _placement(question.as_used(placed), hosts, 0.0)


def _assignment(instance: Instance, hosts: npt.NDArray[np.uint32]) -> dict[str, str]:
    return {task: instance.hosts[host] for task, host in zip(instance.tasks, hosts, strict=True)}


def _placement(question: Question, hosts: npt.NDArray[np.uint32], bound_s: float) -> Placement:
    """Return the Placement of tasks on these hosts, given a bound that some method proved."""
    instance = question.instance
    completion = instance.core.evaluate(hosts)
    bottleneck = bottleneck_text(completion.bottleneck)
    if not math.isfinite(completion.seconds):
        raise GavotteError(f"the {bottleneck} would take forever", hint="correct its rate")
    bound_s = max(question.bound_s, bound_s)
    total_s = completion.seconds + completion.penalty_s
    assignment = _assignment(instance, hosts)
    broken = broken_rules(question.network, question.apps, assignment) if instance.priced else []
    # Its names come from validated nouns: to check those of 100,000 tasks again takes half a second.
    return Placement.model_construct(
        apps=[app.name for app in question.apps],
        method=GIVEN,
        assignment=assignment,
        completion_s=completion.seconds,
        bound_s=min(bound_s, total_s),
        optimal=total_s <= bound_s * (1 + PROVEN),
        bottleneck=bottleneck,
        elapsed_s=0.0,
        seed=0,
        penalty_s=completion.penalty_s,
        broken=[f"{rule.text} ({rule.penalty_s:.3g} s)" for rule in broken],
    )
