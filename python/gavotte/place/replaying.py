"""Improve an order of ranks by the time of the whole job, which a replay of its trace predicts.

Bytes alone do not show which messages anybody waits for. The search starts from orders that bytes have found.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.parts.counting import counted
from gavotte.place.effort import Effort

LEAST_SAVING = 0.01
"""An order that saves less than this share is not worth changing the given one."""

BYTES_SHARE = 0.5
"""Share of the time limit for the search by bytes, before the one by replayed time."""

_BETTER = 1e-6
"""Least share of the time that an improvement saves."""

REPLAYS_PER_S = 100
"""Replays that stand for a second of the time limit, if work is counted: 16 ranks with 450 messages each take 10 ms."""


class Job(Protocol):
    """A traced job that can be replayed under any order of hosts, such as `simulate.JobReplay`."""

    @property
    def ranks(self) -> int:
        """Number of ranks."""

    def seconds(self, hosts: Sequence[str]) -> float:
        """Return the predicted time of the job in seconds, with the host of each rank given."""


@dataclass(frozen=True)
class Replayed:
    """Replayed times of a job in seconds, with mean computing times.

    Attributes:
        seconds: time under the answer.
        by_bytes_s: time under the answer that bytes alone give.
        given_s: time without a search. `place` deals out the tasks in turn; None = that breaks a rule. `ranks` fills
            the hosts one after the other, in the order in which they were named.
        replays: number of orders that were replayed.
        ended: whether no single move or swap saves anything; False = the time limit ended the search.
    """

    seconds: float
    by_bytes_s: float
    given_s: float | None
    replays: int
    ended: bool

    @property
    def saving(self) -> float:
        """Share of the time by bytes alone that the replay saves, 0 to 1."""
        return 1 - self.seconds / self.by_bytes_s if self.by_bytes_s > 0 else 0.0


@dataclass(frozen=True)
class ReplayedOrder:
    """An order of ranks, and how it was found.

    Attributes:
        hosts: (R,) host of each rank.
        seconds: predicted time of the job.
        replays: number of orders that were replayed.
        ended: whether no swap of two ranks, and no move of one to a host with room, saves anything.
    """

    hosts: list[str]
    seconds: float
    replays: int
    ended: bool


def improve_order(
    starts: Sequence[Sequence[str]],
    slots: Mapping[str, int],
    replayed: Callable[[Sequence[str]], float],
    effort: Effort,
) -> ReplayedOrder:
    """Search for an order of ranks with the least replayed time.

    Args:
        starts: orders to begin with, at least one; the first wins ties.
        slots: largest number of ranks on each host.
        replayed: returns the predicted time of the job in an order.
        effort: time limit and seed.
    """
    search = OrderSearch(slots, replayed, effort)
    search.run(starts)
    return search.best


@dataclass(frozen=True)
class Choice:
    """The order of ranks that a replay chooses.

    Attributes:
        hosts: (R,) host of each rank.
        replayed: replayed times; None = a signal came before the first one was known.
        interrupted: whether a signal ended the search early.
    """

    hosts: list[str]
    replayed: Replayed | None
    interrupted: bool


def choose_order(
    search: OrderSearch, *, by_bytes: Sequence[str], given: Sequence[str] | None, stays: Sequence[str]
) -> Choice:
    """Choose an order of ranks by replayed time. After a signal, the best order so far counts.

    Args:
        search: a search that has not run.
        by_bytes: the order that bytes alone give.
        given: an order without any search; None = unknown.
        stays: one of both, which stays unless another order saves `LEAST_SAVING`.

    Raises:
        GavotteError: when the replay cannot go on.
    """
    interrupted = False
    try:
        search.total_s(stays)
        search.run([by_bytes] if given is None else [by_bytes, given])
    except BaseException as signal:
        if isinstance(signal, Exception):
            raise
        interrupted = True
    times_s = search.times_s
    by_bytes_s = times_s.get(tuple(by_bytes))
    if by_bytes_s is None or tuple(stays) not in times_s:
        return Choice(list(by_bytes), None, interrupted)
    hosts = search.best.hosts
    if search.total_s(hosts) > search.total_s(stays) * (1 - LEAST_SAVING):
        hosts = list(stays)
    given_s = None if given is None else times_s.get(tuple(given))
    times = Replayed(times_s[tuple(hosts)], by_bytes_s, given_s, len(times_s), search.best.ended)
    return Choice(hosts, times, interrupted)


def check_ranks(job: Job, app: App) -> None:
    """Refuse a job that is not of this application.

    Raises:
        GavotteError: when it has another number of ranks than the application has tasks.
    """
    if job.ranks != len(app.task):
        raise GavotteError(
            f"the trace has {counted(job.ranks, 'rank')}, and application `{app.name}` has "
            f"{counted(len(app.task), 'task')}",
            hint="use the trace of this application's run",
        )


@dataclass
class OrderSearch:
    """A local search for an order of ranks, whose best order so far is known at any time.

    1. The best of the given orders is the start.
    2. Swaps of two ranks, and moves of one to a host with room, are tried in random order.
    3. Each that saves time is kept. The search ends when none does, or at the time limit.

    Attributes:
        slots: largest number of ranks on each host.
        replayed: returns the predicted time of the job in an order.
        effort: time limit and seed. If work is counted, `REPLAYS_PER_S` replays are a second.
        keeps: returns whether an order keeps the rules; orders that do not are not replayed.
        penalty_s: returns the price of the rules that an order may break, in seconds.
        units: groups of ranks that share a host and move as one; empty = each rank alone.
        times_s: replayed time of each order that was replayed.
    """

    slots: Mapping[str, int]
    replayed: Callable[[Sequence[str]], float]
    effort: Effort
    keeps: Callable[[Sequence[str]], bool] = lambda _: True
    penalty_s: Callable[[Sequence[str]], float] = lambda _: 0.0
    units: Sequence[Sequence[int]] = ()
    times_s: dict[tuple[str, ...], float] = field(default_factory=dict, init=False)
    _hosts: list[str] = field(default_factory=list, init=False)
    _ended: bool = field(default=False, init=False)

    @property
    def best(self) -> ReplayedOrder:
        """The best order so far. Only for a search that has replayed one."""
        return ReplayedOrder(self._hosts, self.times_s[tuple(self._hosts)], len(self.times_s), self._ended)

    def total_s(self, order: Sequence[str]) -> float:
        """Return the replayed time of an order and the price of the rules that it breaks. Each is replayed once."""
        key = tuple(order)
        if key not in self.times_s:
            self.times_s[key] = self.replayed(order)
        return self.times_s[key] + self.penalty_s(order)

    def run(self, starts: Sequence[Sequence[str]]) -> None:
        """Search from these orders, at least one, which keep the rules."""
        limit_s = self.effort.remaining.time_limit_s
        deadline_s = self.effort.clock() + limit_s
        for start in starts:
            if list(start) != self._hosts:
                self._try(list(start))
        draw = random.Random(self.effort.seed)
        improved = True
        while improved:
            improved = False
            for order in self._neighbours(draw):
                if self.effort.repeatable:
                    late = len(self.times_s) >= limit_s * REPLAYS_PER_S
                else:
                    late = self.effort.clock() >= deadline_s
                if late:
                    return
                if self.keeps(order) and self._try(order):
                    improved = True
                    break
        self._ended = True

    def _try(self, order: list[str]) -> bool:
        """Replay an order. Return whether it is the best so far."""
        total_s = self.total_s(order)
        if self._hosts and total_s >= self.total_s(self._hosts) * (1 - _BETTER):
            return False
        self._hosts = order
        return True

    def _neighbours(self, draw: random.Random) -> Iterator[list[str]]:
        """Yield the orders that differ by one swap or move, in random order."""
        order, used = self._hosts, Counter(self._hosts)
        units = self.units or [[rank] for rank in range(len(order))]
        at = [order[unit[0]] for unit in units]
        numbers = range(len(units))
        steps: list[tuple[int, int | str]] = [(a, b) for a in numbers for b in range(a) if at[a] != at[b]]
        free = [host for host, most in self.slots.items() if used[host] < most]
        steps += [(a, host) for a in numbers for host in free if host != at[a]]
        draw.shuffle(steps)
        for a, other in steps:
            changed = list(order)
            target = other if isinstance(other, str) else at[other]
            for rank in units[a]:
                changed[rank] = target
            if isinstance(other, int):
                for rank in units[other]:
                    changed[rank] = at[a]
            if len(units) == len(order) or self._fits(changed, (at[a], target)):
                yield changed

    def _fits(self, order: Sequence[str], changed: Sequence[str]) -> bool:
        """Return whether hosts with other ranks than before have room for them."""
        return all(order.count(host) <= self.slots.get(host, 0) for host in changed)
