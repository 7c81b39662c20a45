"""A measurement in progress without agents: it is fed events, and its instructions are judged."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agents.played import inventory

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.schedule import Answer, Step
from gavotte.errors import AgentError
from gavotte.formats.history import History
from gavotte.formats.parts.lengths import Lengths
from gavotte.measure.adapt.events import (
    Answered,
    BeginSnapshot,
    Carried,
    Counted,
    CountRouters,
    Done,
    Event,
    Experiment,
    Instruction,
    Judge,
    Judged,
    Keep,
    Moment,
    Rejoin,
    Report,
    SendRounds,
    Started,
    Wait,
)
from gavotte.measure.adapt.overlap import Series
from gavotte.measure.adapt.results import Results
from gavotte.measure.adapt.underway import Underway
from gavotte.measure.plan.cost import CostLimits
from gavotte.measure.plan.path_plan import PathPlan, plan_paths
from gavotte.terms import Pair

RATE_BPS = 1e8
MOST_EVENTS = 20_000
EFFECTS = (BeginSnapshot, Keep, Report)


@dataclass
class World:
    """Chance decides what happens.

    Attributes:
        names: the hosts.
        chance: decides.
        racks: number of racks; hosts of one are 2 routers apart, others 4.
        fails: share of probes that find no rate.
        vanishes: chance of each probe that its source vanishes.
        scatter: relative scatter of rates.
        instructions: all so far.
    """

    names: list[str]
    chance: random.Random
    racks: int = 1
    fails: float = 0.0
    vanishes: float = 0.0
    scatter: float = 0.0
    now_s: float = 0.0
    away: dict[str, str] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)
    sent_bytes: Counter[str] = field(default_factory=Counter)
    experiment_bytes: int = 0

    def moment(self) -> Moment:
        self.now_s += 1e-3
        here = frozenset(self.names) - self.away.keys()
        return Moment(self.now_s, 1e9 + self.now_s, here, dict(self.away), len(self.away), alone=len(here) < 2)

    def run(self, underway: Underway) -> None:
        """Feed events until no instruction is left."""
        awaited = self._take(underway, Started(self.moment()))
        events = 1
        while awaited is not None:
            after: Instruction | None = None
            for event in self._events(awaited):
                assert after is None
                after = self._take(underway, event)
                events += 1
                assert events < MOST_EVENTS
            awaited = after

    def _take(self, underway: Underway, event: Event) -> Instruction | None:
        given_now = underway.handle(event)
        self.instructions += given_now
        for instruction in given_now[:-1]:
            assert isinstance(instruction, EFFECTS)
        return given_now[-1] if given_now and not isinstance(given_now[-1], EFFECTS) else None

    def _events(self, instruction: Instruction) -> Iterator[Event]:
        match instruction:
            case SendRounds(schedule):
                for number, steps in enumerate(schedule):
                    self._check(steps)
                    for step in steps:
                        yield Answered(self.moment(), self._answer(number, step))
                yield Done(self.moment())
            case Experiment(groups, expect_bps):
                series = {}
                for pair in (pair for group in groups for pair in group):
                    self.experiment_bytes += 1000
                    series[pair] = Series(0.0, 0.01, np.full(30, expect_bps[pair] * 0.01 * self.chance.uniform(0.3, 1)))
                yield Carried(self.moment(), series, self.experiment_bytes)
            case CountRouters():
                size = range(len(self.names))
                lengths = [[0 if i == j else 2 if i % self.racks == j % self.racks else 4 for j in size] for i in size]
                yield Counted(self.moment(), Lengths.of_matrix(np.array(lengths)))
            case Judge():
                yield Judged(self.moment(), enough=False)
            case Wait(until_s):
                self.now_s = max(self.now_s, until_s)
                yield Done(self.moment())
            case Rejoin():
                yield Done(self.moment())
            case _:
                pytest.fail(f"unknown: {instruction}")

    def _check(self, steps: Sequence[Step]) -> None:
        """No host sends or receives twice in a round."""
        for ends in ([step.source for step in steps], [step.target for step in steps]):
            assert len(ends) == len(set(ends))

    def _answer(self, number: int, step: Step) -> Answer:
        gone = self.away.keys() & {step.source, step.target}
        if gone or self.chance.random() < self.vanishes:
            self.away.setdefault(min(gone or {step.source}), "vanished")
            return Answer(number, step.source, step.target, None, "vanished", pb.FAILURE_DROPPED)
        rate_bps = RATE_BPS * (1 - self.scatter * self.chance.random())
        reply = pb.ProbeReply(round=number, peer=step.target, seconds=0.1, bytes_sent=1_000_000, mtu_bytes=1500)
        self.sent_bytes[step.source] += reply.bytes_sent
        if step.probe.HasField("bulk"):
            reply.bulk.goodput_bps = rate_bps
        elif self.chance.random() < self.fails:
            reply.gated_train.refused, reply.gated_train.refusal = pb.GATED_REFUSAL_UNSTEADY, "unsteady"
            reply.error, reply.failure = "unsteady", pb.FAILURE_NO_RATE
        else:
            train = reply.gated_train
            train.verdict, train.payload_bytes, train.wire_bytes = pb.VERDICT_PATH_LIMITED, 1472, 1514
            train.rate_bps = train.low_bps = train.high_bps = rate_bps
        return Answer(number, step.source, step.target, reply, reply.error, reply.failure)


def plan_of(world: World, count: int = 1, every_s: float = 0.0) -> tuple[PathPlan, Results]:
    plan = plan_paths(world.names, count=count, every_s=every_s, seed=1)
    return plan, Results(inventory(world.names), plan.method.name, count)


worlds = st.builds(
    lambda size, seed, racks, fails, scatter: World(
        [f"h{i}" for i in range(size)], random.Random(seed), racks, fails, scatter=scatter
    ),
    st.integers(2, 7),
    st.integers(0, 10**6),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.1, 0.9, 1.0]),
    st.sampled_from([0.0, 0.01, 0.6]),
)


@settings(max_examples=60, deadline=None)
@given(world=worlds, count=st.integers(1, 3), again=st.booleans())
def test_every_path_gets_an_answer_in_every_snapshot(world: World, count: int, again: bool) -> None:
    plan, results = plan_of(world, count)
    underway = Underway(plan, CostLimits(), results, again=again)
    world.run(underway)
    begun = [each.number for each in world.instructions if isinstance(each, BeginSnapshot)]
    assert begun == list(range(len(begun)))
    assert len(begun) == results.count
    size = len(world.names)
    everything = {(k, i, j) for k in begun for i in range(size) for j in range(size) if i != j}
    if not underway.stopped:
        assert results.paths.keys() == everything
        assert len(begun) == count
    assert all(each.result.answered for each in world.instructions if isinstance(each, Keep))
    kept = {(each.snapshot, *each.pair) for each in world.instructions if isinstance(each, Keep)}
    assert kept == {at for at, path in results.paths.items() if path.answered}
    assert underway.bytes_sent == world.sent_bytes.total() + world.experiment_bytes


@settings(max_examples=40, deadline=None)
@given(world=worlds, vanishes=st.sampled_from([0.02, 0.2, 1.0]), count=st.integers(1, 3))
def test_hosts_that_vanish_are_asked_for_nothing_more(world: World, vanishes: float, count: int) -> None:
    world.vanishes = vanishes
    plan, results = plan_of(world, count)
    underway = Underway(plan, CostLimits(), results)
    asked: list[set[str]] = []
    answer = world._events

    def watched(instruction: Instruction) -> Iterator[Event]:
        if isinstance(instruction, SendRounds):
            hosts = {end for steps in instruction.schedule for step in steps for end in step[:2]}
            assert not hosts & world.away.keys()
            asked.append(hosts)
        return answer(instruction)

    world._events = watched  # type: ignore[method-assign]
    try:
        world.run(underway)
    except AgentError as error:
        assert "fewer than two agents are left" in str(error)
        assert not any(path.answered for path in results.paths.values())
    assert asked or len(world.names) < 2


def test_a_source_that_was_slow_by_chance_has_no_credit() -> None:
    """A repeat may show that a source which seemed to be slower for good is not. Then there is no rate from before."""
    world = World([f"h{i}" for i in range(7)], random.Random(0), 3, 0.1, scatter=0.6)
    plan, results = plan_of(world, 2)
    world.run(Underway(plan, CostLimits(), results))
    assert results.answered(1) > 0


@settings(max_examples=25, deadline=None)
@given(world=worlds, count=st.integers(1, 2))
def test_equal_events_bring_equal_instructions(world: World, count: int) -> None:
    other = replace(world, chance=random.Random(), instructions=[], away={}, sent_bytes=Counter())
    other.chance.setstate(world.chance.getstate())
    for each in (world, other):
        plan, results = plan_of(each, count)
        each.run(Underway(plan, CostLimits(), results))
    texts = [
        [
            (each.groups, each.expect_bps, each.way) if isinstance(each, Experiment) else each
            for each in one.instructions
        ]
        for one in (world, other)
    ]
    assert str(texts[0]) == str(texts[1])


def test_snapshots_wait_for_their_time() -> None:
    world = World(["a", "b", "c"], random.Random(1))
    plan, results = plan_of(world, 3, every_s=60.0)
    world.run(Underway(plan, CostLimits(), results))
    first_s, *others_s = (results.times_s[number] for number in range(3))
    assert [round(time_s - first_s) for time_s in others_s] == [60, 120]


def test_a_limit_of_bytes_ends_it_early() -> None:
    world = World([f"h{i}" for i in range(6)], random.Random(1))
    plan, results = plan_of(world)
    underway = Underway(plan, CostLimits(bytes=5_000_000), results)
    world.run(underway)
    assert underway.stopped == "more bytes were needed than estimated"
    assert 0 < results.answered(0) < plan.paths


def test_a_pair_that_carries_more_alone_is_measured_again_alone() -> None:
    """Two of three pairs of hosts in two racks share a link, so that they get half of their rates together."""
    world = World([f"h{i}" for i in range(6)], random.Random(1), racks=2, scatter=0.6)
    plan, results = plan_of(world)
    underway = Underway(plan, CostLimits(), results)
    world.run(underway)
    lone = {step[:2] for each in world.instructions if isinstance(each, SendRounds) for step in _alone(each)}
    assert underway.again >= len(lone) > 0
    repeated: set[Pair] = {(world.names.index(a), world.names.index(b)) for a, b in lone}
    assert all((0, *pair) in results.paths for pair in repeated)


def _alone(instruction: SendRounds) -> list[Step]:
    return [step for steps in instruction.schedule if len(steps) == 1 for step in steps]


@dataclass
class Outlying(World):
    """A path of 40 ms that one of its probes sees as slow.

    Attributes:
        slow: numbers of the probes of the first path that are slow, from 0.
        rtt_s: round trip of all paths.
        probes: number of trains of the first path so far.
    """

    slow: tuple[int, ...] = (0,)
    rtt_s: float = 0.04
    probes: int = 0

    def _answer(self, number: int, step: Step) -> Answer:
        answer = super()._answer(number, step)
        assert answer.reply is not None
        # No two probes at the same time.
        answer.reply.rtt_s, answer.reply.started_s, answer.reply.seconds = self.rtt_s, self.now_s, 5e-4
        answer.reply.gated_train.seconds = 5e-4
        if (step.source, step.target) == ("a", "b"):
            train = answer.reply.gated_train
            if self.probes in self.slow:
                train.rate_bps = train.low_bps = train.high_bps = (0.5 + 0.1 * self.probes) * RATE_BPS
            self.probes += 1
        return answer


@pytest.mark.parametrize(
    ("slow", "rtt_s", "share", "probes"),
    [((0,), 0.04, 1.0, 3), ((0, 1, 2), 0.04, 0.6, 3), ((0,), 0.001, 0.5, 1)],
    ids=["one of three", "all differ", "near"],
)
def test_a_slow_far_path_is_believed_once_two_probes_agree(
    slow: tuple[int, ...], rtt_s: float, share: float, probes: int
) -> None:
    world = Outlying(["a", "b", "c"], random.Random(1), slow=slow, rtt_s=rtt_s)
    plan, results = plan_of(world)
    world.run(Underway(plan, CostLimits(), results))
    rates = History.of_pairs(results.history()).beta_Bps[0]
    assert rates[0, 1] == pytest.approx(share * rates[0, 2])
    assert world.probes == probes
    kept = [each.result for each in world.instructions if isinstance(each, Keep) and each.pair == (0, 1)]
    assert kept[-1] is results.paths[0, 0, 1]
