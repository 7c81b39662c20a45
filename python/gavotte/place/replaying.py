"""Improve an order of ranks by the time of the whole job, which a replay of its trace predicts.

Bytes alone do not show which messages anybody waits for. The search starts from orders that bytes have found.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gavotte.place.effort import Effort

_BETTER = 1e-6
"""Least share of the time that an improvement saves."""


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

    1. The best of the given orders is the start.
    2. Swaps of two ranks, and moves of one to a host with room, are tried in random order.
    3. Each that saves time is kept. The search ends when none does, or at the time limit.

    Args:
        starts: orders to begin with, at least one; the first wins ties.
        slots: largest number of ranks on each host.
        replayed: returns the predicted time of the job in an order.
        effort: time limit and seed.
    """
    deadline_s = effort.clock() + effort.remaining.time_limit_s
    best = list(starts[0])
    best_s, count = replayed(best), 1
    for each in starts[1:]:
        if list(each) != best:
            count += 1
            if (seconds := replayed(each)) < best_s * (1 - _BETTER):
                best, best_s = list(each), seconds
    draw = random.Random(effort.seed)
    improved = True
    while improved:
        improved = False
        for order in _neighbours(best, slots, draw):
            if effort.clock() >= deadline_s:
                return ReplayedOrder(best, best_s, count, ended=False)
            count += 1
            if (seconds := replayed(order)) < best_s * (1 - _BETTER):
                best, best_s, improved = order, seconds, True
                break
    return ReplayedOrder(best, best_s, count, ended=True)


def _neighbours(order: Sequence[str], slots: Mapping[str, int], draw: random.Random) -> Iterator[list[str]]:
    """Yield the orders that differ by one swap or move, in random order."""
    used = Counter(order)
    ranks = range(len(order))
    steps: list[tuple[int, int | str]] = [(a, b) for a in ranks for b in range(a) if order[a] != order[b]]
    free = [host for host, most in slots.items() if used[host] < most]
    steps += [(rank, host) for rank in ranks for host in free if host != order[rank]]
    draw.shuffle(steps)
    for rank, other in steps:
        changed = list(order)
        if isinstance(other, int):
            changed[rank], changed[other] = order[other], order[rank]
        else:
            changed[rank] = other
        yield changed
