"""Send commands to the enrolled agents of a run."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.asking import Asking
from gavotte.agents.calls import aside
from gavotte.errors import AgentError

logger = logging.getLogger(__name__)

LOOK_DEADLINE_S = 2.5
"""Deadline for the answer of a host that looks at others, which takes up to 1.25 s."""


SPACE_DEADLINE_S = 2.5
"""Deadline of a question for the space on a disk. A host that does not answer in time delays the others no longer."""


class Orders(Asking):
    """Enrolled agents, with commands for schedules, replays, broadcasts, paces and guarantees."""

    health: dict[str, pb.HealthReply]

    def measure(
        self, requests: Mapping[str, pb.MeasureRequest], *, deadline_s: float, silence_s: float
    ) -> Iterator[tuple[str, pb.ProbeReply | AgentError]]:
        """Send every agent its whole part of a schedule, and yield the answers as they arrive.

        Args:
            requests: host to its part.
            deadline_s: when the last answer must have arrived.
            silence_s: how long all unfinished agents may be silent before they are given up.

        Yields:
            (host, reply). An `AgentError` is the last item of a host whose stream broke.
        """
        return self._streams("Measure", requests, deadline_s, lambda: silence_s)

    def look(self, looks: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
        """Let hosts check whether others accept connections, while other work runs. Any thread may call this.

        Args:
            looks: host to the hosts that it checks.

        Returns:
            host to those that accepted a connection, for the hosts that answer.
        """
        requests = {name: pb.LookRequest(run_id=self.run_id, peers=peers) for name, peers in looks.items()}
        replies = self._answers("Look", requests, LOOK_DEADLINE_S)
        return {name: frozenset(reply.taken) for name, reply in replies.items() if not isinstance(reply, AgentError)}

    def excuse(self, host: str, number: int, peer: str) -> None:
        """Tell a host not to wait for the probe of a peer that cannot connect to it. Returns at once.

        Args:
            host: the receiver of the probe.
            number: the probe's round.
            peer: its sender.
        """
        request = pb.ExcuseRequest(run_id=self.run_id, round=number, peer=peer)

        def tell() -> None:
            try:
                self._answers("Excuse", {host: request}, LOOK_DEADLINE_S)
            except ValueError as error:
                # The channels are closed, because the run has ended meanwhile.
                logger.debug("%s: not excused: %s", host, error)

        threading.Thread(target=tell, daemon=True, name=f"excuse-{host}").start()

    def listen(self, names: Iterable[str]) -> dict[str, AgentError]:
        """Let agents answer greetings over UDP until the run ends. Return the errors of those that do not."""
        replies = self._ask("Listen", dict.fromkeys(names, pb.ListenRequest(run_id=self.run_id)))
        return {name: reply for name, reply in replies.items() if isinstance(reply, AgentError)}

    def greet(
        self, peers: Mapping[str, Iterable[str]], *, tcp_only: bool = False, limit_s: float = 0.0
    ) -> dict[str, list[pb.Greeting] | AgentError]:
        """Let hosts greet others over both protocols, all at once.

        Args:
            peers: host to the hosts that it greets, at most 64.
            tcp_only: greet over TCP alone.
            limit_s: longest time for each greeting; 0 = 3 s.

        Returns:
            host to one greeting per peer, or the error if it greeted none.
        """
        requests = {
            name: pb.GreetRequest(run_id=self.run_id, peers=others, tcp_only=tcp_only, limit_s=limit_s)
            for name, others in peers.items()
        }
        replies = self._ask("Greet", requests)
        return {
            name: reply if isinstance(reply, AgentError) else list(reply.greetings) for name, reply in replies.items()
        }

    def call_back(self, peers: Mapping[str, Iterable[str]]) -> dict[str, pb.CallBackReply | AgentError]:
        """Let hosts that accept no connections make those that their peers need.

        Args:
            peers: host to the hosts that cannot connect to it.

        Returns:
            host to the peers that can now ask it for connections, or the error.
        """
        requests = {name: pb.CallBackRequest(run_id=self.run_id, peers=others) for name, others in peers.items()}
        return self._ask("CallBack", requests)

    def heard(self, names: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return the addresses from which greetings over UDP reached each host, without hosts that do not answer."""
        replies = self._ask("Heard", dict.fromkeys(names, pb.HeardRequest(run_id=self.run_id)))
        return {
            name: frozenset(reply.addresses) for name, reply in replies.items() if not isinstance(reply, AgentError)
        }

    def replay(
        self, requests: Mapping[str, pb.ReplayRequest], *, deadline_s: float, silence_s: Callable[[], float]
    ) -> Iterator[tuple[str, pb.ReplayReply | AgentError]]:
        """Send every agent its transfers of one phase, and yield its events. See `measure`."""
        return self._streams("Replay", requests, deadline_s, silence_s)

    def watch(
        self, requests: Mapping[str, pb.WatchRequest], *, deadline_s: float, silence_s: Callable[[], float]
    ) -> Iterator[tuple[str, pb.WatchReply | AgentError]]:
        """Let agents watch their hosts' sockets, and yield what they report. See `measure`."""
        return self._streams("Watch", requests, deadline_s, silence_s)

    def space(
        self, paths: Mapping[str, str], *, source: tuple[str, str] | None = None
    ) -> dict[str, pb.SpaceReply | AgentError]:
        """Let agents report the space for copies, and the size of an object, without reading any of its bytes.

        Args:
            paths: receiver to the absolute path of its copy.
            source: the host that has the object, and the object's absolute path there; None = only the space.

        Returns:
            host to its reply, or the error.
        """
        requests = {name: pb.SpaceRequest(run_id=self.run_id, path=path) for name, path in paths.items()}
        if source is not None:
            name, path = source
            requests[name] = pb.SpaceRequest(run_id=self.run_id, path=path, source=True)
        replies: dict[str, pb.SpaceReply | AgentError] = aside(
            lambda: self._answers("Space", requests, SPACE_DEADLINE_S)
        )
        return replies

    def manifest(
        self, host: str, path: str, *, block_bytes: int = 0, most_block_bytes: int = 0, deadline_s: float
    ) -> pb.ManifestReply:
        """Let an agent read a file and report how it is cut into blocks.

        Args:
            host: the host that has the file.
            path: absolute path.
            block_bytes: size of each block; 0 = a size that suits the file.
            most_block_bytes: largest such size, if not too many blocks come of it; 0 = no limit.
            deadline_s: how long reading may take.

        Raises:
            AgentError: when it cannot.
        """
        request = pb.ManifestRequest(
            run_id=self.run_id, path=path, block_bytes=block_bytes, most_block_bytes=most_block_bytes
        )
        reply: pb.ManifestReply | AgentError = aside(
            lambda: self._answers("Manifest", {host: request}, deadline_s)[host]
        )
        if isinstance(reply, AgentError):
            raise AgentError(f"{host}: {reply}", failure=reply.failure)
        return reply

    def discard(self, paths: Mapping[str, str]) -> dict[str, bool | AgentError]:
        """Let agents remove the incomplete copies of earlier broadcasts.

        Args:
            paths: host to the absolute path of its copy.

        Returns:
            host to whether it had an incomplete copy, or the error.
        """
        requests = {name: pb.DiscardRequest(run_id=self.run_id, path=path) for name, path in paths.items()}
        replies = self._ask("Discard", requests)
        return {name: reply if isinstance(reply, AgentError) else reply.removed for name, reply in replies.items()}

    def broadcast(
        self,
        requests: Mapping[str, pb.BroadcastRequest],
        *,
        deadline_s: float,
        silence_s: Callable[[], float],
        joining: Callable[[], Mapping[str, pb.BroadcastRequest]],
    ) -> Iterator[tuple[str, pb.BroadcastReply | AgentError]]:
        """Let agents take part in a broadcast, and yield their replies. See `measure`.

        After each reply, `joining` is called and returns the requests of hosts that take part from now on.
        """
        return self._streams("Broadcast", requests, deadline_s, silence_s, joining)

    def splice(self, requests: Mapping[str, pb.SpliceRequest], deadline_s: float) -> dict[str, AgentError]:
        """Change which hosts send blocks to which. Return the errors of agents that did not get the change in time."""
        replies: dict[str, Any] = aside(lambda: self._answers("Splice", requests, deadline_s)) if requests else {}
        return {name: reply for name, reply in replies.items() if isinstance(reply, AgentError)}

    def start(self, names: Iterable[str], replay_id: str) -> None:
        """Start a connected replay, or a broadcast, at all its agents at once.

        Raises:
            AgentError: when one does not answer.
        """
        request = pb.StartRequest(run_id=self.run_id, replay_id=replay_id)
        for name, reply in self._ask("Start", dict.fromkeys(names, request)).items():
            if isinstance(reply, AgentError):
                raise AgentError(f"the agent on {name} does not start: {reply}", failure=reply.failure)

    def pace(self, replay_id: str, paces: Mapping[str, Mapping[int, float]]) -> None:
        """Change the paces of running transfers that began with one. Transfers that have ended are ignored.

        Args:
            replay_id: the replay that the transfers belong to.
            paces: sending host to transfer to bit/s of TCP payload; infinite = plain TCP, 0 = the transfer waits.
        """
        requests = {
            host: pb.PaceRequest(
                run_id=self.run_id,
                replay_id=replay_id,
                ids=list(own),
                paces_bps=[pace_word(pace_bps) for pace_bps in own.values()],
            )
            for host, own in paces.items()
        }
        for host, reply in self._ask("Pace", requests).items():
            if isinstance(reply, AgentError):
                # Its replay has ended, or its stream reports what happened to it.
                logger.debug("%s: keeps its paces: %s", host, reply)

    def guard(self, requests: Mapping[str, pb.GuardRequest]) -> dict[str, pb.GuardReply | AgentError]:
        """Let agents enforce guarantees from now on, without this controller. Return replies, or errors."""
        return self._ask("Guard", requests)

    def guarded(self) -> dict[str, pb.GuardedReply | AgentError]:
        """Return how each agent that answers enforces its guarantees."""
        return self._ask("Guarded", dict.fromkeys(self.health, pb.GuardedRequest()))

    def guaranteed_bps(self) -> dict[str, float]:
        """Return the wire rate in bit/s that a guarantee grants each host whose sending it limits."""
        replies = {host: reply for host, reply in self.guarded().items() if not isinstance(reply, AgentError)}
        return {host: reply.egress_bps for host, reply in replies.items() if reply.guarded and reply.egress_bps > 0}

    def unguard(self) -> dict[str, pb.UnguardReply | AgentError]:
        """End the guarantees of every agent that answers."""
        return self._ask("Unguard", dict.fromkeys(self.health, pb.UnguardRequest()))


def pace_word(pace_bps: float) -> int:
    """Return a pace as the contract encodes it: infinite = 0 (plain TCP); 0 = 1 (the transfer waits)."""
    return 0 if math.isinf(pace_bps) else 1 if pace_bps == 0 else max(2, round(pace_bps))
