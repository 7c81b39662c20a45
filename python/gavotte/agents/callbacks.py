"""Finds hosts that accept no connections but can make some, and lets them make those that others need."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from gavotte.agents import agent_pb2 as pb
from gavotte.errors import AgentError

logger = logging.getLogger(__name__)

LIMIT_S = 2.0
"""Longest time for one greeting: a first packet that was lost is repeated after 1 s."""

GREETERS = 3
"""Number of hosts that greet each host."""

CLOSED = (pb.RECEPTION_SILENT, pb.RECEPTION_REFUSED, pb.RECEPTION_UNREACHABLE)
"""Fates of a greeting to a host whose firewall lets no connection in."""


class Calls(Protocol):
    """What finding such hosts needs of an enrolled fleet."""

    def greet(
        self, peers: Mapping[str, Sequence[str]], *, tcp_only: bool, limit_s: float
    ) -> dict[str, list[pb.Greeting] | AgentError]:
        """Let hosts greet others."""

    def call_back(self, peers: Mapping[str, Sequence[str]]) -> dict[str, pb.CallBackReply | AgentError]:
        """Let hosts that accept no connections make those that their peers need."""


def closed_hosts(fleet: Calls, names: Sequence[str], asked: Iterable[str] | None = None) -> set[str]:
    """Return the hosts that accept no TCP connection, although they reach others themselves.

    1. Each host greets the next three in a ring.
    2. A host that none of its greeters reached accepts no connections, if it has reached another host itself.

    Args:
        fleet: enrolled agents.
        names: hosts that take part, in any order.
        asked: the hosts to find out about; None = all.
    """
    # 1
    wanted = set(names if asked is None else asked)
    count = len(names)
    ring = [(name, names[(at + step) % count]) for at, name in enumerate(names) for step in range(1, GREETERS + 1)]
    pairs = {(source, target) for source, target in ring if source != target and wanted & {source, target}}
    targets: dict[str, list[str]] = {}
    for source, target in sorted(pairs):
        targets.setdefault(source, []).append(target)
    fates: dict[str, list[pb.Reception]] = {name: [] for name in names}
    reaching = set()
    replies = fleet.greet(targets, tcp_only=True, limit_s=LIMIT_S) if targets else {}
    for source, greetings in replies.items():
        if isinstance(greetings, AgentError):
            continue
        for each in greetings:
            fates[each.peer].append(each.tcp)
            if each.tcp == pb.RECEPTION_ANSWERED:
                reaching.add(source)
    # 2
    unreached = {name for name in wanted if fates[name] and all(fate in CLOSED for fate in fates[name])}
    return unreached & reaching


def open_lines(fleet: Calls, closed: Iterable[str], names: Sequence[str]) -> set[str]:
    """Let hosts that accept no connections make those that others need.

    Args:
        fleet: enrolled agents.
        closed: hosts that accept no connections.
        names: hosts that may need connections to them.

    Returns:
        the hosts that at least one other host can now reach.
    """
    closed = set(closed)
    peers = {name: [other for other in names if other not in closed] for name in sorted(closed)}
    reached = set()
    for name, reply in fleet.call_back({name: others for name, others in peers.items() if others}).items():
        if isinstance(reply, AgentError):
            logger.info("%s accepts no connections, and makes none for others: %s", name, reply)
        elif reply.connected:
            logger.info("%s accepts no connections; it makes those that %s need", name, ", ".join(reply.connected))
            reached.add(name)
    return reached
