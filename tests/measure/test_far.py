"""Far hosts: the time that their round trips add to a measurement, and that no near pair waits for them."""

from __future__ import annotations

import pytest
from tests import builders
from tests.measure.oracle import Oracle
from tests.measure.played_network import PlayedNetwork

from gavotte.agents import agent_pb2 as pb
from gavotte.measure import CostLimits, MeasureQuestion, carry_out, measure, plan_measurement, plan_paths
from gavotte.measure.adapt.spending import Spending
from gavotte.measure.plan.round_trips import MOST_TRIPS, PROBE_TRIPS, SEARCH_S, RoundTrips
from gavotte.model import model

FAR_S = 0.08
FAR = 5
"""The host that is far from all others."""


class FarNetwork(PlayedNetwork):
    """Six hosts, the last of which is far."""

    def __init__(self) -> None:
        hosts = [{"name": f"vm{i}", "egress": "60mbit"} for i in range(6)]
        super().__init__(Oracle(builders.topology(hosts)))

    def say(self, requests):  # type: ignore[no-untyped-def]
        """Answer schedules; a reply of or to the far host has a long round trip."""
        for name, reply in super().say(requests):
            if FAR in (self.index[name], self.index[reply.peer]):
                reply.rtt_s = FAR_S
            yield name, reply


def test_far_pairs_are_measured_after_all_near_ones() -> None:
    network = FarNetwork()
    with network.held():
        measurement = carry_out(plan_measurement(MeasureQuestion(network.inventory, again=True, seed=3)))
    assert measurement.answered == measurement.paths
    # The first rounds find each host's sending rate.
    order = [any(FAR in pair for pair in pairs) for pairs in network.rounds[3:]]
    assert order == sorted(order)
    assert any(order)
    assert all(len({FAR in pair for pair in pairs}) == 1 for pairs in network.rounds[3:])


def test_a_network_that_knows_round_trips_predicts_their_time() -> None:
    network = FarNetwork()
    with network.held():
        known = model(measure(network.inventory, seed=3).history)
    plan = plan_paths(network.oracle.names, known=known, seed=3)
    near = plan_paths(network.oracle.names[:FAR], known=known, seed=3)
    far_rounds = [pairs for pairs in plan.first if any(FAR in pair for pair in pairs)]
    assert plan.first[-len(far_rounds) :] == far_rounds
    assert plan.cost().seconds - near.cost().seconds >= len(far_rounds) * PROBE_TRIPS * FAR_S
    assert plan.cost().max_seconds - near.cost().max_seconds >= 2 * FAR * MOST_TRIPS * FAR_S


def test_round_trips_extend_an_estimate_but_no_budget() -> None:
    plan = plan_paths(["a", "b", "c"])
    reply = pb.ProbeReply(rtt_s=FAR_S)
    for limits, stops in ((CostLimits(), False), (CostLimits(seconds=100.0), True)):
        spending = Spending(plan, limits, plan.most(limits))
        over_s = plan.most(limits).seconds + 0.1
        assert spending.exceeded(over_s, waited_s=0.0)
        spending.allow(RoundTrips({}).allowance_s((0, 1), reply))
        assert bool(spending.exceeded(over_s, waited_s=0.0)) == stops


def test_lost_packets_and_failed_probes_extend_an_estimate() -> None:
    trips = RoundTrips({})
    trips.take((0, 1), FAR_S)
    assert trips.allowance_s((1, 0), None) == pytest.approx(MOST_TRIPS * FAR_S)
    lossy = pb.ProbeReply(rtt_s=FAR_S, gated_train=pb.GatedTrainResult(loss=0.01))
    assert trips.allowance_s((1, 0), lossy) > trips.allowance_s((1, 0), pb.ProbeReply(rtt_s=FAR_S))


def test_a_search_for_a_smaller_mtu_extends_an_estimate_once() -> None:
    trips = RoundTrips({})
    replies = [pb.ProbeReply(mtu_bytes=size) for size in (1500, 1400, 1400, 9000, 1500)]
    pairs = [(0, 1), (0, 2), (0, 2), (1, 2), (1, 3)]
    allowed = [trips.allowance_s(pair, reply) for pair, reply in zip(pairs, replies, strict=True)]
    assert allowed == [0.0, SEARCH_S, 0.0, 0.0, SEARCH_S]


def test_hosts_that_are_equally_far_are_not_reordered() -> None:
    rounds = [[(0, 1), (2, 3)], [(0, 2), (1, 3)]]
    everywhere = RoundTrips({pair: 0.15 for pairs in rounds for pair in pairs})
    assert everywhere.near_first(rounds) == rounds
