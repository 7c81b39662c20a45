"""Find out whether receivers can connect to the host that has an object: a firewall may keep all of them out."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from gavotte.agents import Fleet
from gavotte.agents import agent_pb2 as pb
from gavotte.errors import AgentError

MOST_RECEIVERS = 64
"""Receivers that knock; one that is accepted proves that the source's port is open."""


class Knock:
    """Receivers that connect to the source's agent, at the same time as other work.

    A connection that is dropped shows nothing but silence. An agent needs 3 s to be sure of it.
    """

    def __init__(self, fleet: Fleet, source: str, receivers: Sequence[str]) -> None:
        """Let receivers knock. Returns at once.

        Args:
            fleet: enrolled agents.
            source: host that has the object.
            receivers: hosts that take part from the start.
        """
        self._fleet = fleet
        self._source = source
        self._reason = ""
        self._thread = threading.Thread(
            target=self._ask, args=(list(receivers)[:MOST_RECEIVERS],), daemon=True, name="knock"
        )
        self._thread.start()

    def reason(self, *, wait: bool = False) -> str:
        """Return why no receiver can fetch anything; empty if one can or, without `wait`, if it is not known yet."""
        if wait:
            self._thread.join()
        return self._reason

    def _ask(self, receivers: list[str]) -> None:
        if any((name, self._source) in self._fleet.lines for name in receivers):
            # The source makes the connections that these receivers need.
            return
        greetings = []
        peers = {name: [self._source] for name in receivers}
        for answer in self._fleet.greet(peers, tcp_only=True).values():
            if isinstance(answer, AgentError):
                return
            greetings += answer
        closed = {pb.RECEPTION_SILENT: "drops", pb.RECEPTION_REFUSED: "refuses", pb.RECEPTION_UNREACHABLE: "drops"}
        if not greetings or any(each.tcp not in closed for each in greetings):
            return
        more = f" and {len(receivers) - 1} more" * (len(receivers) > 1)
        port = self._fleet.health[self._source].data_port
        self._reason = (
            f"{self._source} is up, but accepts no TCP connection from {receivers[0]}{more}: "
            f"a firewall {closed[greetings[0].tcp]} it; open port {port}/tcp on {self._source}"
        )
