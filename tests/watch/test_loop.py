"""The loop over a network of numbers: it finds changed pairs, measures only those again, and survives lost hosts."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pytest

from gavotte.errors import BusyError, GavotteError
from gavotte.watch import Event, Watcher, watch
from gavotte.watch.detect import Edge
from gavotte.watch.expecting import REPEATS, WHOLE
from gavotte.watch.loop import RETRY_TICKS
from gavotte.watch.ring import SILENT_TICKS


class Cloud:
    """Hosts whose transfers take `seconds`, with a band of 2 %."""

    def __init__(self, size: int) -> None:
        rng = np.random.default_rng(0)
        self.hosts = [f"h{number}" for number in range(size)]
        self.seconds = {(s, t): float(rng.uniform(0.1, 0.4)) for s in self.hosts for t in self.hosts if s != t}
        self.dead: set[str] = set()
        self.apart: set[str] = set()
        self.busy = False
        self.asked: list[int] = []
        self._rng = rng

    def measure(self, pairs: Collection[Edge]) -> Mapping[Edge, float]:
        if self.busy:
            raise BusyError("agent on h0 refuses the run: held by run `x`")
        self.asked.append(len(pairs))
        return {
            edge: self.seconds[edge] * float(self._rng.lognormal(0, 0.02))
            for edge in pairs
            if not self.dead & set(edge) and set(edge) != self.apart
        }

    def slower(self, host: str, factor: float) -> None:
        for source, target in self.seconds:
            if source == host:
                self.seconds[source, target] *= factor


def ticks(watcher: Watcher, count: int) -> list[Event]:
    return [event for _ in range(count) for event in watcher.tick()]


def test_nothing_happens_while_nothing_moves() -> None:
    cloud = Cloud(8)
    assert ticks(Watcher(dict(cloud.seconds), 0.02, cloud.measure), 100) == []
    assert set(cloud.asked) == {8}


def test_a_host_that_moved_is_calibrated_again_and_the_others_are_not() -> None:
    cloud = Cloud(8)
    watcher = Watcher(dict(cloud.seconds), 0.02, cloud.measure)
    ticks(watcher, 10)
    cloud.slower("h3", 2.0)
    events = ticks(watcher, 12)
    assert [event.kind for event in events] == ["moved"]
    assert {move.source for move in events[0].moves} == {"h3"}
    assert len(events[0].moves) == 7
    assert events[0].movers == ("h3",)
    assert events[0].alarm == "cusum"
    # All pairs out of the sender and into the receiver of the edge that alarmed: it counts for both.
    assert events[0].calibrated == 13
    assert max(cloud.asked) == 13
    assert cloud.asked.count(13) == REPEATS
    for edge, seconds in cloud.seconds.items():
        assert watcher.expected_s[edge] == pytest.approx(seconds, rel=0.08)


@pytest.mark.parametrize("most_moved", [0.5, 1.0])
def test_when_most_pairs_moved_all_are_measured_for_a_new_constant(most_moved: float) -> None:
    cloud = Cloud(8)
    watcher = Watcher(dict(cloud.seconds), 0.02, cloud.measure, most_moved=most_moved)
    ticks(watcher, 10)
    factors = np.random.default_rng(3).uniform(1.4, 3.0, 6)
    for host, factor in zip(cloud.hosts, factors, strict=False):
        cloud.slower(host, float(factor))
    cloud.asked.clear()
    events = ticks(watcher, 30)
    renewals = [event for event in events if event.kind == "renewed"]
    assert len(renewals) == (most_moved < 1)
    for event in renewals:
        assert event.hosts == tuple(cloud.hosts)
        assert event.calibrated == len(event.measured) == len(event.moves) == 56
        assert cloud.asked.count(56) >= WHOLE
        for edge, seconds in cloud.seconds.items():
            assert watcher.expected_s[edge] == pytest.approx(seconds, rel=0.04)
        assert ticks(watcher, 30) == []


def test_a_spike_that_lasts_until_the_alarm_changes_nothing() -> None:
    cloud = Cloud(6)
    watcher = Watcher(dict(cloud.seconds), 0.02, cloud.measure)
    before = dict(watcher.expected_s)
    cloud.slower("h1", 3.0)
    ticks(watcher, 5)
    cloud.slower("h1", 1 / 3.0)
    events = ticks(watcher, 12)
    assert {event.kind for event in events} <= {"false-alarm"}
    assert watcher.expected_s == before


def test_hosts_that_fall_silent_are_left_out_and_taken_in_again() -> None:
    cloud = Cloud(5)
    watcher = Watcher(dict(cloud.seconds), 0.02, cloud.measure)
    cloud.dead = {"h2"}
    events = ticks(watcher, SILENT_TICKS)
    assert [(event.kind, event.hosts) for event in events] == [("gone", ("h2",))]
    assert ticks(watcher, 2 * RETRY_TICKS) == []
    cloud.dead = set()
    cloud.slower("h2", 2.0)
    events = ticks(watcher, RETRY_TICKS)
    assert [(event.kind, event.hosts) for event in events] == [("came", ("h2",))]
    assert watcher.expected_s["h2", "h0"] == pytest.approx(cloud.seconds["h2", "h0"], rel=0.1)
    assert ticks(watcher, 20) == []


def test_while_others_measure_nobody_is_gone_and_nothing_is_lost() -> None:
    cloud, complaints = Cloud(5), list[str]()
    watcher = Watcher(dict(cloud.seconds), 0.02, cloud.measure, complain=complaints.append)
    ticks(watcher, 10)
    cloud.busy = True
    cloud.slower("h3", 2.0)
    assert ticks(watcher, 10) == []
    assert watcher.tick(["h0", "h1", "h3", "h4", "h9"])[0].kind == "gone"
    assert complaints == ["agent on h0 refuses the run: held by run `x`; looking again when it has ended"]
    cloud.busy = False
    cloud.seconds |= {(s, t): 0.2 for s in [*cloud.hosts, "h9"] for t in [*cloud.hosts, "h9"] if "h9" in (s, t)}
    events = ticks(watcher, 20)
    assert {(event.kind, event.hosts) for event in events if event.kind != "moved"} == {("came", ("h9",))}
    assert {move.source for event in events if event.kind == "moved" for move in event.moves} >= {"h3"}
    assert watcher.gone == set()


def test_all_may_fall_silent_and_come_back() -> None:
    cloud = Cloud(4)
    watcher = Watcher(dict(cloud.seconds), 0.02, cloud.measure)
    cloud.dead = set(cloud.hosts)
    assert [event.kind for event in ticks(watcher, SILENT_TICKS)] == ["gone"]
    assert ticks(watcher, 10) == []
    cloud.dead = set()
    came = ticks(watcher, 2 * RETRY_TICKS)
    assert {host for event in came for host in event.hosts} == set(cloud.hosts)
    assert ticks(watcher, 10) == []


@pytest.mark.parametrize("dead", [("h0",), ("h0", "h2"), ("h0", "h1", "h4")])
def test_who_lives_comes_back_whoever_stays_dead(dead: tuple[str, ...]) -> None:
    cloud = Cloud(6)
    watcher = Watcher(dict(cloud.seconds), 0.02, cloud.measure)
    cloud.dead = set(cloud.hosts)
    ticks(watcher, SILENT_TICKS)
    assert watcher.gone == set(cloud.hosts)
    cloud.dead = set(dead)
    ticks(watcher, 2 * RETRY_TICKS)
    assert watcher.gone == set(dead)


def test_one_that_was_left_alone_and_died_does_not_keep_the_others_out() -> None:
    cloud = Cloud(4)
    watcher = Watcher(dict(cloud.seconds), 0.02, cloud.measure)
    watcher.tick(["h0"])
    cloud.dead = {"h0"}
    watcher.tick(cloud.hosts)
    ticks(watcher, 2 * RETRY_TICKS)
    assert watcher.gone == {"h0"}


def test_a_host_that_one_cannot_reach_comes_back_by_another() -> None:
    cloud = Cloud(5)
    watcher = Watcher(dict(cloud.seconds), 0.02, cloud.measure)
    cloud.dead = {"h2"}
    ticks(watcher, SILENT_TICKS)
    cloud.dead, cloud.apart = set(), {"h0", "h2"}
    ticks(watcher, 6 * RETRY_TICKS)
    assert watcher.gone == set()


@pytest.mark.parametrize("seed", range(6))
def test_two_that_died_take_no_living_neighbour_of_the_ring_with_them(seed: int) -> None:
    cloud = Cloud(4)
    watcher = Watcher(dict(cloud.seconds), 0.02, cloud.measure, seed=seed)
    cloud.dead = {"h1", "h3"}
    events = ticks(watcher, 2 * SILENT_TICKS)
    assert [(event.kind, event.hosts) for event in events] == [("gone", ("h1", "h3"))]


def test_the_inventory_may_win_and_lose_hosts() -> None:
    cloud = Cloud(6)
    known = {edge: s for edge, s in cloud.seconds.items() if "h5" not in edge}
    watcher = Watcher(known, 0.02, cloud.measure)
    events = watcher.tick(cloud.hosts)
    assert [(event.kind, event.hosts) for event in events] == [("came", ("h5",))]
    assert set(watcher.expected_s) == set(cloud.seconds)
    events = watcher.tick(["h0", "h1", "h2"])
    assert [(event.kind, event.hosts) for event in events] == [("gone", ("h3", "h4", "h5"))]
    cloud.asked.clear()
    watcher.tick(["h0", "h1", "h2"])
    assert cloud.asked == [3]


def test_it_stops_when_told() -> None:
    cloud = Cloud(4)
    pauses: list[float] = []

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) in (3, 7)

    events: list[Event] = []
    watcher = Watcher(dict(cloud.seconds), 0.02, cloud.measure)
    assert watch(watcher, every_s=7.0, wait=wait, report=events.append) == 3
    assert pauses == [7.0] * 3
    assert watch(watcher, every_s=7.0, wait=lambda _: False, report=events.append, count=2) == 2
    cloud.busy = True
    assert watch(watcher, every_s=7.0, wait=wait, report=events.append) == 0
    assert len(pauses) == 7

    def let_go(_: float) -> bool:
        cloud.busy = False
        return False

    assert watch(watcher, every_s=7.0, wait=let_go, report=events.append, count=1) == 1
    assert events == []


def test_one_host_cannot_be_watched() -> None:
    with pytest.raises(GavotteError, match="single host"):
        Watcher({}, 0.02, Cloud(2).measure)


def test_who_did_not_answer_is_not_present() -> None:
    cloud = Cloud(4)
    watcher = Watcher(dict(cloud.seconds), 0.02, cloud.measure)
    answers: list[tuple[int, int]] = []

    def look(count: int) -> int:
        return watch(
            watcher,
            every_s=0,
            wait=lambda _: False,
            report=lambda _: None,
            count=count,
            alive=lambda taken: answers.append((taken, len(watcher.present))),
        )

    cloud.dead = set(cloud.hosts)
    assert look(1) == 0
    assert answers == [(0, 0)] * 2
    cloud.dead = {"h0"}
    answers.clear()
    assert look(1) == 1
    assert answers[-1] == (1, 3)
