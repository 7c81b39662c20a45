"""Which address of a host each other host uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.choosing import choose
from gavotte.errors import AgentError
from gavotte.formats.inventory import Host


class Clouds:
    """Hosts that reach some addresses and not others."""

    def __init__(self, hosts: Sequence[Host], passable: set[tuple[str, str]]) -> None:
        self.at = {(one.name, other.name): other.address for one in hosts for other in hosts}
        self.greeted: list[tuple[str, str]] = []
        self._passable = passable

    def greet(
        self, peers: Mapping[str, Sequence[str]], *, tcp_only: bool, limit_s: float
    ) -> dict[str, list[pb.Greeting] | AgentError]:
        assert tcp_only
        assert limit_s > 0
        return {source: [self._greeting(source, each) for each in targets] for source, targets in peers.items()}

    def _greeting(self, source: str, target: str) -> pb.Greeting:
        address = self.at[source, target]
        self.greeted.append((source, address))
        answered = (source, address) in self._passable
        return pb.Greeting(peer=target, tcp=pb.RECEPTION_ANSWERED if answered else pb.RECEPTION_SILENT)

    def move(self, target: str, address: str, sources: Sequence[str]) -> None:
        self.at |= {(source, target): address for source in sources}


def host(name: str, address: str, *addresses: str) -> Host:
    return Host(name=name, address=address, addresses=list(addresses), agent=f"ssh://{name}")


def test_each_host_uses_the_first_address_that_it_reaches() -> None:
    hosts = [host("a", "10.0.0.1"), host("b", "10.0.0.2"), host("c", "10.9.0.3", "10.0.0.3", "192.0.2.3")]
    # Host a shares a network with c, host b is outside.
    clouds = Clouds(hosts, {("a", "10.0.0.3"), ("a", "192.0.2.3"), ("b", "192.0.2.3")})
    assert choose(clouds, hosts) == {("a", "c"): "10.0.0.3", ("b", "c"): "192.0.2.3"}
    assert (clouds.at["a", "c"], clouds.at["b", "c"]) == ("10.0.0.3", "192.0.2.3")
    assert ("a", "192.0.2.3") not in clouds.greeted
    assert not [address for _, address in clouds.greeted if address in {"10.0.0.1", "10.0.0.2"}]


def test_a_host_that_no_address_reaches_keeps_its_first() -> None:
    hosts = [host("a", "10.0.0.1"), host("c", "10.9.0.3", "10.0.0.3")]
    clouds = Clouds(hosts, set())
    assert choose(clouds, hosts) == {}
    assert clouds.at["a", "c"] == "10.9.0.3"


@pytest.mark.slow
def test_more_peers_than_an_agent_greets_at_a_time() -> None:
    hosts = [host("a", "10.0.0.1")] + [host(f"h{i}", f"10.9.0.{i}", f"10.0.0.{i}") for i in range(2, 202)]
    clouds = Clouds(hosts, {("a", f"10.0.0.{i}") for i in range(2, 202)})
    result = choose(clouds, hosts)
    assert {result["a", each.name] for each in hosts[1:]} == {each.addresses[0] for each in hosts[1:]}
