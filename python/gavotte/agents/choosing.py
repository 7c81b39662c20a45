"""Find the address at which each host reaches each other host that has several."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from gavotte.agents import agent_pb2 as pb
from gavotte.errors import AgentError
from gavotte.formats.inventory import Host

logger = logging.getLogger(__name__)

LIMIT_S = 2.0
"""Longest time for one greeting. Connecting takes a few round trips."""

MOST_GREETINGS = 64
"""Most peers that an agent greets at a time."""


class Greets(Protocol):
    """Calls to agents that the choice of addresses needs."""

    def greet(
        self, peers: Mapping[str, Sequence[str]], *, tcp_only: bool, limit_s: float
    ) -> dict[str, list[pb.Greeting] | AgentError]:
        """Let hosts greet others."""

    def move(self, target: str, address: str, sources: Sequence[str]) -> None:
        """Let some hosts use another address of a host from now on."""


def choose(fleet: Greets, hosts: Sequence[Host], *, joining: str | None = None) -> dict[tuple[str, str], str]:
    """Let hosts try the addresses of each host that has several, in order of preference, until its agent answers.

    Another machine may have the same private address, so an address counts only if the host's own agent answers there
    and proves that it knows the run's secret.

    Args:
        fleet: enrolled agents that know each host by its `address`.
        hosts: all of them.
        joining: the host whose paths from and to the others are tried; None = all paths.

    Returns:
        (source, target) to the target's address, where it is not `address`. A pair that no address serves keeps
        `address`.
    """
    several = {host.name: list(dict.fromkeys((host.address, *host.addresses))) for host in hosts if host.addresses}
    left = {(host.name, target) for target in several for host in hosts if host.name != target}
    if joining is not None:
        left = {pair for pair in left if joining in pair}
    chosen: dict[tuple[str, str], str] = {}
    for turn in range(max(map(len, several.values()), default=0)):
        trying = {pair for pair in left if turn < len(several[pair[1]])}
        if turn:
            _move(fleet, {pair: several[pair[1]][turn] for pair in trying})
        reached = _greeted(fleet, trying)
        left -= reached
        if turn:
            chosen |= {pair: several[pair[1]][turn] for pair in reached}
    _move(fleet, {pair: several[pair[1]][0] for pair in left})
    for source, target in sorted(chosen):
        logger.info("%s reaches %s at %s", source, target, chosen[source, target])
    return chosen


def _move(fleet: Greets, addresses: Mapping[tuple[str, str], str]) -> None:
    sources: dict[tuple[str, str], list[str]] = {}
    for (source, target), address in sorted(addresses.items()):
        sources.setdefault((target, address), []).append(source)
    for (target, address), each in sources.items():
        fleet.move(target, address, each)


def _greeted(fleet: Greets, pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the pairs whose target's agent answered."""
    targets: dict[str, list[str]] = {}
    for source, target in sorted(pairs):
        targets.setdefault(source, []).append(target)
    parts = {
        source: [each[at : at + MOST_GREETINGS] for at in range(0, len(each), MOST_GREETINGS)]
        for source, each in targets.items()
    }
    reached = set()
    while parts:
        asked = {source: left.pop() for source, left in parts.items()}
        for source, greetings in fleet.greet(asked, tcp_only=True, limit_s=LIMIT_S).items():
            if isinstance(greetings, AgentError):
                continue
            reached |= {(source, each.peer) for each in greetings if each.tcp == pb.RECEPTION_ANSWERED}
        parts = {source: left for source, left in parts.items() if left}
    return reached & pairs
