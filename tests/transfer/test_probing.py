"""Ports of hosts without a Network are measured by BBR, or by CUBIC where a host does not have or allow it."""

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
                sent.append(probe.bulk.congestion)
                reply = pb.ProbeReply(round=probe.round, peer=probe.peer, seconds=0.5, bytes_sent=10)
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
