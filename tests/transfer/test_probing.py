"""Ports of hosts without a Network: by BBR where hosts have it, and by a second hop where the first ones differ."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.agents.played import PlayedFleet, Replies

from gavotte.agents import agent_pb2 as pb
from gavotte.transfer.probing import look


@pytest.mark.parametrize(
    ("available", "allowed", "asked"),
    [
        (["bbr", "cubic"], True, ["bbr"] * 3),
        (["cubic"], True, ["cubic"] * 3),
        (["bbr", "cubic"], False, ["bbr"] * 3 + ["cubic"] * 3),
    ],
)
def test_the_congestion_control_of_probes(available: list[str], allowed: bool, asked: list[str]) -> None:
    sent: list[str] = []

    def say(parts: Mapping[str, pb.MeasureRequest]) -> Replies:
        for name, part in parts.items():
            for probe in part.probes:
                reply = pb.ProbeReply(round=probe.round, peer=probe.peer, seconds=0.5, bytes_sent=10)
                if probe.HasField("burst_train"):
                    reply.burst_train.received = 2
                    yield name, reply
                    continue
                sent.append(probe.bulk.congestion)
                if probe.bulk.congestion == "bbr" and not allowed:
                    reply.error, reply.failure = "not for you", pb.FAILURE_CONGESTION
                else:
                    reply.bulk.flows.add(seconds=0.5, bin_bytes=[50_000] * 50)
                yield name, reply

    fleet = PlayedFleet("abc", say)
    fleet.health = {host.name: pb.HealthReply(congestion_available=available) for host in fleet.hosts}
    network = look(fleet, ["a", "b", "c"])
    assert sent == asked
    assert [host.egress_bps for host in network.hosts] == [pytest.approx(40e6)] * 3


def test_a_port_behind_a_slower_one_is_measured_over_another_hop() -> None:
    """Host a sends at 20 Mbit/s, c receives at 60; all else is 80."""
    sends, receives = {"a": 20e6, "b": 80e6, "c": 80e6}, {"a": 80e6, "b": 80e6, "c": 60e6}
    hops: list[tuple[str, str]] = []

    def say(parts: Mapping[str, pb.MeasureRequest]) -> Replies:
        for name, part in parts.items():
            for probe in part.probes:
                reply = pb.ProbeReply(round=probe.round, peer=probe.peer, seconds=0.5, bytes_sent=10)
                if probe.HasField("burst_train"):
                    reply.burst_train.received = 2
                    yield name, reply
                    continue
                hops.append((name, probe.peer))
                rate_bps = min(sends[name], receives[probe.peer])
                reply.bulk.flows.add(seconds=0.5, bin_bytes=[int(rate_bps / 800)] * 50)
                yield name, reply

    fleet = PlayedFleet("abc", say)
    network = look(fleet, ["a", "b", "c"])
    assert sorted(hops) == [(m, n) for m in "abc" for n in "abc" if m != n]
    assert {host.name: host.egress_bps for host in network.hosts} == pytest.approx(sends)
    assert {host.name: host.ingress_bps for host in network.hosts} == pytest.approx(receives)


def test_lines_of_racks_are_probed_and_no_neighbour_on_the_same_machine_is() -> None:
    """Hosts a and b share a machine, and a rack with c; d, e and f are behind a line of 15 Mbit/s."""
    rack = {host: host in "abc" for host in "abcdef"}
    probed: list[set[tuple[str, str]]] = []

    def say(parts: Mapping[str, pb.MeasureRequest]) -> Replies:
        pairs = {(name, probe.peer) for name, part in parts.items() for probe in part.probes}
        if any(probe.HasField("bulk") for part in parts.values() for probe in part.probes):
            probed.append(pairs)
        for name, part in parts.items():
            for probe in part.probes:
                reply = pb.ProbeReply(round=probe.round, peer=probe.peer, seconds=0.5, bytes_sent=10)
                near = rack[name] == rack[probe.peer]
                reply.hops = 4 - 2 * near - ({name, probe.peer} == {"a", "b"})
                if probe.HasField("bulk"):
                    reply.bulk.flows.add(seconds=0.5, bin_bytes=[int((40e6 if near else 15e6) / 800)] * 50)
                else:
                    reply.burst_train.received = 2
                yield name, reply

    network = look(PlayedFleet("abcdef", say), list("abcdef"))
    assert not any({("a", "b"), ("b", "a")} & pairs for pairs in probed)
    assert [len(pairs) for pairs in probed] == [6, 2]
    assert [host.egress_bps for host in network.hosts] == [pytest.approx(40e6)] * 6
    machines = [host.machine for host in network.hosts]
    assert machines[0] == machines[1] is not None
    assert machines[2:] == [None] * 4
    assert network.sharing == "groups"
    assert [sorted(group.members) for group in network.groups] == [list("abc"), list("def")]
    assert [group.up_bps for group in network.groups] == [pytest.approx(15e6)] * 2
    assert [group.down_bps for group in network.groups] == [pytest.approx(15e6)] * 2


def test_a_port_that_one_hop_showed_is_not_as_slow_as_the_other_end_of_it() -> None:
    """Host a sends at 5 Mbit/s, all else is 40; every hop into b but that from a fails."""

    def say(parts: Mapping[str, pb.MeasureRequest]) -> Replies:
        for name, part in parts.items():
            for probe in part.probes:
                reply = pb.ProbeReply(round=probe.round, peer=probe.peer, seconds=0.5, bytes_sent=10)
                if probe.HasField("burst_train"):
                    reply.burst_train.received = 2
                elif probe.peer == "b" and name != "a":
                    reply.error = "it took too long"
                else:
                    reply.bulk.flows.add(seconds=0.5, bin_bytes=[int((5e6 if name == "a" else 40e6) / 800)] * 50)
                yield name, reply

    network = look(PlayedFleet("abcd", say), list("abcd"))
    assert [host.ingress_bps for host in network.hosts] == [pytest.approx(40e6)] * 4
    assert network.hosts[0].egress_bps == pytest.approx(5e6)
