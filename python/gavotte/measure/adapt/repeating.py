"""Repeat doubtful probes, and learn from the differences which links pairs share."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence

from gavotte.measure.adapt.events import Keep, Rejoin, Steps
from gavotte.measure.adapt.linking import fill
from gavotte.measure.adapt.outliers import MOST_PROBES, chosen, confirmed, outliers
from gavotte.measure.adapt.results import with_credit
from gavotte.measure.adapt.sending import probe, send_rounds
from gavotte.measure.adapt.state import State
from gavotte.measure.adapt.streams import LEAST_FALLBACK_BYTES
from gavotte.measure.adapt.withheld import FRESH_S, REPEATS
from gavotte.measure.plan.concurrency import LoadedReading
from gavotte.terms import Pair
from gavotte.terms.credit import FALLS

logger = logging.getLogger(__name__)

CLOSE_ENOUGH = 0.05
"""If few pairs show the rates of all, a pair is not repeated if it is slower than its hosts are with others by no more
than this share. The limits of its hosts come from their fastest pairs."""

AGAIN = 3
"""Most times that a doubtful path is measured again; more than once only while it has no rate."""


def doubts(state: State, todo: Iterable[Iterable[Pair]] = ()) -> list[Pair]:
    """Return pairs to measure again, alone: once, or while they have no rate. Those in later rounds, `todo`, wait."""
    here, later = state.here(), {pair for pairs in todo for pair in pairs}
    pairs: list[Pair] = []
    for pair, reading in state.readings.items():
        # If even a lone train finds no rate, the path carries other traffic.
        if state.traffic.now:
            break
        if not here.issuperset(pair) or not state.concurrency.doubtful(pair, reading):
            continue
        if pair in later or state.shows_host(pair) or pair in state.plan.crossing:
            continue
        if _close_enough(state, pair, reading.rate_bps):
            continue
        known = state.results.paths.get((state.number, *pair))
        if state.looked[pair] < (AGAIN if known is None or not known.answered else 1):
            pairs.append(pair)
    return pairs


def _close_enough(state: State, pair: Pair, rate_bps: float) -> bool:
    """Return whether a rate is not worth another probe, because few pairs show the rates of all; see `CLOSE_ENOUGH`."""
    return state.plan.sparse and rate_bps >= (1 - CLOSE_ENOUGH) * state.concurrency.reached_bps(pair)


def repeat(state: State, pairs: Sequence[Pair], *, full: float = 1.0) -> Steps[bool]:
    """Measure pairs again without other probes, and learn from the differences. Return whether it was possible.

    The rate of a link on which a pair lost is assumed to be `full` times its load.
    """
    pairs = [pair for pair in pairs if state.affords(pair)]
    # Paths without any answer come first.
    pairs = pairs[: max(0, int(state.spare_bytes() / max(state.spending.each_bytes(state.done), 1)))]
    if not pairs:
        return False
    logger.info("snapshot %d: measuring %d paths again, apart", state.number, len(pairs))
    yield Rejoin()
    state.again += len(pairs)
    state.total += len(pairs)
    state.looked.update(pairs)
    readings = state.readings
    compared: list[tuple[LoadedReading, float]] = []
    for lone in state.concurrency.apart(pairs, readings):
        if state.traffic.now:
            break
        apart = yield from probe(state, [lone], alone=True)
        if twice := [pair for pair in state.traffic.unsure(readings, apart) if state.affords(pair)]:
            state.again += len(twice)
            state.total += len(twice)
            state.traffic.compare(apart, (yield from probe(state, [twice], alone=True)))
        for pair, reading in apart.items():
            if pair in readings:
                compared.append((readings[pair], reading.rate_bps))
            if math.isfinite(reading.rate_bps):
                # Whatever else was sent meanwhile, no link was shared.
                readings[pair] = LoadedReading(reading.rate_bps)
    blamed: dict[str, float] = {}
    for beside, alone_bps in compared if state.traffic.proves or not state.traffic.now else ():
        blamed |= state.concurrency.compare(beside, alone_bps)
    if blamed and not state.traffic.now:
        yield from fill(state, {link: full * load_bps for link, load_bps in blamed.items()})
    return True


def repeat_withheld(state: State) -> Steps[None]:
    """Repeat probes during which a host kept its agent from running, each with a full quota."""
    for _ in range(REPEATS):
        pairs = [
            (i, j)
            for (at, i, j) in state.results.paths
            if at == state.number
            and state.shows_host((i, j))
            and state.affords((i, j))
            and not _close_enough(state, (i, j), state.results.paths[at, i, j].reading.goodput_bps)
        ]
        for lone in state.concurrency.apart([pair for pair in pairs if state.here().issuperset(pair)], {}):
            state.check()
            if state.stopped:
                return
            state.again += len(lone)
            state.total += len(lone)
            sent = yield from send_rounds(state, [lone], alone=True, start=(FRESH_S, 0.0))
            apart = state.concurrency.take(sent)
            state.readings |= {
                p: LoadedReading(each.rate_bps) for p, each in apart.items() if math.isfinite(each.rate_bps)
            }


def repeat_outliers(state: State) -> Steps[None]:
    """Repeat probes of far paths that are slower than their ends, alone, until two readings agree."""
    paths, number, here = state.results.paths, state.number, state.here()
    slow = outliers(state.results, number, state.concurrency.reached_bps)
    slow = [pair for pair in slow if here.issuperset(pair) and state.affords(pair)]
    slow = slow[: max(0, int(state.spare_bytes() / max(state.spending.each_bytes(state.done), 1)))]
    # What trains did not find, they would not find now.
    by_tcp = [pair for pair in slow if paths[(number, *pair)].reading.by_tcp == "refused"]
    size = state.spending.fallback_bytes([state.plan.names[source] for source, _ in by_tcp])
    if size < LEAST_FALLBACK_BYTES:
        slow = [pair for pair in slow if pair not in by_tcp]
    readings = {pair: [paths[(number, *pair)]] for pair in slow}
    with state.streams.falling_back(by_tcp, size):
        for _ in range(MOST_PROBES - 1):
            left = [pair for pair, known in readings.items() if confirmed(known) is None]
            state.again += len(left)
            state.total += len(left)
            yield from probe(state, state.concurrency.apart(left, {}), alone=True)
            for pair in left:
                if paths[(number, *pair)] is not readings[pair][-1]:
                    readings[pair].append(paths[(number, *pair)])
    for pair, known in readings.items():
        best = chosen(known)
        if best is not paths[(number, *pair)]:
            paths[(number, *pair)] = best
            state.effects.append(Keep(number, pair, best))


def replace_spent(state: State) -> Steps[None]:
    """Measure paths again whose rates are from before their source's credit ran out.

    If the first of them is as fast as before, the others were slower for another reason.
    """
    here, names = state.here(), state.plan.names
    for source, before in state.sendings.suspects().items():
        pairs = [pair for pair in before if here.issuperset(pair) and state.affords(pair)]
        if not pairs or state.stopped:
            continue
        known_bps = state.results.paths[(state.number, *pairs[0])].reading.goodput_bps
        state.again += 1
        state.total += 1
        first = yield from probe(state, [pairs[:1]], alone=True)
        rate_bps = first.get(pairs[0], LoadedReading(math.nan)).rate_bps
        # NaN is no rate.
        if not FALLS * rate_bps <= known_bps:
            continue
        credit = state.sendings.credit(source, rate_bps)
        if credit is None:
            continue
        state.credits[names[source]] = credit
        state.again += len(pairs) - 1
        state.total += len(pairs) - 1
        yield from probe(state, [[pair] for pair in pairs[1:]], alone=True)
        for pair in pairs:
            state.results.paths[(state.number, *pair)] = with_credit(state.results.paths[(state.number, *pair)], credit)
