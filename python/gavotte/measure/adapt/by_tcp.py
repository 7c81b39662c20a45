"""Measure paths by TCP: those on which trains find no rate, and those that are too fast for one connection."""

from __future__ import annotations

import math
from collections.abc import Iterable

from gavotte.measure.adapt.events import Steps
from gavotte.measure.adapt.sending import send_rounds
from gavotte.measure.adapt.state import State
from gavotte.measure.adapt.streams import LEAST_FALLBACK_BYTES
from gavotte.measure.adapt.tcp_steps import TcpSteps
from gavotte.measure.adapt.widening import Widening, fast_pairs, lower_bound, widened
from gavotte.measure.plan.concurrency import LoadedReading, Sent
from gavotte.measure.plan.fast_paths import LEAST_STREAM_BYTES
from gavotte.measure.plan.path_plan import AHEAD, MOST_AHEAD
from gavotte.measure.plan.rounds import packed
from gavotte.terms import Pair


def take_shares(state: State, measured: Iterable[Pair]) -> Steps[None]:
    """Measure TCP's share of paths without a rate. For the pairs in `measured` it is known already."""
    state.warnings.append(
        f"snapshot {state.number}: other traffic fills the network; paths without a rate show TCP's share"
    )
    lacking = [pair for pair in state.lacking() if state.affords(pair)]
    left = packed(lacking, {})
    most = max(AHEAD, math.ceil(MOST_AHEAD * len(left)))
    while left and not state.stopped:
        part, left = left[:most], left[most:]
        yield from send_rounds(state, part, alone=True, share=True)
        state.check()
    state.busy = sorted({*lacking, *measured}.difference(state.lacking()))


def fall_back(state: State) -> Steps[dict[Pair, LoadedReading]]:
    """Measure paths by bulk TCP on which trains found no rate, however often they were sent. Each is alone."""
    lacking = state.streams.lacking(state.results, state.number, state.here())
    size = state.spending.fallback_bytes([state.plan.names[source] for source, _ in lacking])
    if not lacking or size < LEAST_FALLBACK_BYTES:
        return {}
    state.again += len(lacking)
    state.total += len(lacking)
    sent: list[Sent] = []
    with state.streams.falling_back(lacking, size):
        for pairs in state.concurrency.apart(lacking, {}):
            state.check()
            # An estimate that trains exceeded leaves no path without an answer; a limit of the user does.
            if state.stopped and state.spending.limited:
                break
            sent += yield from send_rounds(state, [pairs], alone=True)
    return {each.pair: LoadedReading(each.rate_bps) for each in sent}


def widen(state: State) -> Steps[None]:
    """Continue with TCP on fast paths."""
    if not state.plan.method.has_faster_paths or state.traffic.now:
        return
    # Traffic within one machine crosses no network.
    pairs = [
        pair for pair in fast_pairs(state.results, state.number, state.here()) if not state.concurrency.mates(pair)
    ]
    size, share = state.plan.stream_bytes, state.spending.share
    if share:
        # What a byte limit leaves, by the host that has sent most.
        left = state.spending.left_bytes({state.plan.names[source] for source, _ in pairs})
        size = min(size, int(left / max(1, state.plan.widening_bytes(1))))
    if size < LEAST_STREAM_BYTES:
        return
    steps = TcpSteps(state.plan, state.spending, size)
    held = {pair for pair in pairs if state.shows_host(pair)}
    # More connections need more of a processor that the host does not give.
    single = Widening(steps.send, needed=dict.fromkeys(range(len(state.plan.names)), 1))
    climbing = [pair for pair in pairs if pair not in held]
    for todo, widening in ((climbing, Widening(steps.send)), (sorted(held), single)):
        for part in state.laid(packed(todo, state.plan.links)):
            state.check()
            if state.stopped:
                return
            known = [pair for pair in part if not lower_bound(state.results.paths[(state.number, *pair)])]
            for pair, rates in (yield from widening.climb(part, known)).items():
                state.total += 1
                state.take(pair, widened(state.results.paths[(state.number, *pair)], rates, steps.gaps.get(pair)))
