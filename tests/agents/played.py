"""A fleet with simulated agents: their answers are made up, their requests kept."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from types import SimpleNamespace

from gavotte.agents import Fleet
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.reach import Reach
from gavotte.errors import AgentError
from gavotte.formats.inventory import Inventory

Replies = Iterable[tuple[str, pb.ProbeReply | AgentError]]
Events = Iterable[tuple[str, pb.ReplayReply | AgentError]]


def inventory(names: Iterable[str]) -> Inventory:
    """Hosts without agents."""
    hosts = [
        {"name": name, "address": f"10.0.{i >> 8}.{i & 255}", "agent": "unix:/no.sock"}
        for i, name in enumerate(names, start=1)
    ]
    return Inventory.model_validate({"format": "gavotte/hosts/1", "host": hosts})


def answers(requests: Mapping[str, pb.MeasureRequest]) -> Iterator[tuple[str, pb.ProbeReply]]:
    """What agents report of hosts that every probe reached."""
    bulk = pb.BulkResult(goodput_bps=1e8)
    for name, part in requests.items():
        for probe in part.probes:
            reply = pb.ProbeReply(round=probe.round, peer=probe.peer, seconds=1.0, bytes_sent=1000, bulk=bulk)
            if probe.HasField("burst_train"):
                # A look at the path's length, which is hidden.
                reply.burst_train.received = 2
            yield name, reply


class PlayedFleet(Fleet):
    """A Fleet that calls no agent.

    Attributes:
        asked: all schedules so far.
        started: replays that were started.
        looks: host to the hosts that it was to look at, each time.
        excused: (host, round, peer) of probes that the host was to skip.

    Hosts in `there` reach and are reached. Those in `closed` reach others, but a firewall keeps others out.
    """

    def __init__(
        self,
        names: Iterable[str],
        say: Callable[[Mapping[str, pb.MeasureRequest]], Replies] = answers,
        replayed: Callable[[Mapping[str, pb.ReplayRequest]], Events] | None = None,
        present: Container[str] | None = None,
        closed: Container[str] = (),
    ) -> None:
        reach: Reach = SimpleNamespace(channels={})  # type: ignore[assignment]
        super().__init__(inventory(names), reach)
        self.hosts = list(self.inventory.host)
        self.asked: list[Mapping[str, pb.MeasureRequest]] = []
        self.started: list[str] = []
        self.looks: list[dict[str, list[str]]] = []
        self.excused: list[tuple[str, int, str]] = []
        self._say = say
        self._replayed = replayed
        self._there = present
        self._closed = closed

    def measure(self, requests: Mapping[str, pb.MeasureRequest], **_: object) -> Iterator[object]:  # type: ignore[override]
        self.asked.append(requests)
        yield from self._say(requests)

    def look(self, looks: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
        self.looks.append({name: list(peers) for name, peers in looks.items()})
        if self._there is None:
            return {}
        return {
            name: frozenset(peer for peer in peers if peer in self._there)
            for name, peers in looks.items()
            if name in self._there or name in self._closed
        }

    def excuse(self, host: str, number: int, peer: str) -> None:
        self.excused.append((host, number, peer))

    def replay(self, requests: Mapping[str, pb.ReplayRequest], **_: object) -> Iterator[object]:  # type: ignore[override]
        assert self._replayed is not None
        yield from self._replayed(requests)

    def start(self, names: Iterable[str], replay_id: str) -> None:
        self.started.append(replay_id)

    def drop(self, host: str, reason: str) -> None:
        if host not in self.lost:
            self.lost[host] = reason
            self.hosts = [each for each in self.hosts if each.name != host]
