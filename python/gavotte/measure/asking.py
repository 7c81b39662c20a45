"""Runs a hand-made schedule of probes and gathers the answers."""

from __future__ import annotations

from collections.abc import Sequence

from gavotte.agents import Fleet
from gavotte.agents import agent_pb2 as pb
from gavotte.errors import AgentError
from gavotte.measure.plan import WAIT_S

Step = tuple[str, str, pb.Probe]
"""Source, target and what to do (round and peer are filled in)."""

Answer = pb.ProbeReply | str
"""A reply, or in words why there is none."""


def ask(fleet: Fleet, rounds: Sequence[Sequence[Step]], *, deadline_s: float) -> list[list[Answer]]:
    """Carries out rounds of probes, all of one round at the same time.

    Args:
        fleet: enrolled agents, those of all hosts named.
        rounds: in a round, no host sends to two others.
        deadline_s: when all must be done.

    Returns:
        the answers, shaped as `rounds`. A probe that its host reported as failed is a text too.
    """
    parts: dict[str, pb.MeasureRequest] = {}

    def part(host: str) -> pb.MeasureRequest:
        return parts.setdefault(host, pb.MeasureRequest(run_id=fleet.run_id, wait_s=WAIT_S, rounds=len(rounds)))

    place: dict[tuple[int, str, str], tuple[int, int]] = {}
    for number, steps in enumerate(rounds):
        for index, (source, target, probe) in enumerate(steps):
            told = pb.Probe()
            told.CopyFrom(probe)
            told.round, told.peer = number, target
            part(source).probes.append(told)
            part(target).receives.append(pb.Expect(round=number, peer=source))
            place[number, source, target] = (number, index)
    answers: list[list[Answer]] = [["no answer"] * len(steps) for steps in rounds]
    for host, reply in fleet.measure(parts, deadline_s=deadline_s):
        if isinstance(reply, AgentError):
            for (_, source, target), (row, column) in place.items():
                if host in (source, target) and answers[row][column] == "no answer":
                    answers[row][column] = reply.message
            continue
        row, column = place[reply.round, host, reply.peer]
        answers[row][column] = reply.error or reply
    return answers
