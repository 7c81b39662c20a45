"""Wall times and orders that follow from the replay of a job's trace."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests import builders
from tests.traces import collective, compute, trace

from gavotte.formats.trace import Loop, MpiTrace, Operation, Recv, Send
from gavotte.launch.past import Past, predict
from gavotte.launch.replaying import TracedJob, replayed_order, traced_job
from gavotte.place import Effort, order_ranks

SLOTS = dict.fromkeys("abcd", 1)
APP = builders.app("x", ("rank0", "rank1", 10_000_000), ("rank2", "rank3", 10_000_000))
RATES = [[None if m == n else 80e6 if m // 2 == n // 2 else 8e6 for n in range(4)] for m in range(4)]
NETWORK = builders.network("abcd", RATES, sharing="pipe")
APART, TOGETHER = list("acbd"), list("abcd")


def pairs(count: int, size: int, pause_s: float) -> MpiTrace:
    """Return two pairs of ranks: in each, the even one sends to the odd one between pauses."""
    bodies: list[Operation] = [
        Send(1, size, 0, 0, "standard", 0.0),
        Recv(0, size, 0, 0, 0.0),
        Send(3, size, 0, 0, "standard", 0.0),
        Recv(2, size, 0, 0, 0.0),
    ]
    return trace(*[[Loop(count, (compute(pause_s), call, collective("barrier")))] for call in bodies])


def job(past: list[Past], made: MpiTrace | None = None) -> TracedJob:
    warnings: list[str] = []
    result = traced_job(
        made or pairs(100, 10_000, 0.01), NETWORK, 4, past, family="openmpi", seed=0, complain=warnings.append
    )
    assert result is not None
    assert not warnings
    return result


def test_a_wall_time_has_parts_outside_of_mpi() -> None:
    # In MPI the replay takes 1 s of pauses, and 100 times 10 or 1 ms of messages.
    unknown = job([])
    assert unknown.outside_s == 0.1
    assert unknown.wall_s(APART)[0] == pytest.approx(0.1 + 1.0 + 1.0, rel=0.01)
    assert unknown.wall_s(TOGETHER)[0] == pytest.approx(0.1 + 1.0 + 0.1, rel=0.02)
    # The trace's ranks took 1 s from MPI_Init to MPI_Finalize, and the launch that they belong to 1.6 s.
    counted = job([Past(tuple(APART), 1.6, counted=True)])
    assert counted.outside_s == pytest.approx(0.6)


def test_earlier_runs_correct_the_time_of_messages() -> None:
    made = pairs(100, 10_000, 0.01)
    longer = replace(made, ranks=tuple(replace(rank, wall_s=2.2) for rank in made.ranks))
    counted = job([Past(tuple(APART), 2.7, counted=True)], longer)
    assert counted.outside_s == pytest.approx(0.5)
    # Messages took 1.2 s instead of 1 s.
    assert counted.factor == pytest.approx(1.2, rel=0.01)
    assert counted.processors_s == 0.0
    assert counted.wall_s(APART)[0] == pytest.approx(2.7, rel=0.01)
    assert counted.wall_s(TOGETHER)[0] == pytest.approx(0.5 + 1.0 + 0.12, rel=0.02)
    assert counted.computing(3.0) == "50% of this job is computing: no placement saves more than 50%"
    elsewhere = job([Past(("x", "y", "z", "w"), 9.0, counted=True)], longer)
    assert elsewhere.factor == 1.0


def test_slow_processors_take_as_long_for_messages_in_any_order() -> None:
    made = pairs(100, 10_000, 0.01)
    longer = replace(made, ranks=tuple(replace(rank, wall_s=5.0) for rank in made.ranks))
    counted = job([Past(tuple(APART), 5.5, counted=True)] * 3, longer)
    # Messages took 4 s instead of 1 s: 1.3 s of the network, and 2.7 s of processors.
    assert counted.factor == 1.3
    assert counted.processors_s == pytest.approx(2.7, rel=0.02)
    assert counted.wall_s(APART)[0] == pytest.approx(5.5, rel=0.01)
    assert counted.wall_s(TOGETHER)[0] == pytest.approx(0.5 + 1.0 + 0.13 + 2.7, rel=0.02)


def test_a_replay_predicts_orders_that_have_not_run() -> None:
    past = [Past(tuple(APART), 2.6, counted=True)]
    traced = job(past)
    same = predict(past, APART, APP, NETWORK, SLOTS, traced.wall_s)
    other = predict(past, TOGETHER, APP, NETWORK, SLOTS, traced.wall_s)
    assert same is not None
    assert other is not None
    assert same.predicted_s == 2.6
    assert other.predicted_s == pytest.approx(traced.wall_s(TOGETHER)[0])
    assert other.low_s < other.predicted_s < other.high_s


def test_the_replayed_time_decides_the_order() -> None:
    by_bytes = order_ranks(NETWORK, APP, Effort(time_limit_s=1.0), slots=SLOTS, given=APART)
    effort = Effort(time_limit_s=2.0)
    traced = job([])
    best = replayed_order(traced, by_bytes, APART, SLOTS, NETWORK, APP, effort)
    assert traced.replay.seconds(best.hosts) == pytest.approx(traced.replay.seconds(TOGETHER))
    # Messages of 50 bytes are nothing beside the pauses.
    idle = job([], pairs(100, 50, 0.01))
    kept = replayed_order(idle, by_bytes, APART, SLOTS, NETWORK, APP, effort)
    assert kept.hosts == APART
    assert kept.completion_s == kept.given_s
    # An order that ran before stays, and one that is not possible any more does not.
    swapped = list("badc")
    again = job([Past(tuple("aabb"), 1.0), Past(tuple(swapped), 1.2)])
    assert replayed_order(again, by_bytes, APART, SLOTS, NETWORK, APP, effort).hosts == swapped


def test_a_trace_of_another_job_is_not_used() -> None:
    warnings: list[str] = []
    made = pairs(1, 8, 0.0)
    for case, ranks in ((made, 5), (replace(made, ranks=(*made.ranks[:3], replace(made.ranks[3], finished=False))), 4)):
        assert traced_job(case, NETWORK, ranks, [], family="", seed=0, complain=warnings.append) is None
    assert warnings == ["the trace is not of a whole run of this job, so bytes alone decide the order"] * 2
    assert traced_job(None, NETWORK, 4, [], family="", seed=0, complain=warnings.append) is None
    lost = trace([Recv(1, 8, 3, 0, 0.0)], [])
    assert traced_job(lost, NETWORK, 2, [], family="mpich", seed=0, complain=warnings.append) is None
    assert warnings[-1].startswith("bytes alone decide the order: the replay stops after")
