"""Run schedules of probes: every agent gets its whole part at once, and every step gets one answer."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.fleet import Fleet
from gavotte.agents.losses import Losses
from gavotte.agents.witnesses import Witnesses, drop_lost
from gavotte.errors import AgentError

logger = logging.getLogger(__name__)

WAIT_S = 10.0
"""Time that an agent waits for a peer that has not reached the round: many slow rounds."""

SPARE_S = 5.0
"""Extra time for the answers' way back to the controller."""

OUT_OF_TOUCH = frozenset({pb.FAILURE_UNREACHABLE, pb.FAILURE_VANISHED})
"""Failures which only show that two hosts cannot reach each other, and nothing about the measured value."""


class Step(NamedTuple):
    """One probe between two hosts. The probe's fields for its round and peer are filled in."""

    source: str
    target: str
    probe: pb.Probe


Schedule = Sequence[Sequence[Step]]
"""Rounds of steps. Steps of a round run at the same time; in a round, each host sends at most one probe."""


@dataclass(frozen=True)
class Answer:
    """Outcome of one step.

    Attributes:
        round: the step's round, from 0.
        source: host that sent.
        target: host that received.
        reply: the agent's reply; None = none.
        error: why there is no result; empty = there is one.
        failure: the same as one of the contract's `Failure` codes; 0 = there is a result.
    """

    round: int
    source: str
    target: str
    reply: pb.ProbeReply | None
    error: str = ""
    failure: int = 0

    @property
    def bytes_sent(self) -> int:
        """Payload bytes that the probe cost its sender. Answers are one byte each."""
        return 0 if self.reply is None else self.reply.bytes_sent

    def checked(self) -> pb.ProbeReply:
        """Return the reply, if it has a result.

        Raises:
            AgentError: if it has none.
        """
        if self.reply is None or self.error:
            raise AgentError(f"{self.source} to {self.target}: {self.error}", failure=self.failure)
        return self.reply


def requests(schedule: Schedule, run_id: str) -> dict[str, pb.MeasureRequest]:
    """Return each host's part of a schedule, for hosts that have one."""
    parts: dict[str, pb.MeasureRequest] = {}

    def part(host: str) -> pb.MeasureRequest:
        return parts.setdefault(host, pb.MeasureRequest(run_id=run_id, wait_s=WAIT_S, rounds=len(schedule)))

    for number, steps in enumerate(schedule):
        for source, target, probe in steps:
            own = part(source).probes.add()
            own.CopyFrom(probe)
            own.round, own.peer = number, target
            part(target).receives.append(pb.Expect(round=number, peer=source))
    return parts


def deadline_s(rounds: int, round_s: float) -> float:
    """Return when to give up a schedule: every round may wait its full time for a dead peer.

    Args:
        rounds: number of rounds.
        round_s: the longest that one may take.
    """
    return SPARE_S + rounds * (WAIT_S + round_s)


def carry_out(fleet: Fleet, schedule: Schedule, *, round_s: float, losses: Losses | None = None) -> Iterator[Answer]:
    """Run a schedule. Continue without hosts that vanish: each would cost all others their waiting time.

    Steps on a path that is known to be closed are answered at once, and no agent tries them.

    Args:
        fleet: enrolled agents, including those of all hosts named.
        schedule: what to do.
        round_s: the longest that one round may take.
        losses: what earlier schedules of the same fleet found about hosts that vanish; None = there were none. When two
            hosts lose touch, other hosts find out at once which of them is gone.

    Yields:
        one answer per step, in order of arrival, then those of steps without a reply.
    """
    losses = losses or Losses()
    witnesses = Witnesses(fleet, losses)
    closed = {step[:2]: fleet.wall(*step[:2]) or losses.closed(*step[:2]) for steps in schedule for step in steps}
    for number, steps in enumerate(schedule):
        for source, target, _ in steps:
            if why := closed[source, target]:
                yield Answer(number, source, target, None, why, pb.FAILURE_UNREACHABLE)
    schedule = [[step for step in steps if not closed[step[:2]]] for steps in schedule]
    if not any(schedule):
        return
    # Each kind of probe has a result field of its own name.
    pending = {
        (number, step.source, step.target): step.probe.WhichOneof("kind")
        for number, steps in enumerate(schedule)
        for step in steps
    }
    known = frozenset(pending)
    parts = requests(schedule, fleet.run_id)
    logger.info("run %s: %d probes in %d rounds", fleet.run_id, len(pending), len(schedule))
    # In every round some agent answers, and no round takes longer.
    silence_s = WAIT_S + round_s + SPARE_S
    for source, reply in fleet.measure(parts, deadline_s=deadline_s(len(schedule), round_s), silence_s=silence_s):
        if isinstance(reply, AgentError):
            losses.gone(source, reply.message)
            fleet.drop(source, reply.message)
            continue
        if reply.awaited and (reply.round, reply.peer, source) in known:
            losses.missed(source, reply.peer, reply.error)
            witnesses.ask(source, reply.peer)
            drop_lost(fleet, losses)
            continue
        step = (reply.round, source, reply.peer)
        if step not in pending or (not reply.error and reply.WhichOneof("result") != pending[step]):
            if source not in fleet.lost:
                reason = f"agent on {source}: it answers a probe twice, or an unknown one (round {step[0]}, {step[2]})"
                losses.gone(source, reason)
                fleet.distrust(source, reason)
            continue
        del pending[step]
        if reply.error:
            logger.debug("round %d, %s to %s: %s", *step, reply.error)
        if reply.failure in OUT_OF_TOUCH:
            losses.missed(source, reply.peer, reply.error)
            witnesses.ask(source, reply.peer)
            # A receiver that a firewall closes waits for the probe: its sender accepts connections.
            fleet.excuse(reply.peer, reply.round, source)
        elif not reply.error:
            losses.met(source, reply.peer)
        drop_lost(fleet, losses)
        yield Answer(*step, reply, reply.error, reply.failure)
    witnesses.end()
    for number, source, target in sorted(pending):
        lost = fleet.lost.get(source) or fleet.lost.get(target)
        failure = pb.FAILURE_DROPPED if lost else pb.FAILURE_LATE
        yield Answer(number, source, target, None, lost or "no answer", failure)
