"""Lower bounds of large problems, while the search works: by volume, by flows, and by the tasks that exchange most."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from gavotte.place.columns import Instance
from gavotte.place.effort import LATEST, Interrupted
from gavotte.place.exact.hubs import hub_bound_s

FLOWS_WORK_PER_S = 2_000_000
FLOWS_WORK = 20_000_000
FLOWS_SHARE = 0.3
"""Work on the bound by flows: transfers considered per second of the time limit, the most of these, and the share of
the limit that it may take by the clock."""

HUBS_SHARE = 0.3
HUBS_S = 1.5
"""Share of the time limit, by the clock, for the bound by the tasks that exchange most, and the least that is of use:
to build the programs of 10,000 tasks takes 1.3 s."""


class _Ended(Exception):  # noqa: N818 -- it reports no error
    """The search has ended, so the bound is no longer wanted."""


def bound_at_scale(
    instance: Instance,
    limit_s: float,
    take: Callable[[float], object],
    tick: Callable[[], object],
    *,
    strict: bool = True,
) -> bool:
    """Compute lower bounds on the completion time.

    Args:
        instance: the problem.
        limit_s: time limit of the whole placement, seconds.
        take: called with each bound, in seconds.
        tick: called several times a second. An exception from it ends the work.
        strict: keep to shares of the limit by the clock.

    Returns:
        Whether the clock cut the work short.

    Raises:
        Interrupted: when a signal ended the work.
    """
    take(instance.core.volume_bound_s())
    work = min(int(limit_s * FLOWS_WORK_PER_S), FLOWS_WORK)
    flows = instance.core.flows_bound_s(work, limit_s * FLOWS_SHARE if strict else math.inf, lambda _best_s: tick())
    take(flows.seconds)
    if flows.interrupted:
        raise Interrupted
    # If all partners of every task fit on its host, no single task gives a bound.
    if instance.core.bound_s() <= 0:
        return flows.stopped
    hubs_s = limit_s * (HUBS_SHARE if strict else LATEST)
    if strict and hubs_s < HUBS_S:
        return True
    bound_s, cut = hub_bound_s(instance, limit_s=hubs_s, strict=strict, tick=tick)
    take(bound_s)
    return flows.stopped or cut


class ParallelBound:
    """The bound in a thread of its own, at the same time as the search. A context manager, whose end ends the work.

    The search of a large problem keeps two processors busy at times only, and the bound took a third of its limit.

    Args:
        instance: the problem.
        limit_s: time limit of the whole placement, seconds.
        take: called with each bound, in seconds, from that thread.
    """

    def __init__(self, instance: Instance, limit_s: float, take: Callable[[float], object]) -> None:
        self._instance, self._limit_s, self._take = instance, limit_s, take
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._result: Future[bool] | None = None

    def __enter__(self) -> ParallelBound:
        self._result = self._pool.submit(bound_at_scale, self._instance, self._limit_s, self._take, self._tick)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._pool.shutdown()

    def end(self) -> bool:
        """End the work, and return whether it was cut short."""
        self._ended.set()
        try:
            return self._result is None or self._result.result()
        except (_Ended, Interrupted):
            return True

    def _tick(self) -> None:
        if self._ended.is_set():
            raise _Ended
