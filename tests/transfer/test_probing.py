"""Ports of hosts without a Network: one hop each, all at the same time, by BBR where hosts have it."""

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


def test_lines_of_racks_are_not_probed_and_no_neighbour_on_the_same_machine_is() -> None:
    """Hosts a and b share a machine, and a rack with c; d, e and f are in another."""
    rack = {host: host in "abc" for host in "abcdef"}
    pairs: list[tuple[str, str]] = []

    def send(name: str, probe: pb.Probe, reply: pb.ProbeReply) -> float:
        pairs.append((name, probe.peer))
        return 40e6 if rack[name] else 15e6

    def hops(source: str, target: str) -> int:
        return 4 - 2 * (rack[source] == rack[target]) - ({source, target} == {"a", "b"})

    network = look(played("abcdef", send, hops), list("abcdef"))
    assert not {("a", "b"), ("b", "a")} & set(pairs)
    # All ports at the same time, within their racks.
    assert sorted(source for source, _ in pairs) == list("abcdef")
    assert all(rack[m] == rack[n] for m, n in pairs)
    machines = [host.machine for host in network.hosts]
    assert machines[0] == machines[1] is not None
    assert machines[2:] == [None] * 4
    assert network.sharing == "groups"
    groups = {group.name: group for group in network.groups}
    assert [sorted(group.members) for group in groups.values()] == [list("abc"), list("def"), list("ab")]
    # The two hosts on one machine sent at the same time, so its port carries what both had together.
    assert groups["machine0"].up_bps == pytest.approx(80e6)
    assert groups["machine0"].parent == "rack0"
    # The line of a rack counts as its fastest port until blocks show more.
    assert groups["rack0"].up_bps == pytest.approx(80e6)
    assert groups["rack3"].up_bps == pytest.approx(15e6)


def test_hosts_alone_in_their_racks_are_probed_across_racks() -> None:
    pairs: list[tuple[str, str]] = []

    def send(name: str, probe: pb.Probe, reply: pb.ProbeReply) -> float:
        pairs.append((name, probe.peer))
        return 40e6

    racks = {"a": 0, "b": 0, "c": 1, "d": 2}
    look(played("abcd", send, lambda m, n: 2 if racks[m] == racks[n] else 4), list("abcd"))
    assert sorted(pairs) == [("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")]
    pairs.clear()
    look(played("abc", send, lambda m, n: 2 if racks[m] == racks[n] else 4), list("abc"))
    assert sorted(pairs) == [("a", "b"), ("b", "a"), ("c", "a")]


def test_a_port_whose_probe_failed_counts_as_the_middle_of_the_others() -> None:
    def send(name: str, probe: pb.Probe, reply: pb.ProbeReply) -> float:
        if name == "b":
            reply.error = "it took too long"
            return 0.0
        return 5e6 if name == "a" else 40e6

    network = look(played("abcd", send), list("abcd"), of=list("abcde"))
    assert [host.egress_bps for host in network.hosts] == pytest.approx([5e6, 40e6, 40e6, 40e6, 40e6])
