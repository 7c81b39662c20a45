"""Every step of a schedule gets one answer, whatever agents send; transfers start when all are ready."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agents.played import Events, PlayedFleet, Replies, answers
from tests.shell import until

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.losses import TRIES, Losses
from gavotte.agents.replaying import replay
from gavotte.agents.schedule import Schedule, Step, carry_out, requests
from gavotte.errors import AgentError

PROBE = pb.Probe(bulk=pb.Bulk(seconds=1.0))
ROUNDS = [[("a", "b"), ("c", "d")], [("b", "a"), ("d", "c")], [("a", "c"), ("b", "d")], [("d", "a"), ("c", "b")]]
SCHEDULE: Schedule = [[Step(source, target, PROBE) for source, target in pairs] for pairs in ROUNDS]
STEPS = sorted((number, source, target) for number, pairs in enumerate(ROUNDS) for source, target in pairs)


def test_each_host_gets_its_whole_part() -> None:
    parts = requests(SCHEDULE, "run")
    sent = sorted((probe.round, name, probe.peer) for name, part in parts.items() for probe in part.probes)
    received = sorted((each.round, each.peer, name) for name, part in parts.items() for each in part.receives)
    assert sent == received == STEPS
    assert all(part.rounds == len(ROUNDS) and part.run_id == "run" for part in parts.values())
    assert all(probe.bulk.seconds == 1.0 for part in parts.values() for probe in part.probes)
    assert pb.Probe(bulk=pb.Bulk(seconds=1.0)) == PROBE


replies = st.builds(
    pb.ProbeReply,
    round=st.integers(0, 5),
    peer=st.sampled_from("abcdz"),
    error=st.sampled_from(["", "late"]),
    failure=st.sampled_from([0, pb.FAILURE_UNREACHABLE, pb.FAILURE_LATE]),
)


def test_a_host_that_answers_twice_or_what_it_was_not_asked_is_dropped() -> None:
    def say(parts: Mapping[str, pb.MeasureRequest]) -> Replies:
        first, *others = answers(parts)
        yield first
        yield first
        yield from others

    fleet = PlayedFleet("abcd", say)
    items = list(carry_out(fleet, SCHEDULE, round_s=1.0))
    assert list(fleet.lost) == ["a"]
    assert sum(not answer.error for answer in items if answer.source != "a") == 6


@given(answers=st.lists(st.tuples(st.sampled_from("abcd"), replies | st.just(AgentError("gone"))), max_size=30))
def test_every_step_has_one_answer_whatever_agents_say(answers: list[tuple[str, pb.ProbeReply | AgentError]]) -> None:
    fleet = PlayedFleet("abcd", lambda _: answers)
    items = list(carry_out(fleet, SCHEDULE, round_s=1.0))
    assert sorted((answer.round, answer.source, answer.target) for answer in items) == STEPS
    assert all(answer.error for answer in items if answer.reply is None)


def test_a_host_whose_agent_goes_is_dropped_and_its_steps_are_told_of() -> None:
    def say(parts: Mapping[str, pb.MeasureRequest]) -> Replies:
        yield "a", AgentError("agent on a: gone")
        yield from ((name, reply) for name, reply in answers(parts) if "a" not in (name, reply.peer))

    fleet = PlayedFleet("abcd", say)
    items = list(carry_out(fleet, SCHEDULE, round_s=1.0))
    assert fleet.lost == {"a": "agent on a: gone"}
    failures = {(answer.error, answer.failure) for answer in items if "a" in (answer.source, answer.target)}
    assert failures == {("agent on a: gone", pb.FAILURE_DROPPED)}
    assert not [answer for answer in items if answer.error and "a" not in (answer.source, answer.target)]
    with pytest.raises(AgentError, match="a to b: agent on a: gone"):
        next(answer for answer in items if (answer.source, answer.target) == ("a", "b")).checked()


def test_a_host_that_nobody_reaches_is_dropped() -> None:
    def say(parts: Mapping[str, pb.MeasureRequest]) -> Replies:
        for name, reply in answers(parts):
            if "a" in (name, reply.peer):
                yield (
                    name,
                    pb.ProbeReply(round=reply.round, peer=reply.peer, error="no way", failure=pb.FAILURE_UNREACHABLE),
                )
            else:
                yield name, reply

    fleet = PlayedFleet("abcd", say)
    assert sum(not answer.error for answer in carry_out(fleet, SCHEDULE, round_s=1.0)) == 4
    assert list(fleet.lost) == ["a"]


def test_of_two_that_lose_touch_others_tell_which_is_gone_before_anybody_else_waits_for_it() -> None:
    def say(parts: Mapping[str, pb.MeasureRequest]) -> Replies:
        yield "a", pb.ProbeReply(round=0, peer="b", error="no way", failure=pb.FAILURE_VANISHED)
        # The next schedule finds it dropped.
        until(lambda: "b" in fleet.lost)
        yield from ((name, reply) for name, reply in answers(parts) if "b" not in (name, reply.peer))

    fleet = PlayedFleet("abcd", say, present="acd")
    items = list(carry_out(fleet, SCHEDULE, round_s=1.0))
    assert fleet.looks == [{"c": ["a", "b"], "d": ["a", "b"]}, {"b": ["a", "c", "d"]}]
    assert list(fleet.lost) == ["b"]
    assert {answer.failure for answer in items if "b" in (answer.source, answer.target)} == {
        pb.FAILURE_VANISHED,
        pb.FAILURE_DROPPED,
    }
    assert sum(not answer.error for answer in items) == 4


def test_a_host_that_a_firewall_closes_stays_for_what_it_sends() -> None:
    def say(parts: Mapping[str, pb.MeasureRequest]) -> Replies:
        for name, reply in answers(parts):
            if reply.peer == "a":
                failure = pb.FAILURE_UNREACHABLE
                reply = pb.ProbeReply(round=reply.round, peer=reply.peer, error="no way", failure=failure)
            yield name, reply

    fleet = PlayedFleet("abcd", say, present="bcd", closed="a")
    items = list(carry_out(fleet, SCHEDULE, round_s=1.0))
    assert not fleet.lost
    assert {(answer.source, answer.target) for answer in items if answer.error} == {
        (source, target) for _, source, target in STEPS if target == "a"
    }
    assert {("a", number, source) for number, source, target in STEPS if target == "a"} == set(fleet.excused)


def test_no_agent_tries_a_direction_that_is_closed() -> None:
    losses = Losses()
    for _ in range(TRIES):
        losses.missed("a", "b", "no way")
    fleet = PlayedFleet("abcd")
    items = list(carry_out(fleet, SCHEDULE, round_s=1.0, losses=losses))
    assert sorted((answer.round, answer.source, answer.target) for answer in items) == STEPS
    assert [(answer.source, answer.target, answer.failure) for answer in items if answer.error] == [
        ("a", "b", pb.FAILURE_UNREACHABLE)
    ]
    asked = {(host, probe.peer) for parts in fleet.asked for host, part in parts.items() for probe in part.probes}
    assert ("a", "b") not in asked
    assert len(asked) == len(STEPS) - 1


def test_who_waits_in_vain_for_a_probe_says_so() -> None:
    def say(parts: Mapping[str, pb.MeasureRequest]) -> Replies:
        yield "b", pb.ProbeReply(round=0, peer="a", error="gone", failure=pb.FAILURE_VANISHED, awaited=True)
        yield from ((name, reply) for name, reply in answers(parts) if "a" not in (name, reply.peer))

    fleet = PlayedFleet("abcd", say, present="bcd")
    items = list(carry_out(fleet, SCHEDULE, round_s=1.0))
    assert list(fleet.lost) == ["a"]
    assert sorted((answer.round, answer.source, answer.target) for answer in items) == STEPS


def test_two_that_others_reach_are_both_kept() -> None:
    def say(parts: Mapping[str, pb.MeasureRequest]) -> Replies:
        for name, reply in answers(parts):
            if {name, reply.peer} == {"a", "b"}:
                reply = pb.ProbeReply(
                    round=reply.round, peer=reply.peer, error="a wall", failure=pb.FAILURE_UNREACHABLE
                )
            yield name, reply

    fleet = PlayedFleet("abcd", say, present="abcd")
    items = list(carry_out(fleet, SCHEDULE, round_s=1.0))
    assert fleet.looks
    assert not fleet.lost
    assert sum(not answer.error for answer in items) == 6


def test_a_wait_that_nobody_asked_for_is_a_lie() -> None:
    def say(parts: Mapping[str, pb.MeasureRequest]) -> Replies:
        yield "a", pb.ProbeReply(round=0, peer="d", error="gone", failure=pb.FAILURE_VANISHED, awaited=True)
        yield from answers(parts)

    fleet = PlayedFleet("abcd", say, present="abcd")
    list(carry_out(fleet, SCHEDULE, round_s=1.0))
    assert list(fleet.lost) == ["a"]


TRANSFERS = {"a": [pb.Transfer(id=0, target="b", bytes=10)], "b": [pb.Transfer(id=1, target="a", bytes=20)]}
READY = pb.ReplayReply(ready=pb.Ready(connected=1))


def done(number: int) -> pb.ReplayReply:
    return pb.ReplayReply(done=pb.TransferDone(id=number, bytes=10))


def test_transfers_start_when_all_are_ready_and_who_tells_of_one_twice_is_dropped() -> None:
    started: list[int] = []

    def say(parts: Mapping[str, pb.ReplayRequest]) -> Events:
        assert {part.replay_id for part in parts.values()} == {next(iter(parts.values())).replay_id}
        yield "a", READY
        started.append(len(fleet.started))
        yield "b", READY
        started.append(len(fleet.started))
        for number in (0, 0):
            yield "a", done(number)
        yield "b", done(1)

    fleet = PlayedFleet("ab", replayed=say)
    items = list(replay(fleet, TRANSFERS, congestion="cubic", max_seconds=1.0))
    assert started == [0, 1]
    assert [(name, each.id) for name, each in items if isinstance(each, pb.TransferDone)] == [("a", 0), ("b", 1)]
    assert [str(each) for _, each in items if isinstance(each, AgentError)] == [fleet.lost["a"]]


@pytest.mark.parametrize(("late", "kept"), [(False, 0), (True, 1)])
def test_an_agent_that_goes_ends_a_replay_that_has_not_started(late: bool, kept: int) -> None:
    def say(_: object) -> Iterator[tuple[str, pb.ReplayReply | AgentError]]:
        yield "a", READY
        if late:
            yield "b", READY
        yield "b", AgentError("agent on b: gone")
        yield "a", done(0)

    items = list(replay(PlayedFleet("ab", replayed=say), TRANSFERS, congestion="cubic", max_seconds=1.0))
    assert sum(isinstance(each, pb.TransferDone) for _, each in items) == kept
    assert [str(each) for _, each in items if isinstance(each, AgentError)] == ["agent on b: gone"]


def test_a_transfer_that_is_never_confirmed_is_told_of() -> None:
    fleet = PlayedFleet("ab", replayed=lambda _: [("a", READY), ("b", READY), ("b", done(1))])
    result = dict(replay(fleet, TRANSFERS, congestion="cubic", max_seconds=1.0))
    assert isinstance(result["a"], AgentError)
    assert "not all of its transfers were confirmed" in str(result["a"])


def test_a_replay_that_does_not_start_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = PlayedFleet("ab", replayed=lambda _: [("a", READY), ("b", READY), ("a", done(0))])
    gone = AgentError("agent on a does not start: gone")

    def start(_names: object, _replay_id: str) -> None:
        raise gone

    monkeypatch.setattr(fleet, "start", start)
    assert [each for _, each in replay(fleet, TRANSFERS, congestion="cubic", max_seconds=1.0)] == [gone]
