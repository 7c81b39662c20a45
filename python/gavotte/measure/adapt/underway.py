"""A measurement in progress, as a state machine of events and instructions.

It takes snapshot after snapshot, and learns about shared links meanwhile. It reads no clock, and neither sends nor
writes, so that tests feed it without agents, and predictions play it on a network that is known.

`State` contains what is known so far. The decisions are generators over it, in modules by theme: `sending`, `linking`,
`repeating` and `by_tcp`.
"""

from __future__ import annotations

import logging
import math

from gavotte.errors import AgentError
from gavotte.formats.history import History
from gavotte.formats.parts.evidence import Evidence
from gavotte.measure.adapt.again import changed
from gavotte.measure.adapt.busy import Busy
from gavotte.measure.adapt.by_tcp import fall_back, take_shares, widen
from gavotte.measure.adapt.credits import keep_credits
from gavotte.measure.adapt.crossing import FULL
from gavotte.measure.adapt.events import Event, Instruction, Judge, Judged, Rejoin, Started, Steps, Wait
from gavotte.measure.adapt.linking import (
    add_further,
    choose_few_pairs,
    confirm,
    cross_links,
    evidence,
    fill_others,
    look,
    mispredicted,
    return_to_all,
    settle_for_few,
    shared,
)
from gavotte.measure.adapt.repeating import doubts, repeat, repeat_outliers, repeat_withheld, replace_spent
from gavotte.measure.adapt.results import Results
from gavotte.measure.adapt.sending import probe
from gavotte.measure.adapt.spending import Spending
from gavotte.measure.adapt.state import State
from gavotte.measure.adapt.sustaining import sustain
from gavotte.measure.plan.cost import CostLimits, Most
from gavotte.measure.plan.path_plan import AHEAD, MOST_AHEAD, PathPlan
from gavotte.terms import Pair

logger = logging.getLogger(__name__)

NEWLY_KNOWN = 0.1
"""Share of the hosts' limits that must have become known for rounds to be laid out again."""


class Underway:
    """State machine of a measurement, which decides what to send next.

    Attributes:
        state: state of the measurement.
    """

    def __init__(
        self, plan: PathPlan, limits: CostLimits, results: Results, *, again: bool = True, most: Most | None = None
    ) -> None:
        """Create a measurement to which nothing has happened yet.

        Args:
            plan: plan of the measurement.
            limits: limits of its cost.
            results: receives the answers; earlier ones are kept.
            again: measure doubtful paths again, alone.
            most: cost at which it ends, even if it is not finished; None = computed here.
        """
        self.state = State(plan, results, Spending(plan, limits, most or plan.most(limits)))
        self._steps = _snapshots(self.state, again=again)

    def handle(self, event: Event) -> list[Instruction]:
        """Take one event, and return what to do.

        1. The first event is `Started`.
        2. All instructions but the last are carried out at once, and no event answers them.
        3. So is the last, if it is a `BeginSnapshot`, `Keep` or `Report`. Any other is answered by the events that its
           description names, each of which is handed to this method.
        4. The measurement has ended if the last event of an instruction brings no other one.

        Raises:
            AgentError: when no hosts are left before a path has answered.
        """
        self.state.moment = event.moment
        try:
            awaited = next(self._steps) if isinstance(event, Started) else self._steps.send(event)
        except StopIteration:
            awaited = None
        effects, self.state.effects = self.state.effects, []
        return effects if awaited is None else [*effects, awaited]

    @property
    def again(self) -> int:
        """Number of repeated probes: those after the first of each path in each snapshot."""
        return self.state.again

    @property
    def stopped(self) -> str:
        """Reason why the measurement ended early; empty = it did not."""
        return self.state.stopped

    @property
    def bytes_sent(self) -> int:
        """Payload bytes that all hosts have sent so far."""
        return self.state.spending.bytes_sent

    def history(self) -> History:
        """Return the answers so far as matrices."""
        return History.of_pairs(self.state.results.history())

    def shared(self) -> dict[str, float]:
        """Return links that were full, with the load that they were seen to carry, bit/s; 0 = unknown."""
        return shared(self.state)

    def evidence(self) -> tuple[Evidence, ...]:
        """Return the results of the experiments on shared links, including those without a result."""
        return evidence(self.state)


def _snapshots(state: State, *, again: bool) -> Steps[None]:
    """Take all snapshots."""
    began_s, wanted = state.moment.now_s, state.results.count
    state.total = state.plan.count * sum(map(len, state.plan.rounds(0, state.here())))
    for number in range(wanted):
        if number not in state.results.times_s:
            yield Wait(began_s + number * state.plan.every_s)
        yield Rejoin()
        if _is_over(state, number):
            return
        state.begin(number)
        logger.info("snapshot %d of %d", number, wanted)
        yield from _snapshot(state) if again else _once(state)
        keep_credits(state)
        yield from widen(state)
        state.seconds = state.spent_s()
        state.results.count = number + 1
        if state.stopped or (number + 1 < wanted and (yield from _judged())):
            return
        state.results.count = wanted


def _is_over(state: State, number: int) -> bool:
    """Return whether no hosts are left for a snapshot. Earlier snapshots are kept, and none is empty.

    Raises:
        AgentError: when they found nothing, or another run has taken the agents over.
    """
    for name, reason in state.moment.taken_over.items():
        raise AgentError(f"agent on {name}: {reason}")
    if not state.moment.alone:
        return False
    silent = dict.fromkeys(sorted(state.moment.silent), "its agent does not answer any more")
    gone = silent | dict(state.moment.away)
    text = "; ".join(f"{name}: {reason}" for name, reason in list(gone.items())[:2])
    wanted, state.results.count = state.results.count, number
    reason = f"fewer than two agents are left after {number} of {wanted} snapshots ({text})"
    if not any(state.results.answered(each) for each in range(number)):
        raise AgentError(reason, hint="start the agents and measure again")
    state.warnings.append(reason)
    state.stopped = reason
    return True


def _remaining(state: State) -> list[list[Pair]]:
    """Return the rounds of a snapshot's paths without a rate. Those with one are done."""
    known = state.known
    state.done += len(known)
    return state.plan.rounds(state.number, state.here(), known)


def _once(state: State) -> Steps[None]:
    """Take a snapshot in which no path is measured again."""
    yield from probe(state, _remaining(state), alone=True)
    yield from fall_back(state)


def _snapshot(state: State) -> Steps[None]:
    """Take a snapshot in which doubtful paths are measured again."""
    todo, few = _remaining(state), None
    state.traffic, state.busy = Busy(state.method), []
    if state.filling is None and len(state.here()) > 2 and todo:
        shareable = yield from look(state)
        if state.plan.sparse:
            todo = choose_few_pairs(state)
        if shareable and not state.plan.links:
            # Links that may be shared: first pairs cross them together, then one by one.
            todo, slowed = yield from cross_links(state, todo)
            yield from repeat(state, slowed, full=FULL)
            few = settle_for_few(state)
            yield from fill_others(state)
    yield from _paths(state, todo if few is None else few)
    if few is not None and not state.stopped and not state.traffic.now and mispredicted(state):
        yield from _paths(state, return_to_all(state))
    if state.traffic.now:
        yield from take_shares(state, () if state.traffic.proves else state.readings)
        return
    state.readings |= yield from fall_back(state)
    if not state.stopped:
        unlooked = [pair for pair in changed(state.results, state.number) if not state.looked[pair]]
        yield from repeat(state, unlooked)
        yield from repeat_outliers(state)
        yield from replace_spent(state)
        yield from sustain(state)
    state.doubtful = [
        pair
        for pair, reading in state.readings.items()
        if not (state.shows_host(pair) or pair in state.plan.crossing) and state.concurrency.doubtful(pair, reading)
    ]
    yield from confirm(state)
    # Only now are all links known that may limit a pair.
    if few is None and state.plan.sparse and not state.stopped and mispredicted(state):
        yield from _paths(state, add_further(state))


def _paths(state: State, todo: list[list[Pair]]) -> Steps[None]:
    """Measure paths, and those again that others disturbed."""
    yield from _in_parts(state, state.laid(todo))
    yield from repeat_withheld(state)
    while not state.stopped and (pairs := doubts(state)):
        if not (yield from repeat(state, pairs)):
            break


def _in_parts(state: State, todo: list[list[Pair]]) -> Steps[None]:
    """Send rounds, more at a time while nothing new is learnt about shared links, and repeat doubtful probes."""
    ahead, most = AHEAD, max(AHEAD, math.ceil(MOST_AHEAD * len(todo)))
    known = state.concurrency.known_ends
    while todo and not state.stopped:
        part, todo, before = todo[:ahead], todo[ahead:], state.concurrency.limited_links
        state.readings |= yield from probe(state, part)
        yield from repeat(state, doubts(state, todo))
        ahead = min(most, 2 * ahead)
        newly_full, now = state.concurrency.limited_links > before, state.concurrency.known_ends
        if newly_full:
            ahead = AHEAD
        # Pairs whose hosts' limits are known leave room on full links for others.
        if newly_full or now - known > NEWLY_KNOWN * 2 * len(state.plan.names):
            todo, known = state.laid(todo), now
        if state.traffic.now:
            left = ([pair for pair in pairs if not state.traffic.hopeless(state.links(pair))] for pairs in todo)
            todo = [pairs for pairs in left if pairs]


def _judged() -> Steps[bool]:
    """Return whether the snapshots so far suffice."""
    event = yield Judge()
    assert isinstance(event, Judged)
    return event.enough
