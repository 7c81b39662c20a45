"""The order of ranks on hosts, and which hosts to keep: placements with equal numbers of ranks on each host."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.place.deciding import AUTO, decide
from gavotte.place.effort import LEAST_LIMIT_S, Effort
from gavotte.place.limits import PlacementLimits
from gavotte.place.name_order import NAME_ORDERS
from gavotte.place.placing import evaluate
from gavotte.place.question import Question
from gavotte.place.replaying import BYTES_SHARE, LEAST_SAVING, Job, OrderSearch, Replayed, check_ranks, choose_order


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The predicted time of an answer, and of what a user would have without it.

    Attributes:
        completion_s: predicted time of the answer.
        bound_s: seconds that no other answer beats.
        given_s: predicted time with the hosts in the order in which they were named.
        warnings: about the search and the rates, one line each.
        interrupted: whether a signal ended the search early.
    """

    completion_s: float
    bound_s: float
    given_s: float
    warnings: list[str]
    interrupted: bool

    @property
    def saving(self) -> float:
        """Share of the time that the answer saves."""
        return 1 - self.completion_s / self.given_s if self.given_s > 0 else 0.0


@dataclass(frozen=True, kw_only=True)
class RankOrder(Compared):
    """The host of each rank, compared with ranks that fill the hosts in the order in which they were named.

    Attributes:
        hosts: (R,) host of rank r.
        replayed: replayed times of the job; None = bytes alone decided.
    """

    hosts: list[str]
    replayed: Replayed | None = None

    @property
    def undone_by(self) -> list[str]:
        """Launchers that sort hosts by name, `slurm` and `c10d`, and so change the order."""
        seen = list(dict.fromkeys(self.hosts))
        return [name for name, order in NAME_ORDERS.items() if order(seen) != seen]


@dataclass(frozen=True, kw_only=True)
class Selection(Compared):
    """Which hosts to keep, compared with those named first.

    Attributes:
        keep: the hosts to keep, in the order of the Network.
        release: the others.
    """

    keep: list[str]
    release: list[str]


def order_ranks(
    network: Network,
    app: App,
    effort: Effort = AUTO,
    *,
    per_host: int | None = None,
    slots: Mapping[str, int] | None = None,
    given: Sequence[str] | None = None,
    job: Job | None = None,
) -> RankOrder:
    """Decide which rank runs on which host. Rank r is the r-th task of the App.

    Args:
        network: the hosts, in the order in which a launcher would fill them.
        app: the messages of the ranks.
        effort: how hard to try.
        per_host: largest number of ranks on a host; None = as few as all hosts allow.
        slots: largest number of ranks on each host, instead of `per_host`.
        given: host of each rank in the order to compare with; None = hosts are filled one after the other.
        job: the traced job. Bytes then get half of the time limit, and a local search on its replayed time the rest.

    Returns:
        An order that is predicted to take no longer than the given one, by the replay if there is one.

    Raises:
        GavotteError: when the ranks do not fit, a pair that exchanges messages has no rate, or the job has other
            ranks.
    """
    ranks = len(app.task)
    if job is not None:
        check_ranks(job, app)
    each = per_host or math.ceil(ranks / len(network.hosts))
    room = dict.fromkeys(network.names, each) if slots is None else slots
    if ranks > sum(room.values()):
        raise GavotteError(
            f"{ranks} ranks do not fit on {len(network.hosts)} hosts of {each}",
            hint=f"use --per-host {math.ceil(ranks / len(network.hosts))}",
        )
    cloud = with_slots(network, room)
    start = list(given) if given is not None else [host for host, count in room.items() for _ in range(count)][:ranks]
    names = [task.name for task in app.task]
    given_s = evaluate(cloud, [app], dict(zip(names, start, strict=True))).completion_s
    begin_s, limit_s = effort.clock(), effort.remaining.time_limit_s
    first = effort if job is None else replace(effort.remaining, time_limit_s=limit_s * BYTES_SHARE)
    answer = decide(Question(cloud, [app]), first)
    placed = answer.placement
    worthwhile = placed.completion_s <= given_s * (1 - LEAST_SAVING)
    order = RankOrder(
        hosts=[placed.assignment[name] for name in names] if worthwhile else start,
        completion_s=placed.completion_s if worthwhile else given_s,
        bound_s=placed.bound_s if worthwhile else min(placed.bound_s, given_s),
        given_s=given_s,
        warnings=answer.warnings,
        interrupted=answer.interrupted,
    )
    if job is None or order.interrupted:
        return order
    left_s = limit_s * BYTES_SHARE if effort.repeatable else max(limit_s - (effort.clock() - begin_s), LEAST_LIMIT_S)
    search = OrderSearch(room, job.seconds, replace(effort.remaining, time_limit_s=left_s))
    choice = choose_order(search, by_bytes=order.hosts, given=start, stays=start)
    completion_s = evaluate(cloud, [app], dict(zip(names, choice.hosts, strict=True))).completion_s
    return replace(
        order,
        hosts=choice.hosts,
        completion_s=completion_s,
        bound_s=min(order.bound_s, completion_s),
        interrupted=choice.interrupted,
        replayed=choice.replayed,
    )


def keep_hosts(network: Network, app: App, count: int, effort: Effort = AUTO, *, one_each: bool = False) -> Selection:
    """Decide which hosts to keep for an application, and which to give back (ClouDiA, VLDB Journal 2015).

    Args:
        network: all hosts.
        app: the application that will run on the hosts kept.
        count: the number of hosts to keep.
        effort: how hard to try, half of it for the comparison with the hosts named first.
        one_each: whether each host runs as many tasks as the others, as ranks do, whatever its cores.

    Raises:
        GavotteError: when there are not as many hosts.
        InfeasibleError: when the application does not fit on that number of hosts.
    """
    if not 1 <= count <= len(network.hosts):
        raise GavotteError(f"cannot keep {count} of {len(network.hosts)} hosts", hint="keep fewer, or name more hosts")
    each = dict.fromkeys(network.names, math.ceil(len(app.task) / count))
    cloud = with_slots(network, each) if one_each else network
    half = effort if effort.repeatable else replace(effort.remaining, time_limit_s=effort.remaining.time_limit_s / 2)
    first = decide(Question(cloud.of_hosts(range(count)), [app]), half)
    # After a signal, the hosts named first are an answer that may not be the best.
    answer = first if first.interrupted else decide(Question(cloud, [app], limits=PlacementLimits(count)), half)
    if answer.placement.completion_s > first.placement.completion_s * (1 - LEAST_SAVING):
        placed = first.placement
        # The bound of the hosts named first is none for others.
        bound_s = 0.0 if first.interrupted else min(answer.placement.bound_s, placed.completion_s)
    else:
        placed, bound_s = answer.placement, answer.placement.bound_s
    used = set(placed.assignment.values())
    # Hosts without a task change nothing: the first ones are as good as any.
    spare = [name for name in network.names if name not in used][: count - len(used)]
    kept = used | set(spare)
    return Selection(
        keep=[name for name in network.names if name in kept],
        release=[name for name in network.names if name not in kept],
        completion_s=placed.completion_s,
        bound_s=bound_s,
        given_s=first.placement.completion_s,
        warnings=_once([*first.warnings, *answer.warnings]),
        interrupted=first.interrupted or answer.interrupted,
    )


def with_slots(network: Network, slots: Mapping[str, int]) -> Network:
    """Return the Network with as many cores on each host as it takes ranks."""
    hosts = [host.model_copy(update={"cpus": float(slots[host.name]), "core_speed": 1.0}) for host in network.hosts]
    return network.model_copy(update={"hosts": hosts})


def _once(lines: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(lines))
