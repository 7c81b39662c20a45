"""Which hosts accept no connections, and which others they open connections to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.callbacks import closed_hosts, open_lines
from gavotte.errors import AgentError


class Walls:
    """Hosts with firewalls, which decide by source and target how a greeting ends."""

    def __init__(self, fate: Callable[[str, str], pb.Reception]) -> None:
        self.greeted: list[tuple[str, str]] = []
        self.called: dict[str, Sequence[str]] = {}
        self._fate = fate

    def greet(
        self, peers: Mapping[str, Sequence[str]], *, tcp_only: bool, limit_s: float
    ) -> dict[str, list[pb.Greeting] | AgentError]:
        assert tcp_only
        assert limit_s > 0
        self.greeted += [(source, target) for source, targets in peers.items() for target in targets]
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


@pytest.mark.parametrize("names", ["ab", "abc", "abcdefgh"])
@pytest.mark.parametrize("fate", [pb.RECEPTION_SILENT, pb.RECEPTION_REFUSED, pb.RECEPTION_UNREACHABLE])
def test_a_host_that_no_other_reaches_is_closed(names: str, fate: pb.Reception) -> None:
    assert closed_hosts(into("b", fate=fate), list(names)) == {"b"}
    assert closed_hosts(into(), list(names)) == set()


def test_each_host_greets_three_others() -> None:
    walls = into()
    closed_hosts(walls, [f"h{i}" for i in range(100)])
    assert len(walls.greeted) == len(set(walls.greeted)) == 300
    assert all(source != target for source, target in walls.greeted)


def test_one_blocked_path_closes_no_host() -> None:
    walls = Walls(lambda *pair: pb.RECEPTION_SILENT if pair == ("a", "b") else pb.RECEPTION_ANSWERED)
    assert closed_hosts(walls, list("abcd")) == set()


def test_a_host_that_reaches_no_other_cannot_call_back() -> None:
    walls = Walls(lambda *pair: pb.RECEPTION_SILENT if "b" in pair else pb.RECEPTION_ANSWERED)
    assert closed_hosts(walls, list("abcd")) == set()


def test_another_agent_at_the_address_closes_no_host() -> None:
    assert closed_hosts(into("b", fate=pb.RECEPTION_TURNED_AWAY), list("abc")) == set()


def test_only_the_host_that_joins_is_asked_about() -> None:
    walls = into("b", "e")
    assert closed_hosts(walls, list("abcdefgh"), ["e"]) == {"e"}
    assert all("e" in pair for pair in walls.greeted)


def test_closed_hosts_open_lines_to_open_ones() -> None:
    walls = into("b", "old")
    assert open_lines(walls, ["b", "old"], ["a", "b", "c", "old"]) == {"b"}
    assert walls.called == {"b": ["a", "c"], "old": ["a", "c"]}
    assert open_lines(walls, ["a", "b"], ["a", "b"]) == set()
