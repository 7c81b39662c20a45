"""Explain a Placement's completion time: traffic on its bottleneck, slack of other links, effect of one move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.placement import Placement
from gavotte.place.merge import check_apps, task_key
from gavotte.place.question import Question, hosts_of
from gavotte.place.replaying import Replayed
from gavotte.tables import Tabular


@dataclass(frozen=True)
class Crossing:
    """A transfer that crosses the bottleneck link.

    Attributes:
        source: the sending task.
        target: the receiving task.
        source_host: host of the sending task.
        target_host: host of the receiving task.
        bytes: bytes of the transfer.
        share: share of all bytes on the bottleneck, from 0 to 1.
    """

    source: str
    target: str
    source_host: str
    target_host: str
    bytes: int
    share: float


@dataclass(frozen=True)
class LinkSlack:
    """A link in use, with its traffic, time and slack in one phase.

    Attributes:
        link: the link, in words.
        phase: the phase.
        bytes: bytes that the placed tasks send over the link.
        load_bytes: bytes of running applications on the link.
        rate_bps: rate of the link.
        seconds: time that all these bytes take.
        slack_s: seconds that the bottleneck of the phase takes longer.
    """

    link: str
    phase: int
    bytes: int
    load_bytes: int
    rate_bps: float
    seconds: float
    slack_s: float


@dataclass(frozen=True)
class Relocation:
    """The best single relocation or swap of tasks, with its effect on the completion time.

    Attributes:
        moves: (task, from, to) of each task that changes its host.
        completion_s: completion time after the move, with the price of broken constraints.
        gain_s: seconds that the move saves; negative = the move makes the placement slower.
    """

    moves: list[tuple[str, str, str]]
    completion_s: float
    gain_s: float


@dataclass(frozen=True)
class Explanation(Tabular):
    """Explanation of a Placement's completion time by its bottleneck, all links in use, and the next-best move.

    Attributes:
        completion_s: predicted completion time.
        bound_s: lower bound on the completion time of any placement.
        gap: (completion - bound) / completion.
        bottleneck: the bottleneck link, in words.
        crossing: transfers on the bottleneck, most bytes first.
        load_bytes: bytes of running applications on the bottleneck.
        links: all links in use, slowest first.
        runner_up: the next-best single move; None if nothing crosses a limited link or no move keeps all rules.
        replayed: replayed times of the job, by bytes alone and of the Placement; None = bytes alone decided.
    """

    completion_s: float
    bound_s: float
    gap: float
    bottleneck: str
    crossing: list[Crossing]
    load_bytes: int
    links: list[LinkSlack]
    runner_up: Relocation | None
    replayed: Replayed | None = None

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row for each link in use, slowest first, with the fields of `LinkSlack`."""
        return [asdict(link) for link in self.links]


def explain(question: Question, placement: Placement) -> Explanation:
    """Explain why a Placement takes as long as it does.

    Args:
        question: the question that the Placement answers. The next-best move keeps its rules and limits.
        placement: a result of `place` or `evaluate`.

    Raises:
        GavotteError: when the Placement does not belong to the Apps and the Network.
    """
    if placement.moves:
        raise GavotteError("a placement with moves between phases cannot be explained", hint="explain it without moves")
    check_apps(question.apps)
    hosts = hosts_of(question.numbers, placement.assignment)
    question = question.as_used(placement.assignment)
    instance = question.numbers
    completion, limits = instance.core.evaluate(hosts), instance.core.explain(hosts)
    worst_s: dict[int, float] = {}
    for link in limits.links:
        worst_s[link.phase] = max(worst_s.get(link.phase, 0.0), link.seconds)
    links = [
        LinkSlack(
            link=link.link,
            phase=link.phase,
            bytes=link.bytes,
            load_bytes=link.load_bytes,
            rate_bps=link.rate_bps,
            seconds=link.seconds,
            slack_s=worst_s[link.phase] - link.seconds,
        )
        for link in sorted(limits.links, key=lambda link: (-link.seconds, link.phase, link.link))
        if link.seconds > 0
    ]
    worst = completion.bottleneck
    load_bytes = next(
        (
            link.load_bytes
            for link in links
            if worst is not None and (link.link, link.phase) == (worst.link, worst.phase)
        ),
        0,
    )
    bound_s = min(max(placement.bound_s, question.bound_s), completion.seconds)
    return Explanation(
        completion_s=completion.seconds,
        bound_s=bound_s,
        gap=1 - bound_s / completion.seconds if completion.seconds > 0 else 0.0,
        bottleneck=placement.bottleneck,
        crossing=_crossing(question.apps, placement, limits.crossing, worst.bytes if worst is not None else 0),
        load_bytes=load_bytes,
        links=links,
        runner_up=_runner_up(instance.tasks, instance.hosts, placement, limits.runner_up, instance.total_s(hosts)),
    )


def _crossing(apps: Sequence[App], placement: Placement, indices: Sequence[int], total: int) -> list[Crossing]:
    transfers = [
        (task_key(app, transfer.source, apps), task_key(app, transfer.target, apps), transfer.bytes)
        for app in apps
        for transfer in app.transfer
        if transfer.source != transfer.target
    ]
    return [
        Crossing(source, target, placement.assignment[source], placement.assignment[target], size, size / total)
        for source, target, size in (transfers[index] for index in indices)
    ]


def _runner_up(
    tasks: Sequence[str],
    hosts: Sequence[str],
    placement: Placement,
    best_move: tuple[list[tuple[int, int]], float] | None,
    completion_s: float,
) -> Relocation | None:
    if best_move is None:
        return None
    moves = [(tasks[task], placement.assignment[tasks[task]], hosts[host]) for task, host in best_move[0]]
    return Relocation(moves, best_move[1], completion_s - best_move[1])
