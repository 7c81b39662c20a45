"""What the agents of a run are told to do once they are enrolled."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.asking import Asking
from gavotte.agents.calls import aside
from gavotte.errors import AgentError

logger = logging.getLogger(__name__)

LOOK_DEADLINE_S = 2.5
"""For the answer of a host that looks at others, which takes it up to 1.25 s."""


class Orders(Asking):
    """Enrolled agents: parts of schedules, replays, broadcasts, paces and guarantees for them."""

    health: dict[str, pb.HealthReply]

    def measure(
        self, requests: Mapping[str, pb.MeasureRequest], *, deadline_s: float, silence_s: float
    ) -> Iterator[tuple[str, pb.ProbeReply | AgentError]]:
        """Hands every agent its whole part of a schedule and yields the answers as they come.

        Args:
            requests: host to its part.
            deadline_s: when the last answer must be there.
            silence_s: how long all that have not ended may say nothing before they are given up.

        Yields:
            (host, reply); an `AgentError` is the last of a host whose stream broke.
        """
        return self._streams("Measure", requests, deadline_s, lambda: silence_s)

    def look(self, looks: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
        """Has hosts look whether others are there, beside whatever is under way. In any thread.

        Args:
            looks: host to those that it looks at.

        Returns:
            host to those that took a connection, for the hosts that answer.
        """
        requests = {name: pb.LookRequest(run_id=self.run_id, peers=peers) for name, peers in looks.items()}
        replies = self._answers("Look", requests, LOOK_DEADLINE_S)
        return {name: frozenset(reply.taken) for name, reply in replies.items() if not isinstance(reply, AgentError)}

    def replay(
        self, requests: Mapping[str, pb.ReplayRequest], *, deadline_s: float, silence_s: Callable[[], float]
    ) -> Iterator[tuple[str, pb.ReplayReply | AgentError]]:
        """Hands every agent its transfers of one phase and yields its events. See `measure`."""
        return self._streams("Replay", requests, deadline_s, silence_s)

    def watch(
        self, requests: Mapping[str, pb.WatchRequest], *, deadline_s: float, silence_s: Callable[[], float]
    ) -> Iterator[tuple[str, pb.WatchReply | AgentError]]:
        """Has agents watch their hosts' sockets and yields what they tell. See `measure`."""
        return self._streams("Watch", requests, deadline_s, silence_s)

    def manifest(self, host: str, path: str, *, block_bytes: int = 0, deadline_s: float) -> pb.ManifestReply:
        """Has an agent read a file and tell how it is cut into blocks.

        Args:
            host: where the file lies.
            path: absolute.
            block_bytes: of each block; 0 = as suits the file.
            deadline_s: how long reading may take.

        Raises:
            AgentError: when it cannot.
        """
        request = pb.ManifestRequest(run_id=self.run_id, path=path, block_bytes=block_bytes)
        reply: pb.ManifestReply | AgentError = aside(
            lambda: self._answers("Manifest", {host: request}, deadline_s)[host]
        )
        if isinstance(reply, AgentError):
            raise AgentError(f"{host}: {reply}", failure=reply.failure)
        return reply

    def broadcast(
        self,
        requests: Mapping[str, pb.BroadcastRequest],
        *,
        deadline_s: float,
        silence_s: Callable[[], float],
        joining: Callable[[], Mapping[str, pb.BroadcastRequest]],
    ) -> Iterator[tuple[str, pb.BroadcastReply | AgentError]]:
        """Has agents take part in a broadcast and yields what they say. See `measure`.

        `joining` is asked whenever an agent has said something: who else takes part from now on.
        """
        return self._streams("Broadcast", requests, deadline_s, silence_s, joining)

    def splice(self, requests: Mapping[str, pb.SpliceRequest]) -> dict[str, AgentError]:
        """Says anew from whom hosts have their blocks; gives those that did not hear."""
        replies = self._ask("Splice", requests)
        return {name: reply for name, reply in replies.items() if isinstance(reply, AgentError)}

    def start(self, names: Iterable[str], replay_id: str) -> None:
        """Lets a connected replay, or a broadcast, go: at all its agents at once.

        Raises:
            AgentError: when one does not answer.
        """
        request = pb.StartRequest(run_id=self.run_id, replay_id=replay_id)
        for name, reply in self._ask("Start", dict.fromkeys(names, request)).items():
            if isinstance(reply, AgentError):
                raise AgentError(f"the agent on {name} does not start: {reply}", failure=reply.failure)

    def pace(self, replay_id: str, paces: Mapping[str, Mapping[int, float]]) -> None:
        """Changes the paces of transfers that run and began with one; those that have ended are passed over.

        Args:
            replay_id: whose transfers.
            paces: sending host to transfer to bit/s of TCP payload; infinite = as TCP goes, 0 = it waits.
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
                # Its replay has ended, or its stream tells what became of it.
                logger.debug("%s: keeps its paces: %s", host, reply)

    def guard(self, requests: Mapping[str, pb.GuardRequest]) -> dict[str, pb.GuardReply | AgentError]:
        """Has agents keep guarantees from now on, without this controller; gives replies, or errors."""
        return self._ask("Guard", requests)

    def guarded(self) -> dict[str, pb.GuardedReply | AgentError]:
        """How each agent that answers keeps its guarantees."""
        return self._ask("Guarded", dict.fromkeys(self.health, pb.GuardedRequest()))

    def unguard(self) -> dict[str, pb.UnguardReply | AgentError]:
        """Ends the guarantees of every agent that answers."""
        return self._ask("Unguard", dict.fromkeys(self.health, pb.UnguardRequest()))


def pace_word(pace_bps: float) -> int:
    """A pace as the contract has it: infinite = 0, as TCP goes; 0 = 1, it waits."""
    return 0 if math.isinf(pace_bps) else 1 if pace_bps == 0 else max(2, round(pace_bps))
