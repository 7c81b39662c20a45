"""Paths on which no train finds a rate, however often it is sent: bulk TCP measures them, within the limits."""

from __future__ import annotations

import math

import pytest
from tests import builders
from tests.measure.oracle import Oracle
from tests.measure.played_network import PlayedNetwork

from gavotte.agents import agent_pb2 as pb
from gavotte.formats.history import History
from gavotte.measure import (
    CostLimits,
    Measurement,
    MeasureQuestion,
    MeasureSession,
    carry_out,
    plan_measurement,
    plan_paths,
)
from gavotte.measure.adapt.spending import Spending
from gavotte.measure.question import Enough
from gavotte.terms import Pair

BACK: Pair = (1, 0)


def network(rate_bps: float = 60e6, hosts: int = 2) -> PlayedNetwork:
    """Hosts at one switch. Trains are unsteady from the second host to the first."""
    topology = builders.topology([{"name": f"h{i}", "egress": f"{rate_bps:.0f}bit"} for i in range(hosts)])
    played = PlayedNetwork(Oracle(topology))
    played.refusing = {BACK}
    return played


def measured(played: PlayedNetwork, *, enough: Enough | None = None, **fields: object) -> Measurement:
    question = MeasureQuestion(played.inventory, **fields)  # type: ignore[arg-type]
    with played.held():
        return carry_out(plan_measurement(question), MeasureSession(enough=enough))


@pytest.mark.parametrize("again", [True, False])
def test_tcp_measures_a_path_on_which_every_train_is_refused(again: bool) -> None:
    result = measured(network(), again=again)
    assert (result.answered, result.failures, result.stopped, result.doubtful) == (2, [], "", [])
    reading = result.newest[BACK].reading
    assert reading.goodput_bps == pytest.approx(60e6, rel=0.06)
    assert (reading.verdict, reading.by_tcp) == ("unproven", "refused")
    assert result.history.measured_by_tcp("refused") == [BACK]
    assert result.newest[0, 1].reading.verdict == "path-limited"


def test_trains_are_tried_again_in_the_next_snapshot() -> None:
    played = network()

    def recover(_: History) -> bool:
        played.refusing.clear()
        return False

    result = measured(played, count=2, enough=recover)
    assert result.answered == 2
    assert result.history.by_tcp is not None
    assert result.history.by_tcp[:, 1, 0].tolist() == [3, 0]


def test_several_connections_follow_if_the_path_is_fast() -> None:
    result = measured(network(5e9), assumed_bps=5e9)
    reading = result.newest[BACK].reading
    assert reading.by_tcp == "refused"
    assert reading.connections > 0
    assert reading.several_bps >= reading.goodput_bps == pytest.approx(5e9, rel=0.1)


def test_bytes_stay_below_what_was_announced() -> None:
    plan = plan_paths(["a", "b", "c"])
    spending = Spending(plan, CostLimits(), plan.most(CostLimits()))
    assert spending.fallback_bytes(["a", "b"]) == plan.method.bytes_per_path
    spending.take("a", plan.cost().max_bytes - 3_000_000, near=False)
    assert spending.fallback_bytes(["a", "b"]) == 1_500_000


def test_a_limit_of_bytes_is_kept() -> None:
    limits = CostLimits(bytes=60_000_000)
    plan = plan_paths(["a", "b", "c"]).within(limits)
    spending = Spending(plan, limits, plan.most(limits))
    spending.take("a", 14_000_000, near=False)
    assert spending.fallback_bytes(["a", "a", "b"]) == 3_000_000
    assert measured(network(1e9), limits=CostLimits(bytes=40_000_000)).bytes_sent <= 40_000_000


def test_tcp_is_not_tried_where_hosts_cannot_reach_each_other() -> None:
    played = network(hosts=3)
    kinds: list[str | None] = []
    say = played.say

    def unreachable(requests):  # type: ignore[no-untyped-def]
        kinds.extend(probe.WhichOneof("kind") for part in requests.values() for probe in part.probes)
        for name, reply in say(requests):
            if reply.failure == pb.FAILURE_NO_RATE:
                reply.failure, reply.error = pb.FAILURE_UNREACHABLE, "accepts no connection"
            yield name, reply

    played.say = unreachable  # type: ignore[method-assign]
    result = measured(played)
    assert math.isnan(result.newest[BACK].reading.goodput_bps)
    assert "bulk" not in kinds


def test_a_warning_names_the_path() -> None:
    (warning,) = measured(network()).warnings
    assert "no train found a rate from h1 to h0: bulk TCP measured it, marked *" in warning
