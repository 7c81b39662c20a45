"""Find paths on which no connection can be made, and let the other end make the connections that are needed."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gavotte.agents import agent_pb2 as pb
from gavotte.errors import AgentError

logger = logging.getLogger(__name__)

Pair = tuple[str, str]

LIMIT_S = 2.0
"""Longest time for one greeting: a first packet that was lost is repeated after 1 s."""

MOST_HOSTS = 32
"""Most hosts of a run of which each greets all others: 992 greetings."""

GREETERS = 3
"""Number of hosts that greet each host of a larger run."""

SHOWN = 3
"""Number of hosts that a line of the log names."""

CLOSED = (pb.RECEPTION_SILENT, pb.RECEPTION_REFUSED, pb.RECEPTION_UNREACHABLE)
"""Fates of a greeting to a host whose firewall lets no connection in."""


class Calls(Protocol):
    """Calls to agents that the search for paths with callbacks needs."""

    def greet(
        self, peers: Mapping[str, Sequence[str]], *, tcp_only: bool, limit_s: float
    ) -> dict[str, list[pb.Greeting] | AgentError]:
        """Let hosts greet others."""

    def call_back(self, peers: Mapping[str, Sequence[str]]) -> dict[str, pb.CallBackReply | AgentError]:
        """Let hosts make the connections that their peers need."""


@dataclass(frozen=True)
class Closed:
    """Paths on which the source cannot connect to the target, as (source, target).

    Attributes:
        one_way: those on which the target can connect to the source.
        both_ways: those on which it cannot, either. Both hosts are up, since they reach others.
    """

    one_way: frozenset[Pair] = frozenset()
    both_ways: frozenset[Pair] = frozenset()


def closed_paths(fleet: Calls, names: Sequence[str], asked: Iterable[str] | None = None) -> Closed:
    """Find the paths on which no connection can be made.

    1. Each host greets all others, or the next three in a ring if there are more than `MOST_HOSTS`.
    2. A path is closed if its greeting was not answered. In a ring, all paths into a host are closed if none of its
       greeters reached it.
    3. If more than two hosts take part, the target must have reached one itself. Otherwise it may have disappeared.
    4. If the way back was greeted, too, and is also closed, the path is closed both ways.

    Args:
        fleet: enrolled agents.
        names: hosts that take part, in any order.
        asked: the hosts whose paths are looked for; None = all.
    """
    # 1
    wanted = set(names if asked is None else asked)
    count = len(names)
    in_ring = count > MOST_HOSTS
    steps = range(1, 1 + (GREETERS if in_ring else count - 1))
    ring = {(name, names[(at + step) % count]) for at, name in enumerate(names) for step in steps}
    targets: dict[str, list[str]] = {}
    for source, target in sorted(pair for pair in ring if pair[0] != pair[1] and wanted & set(pair)):
        targets.setdefault(source, []).append(target)
    fates: dict[Pair, pb.Reception] = {}
    for source, greetings in (fleet.greet(targets, tcp_only=True, limit_s=LIMIT_S) if targets else {}).items():
        if not isinstance(greetings, AgentError):
            fates |= {(source, each.peer): each.tcp for each in greetings}
    # 2
    closed = {pair for pair, fate in fates.items() if fate in CLOSED}
    if in_ring:
        into: dict[str, set[Pair]] = {}
        for pair in fates:
            into.setdefault(pair[1], set()).add(pair)
        shut = {target for target, pairs in into.items() if target in wanted and pairs <= closed}
        closed = {(source, target) for target in shut for source in names if source != target}
    # 3
    answered = {pair for pair, fate in fates.items() if fate == pb.RECEPTION_ANSWERED}
    reaching = {source for source, _ in answered}
    closed = {pair for pair in closed if pair[1] in reaching or count == len(pair)}
    # 4
    both_ways = frozenset((source, target) for source, target in closed if (target, source) in closed)
    open_back = {(source, target) for source, target in closed if (target, source) in answered or in_ring}
    return Closed(frozenset(open_back - both_ways), both_ways)


def open_lines(fleet: Calls, closed: Collection[Pair]) -> set[Pair]:
    """Let the targets of closed paths make the connections that the sources need.

    Args:
        fleet: enrolled agents.
        closed: (source, target) of paths on which only the target can connect to the source.

    Returns:
        the paths that can be used from now on.
    """
    peers: dict[str, list[str]] = {}
    for source, target in sorted(closed):
        peers.setdefault(target, []).append(source)
    opened = set()
    for name, reply in fleet.call_back(peers).items() if peers else ():
        if isinstance(reply, AgentError):
            logger.info("%s cannot be connected to, and makes no connections for others: %s", name, reply)
        elif reply.connected:
            more = f" and {len(reply.connected) - SHOWN} more" * (len(reply.connected) > SHOWN)
            shown = ", ".join(reply.connected[:SHOWN])
            logger.info("%s accepts no connection from %s%s; it makes those that they need", name, shown, more)
            opened |= {(peer, name) for peer in reply.connected}
    return opened
