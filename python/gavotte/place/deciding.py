"""The front door: a question, an effort and a goal in, an answer out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gavotte.errors import GavotteError, InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement
from gavotte.place.answer import Answer
from gavotte.place.effort import LIMIT_S, Effort
from gavotte.place.limits import NO_LIMITS
from gavotte.place.placing import solve
from gavotte.place.question import Question
from gavotte.place.running import Running
from gavotte.place.thrift import LEAST_TIME, Goal, spend

AUTO = Effort()


def decide(question: Question, effort: Effort = AUTO, goal: Goal = LEAST_TIME) -> Answer:
    """Decide which task runs on which host.

    A signal whose handler raises something that is no `Exception`, such as `KeyboardInterrupt`, ends the work. The
    answer is then the best placement found so far; the error comes out only if there is none.

    Args:
        question: what to place where.
        effort: how hard to try.
        goal: what to minimise.

    Returns:
        The answer. Its Placement holds the completion time that the measured rates predict, and a bound that no
        placement beats. It has `moves` if the question has `state_bytes` and moving tasks between phases pays.

    Raises:
        InfeasibleError: when the method finds no placement that keeps all constraints.
        GavotteError: when the question makes no sense, for instance because it pins a task to an unknown host.
    """
    if question.job is not None:
        from gavotte.place.by_replay import decide_by_replay

        return decide_by_replay(question, question.job, effort, goal, lambda asked, given: _by_use(asked, given, goal))
    if not question.state_bytes:
        plain = goal.kind == "time" and not question.depends_on_use
        return _by_use(question, effort if plain else effort.remaining, goal)
    if goal.kind != "time" or question.running or question.limits != NO_LIMITS:
        raise GavotteError(
            "tasks move between phases only for the least time, without limits or running applications",
            hint="leave `state_bytes` empty",
        )
    if any(app.constraints.priced for app in question.apps):
        raise GavotteError(
            "tasks do not move between phases if a constraint has a price",
            hint="leave `state_bytes` empty, or remove `price_s`",
        )
    from gavotte.place.phases import solve_phases

    return solve_phases(question, effort.remaining)


def _by_use(question: Question, effort: Effort, goal: Goal) -> Answer:
    """Answer a question, or twice if the assignment changes rates: the second time with those of the first answer.

    Each answer is timed by the rates that its own assignment gets, and the faster one counts.
    """
    if goal.kind != "time" or not question.depends_on_use:
        return spend(question, effort, goal, solve)
    half = replace(effort, time_limit_s=effort.time_limit_s / 2)
    first = solve(question, half)
    if first.interrupted:
        return first
    try:
        second = solve(question.as_used(first.placement.assignment), half)
    except InfeasibleError:  # of methods that get stuck
        return first
    faster = min(first, second, key=lambda answer: answer.total_s)
    elapsed_s = first.placement.elapsed_s + second.placement.elapsed_s
    return replace(
        faster,
        placement=faster.placement.model_copy(update={"elapsed_s": elapsed_s}),
        stopped=first.stopped or second.stopped,
        interrupted=second.interrupted,
        bound_stopped=first.bound_stopped or second.bound_stopped,
    )


def place(
    network: Network,
    apps: App | Sequence[App],
    method: str = "auto",
    *,
    sharing: str | None = None,
    seed: int = 0,
    time_limit_s: float = LIMIT_S,
    allowed: Mapping[str, Sequence[str]] | None = None,
    running: Sequence[Running] = (),
) -> Placement:
    """Place applications on a Network: `decide` for those who need the Placement alone.

    Args:
        network: the current Network.
        apps: one or more applications; a single one needs no list.
        method: one of `METHODS`.
        sharing: `hose`, `pipe` or `groups`; None = the Network's own.
        seed: of every random choice.
        time_limit_s: wall-clock time for all of the work, in seconds.
        allowed: task key to the only hosts that the task may use.
        running: applications that already hold room and load links.

    Raises:
        InfeasibleError: when the method finds no placement that keeps all constraints.
        GavotteError: when the request makes no sense.
    """
    question = Question(network, [apps] if isinstance(apps, App) else apps, sharing, allowed or {}, running)
    return decide(question, replace(AUTO, method=method, seed=seed, time_limit_s=time_limit_s)).placement
