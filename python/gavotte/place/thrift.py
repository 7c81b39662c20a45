"""Fewer hosts or less money for little time: limits as goals, by bisection over the limit."""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace

from gavotte.errors import GavotteError, InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.place.columns import NO_LIMITS, PlacementLimits
from gavotte.place.constraints import latency_s
from gavotte.place.placing import LIMIT_S, Answer

FIRST_SHARE = 0.5
LEAST_S = 0.02
"""Of the time: with less than that left, a limit counts as one that cannot be kept."""

logger = logging.getLogger(__name__)

GOALS = ("time", "hosts", "price", "latency")

PRICE_STEPS = 8
"""Bisections of the price: within 0.4 % of what there is to save."""


def spend(
    network: Network,
    apps: Sequence[App],
    goal: str,
    within: float,
    decide: Callable[[PlacementLimits, float], Answer],
    limits: PlacementLimits = NO_LIMITS,
    *,
    limit_s: float = LIMIT_S,
    repeatable: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> Answer:
    """Finds the least completion time, or the fewest hosts, the lowest price or the least latency at little more.

    With a goal other than time, the answer's bound and proof hold under the limit that was found. Whether a limit can
    be kept is what `decide` finds: where its proofs fall short, so does this.

    Args:
        network: with prices or latencies, if these are the goal.
        apps: what is placed.
        goal: one of `GOALS`.
        within: how much longer than the least a placement may take, as a share of it.
        decide: makes the answer under some limits, in so many seconds.
        limits: that always hold.
        limit_s: seconds for all answers together; the first has half of them if there are more.
        repeatable: share them out beforehand, whatever the clock says.
        clock: seconds.

    Raises:
        InfeasibleError: when no placement keeps `limits`.
        GavotteError: when the goal or the share makes no sense.
    """
    if goal not in GOALS:
        raise GavotteError(f"unknown goal `{goal}`", hint=f"use {', '.join(GOALS)}")
    if not 0 <= within < 1e6:
        raise GavotteError(f"cannot stay within {within:g} of the least time", hint="use 0 or more, e.g. 0.05")
    if goal == "price" and not network.price_usd_per_gb and not any(host.price_usd for host in network.hosts):
        raise GavotteError("the network has no prices", hint="add `price_usd_per_gb`, or `price_usd` of hosts")
    if goal == "latency" and latencies_s(network) == [0.0]:
        raise GavotteError("the network has no latencies", hint="measure with --method pingpong, or add `latency_s`")
    begin_s = clock()
    if goal == "time":
        return decide(limits, limit_s)
    best = decide(limits, limit_s * FIRST_SHARE)
    most_s = best.placement.completion_s * (1 + within)
    interrupted = best.interrupted

    def tried(limit: PlacementLimits, left: int) -> Answer | None:
        """An answer under a limit, where so many more may be asked for."""
        nonlocal interrupted
        if interrupted:
            return None
        left_s = limit_s * (1 - FIRST_SHARE) if repeatable else max(limit_s - (clock() - begin_s), 0.0)
        share_s = left_s / (PRICE_STEPS if repeatable else left)
        if share_s < LEAST_S:
            return None
        try:
            answer = decide(limit, share_s)
        except InfeasibleError as error:
            logger.debug("%s leaves no room: %s", limit, error)
            return None
        except BaseException as error:
            if isinstance(error, Exception):
                raise
            interrupted = True  # a signal: what is known counts
            return None
        interrupted = answer.interrupted
        return answer if answer.placement.completion_s <= most_s * (1 + 1e-9) else None

    if goal == "latency":
        found = _nearest(best, tried, limits, network, apps)
    else:
        found = _fewest(best, tried, limits) if goal == "hosts" else _cheapest(best, tried, limits)
    return replace(found, interrupted=interrupted)


def _fewest(best: Answer, tried: Callable[[PlacementLimits, int], Answer | None], limits: PlacementLimits) -> Answer:
    too_few = 0
    while (used := len(set(best.placement.assignment.values()))) - too_few > 1:
        most = (used + too_few) // 2
        found = tried(replace(limits, max_hosts=most), (used - too_few).bit_length())
        if found is None:
            too_few = most
        else:
            best = found
    return best


def latencies_s(network: Network) -> list[float]:
    """The latencies that occur between hosts, ascending, and before them 0: within one."""
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
    """By bisection over the latencies that occur (the longest link, as ClouDiA deploys for)."""
    steps = latencies_s(network)
    low, high = 0, bisect_left(steps, latency_s(network, apps, best.placement.assignment))
    while low < high:
        middle = (low + high) // 2
        found = tried(replace(limits, max_latency_s=steps[middle]), (high - low).bit_length())
        if found is None:
            low = middle + 1
        else:
            best = found
            high = bisect_left(steps, latency_s(network, apps, found.placement.assignment))
    return best


def _cheapest(best: Answer, tried: Callable[[PlacementLimits, int], Answer | None], limits: PlacementLimits) -> Answer:
    too_low = 0.0
    for step in range(PRICE_STEPS):
        if best.price_usd <= too_low:
            break
        most = (best.price_usd + too_low) / 2
        found = tried(replace(limits, max_price_usd=most), PRICE_STEPS - step)
        if found is None:
            too_low = most
        else:
            best = found
    return best
