"""Carry out the instructions of a measurement, and hand it the events that follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gavotte.formats.history import History
from gavotte.measure.adapt.events import (
    Answered,
    BeginSnapshot,
    Carried,
    CountRouters,
    Done,
    Event,
    Experiment,
    FindTiers,
    Instruction,
    Judge,
    Judged,
    Keep,
    Rejoin,
    Report,
    SendRounds,
    Started,
    Wait,
)
from gavotte.measure.adapt.underway import Underway
from gavotte.measure.carry.agents import Agents
from gavotte.measure.carry.journal import Journal
from gavotte.terms import Progress


class Runner:
    """Loop that runs one measurement to its end."""

    def __init__(
        self,
        underway: Underway,
        agents: Agents,
        *,
        journal: Journal | None = None,
        progress: Progress | None = None,
        enough: Callable[[History], bool] | None = None,
        heard: Callable[[float], None] | None = None,
    ) -> None:
        """Create a runner that has not begun.

        Args:
            underway: decides what to do.
            agents: do it.
            journal: receives the answers; None = they are not kept.
            progress: called for each path that is done.
            enough: called after each snapshot; true ends the measurement.
            heard: called with each rate, in bit/s.
        """
        self._underway = underway
        self._agents = agents
        self._journal = journal
        self._progress = progress
        self._enough = enough
        self._heard = heard

    def run(self) -> None:
        """Carry out instructions until there are none.

        Raises:
            AgentError: when no hosts are left before a path has answered.
        """
        awaited = self._take(Started(self._agents.moment()))
        while awaited is not None:
            after: Instruction | None = None
            for event in self._events(awaited):
                after = self._take(event)
            awaited = after

    def _take(self, event: Event) -> Instruction | None:
        """Hand over an event. Return the instruction that events answer; None = there is none yet."""
        awaited: Instruction | None = None
        for instruction in self._underway.handle(event):
            match instruction:
                case BeginSnapshot(number, time_s):
                    if self._journal is not None:
                        self._journal.begin(number, time_s)
                case Keep(snapshot, pair, result):
                    if self._journal is not None:
                        self._journal.add(snapshot, *pair, result)
                    if self._heard is not None and not result.reading.refusal:
                        self._heard(result.reading.goodput_bps)
                case Report(done, total):
                    if self._progress is not None:
                        self._progress(done, total)
                case _:
                    awaited = instruction
        return awaited

    def _events(self, instruction: Instruction) -> Iterator[Event]:
        """Carry out an instruction, and yield the events that answer it."""
        agents = self._agents
        match instruction:
            case SendRounds(schedule, round_s):
                for answer in agents.send(schedule, round_s):
                    yield Answered(agents.moment(), answer)
                yield Done(agents.moment())
            case Experiment(groups, expect_bps, way):
                carrier = agents.carrier(instruction)
                series = carrier.carry(groups, expect_bps, way)
                yield Carried(agents.moment(), series, carrier.bytes_sent)
            case CountRouters(seed, few):
                yield agents.count_routers(seed, few=few)
            case FindTiers(seed):
                yield agents.find_tiers(seed)
            case Rejoin():
                agents.rejoin()
                yield Done(agents.moment())
            case Wait(until_s):
                agents.wait(until_s)
                yield Done(agents.moment())
            case Judge():
                enough = self._enough is not None and self._enough(self._underway.history())
                yield Judged(agents.moment(), enough)
            case _:
                raise NotImplementedError(f"no way to carry out {type(instruction).__name__}")
