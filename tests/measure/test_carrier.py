"""The carrier of experiments decides by codes of failures, not by their texts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from tests import builders
from tests.agents.played import Events, PlayedFleet, Replies

from gavotte.agents import agent_pb2 as pb
from gavotte.measure.adapt.overlap import Series, together
from gavotte.measure.carry.fleet_carrier import FleetCarrier, on_one_clock
from gavotte.measure.plan.round_trips import RoundTrips, round_trips_of
from gavotte.terms import Pair

PAIRS: list[list[Pair]] = [[(0, 1), (2, 1)]]
EXPECTED = dict.fromkeys(PAIRS[0], 1e8)


def test_a_congestion_control_that_is_not_allowed_is_done_without() -> None:
    asked: list[str] = []

    def say(parts: Mapping[str, pb.MeasureRequest]) -> Replies:
        for name, part in parts.items():
            for probe in part.probes:
                asked.append(probe.bulk.congestion)
                reply = pb.ProbeReply(round=probe.round, peer=probe.peer, seconds=1.0, bytes_sent=10)
                if probe.bulk.congestion == "bbr":
                    yield name, pb.ProbeReply(peer=probe.peer, error="not for you", failure=pb.FAILURE_CONGESTION)
                else:
                    reply.bulk.flows.add(seconds=0.7, bin_bytes=[1000] * 70)
                    yield name, reply

    fleet = PlayedFleet("abc", say)
    fleet.health = {host.name: pb.HealthReply(congestion_available=["bbr", "cubic"]) for host in fleet.hosts}
    carrier = FleetCarrier(fleet, ["a", "b", "c"], trains=True)
    assert set(carrier.carry(PAIRS, EXPECTED, "fan-in")) == set(PAIRS[0])
    assert asked == ["bbr", "bbr", "cubic", "cubic"]
    assert carrier.bytes_sent == 20


@pytest.mark.parametrize(
    ("refused", "filled"), [(pb.GATED_REFUSAL_UNSTEADY, True), (pb.GATED_REFUSAL_TOO_SHORT, False)]
)
def test_an_unsteady_path_was_full(refused: pb.GatedRefusal, filled: bool) -> None:
    train = pb.GatedTrainResult(refused=refused, refusal="words", bin_s=0.01, bin_bytes=[1000] * 20)
    pair: Pair = (0, 1)
    fleet = PlayedFleet("ab", lambda _: [("a", pb.ProbeReply(peer="b", error="words", gated_train=train))])
    series = FleetCarrier(fleet, ["a", "b"], trains=True).carry([[pair]], {pair: 1e8}, "disjoint")
    assert series[pair].filled is filled


@pytest.mark.parametrize(("round_trip_s", "pause_s", "seconds"), [(1e-4, 0.2, 0.7), (0.01, 0.2, 0.78)])
def test_pairs_get_time_to_connect_and_to_start(round_trip_s: float, pause_s: float, seconds: float) -> None:
    pauses_s: list[float] = []
    seconds_s: list[float] = []

    def say(parts: Mapping[str, pb.MeasureRequest]) -> Replies:
        for name, part in parts.items():
            for probe in part.probes:
                if probe.HasField("bulk"):
                    seconds_s.append(probe.bulk.seconds)
                else:
                    pauses_s.append(probe.gated_train.pause_s)
                yield name, pb.ProbeReply(round=probe.round, peer=probe.peer, error="words")

    carrier = FleetCarrier(PlayedFleet("abc", say), list("abc"), trains=True, round_trips=RoundTrips({}))
    carrier.carry([[(0, 1)]], {(0, 1): 1e8}, "disjoint")
    assert pauses_s == [0.2]
    carrier = FleetCarrier(
        PlayedFleet("abc", say), list("abc"), trains=True, round_trips=RoundTrips({(0, 1): round_trip_s})
    )
    carrier.carry([[(0, 1)]], {(0, 1): 1e8}, "disjoint")
    carrier.carry([[(0, 1)]], {(0, 1): 1e8}, "fan-in")
    assert pauses_s[1:] == pytest.approx([pause_s])
    assert seconds_s == pytest.approx([seconds], rel=0.01)


def test_far_pairs_get_paced_transfers_for_all_experiments_with_tcp() -> None:
    asked: list[pb.ReplayRequest] = []

    def say(parts: Mapping[str, pb.ReplayRequest]) -> Events:
        asked.extend(parts.values())
        for name in parts:
            yield name, pb.ReplayReply(ready=pb.Ready(connected=1))
        for name, part in parts.items():
            for each in part.transfers:
                done = pb.TransferDone(id=each.id, start_s=0.1, finish_s=2.5, bytes=each.bytes, bin_bytes=[each.bytes])
                yield name, pb.ReplayReply(done=done)

    pairs = [(0, 2), (1, 2)]
    trips = RoundTrips(dict.fromkeys(pairs, 0.15))
    carrier = FleetCarrier(PlayedFleet("abc", replayed=say), list("abc"), trains=True, round_trips=trips)
    series = carrier.carry([pairs], dict.fromkeys(pairs, 40e6), "fan-in")
    assert [each.startup_s for each in series.values()] == [pytest.approx(8 * 0.15)] * 2
    for part in asked:
        # Together the rate of the pair and a tenth more, for 16 round trips.
        assert sum(each.pace_bps for each in part.transfers) == pytest.approx(44e6)
        assert sum(each.bytes for each in part.transfers) == pytest.approx(40e6 / 8 * 16 * 0.15, rel=1e-3)
    carrier.carry([[(0, 1), (0, 2)]], {(0, 1): 40e6, (0, 2): 40e6}, "fan-out")
    # Pairs of one host start in the same instant and share its port: none has a pace of its own.
    assert {each.pace_bps for each in asked[-1].transfers} == {0}


def test_the_start_of_tcp_does_not_count() -> None:
    bits = np.concatenate((np.geomspace(1e4, 5e5, 120), np.full(101, 5e5)))
    assert together([Series(0.0, 0.01, bits, startup_s=1.2)]).sum_bps == pytest.approx(5e7, rel=1e-6)
    assert together([Series(0.0, 0.01, bits)]).sum_bps < 0.9 * 5e7


def test_a_history_has_the_shortest_round_trips() -> None:
    alpha_s = np.full((2, 3, 3), 0.05)
    alpha_s[0, 0, 1], alpha_s[1, 2, 0] = 0.01, np.nan
    trips = RoundTrips(round_trips_of(builders.history(np.full((2, 3, 3), 1e6), alpha_s)))
    assert trips.of((0, 1)) == trips.of((1, 0)) == pytest.approx(0.06)
    assert trips.of((0, 2)) == pytest.approx(0.1)
    assert trips.slowest_s([(0, 1), (1, 2)]) == pytest.approx(0.1)
    assert (trips.slowest_s([]), trips.of((1, 1))) == (0.0, 0.0)


def test_a_host_that_transfers_do_not_reach_costs_one_round_its_waiting_time() -> None:
    asked: list[set[str]] = []

    def say(parts: Mapping[str, pb.ReplayRequest]) -> Events:
        asked.append({transfer.target for part in parts.values() for transfer in part.transfers})
        for name in parts:
            yield name, pb.ReplayReply(ready=pb.Ready(connected=1))
        for name, part in parts.items():
            for each in part.transfers:
                done = pb.TransferDone(id=each.id, start_s=0.1, finish_s=0.5, bytes=each.bytes, bin_bytes=[each.bytes])
                if "d" in (name, each.target):
                    done = pb.TransferDone(id=each.id, error="no way", failure=pb.FAILURE_UNREACHABLE)
                yield name, pb.ReplayReply(done=done)

    fleet = PlayedFleet("abcd", replayed=say)
    carrier = FleetCarrier(fleet, list("abcd"), trains=True)
    one: list[list[Pair]] = [[(0, 3), (0, 1)]]
    two: list[list[Pair]] = [[(1, 3), (1, 2)], [(2, 0), (2, 1)]]
    expected = dict.fromkeys([pair for group in one + two for pair in group], 1e8)
    assert not carrier.carry(one, expected, "fan-out")
    assert not carrier.carry(one, expected, "fan-out")
    assert len(asked) == 1
    assert set(carrier.carry(two, expected, "fan-out")) == {(2, 0), (2, 1)}
    assert list(fleet.lost) == ["d"]
    assert carrier.gone() == {3}


def test_trains_overlap_although_a_receivers_clock_is_wrong() -> None:
    def series(start_s: float) -> Series:
        return Series(start_s, 0.01, np.full(20, 1e6))

    right, ahead = series(1e9 + 0.5), series(1e9 + 3600.5)
    begun_s = {(0, 1): 0.2, (2, 3): 0.21}
    assert on_one_clock({(0, 1): right, (2, 3): right}, begun_s) == {(0, 1): right, (2, 3): right}
    known = on_one_clock({(0, 1): right, (2, 3): ahead}, begun_s)
    assert together(list(known.values())).overlap_s == pytest.approx(0.18)
    assert together([right, ahead]).overlap_s == 0
    assert on_one_clock({}, {}) == {}
