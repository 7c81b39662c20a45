"""Durations do not depend on the machine's clock, which NTP or a person may set meanwhile."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from tests.builders import topology
from tests.measure.oracle import Oracle
from tests.measure.played_network import PlayedNetwork

from gavotte.measure import MeasureQuestion, carry_out, plan_measurement
from gavotte.profile.gathering import Gathering, Request
from gavotte.profile.listening import receive
from gavotte.profile.sources import live
from gavotte.terms.unix_clock import UnixClock

HOUR_S = 3600.0


@pytest.fixture
def set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the clock back by an hour at each reading after the first."""
    real, readings = time.time, iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: real() - HOUR_S * next(readings))


@pytest.mark.usefixtures("set_back")
def test_unix_time_continues_when_the_clock_is_set() -> None:
    clock = UnixClock()
    first_s = clock()
    time.sleep(0.01)
    assert 0.01 <= clock() - first_s < HOUR_S / 2


@pytest.mark.usefixtures("set_back")
def test_datagrams_keep_their_order() -> None:
    times_s: list[float] = []

    def ready(where: str) -> None:
        host, _, port = where.rpartition(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(3):
                sender.sendto(b"export", (host, int(port)))

    receive("127.0.0.1:0", lambda *datagram: times_s.append(datagram[3]), 0.3, ready)
    assert len(times_s) == 3
    assert times_s == sorted(times_s)


@pytest.mark.usefixtures("set_back")
def test_a_live_profile_lasts_as_long_as_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    spans: list[tuple[float, float]] = []

    def watch_here(for_s: float, ready: object, ended: object = None) -> Iterator[object]:
        time.sleep(for_s)
        yield from ()

    def traffic(gathering: object, seen: object, *, whole_s: tuple[float, float]) -> None:
        spans.append(whole_s)
        raise KeyboardInterrupt

    monkeypatch.setattr(live, "watch_here", watch_here)
    monkeypatch.setattr(Gathering, "traffic", traffic)
    with pytest.raises(KeyboardInterrupt):
        live.read_live(Request(inputs=(), for_s=0.05))
    start_s, stop_s = spans[0]
    assert 0.05 <= stop_s - start_s < HOUR_S / 2


@pytest.mark.usefixtures("set_back")
def test_snapshots_are_as_far_apart_as_they_were_taken() -> None:
    played = PlayedNetwork(Oracle(topology([{"name": name, "egress": "60mbit"} for name in "ab"])))
    with played.held():
        first_s, second_s = carry_out(
            plan_measurement(MeasureQuestion(played.inventory, count=2, every_s=0.05))
        ).history.time_s
    assert 0.04 <= second_s - first_s < HOUR_S / 2
