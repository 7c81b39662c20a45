"""Let each host send for longer than its probes take, to see whether its rate falls when a credit runs out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gavotte.agents.schedule import Step
from gavotte.measure.adapt.credits import note_sending
from gavotte.measure.adapt.events import Answered, Keep, SendRounds, Steps
from gavotte.measure.adapt.results import with_credit
from gavotte.measure.adapt.state import State
from gavotte.measure.adapt.withheld import find_gap
from gavotte.measure.plan.methods.bulk import bulk
from gavotte.measure.plan.methods.method import Method, Reading
from gavotte.measure.plan.rounds import packed
from gavotte.terms import Pair
from gavotte.terms.credit import FALLS, OWN, Credit, is_credit


def sustain(state: State) -> Steps[None]:
    """Have each host send by TCP for `sustain_s`, to one other host.

    1. If a host's rate falls for good, a credit has run out. All paths on which it was faster then have the lower rate,
       with the credit. They are not measured again: the bucket fills while others send.
    2. Otherwise these bytes count as bytes for which the path's rate was seen.
    """
    if not state.plan.sustain_s or state.number or state.traffic.now:
        return
    for pairs in state.laid(packed(widest(state).values(), state.plan.links)):
        state.check()
        if state.stopped:
            return
        for pair, reading in (yield from _send(state, pairs, bulk(seconds=state.plan.sustain_s))).items():
            source = pair[0]
            credit = state.sendings.credit(source, reading.goodput_bps) if state.sendings.shows(source) else None
            if credit is None:
                _count(state, pair, reading)
            else:
                _spend(state, source, credit)


def _spend(state: State, source: int, credit: Credit) -> None:
    """Give the paths on which a host was faster than its rate without credit that rate."""
    state.credits[state.plan.names[source]] = credit
    for at, path in sorted(state.results.paths.items()):
        faster = path.answered and path.reading.goodput_bps >= FALLS * credit.rate_bps
        if at[:2] == (state.number, source) and faster and not state.concurrency.mates(at[1:]):
            slow = replace(
                path.reading, goodput_bps=credit.rate_bps, low_bps=math.nan, high_bps=math.nan, verdict="unproven"
            )
            state.results.paths[at] = with_credit(replace(path, reading=slow), credit)
            state.effects.append(Keep(state.number, at[1:], state.results.paths[at]))


def _send(state: State, pairs: Sequence[Pair], method: Method) -> Steps[dict[Pair, Reading]]:
    """Let pairs send at the same time, and note credits that run out. Return what they carried."""
    began_s, index, readings = state.moment.now_s, state.index, dict[Pair, Reading]()
    steps = [Step(state.plan.names[i], state.plan.names[j], method.probe) for i, j in pairs]
    event = yield SendRounds([steps], state.plan.round_s + state.plan.sustain_s)
    while isinstance(event, Answered):
        answer, reply = event.answer, event.answer.reply
        state.spending.take(answer.source, answer.bytes_sent, near=True)
        if reply is not None and not answer.error:
            state.spending.allow(reply.seconds)
            pair, reading = (index[answer.source], index[answer.target]), method.read(reply)
            if find_gap(answer.source, answer.target, reply, reading.verdict) is None:
                readings[pair] = replace(reading, sent_bytes=answer.bytes_sent)
                if is_credit(reading.bucket_bytes, reading.goodput_bps, reading.peak_bps):
                    note_sending(state, pair, reading, answer.bytes_sent, began_s + reply.started_s + reply.seconds)
        event = yield None
    return readings


def _count(state: State, pair: Pair, reading: Reading) -> None:
    """Count the bytes of a long transfer as bytes for which the path's rate was seen, if it was as fast."""
    at = (state.number, *pair)
    path = state.results.paths[at]
    if reading.goodput_bps < OWN * path.reading.goodput_bps or math.isnan(path.reading.sent_bytes):
        return
    seen_bytes = path.reading.sent_bytes + reading.sent_bytes
    state.results.paths[at] = replace(path, reading=replace(path.reading, sent_bytes=seen_bytes))
    state.effects.append(Keep(state.number, pair, state.results.paths[at]))


def widest(state: State) -> Mapping[int, Pair]:
    """Return each host's fastest path to another machine, spread over the receivers where several are as fast."""
    size, rates, here = len(state.plan.names), state.rates(), state.here()
    out_of = defaultdict[int, list[Pair]](list)
    for source, target in sorted(rates, key=lambda pair: (pair[1] - pair[0]) % size):
        out_of[source].append((source, target))
    paths: dict[int, Pair] = {}
    for source in sorted(here):
        pairs = [pair for pair in out_of[source] if pair[1] in here]
        pairs = [pair for pair in pairs if not state.concurrency.mates(pair) and state.affords(pair)]
        if pairs:
            most_bps = max(rates[pair] for pair in pairs)
            paths[source] = next(pair for pair in pairs if rates[pair] >= OWN * most_bps)
    return paths
