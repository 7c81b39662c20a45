"""On which paths no connection can be made, and which hosts make those that others need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.callbacks import (
    LIMIT_S,
    MOST_GREETED,
    MOST_HOSTS,
    ROUND_S,
    SEARCH_S,
    Closed,
    closed_paths,
    open_lines,
)
from gavotte.errors import AgentError


class Walls:
    """Hosts with firewalls, which decide by source and target how a greeting ends."""

    def __init__(self, fate: Callable[[str, str], pb.Reception]) -> None:
        self.greeted: list[tuple[str, str]] = []
        self.rounds: list[int] = []
        self.waited_s = 0.0
        self.called: dict[str, Sequence[str]] = {}
        self._fate = fate

    def greet(
        self, peers: Mapping[str, Sequence[str]], *, tcp_only: bool, limit_s: float
    ) -> dict[str, list[pb.Greeting] | AgentError]:
        assert tcp_only
        assert limit_s > 0
        self.greeted += [(source, target) for source, targets in peers.items() for target in targets]
        self.rounds.append(max(map(len, peers.values())))
        fates = [self._fate(source, target) for source, targets in peers.items() for target in targets]
        self.waited_s += LIMIT_S if pb.RECEPTION_SILENT in fates else 0.0
        return {
            source: [pb.Greeting(peer=target, tcp=self._fate(source, target)) for target in targets]
            for source, targets in peers.items()
        }

    def call_back(self, peers: Mapping[str, Sequence[str]]) -> dict[str, pb.CallBackReply | AgentError]:
        self.called |= peers
        return {
            name: AgentError("too old") if name == "old" else pb.CallBackReply(connected=others)
            for name, others in peers.items()
        }


def into(*closed: str, fate: pb.Reception = pb.RECEPTION_SILENT) -> Walls:
    return Walls(lambda _, target: fate if target in closed else pb.RECEPTION_ANSWERED)


LARGE = [f"h{i}" for i in range(100)]


@pytest.mark.parametrize("names", ["ab", "abc", "abcdefgh"])
@pytest.mark.parametrize("fate", [pb.RECEPTION_SILENT, pb.RECEPTION_REFUSED, pb.RECEPTION_UNREACHABLE])
def test_a_host_that_no_other_reaches_is_closed(names: str, fate: pb.Reception) -> None:
    into_b = frozenset((name, "b") for name in names if name != "b")
    assert closed_paths(into("b", fate=fate), list(names)) == Closed(into_b)
    assert closed_paths(into(), list(names)) == Closed()


def test_no_other_host_greets_one_that_three_did_not_reach() -> None:
    walls = into("h7")
    assert closed_paths(walls, LARGE).one_way == {(name, "h7") for name in LARGE if name != "h7"}
    assert len(walls.greeted) == len(set(walls.greeted)) == 100 * 99 - 96
    assert all(source != target for source, target in walls.greeted)


@pytest.mark.parametrize("both", [True, False])
def test_a_single_closed_pair_of_a_large_run_is_found(both: bool) -> None:
    pairs = {("h3", "h70")} | ({("h70", "h3")} if both else set())
    walls = Walls(lambda *pair: pb.RECEPTION_SILENT if pair in pairs else pb.RECEPTION_ANSWERED)
    closed = closed_paths(walls, LARGE)
    assert closed == (Closed(both_ways=frozenset(pairs)) if both else Closed(frozenset(pairs)))


@pytest.mark.parametrize("each_s", [1e-4, 1e-3, 2e-2])
def test_a_search_among_many_hosts_ends_in_time(each_s: float) -> None:
    walls = into("h1", "h50")
    closed = closed_paths(walls, LARGE, clock=lambda: each_s * len(walls.greeted) + walls.waited_s)
    assert closed.both_ways == {("h1", "h50"), ("h50", "h1")}
    assert len(closed.one_way) == 2 * 98
    # The three greetings of each host are the least. A slow round is the last one.
    assert 300 <= len(walls.greeted) <= max(300, (SEARCH_S + ROUND_S) / each_s + 300)
    assert max(walls.rounds) <= MOST_GREETED
    if each_s < 1e-3:
        assert len(walls.greeted) > 9000


def test_each_host_of_a_small_run_greets_all_others() -> None:
    walls = into()
    closed_paths(walls, LARGE[:MOST_HOSTS])
    assert len(set(walls.greeted)) == MOST_HOSTS * (MOST_HOSTS - 1)


def test_one_path_is_closed_one_way() -> None:
    walls = Walls(lambda *pair: pb.RECEPTION_SILENT if pair == ("a", "b") else pb.RECEPTION_ANSWERED)
    assert closed_paths(walls, list("abcd")) == Closed(frozenset([("a", "b")]))


@pytest.mark.parametrize("names", ["bc", "abc", "abcd"])
def test_two_closed_hosts_are_apart_both_ways(names: str) -> None:
    closed = closed_paths(into("b", "c"), list(names))
    assert closed.both_ways == {("b", "c"), ("c", "b")}
    assert closed.one_way == {(name, target) for name in names if name not in "bc" for target in "bc"}


def test_closed_hosts_of_a_large_run_are_apart_both_ways() -> None:
    closed = closed_paths(into("h1", "h50"), LARGE)
    assert closed.both_ways == {("h1", "h50"), ("h50", "h1")}
    assert len(closed.one_way) == 2 * 98


def test_a_host_that_reaches_no_other_cannot_call_back() -> None:
    walls = Walls(lambda *pair: pb.RECEPTION_SILENT if "b" in pair else pb.RECEPTION_ANSWERED)
    assert closed_paths(walls, list("abcd")) == Closed()


def test_another_agent_at_the_address_closes_no_path() -> None:
    assert closed_paths(into("b", fate=pb.RECEPTION_TURNED_AWAY), list("abc")) == Closed()


@pytest.mark.parametrize("names", [list("abcdefgh"), [*LARGE, "b", "e"]])
def test_only_the_host_that_joins_is_asked_about(names: list[str]) -> None:
    walls = into("b", "e")
    closed = closed_paths(walls, names, ["e"])
    assert {target for _, target in closed.one_way} >= {"e"}
    assert all("e" in pair for pair in walls.greeted)


def test_targets_open_the_lines_of_their_paths() -> None:
    walls = into("b", "old")
    assert open_lines(walls, {("a", "b"), ("c", "b"), ("a", "old")}) == {("a", "b"), ("c", "b")}
    assert walls.called == {"b": ["a", "c"], "old": ["a"]}
    assert open_lines(walls, []) == set()
