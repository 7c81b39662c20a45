"""Replays of traced jobs: times that are known, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests import builders
from tests.traces import collective, compute, trace

from gavotte.errors import GavotteError
from gavotte.formats.network import Network
from gavotte.formats.trace import (
    Cancel,
    CollectiveCall,
    Communicator,
    Irecv,
    Isend,
    Loop,
    MpiTrace,
    Operation,
    Recv,
    Send,
    Wait,
)
from gavotte.simulate import JobReplay, MessageCosts

BARE = MessageCosts(overhead_s=0.0, combine_s=0.0)
ALPHA_S = 1e-3


def network(names: str = "abcd", fast_bps: float = 80e6, slow_bps: float = 8e6) -> Network:
    """Return hosts in two halves, with fast pairs inside and slow ones between, and equal latencies."""
    size = len(names)
    half = [2 * at // size for at in range(size)]
    rates = [
        [None if m == n else fast_bps if half[m] == half[n] else slow_bps for n in range(size)] for m in range(size)
    ]
    made = builders.network(names, rates, sharing="pipe")
    return made.model_copy(update={"latency_s": [[ALPHA_S] * size] * size})


def ping_pong(count: int, size: int) -> MpiTrace:
    """Return two ranks that send each other messages in turn."""
    ping = (compute(0.0), Send(1, size, 5, 0, "standard", 0.0), compute(0.0), Recv(1, size, 6, 0, 0.0))
    pong = (compute(0.0), Recv(0, size, 5, 0, 0.0), compute(0.0), Send(0, size, 6, 0, "standard", 0.0))
    return trace([Loop(count, ping)], [Loop(count, pong)])


def test_a_ping_pong_depends_on_the_hosts() -> None:
    replay = JobReplay(network(), ping_pong(10, 10_000), BARE)
    assert replay.seconds(["a", "b"]) == pytest.approx(20 * (ALPHA_S + 80_000 / 80e6))
    assert replay.seconds(["a", "c"]) == pytest.approx(20 * (ALPHA_S + 80_000 / 8e6))
    time = replay.predict(["a", "c"])
    assert time.predicted_s == pytest.approx(0.22)
    assert time.low_s == pytest.approx(0.22)
    assert time.high_s == pytest.approx(0.22)
    assert time.latency_s == pytest.approx(0.02)
    assert time.transfer_s == pytest.approx(0.2)
    assert replay.least_s == 0.0


def test_all_operations_are_replayed() -> None:
    first: list[Operation] = [
        Irecv(1, 8, 1, 0, 0, 0.0),
        Irecv(-1, 8, 9, 0, 1, 0.0),
        Isend(1, 8, 2, 0, 2, "synchronous", 0.0),
        Wait((0, 2), 0.0),
        Cancel(1, 0.0),
        collective("allreduce", 8, request=0),
        compute(0.5),
        Wait((0,), 0.0),
        collective("bcast", 1000, root=1),
        collective("comm"),
        CollectiveCall("neighbor_alltoall", 0, None, 16, (8, 8), (1, 1), (1, 1), None, 0.0),
        CollectiveCall("alltoallv", 0, None, 8, (0, 8), (), (), None, 0.0),
    ]
    second: list[Operation] = [
        Irecv(0, 8, 2, 0, 0, 0.0),
        Isend(0, 8, 1, 0, 1, "standard", 0.0),
        Wait((0, 1), 0.0),
        collective("allreduce", 8, request=4),
        Wait((4,), 0.0),
        collective("bcast", 1000, root=1),
        collective("comm"),
        CollectiveCall("neighbor_alltoall", 0, None, 16, (8, 8), (0, 0), (0, 0), None, 0.0),
        CollectiveCall("alltoallv", 0, None, 8, (8, 0), (), (), None, 0.0),
    ]
    replay = JobReplay(network(), trace(first, second), BARE)
    time = replay.predict(["a", "b"], draws=1)
    # The announcement of the synchronous send and its permit take two latencies before the pause. After it, rank 1
    # passes `comm` one latency later, its neighbours' messages arrive after another, and the last one after a third.
    assert time.predicted_s == pytest.approx(0.5 + 5 * ALPHA_S, abs=1e-5)
    assert replay.least_s == pytest.approx(0.5)


def test_groups_of_an_intercommunicator_act_as_one() -> None:
    inter = [Communicator((0,), (1,)), Communicator((1,), (0,))]
    call = CollectiveCall("barrier", 1, None, 0, (), (), (), None, 0.0)
    replay = JobReplay(network(), trace([call], [call], communicators=inter[:1]), BARE)
    assert replay.seconds(["a", "b"]) == pytest.approx(ALPHA_S)


def test_varying_computing_gives_an_interval_and_seeds_repeat_it() -> None:
    body = (compute(0.01, 2.5e-5), collective("barrier"))
    job = trace(*[[Loop(50, body)]] * 4)
    first, again, other = (JobReplay(network(), job, BARE, seed).predict("abcd") for seed in (1, 1, 100))
    assert first == again
    assert first != other
    assert first.low_s < first.predicted_s < first.high_s
    # The slowest of four decides each pass: 1.5 times the mean for half the mean as deviation.
    assert 1.35 < (first.predicted_s - 50 * 2 * ALPHA_S) / 0.5 < 1.65
    assert JobReplay(network(), job, BARE).seconds("abcd") == pytest.approx(50 * (0.01 + 2 * ALPHA_S))


def test_what_cannot_be_replayed_is_one_line() -> None:
    lost = trace([Recv(1, 8, 3, 0, 0.0)], [])
    with pytest.raises(GavotteError, match="rank 0 waits for a message with tag 3 from rank 1 that is never sent"):
        JobReplay(network(), lost).seconds(["a", "b"])
    with pytest.raises(GavotteError, match="the network has no host `x`; measure it"):
        JobReplay(network(), ping_pong(1, 8)).seconds(["a", "x"])
    with pytest.raises(GavotteError, match="the trace cannot be replayed: rank 0: names rank 7 of 1 ranks"):
        JobReplay(network(), trace([Send(7, 8, 0, 0, "standard", 0.0)]))
    small = MessageCosts(most_events=5)
    with pytest.raises(GavotteError, match="needs more than 5 events"):
        JobReplay(network(), ping_pong(4, 8), small).seconds(["a", "b"])


def test_a_long_trace_gets_fewer_draws() -> None:
    job = trace(*[[Loop(50, (compute(0.01, 2.5e-5), collective("barrier")))]] * 4)
    whole = JobReplay(network(), job, BARE).predict("abcd", 8)
    limited = JobReplay(network(), job, replace(BARE, most_events=whole.events // 2)).predict("abcd", 8)
    assert 0 < limited.events <= whole.events // 2
    single = JobReplay(network(), job, replace(BARE, most_events=whole.events // 5)).predict("abcd", 8)
    assert single.low_s == single.predicted_s == single.high_s


def test_one_connection_gets_its_own_rate_and_several_get_more() -> None:
    rates = [[None if m == n else 8e6 for n in range(2)] for m in range(2)]
    several = [[None if m == n else 16e6 for n in range(2)] for m in range(2)]
    made = builders.network("ab", rates, sharing="pipe").model_copy(
        update={"several_bps": several, "connections": [[None if m == n else 2 for n in range(2)] for m in range(2)]}
    )
    one = trace([Send(1, 50_000, 0, 0, "standard", 0.0)], [Recv(0, 50_000, 0, 0, 0.0)])
    assert JobReplay(made, one, BARE).seconds(["a", "b"]) == pytest.approx(0.05)
    two = trace(
        [Send(2, 50_000, 0, 0, "standard", 0.0)],
        [Send(3, 50_000, 0, 0, "standard", 0.0)],
        [Recv(0, 50_000, 0, 0, 0.0)],
        [Recv(1, 50_000, 0, 0, 0.0)],
    )
    assert JobReplay(made, two, BARE).seconds(["a", "a", "b", "b"]) == pytest.approx(0.05)


@pytest.mark.parametrize("library", ["openmpi", "mpich"])
def test_both_libraries_have_their_own_algorithms(library: str) -> None:
    job = trace(*[[collective("allreduce", 30_000)]] * 3)
    costs = MessageCosts(library=library, overhead_s=0.0, combine_s=0.0)  # type: ignore[arg-type]
    made = network("abc", 80e6, 80e6)
    # Open MPI: four steps of a third around a ring. MPICH: halves, since three are one too many.
    expected_s = 4 * (ALPHA_S + 10_000 * 8 / 80e6) if library == "openmpi" else None
    seconds = JobReplay(made, job, costs).seconds("abc")
    assert seconds == pytest.approx(expected_s) if expected_s else seconds > 4 * ALPHA_S
