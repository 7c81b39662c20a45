"""What `gavotte guarantee status` concludes from the agents' counts."""

from __future__ import annotations

from typing import Any

import pytest

from gavotte.agents import agent_pb2 as pb
from gavotte.guarantee import GuaranteeStatus, GuardedHost, PairState, prometheus
from gavotte.guarantee.applying import _host


def pair(**more: Any) -> pb.GuardedPair:
    known: dict[str, Any] = {
        "source": "x",
        "target": "z",
        "guarantee_bps": 45e6,
        "limit_bps": 45e6,
        "windows": 300,
        "why": "grows",
    }
    return pb.GuardedPair(**(known | more))


@pytest.mark.parametrize(("unmet", "broken"), [(0, False), (14, False), (16, True)])
def test_a_guarantee_is_broken_when_a_twentieth_of_the_last_minute_was_unmet(unmet: int, broken: bool) -> None:
    host = _host("x", pb.GuardedReply(guarded=True, pairs=[pair(unmet=unmet)]))
    assert bool(host.why) == broken
    assert host.met == pytest.approx(1 - unmet / 300)
    state = PairState("x", "z", 45e6, 45e6, 22e6, host.met, 0, 0, "grows", 300)
    assert state.broken == broken
    assert [each.source for each in GuaranteeStatus((state,), (host,)).broken] == ["x"] * broken


def test_the_start_of_a_connection_breaks_no_guarantee() -> None:
    for windows, unmet, broken in ((20, 5, False), (20, 10, True)):
        host = _host("x", pb.GuardedReply(guarded=True, pairs=[pair(windows=windows, unmet=unmet)]))
        assert bool(host.why) == broken


def test_the_reason_depends_on_what_the_pair_may_send() -> None:
    def why(limit_bps: float) -> str:
        reply = pb.GuardedReply(guarded=True, pairs=[pair(unmet=150, limit_bps=limit_bps, why="packets were lost")])
        return _host("x", reply).why

    start = "less than the guarantee of 45.0 Mbit/s reached z in 50 % of the windows in which bytes waited"
    assert (
        why(45e6)
        == f"{start}: a link on the way carries traffic that no guarantee limits, or less than the guarantees need"
    )
    assert why(90e6) == f"{start} (packets were lost)"


def test_traffic_of_unlisted_hosts_is_a_warning_and_a_metric() -> None:
    hosts = tuple(
        GuardedHost(name, None, "", ingress_bps=45e6, unlisted_bps=bps) for name, bps in (("z", 9e6), ("t", 2e6))
    )
    state = GuaranteeStatus((), hosts)
    assert [line.split(" from ")[0] for line in state.warnings] == ["z receives 9.00 Mbit/s"]
    assert state.as_dict()["warnings"] == state.warnings
    assert 'gavotte_guarantee_host_unlisted_bps{host="z"} 9000000.0' in prometheus(state)
