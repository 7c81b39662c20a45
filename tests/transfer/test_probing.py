"""Ports of hosts without a Network: by BBR where hosts have it, and by a second hop where the first ones differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from tests.agents.played import PlayedFleet, Replies

from gavotte.agents import agent_pb2 as pb
from gavotte.transfer.probing import look

BINS = 50
BIN_S = 0.01


def played(
    hosts: str,
    send: Callable[[str, pb.Probe, pb.ProbeReply], float],
    hops: Callable[[str, str], int] = lambda source, target: 0,
) -> PlayedFleet:
    """Return agents whose probes are even.

    Args:
        hosts: a letter for each host.
        send: rate in bit/s of a probe, by its source and itself; 0 = none. It may change the reply.
        hops: path length of two hosts; 0 = unknown.
    """

    def say(parts: Mapping[str, pb.MeasureRequest]) -> Replies:
        for name, part in parts.items():
            for probe in part.probes:
                reply = pb.ProbeReply(round=probe.round, peer=probe.peer, seconds=BINS * BIN_S, bytes_sent=10)
                reply.hops = hops(name, probe.peer)
                if probe.HasField("burst_train"):
                    reply.burst_train.received = 2
                elif rate_bps := send(name, probe, reply):
                    reply.bulk.flows.add(seconds=BINS * BIN_S, bin_bytes=[int(rate_bps * BIN_S / 8)] * BINS)
                yield name, reply

    return PlayedFleet(hosts, say)


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

    def send(name: str, probe: pb.Probe, reply: pb.ProbeReply) -> float:
        sent.append(probe.bulk.congestion)
        if probe.bulk.congestion == "bbr" and not allowed:
            reply.error, reply.failure = "not for you", pb.FAILURE_CONGESTION
            return 0.0
        return 40e6

    fleet = played("abc", send)
    fleet.health = {host.name: pb.HealthReply(congestion_available=available) for host in fleet.hosts}
    network = look(fleet, ["a", "b", "c"])
    assert sent == asked
    assert [host.egress_bps for host in network.hosts] == [pytest.approx(40e6)] * 3


def test_a_port_behind_a_slower_one_is_measured_over_another_hop() -> None:
    """Host a sends at 20 Mbit/s, c receives at 60; all else is 80."""
    sends, receives = {"a": 20e6, "b": 80e6, "c": 80e6}, {"a": 80e6, "b": 80e6, "c": 60e6}
    pairs: list[tuple[str, str]] = []

    def send(name: str, probe: pb.Probe, reply: pb.ProbeReply) -> float:
        pairs.append((name, probe.peer))
        return min(sends[name], receives[probe.peer])

    network = look(played("abc", send), ["a", "b", "c"])
    assert sorted(pairs) == [(m, n) for m in "abc" for n in "abc" if m != n]
    assert {host.name: host.egress_bps for host in network.hosts} == pytest.approx(sends)
    assert {host.name: host.ingress_bps for host in network.hosts} == pytest.approx(receives)


def test_lines_of_racks_are_probed_and_no_neighbour_on_the_same_machine_is() -> None:
    """Hosts a and b share a machine, and a rack with c; d, e and f are behind a line of 15 Mbit/s."""
    rack = {host: host in "abc" for host in "abcdef"}
    pairs: list[tuple[str, str]] = []

    def send(name: str, probe: pb.Probe, reply: pb.ProbeReply) -> float:
        pairs.append((name, probe.peer))
        return 40e6 if rack[name] == rack[probe.peer] else 15e6

    def hops(source: str, target: str) -> int:
        return 4 - 2 * (rack[source] == rack[target]) - ({source, target} == {"a", "b"})

    network = look(played("abcdef", send, hops), list("abcdef"))
    assert not {("a", "b"), ("b", "a")} & set(pairs)
    # First all ports within their racks, then one line each way.
    assert [rack[m] == rack[n] for m, n in pairs] == [True] * 6 + [False] * 2
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

    def send(name: str, probe: pb.Probe, reply: pb.ProbeReply) -> float:
        if probe.peer == "b" and name != "a":
            reply.error = "it took too long"
            return 0.0
        return 5e6 if name == "a" else 40e6

    network = look(played("abcd", send), list("abcd"))
    assert [host.ingress_bps for host in network.hosts] == [pytest.approx(40e6)] * 4
    assert network.hosts[0].egress_bps == pytest.approx(5e6)
