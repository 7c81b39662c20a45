"""Send rounds of probes, and record what each answer shows."""

from __future__ import annotations

import math
from collections.abc import Iterable

from gavotte.agents.schedule import OUT_OF_TOUCH
from gavotte.measure.adapt.answers import gap_in, read, sent_as
from gavotte.measure.adapt.credits import note_sending
from gavotte.measure.adapt.crossing import STRETCHED
from gavotte.measure.adapt.events import Answered, SendRounds, Steps
from gavotte.measure.adapt.results import PathResult, path_result
from gavotte.measure.adapt.state import State
from gavotte.measure.adapt.withheld import limited_by_host, withheld_s
from gavotte.measure.plan.concurrency import LoadedReading, Sent
from gavotte.measure.plan.methods.method import TRAIN_BRIEF_S, refused
from gavotte.measure.plan.opening import PAUSE_S
from gavotte.terms import Pair


def probe(state: State, rounds: list[list[Pair]], *, alone: bool = False) -> Steps[dict[Pair, LoadedReading]]:
    """Send rounds; if links are full, each only after the one before it has ended.

    Pairs that are measured `alone` may take all their time.
    """
    # A host that is done runs ahead into the next round of a schedule.
    parts = [[pairs] for pairs in rounds] if state.concurrency.full else [rounds] * bool(rounds)
    readings: dict[Pair, LoadedReading] = {}
    for part in parts:
        state.check()
        if state.stopped:
            break
        readings |= state.concurrency.take((yield from send_rounds(state, part, alone=alone)))
        if left := state.streams.waiting(part):
            readings |= state.concurrency.take((yield from send_rounds(state, left, alone=alone)))
    return readings


def send_rounds(
    state: State,
    rounds: list[list[Pair]],
    *,
    alone: bool,
    share: bool = False,
    together: bool = False,
    start: tuple[float, float] | None = None,
) -> Steps[list[Sent]]:
    """Send rounds as one schedule.

    Args:
        state: the measurement.
        rounds: pairs that are measured at the same time.
        alone: whether pairs may take all their time.
        share: measure TCP's share alongside other traffic.
        together: start all trains of a round at the same time.
        start: when trains start after their round's beginning, and their longest time; None = as usual.
    """
    began_s = state.moment.now_s
    # A schedule with a host that is gone would wait for it again.
    gone = {state.index[name] for name in state.moment.away if name in state.index}
    rounds = [left for pairs in rounds if (left := [pair for pair in pairs if gone.isdisjoint(pair)])]
    brief = {
        pair
        for pairs in rounds
        for pair in pairs
        if start is not None or not (alone or state.concurrency.patient(pair))
    }
    schedule = state.plan.schedule(
        rounds,
        brief=brief,
        share=state.traffic.probe if share else None,
        start=_start(state, rounds) if together else start,
    )
    schedule = state.streams.instead(schedule, state.index)
    sent: list[Sent] = []
    event = yield SendRounds(schedule, state.plan.round_s)
    while isinstance(event, Answered):
        answer = event.answer
        pair = state.index[answer.source], state.index[answer.target]
        needs_tcp = state.streams.take(pair, answer)
        streamed = state.streams.carries(pair)
        state.spending.allow(
            answer.reply.seconds if streamed and answer.reply else state.trips.allowance_s(pair, answer.reply)
        )
        reading = read(answer, pair, state.plan.method, state.traffic, state.streams)
        gap = gap_in(answer, reading)
        if gap is not None:
            reading = limited_by_host(reading, gap)
        # Throttled trains, and those that repeat them, do not show what trains cost.
        near = state.concurrency.mates(pair) or streamed or gap is not None or start is not None
        state.spending.take(answer.source, answer.bytes_sent, near=near)
        result = PathResult(reading, gap=gap)
        if answer.failure in OUT_OF_TOUCH:
            state.cut.add(frozenset(pair))
        if needs_tcp:
            state.total += 1
        elif answer.reply is not None:
            reply = answer.reply
            state.spending.allow(withheld_s(reply) if start is None and gap is None else reply.seconds)
            if reply.HasField("gated_train") and gap is None:
                state.traffic.take(reply.gated_train, state.links(pair), alone=alone)
            idle_s = _idle_s(state, answer.source, answer.target, began_s + reply.started_s, reply.seconds)
            note_sending(state, pair, reading, answer.bytes_sent, began_s + reply.started_s + reply.seconds)
            result = path_result(reading, reply, idle_s, gap)
            sent.append(sent_as(pair, answer.round, reply, reading if gap is None else refused(str(gap))))
        state.take(pair, result)
        event = yield None
    if sent:
        state.spending.learn()
    return sent


def _start(state: State, rounds: Iterable[Iterable[Pair]]) -> tuple[float, float]:
    """Return when trains that run together start, and their longest time, because a full link keeps them going."""
    reached = [state.concurrency.reached_bps(pair) for pairs in rounds for pair in pairs]
    usual_s = max((state.plan.method.typical(bps)[1] if bps > 0 else TRAIN_BRIEF_S for bps in reached), default=0.0)
    pause_s = max(PAUSE_S, state.trips.ready_s(pair for pairs in rounds for pair in pairs))
    return pause_s, min(TRAIN_BRIEF_S, STRETCHED * usual_s)


def _idle_s(state: State, source: str, target: str, start_s: float, seconds: float) -> float:
    """Return how long both ends were idle before a probe: the time in which a token bucket could fill."""
    ends = ((source, "sent"), (target, "received"))
    idle_s = start_s - max(state.ends_s.get(end, -math.inf) for end in ends)
    state.ends_s |= dict.fromkeys(ends, start_s + seconds)
    return max(0.0, idle_s)
