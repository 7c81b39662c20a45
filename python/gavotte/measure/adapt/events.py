"""Events that a measurement in progress takes, and instructions that it returns. All its I/O goes through them.

`Underway.handle` takes one event and returns instructions. It reads no clock, and neither sends nor writes. The runner
in `carry/` carries out instructions, on agents or on a network that is played. One or more events answer the last one.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeVar

from gavotte.agents.schedule import Answer, Schedule
from gavotte.agents.tiers import Tiers
from gavotte.formats.parts.lengths import Lengths
from gavotte.measure.adapt.overlap import Series
from gavotte.measure.adapt.results import PathResult
from gavotte.measure.plan.round_trips import RoundTrips
from gavotte.measure.plan.trials import Way
from gavotte.terms import Pair


@dataclass(frozen=True)
class Moment:
    """Times and states of hosts when an event happens.

    Attributes:
        now_s: a clock that is never set.
        unix_s: Unix time.
        hosts: names of the hosts that answer.
        away: hosts that take no part, with the reason.
        lost: number of hosts that have vanished.
        silent: hosts whose agents have stopped answering, but that were not given up.
        alone: whether fewer than two hosts are left.
        taken_over: hosts whose agents another run has taken over, with the reason.
    """

    now_s: float
    unix_s: float
    hosts: frozenset[str]
    away: Mapping[str, str] = field(default_factory=dict)
    lost: int = 0
    silent: frozenset[str] = frozenset()
    alone: bool = False
    taken_over: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    """Something that has happened.

    Attributes:
        moment: times and states of hosts when it happens.
    """

    moment: Moment


@dataclass(frozen=True)
class Started(Event):
    """Event: the agents are ready."""


@dataclass(frozen=True)
class Done(Event):
    """An instruction without a result has been carried out: a wait, a look for hosts that are back, or rounds."""


@dataclass(frozen=True)
class Answered(Event):
    """A probe has ended. `Done` follows when all probes of the rounds have.

    Attributes:
        answer: the outcome.
    """

    answer: Answer


@dataclass(frozen=True)
class Counted(Event):
    """Routers between hosts were counted.

    Attributes:
        lengths: path lengths (routers + 1), the same in both directions.
        round_trips_s: round trips of pairs that answered.
        blocked: pairs on which TCP passes, but UDP does not.
        cut: pairs that could not connect in at least one direction.
    """

    lengths: Lengths
    round_trips_s: Mapping[Pair, float] = field(default_factory=dict)
    blocked: Set[Pair] = frozenset()
    cut: Set[frozenset[int]] = frozenset()


@dataclass(frozen=True)
class Tiered(Event):
    """Racks were looked for by round trips.

    Attributes:
        tiers: the racks; without breaks, round trips do not show them.
    """

    tiers: Tiers


@dataclass(frozen=True)
class Carried(Event):
    """Pairs have sent at the same time.

    Attributes:
        series: what arrived, for the pairs that answered.
        bytes_sent: payload of all experiments so far.
    """

    series: Mapping[Pair, Series]
    bytes_sent: int


@dataclass(frozen=True)
class Judged(Event):
    """A snapshot was judged.

    Attributes:
        enough: whether no further snapshot is needed.
    """

    enough: bool


@dataclass(frozen=True)
class Instruction:
    """Instruction of the measurement to the code that sends probes; one subclass per kind."""


@dataclass(frozen=True)
class Wait(Instruction):
    """Wait, unless no hosts are left. `Done` answers it.

    Attributes:
        until_s: end, by the clock of `Moment.now_s`.
    """

    until_s: float


@dataclass(frozen=True)
class Rejoin(Instruction):
    """Take in hosts whose agents were started again. `Done` answers it."""


@dataclass(frozen=True)
class FindTiers(Instruction):
    """Find racks by round trips, because the network hides its routers. `Tiered` answers it.

    Attributes:
        seed: seed of the choice of pairs.
    """

    seed: int


@dataclass(frozen=True)
class CountRouters(Instruction):
    """Count the routers between any two hosts. `Counted` answers it.

    Attributes:
        seed: seed of the order.
        few: whether few pairs show the others, because there are many hosts.
    """

    seed: int
    few: bool = False


@dataclass(frozen=True)
class SendRounds(Instruction):
    """Send probes. An `Answered` for each, and then `Done`, answer it.

    Attributes:
        schedule: the rounds.
        round_s: the longest that one round may take.
    """

    schedule: Schedule
    round_s: float


@dataclass(frozen=True)
class Experiment(Instruction):
    """Let pairs send at the same time. `Carried` answers it.

    Attributes:
        groups: the pairs; groups share no link.
        expect_bps: TCP goodput of each pair alone, as far as known.
        way: how to send.
        trains: whether pairs without a common host send trains, not TCP.
        round_trips: round trips known so far.
    """

    groups: Sequence[Sequence[Pair]]
    expect_bps: Mapping[Pair, float]
    way: Way
    trains: bool
    round_trips: RoundTrips


@dataclass(frozen=True)
class Judge(Instruction):
    """Ask whether the snapshots so far suffice. `Judged` answers it."""


@dataclass(frozen=True)
class BeginSnapshot(Instruction):
    """Note that a snapshot has begun. No event answers it.

    Attributes:
        number: counted from 0.
        time_s: Unix time.
    """

    number: int
    time_s: float


@dataclass(frozen=True)
class Keep(Instruction):
    """Keep a rate in the journal. No event answers it.

    Attributes:
        snapshot: counted from 0.
        pair: (source, target).
        result: the answer.
    """

    snapshot: int
    pair: Pair
    result: PathResult


@dataclass(frozen=True)
class Report(Instruction):
    """Report progress. No event answers it.

    Attributes:
        done: probes so far.
        total: probes in all, as far as known.
    """

    done: int
    total: int


T = TypeVar("T")

Steps = Generator[Instruction | None, Event, T]
"""Part of a measurement: yields an instruction, or None to get the next event of the one before, and is sent events."""
