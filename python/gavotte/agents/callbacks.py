"""Find paths on which no connection can be made, and let the other end make the connections that are needed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gavotte.agents import agent_pb2 as pb
from gavotte.errors import AgentError

logger = logging.getLogger(__name__)

Pair = tuple[str, str]

LIMIT_S = 2.0
"""Longest time for one greeting: a first packet that was lost is repeated after 1 s."""

MOST_HOSTS = 32
"""Most hosts of a run of which each greets all others at once: 992 greetings."""

GREETERS = 3
"""Number of hosts that greet each host of a larger run first."""

MOST_GREETED = 64
"""Most hosts that a host greets at the same time: the agents' limit for one call."""

ROUND_S = 0.5
"""Time that one round of greetings should take. Hosts that are too busy to answer in time would count as closed."""

SEARCH_S = 5.0
"""Time after which no further round begins. Among 1000 hosts, it is enough for a part of all pairs."""

SHOWN = 3
"""Number of hosts that a line of the log names."""

CLOSED = (pb.RECEPTION_SILENT, pb.RECEPTION_REFUSED, pb.RECEPTION_UNREACHABLE)
"""Fates of a greeting to a host whose firewall lets no connection in."""

OPEN_OR_UNKNOWN = (pb.RECEPTION_ANSWERED, None)
"""Fates of a greeting on a path on which a connection can probably be made. None = no greeting was sent."""


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


def closed_paths(
    fleet: Calls,
    names: Sequence[str],
    asked: Iterable[str] | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Closed:
    """Find the paths on which no connection can be made.

    1. Each host greets all others. In a run of more than `MOST_HOSTS`, it greets the next three in a ring first.
       Rounds with further hosts follow until each pair was greeted, or `SEARCH_S` is over.
    2. A path is closed if its greeting was not answered. If none of a host's greeters reached it, all paths into the
       host are closed, and later rounds leave it out.
    3. If more than two hosts take part, the target must have reached one itself. Otherwise it may have disappeared.
    4. If the way back was greeted, too, and is also closed, the path is closed both ways.

    Args:
        fleet: enrolled agents.
        names: hosts that take part, in any order.
        asked: the hosts whose paths are looked for; None = all.
        clock: returns seconds.
    """
    # 1
    wanted = set(names if asked is None else asked)
    count = len(names)
    fates: dict[Pair, pb.Reception] = {}
    shut = set[str]()
    steps, next_step = count - 1 if count <= MOST_HOSTS else GREETERS, 1
    until_s = clock() + SEARCH_S
    while next_step < count and clock() < until_s:
        begin_s = clock()
        ahead = range(next_step, min(count, next_step + steps))
        ring = ((name, names[(at + step) % count]) for at, name in enumerate(names) for step in ahead)
        came = _greeted(fleet, (pair for pair in ring if wanted & set(pair) and pair[1] not in shut))
        fates |= came
        # 2
        shut = _shut(fates)
        next_step = ahead.stop
        # A greeting without an answer takes its whole time, however busy the hosts are.
        waited_s = LIMIT_S if pb.RECEPTION_SILENT in came.values() else 0.0
        took_s = max(clock() - begin_s - waited_s, 1e-3)
        steps = max(1, min(MOST_GREETED, int(len(ahead) * ROUND_S / took_s)))
    closed = {pair for pair, fate in fates.items() if fate in CLOSED}
    closed |= {(source, target) for target in shut & wanted for source in names if source != target}
    # 3
    answered = {pair for pair, fate in fates.items() if fate == pb.RECEPTION_ANSWERED}
    reaching = {source for source, _ in answered}
    closed = {pair for pair in closed if pair[1] in reaching or count == len(pair)}
    # 4
    both_ways = frozenset((source, target) for source, target in closed if (target, source) in closed)
    open_back = {(source, target) for source, target in closed if fates.get((target, source)) in OPEN_OR_UNKNOWN}
    return Closed(frozenset(open_back - both_ways), both_ways)


def _greeted(fleet: Calls, pairs: Iterable[Pair]) -> dict[Pair, pb.Reception]:
    """Let the source of each pair greet its target. Return how the greetings ended."""
    targets: dict[str, list[str]] = {}
    for source, target in sorted(pairs):
        targets.setdefault(source, []).append(target)
    greeted = fleet.greet(targets, tcp_only=True, limit_s=LIMIT_S) if targets else {}
    return {
        (source, each.peer): each.tcp
        for source, greetings in greeted.items()
        if not isinstance(greetings, AgentError)
        for each in greetings
    }


def _shut(fates: Mapping[Pair, pb.Reception]) -> set[str]:
    """Return the hosts that none of their greeters reached."""
    into: dict[str, list[bool]] = {}
    for (_, target), fate in fates.items():
        into.setdefault(target, []).append(fate in CLOSED)
    return {target for target, ends in into.items() if all(ends) and len(ends) > 1}


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
