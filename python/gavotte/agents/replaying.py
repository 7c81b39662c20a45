"""Run transfers that start together: all connect, all start at once, and each reports when it is done."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Mapping, Sequence, Set

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.fleet import Fleet
from gavotte.errors import AgentError

logger = logging.getLogger(__name__)

CONNECT_S = 30.0
"""Longest time that the transfers may take to connect."""


class Replay:
    """Group of transfers between hosts that start at the same time; each host may send any number of them.

    Args:
        fleet: enrolled agents, including those of all hosts named.
        transfers: sending host to its transfers, whose ids are unique on that host.
        congestion: TCP congestion control of every connection.
        max_seconds: when to give up, from the start.
        report_s: how often each agent reports what has moved; 0 = never.
    """

    def __init__(
        self,
        fleet: Fleet,
        transfers: Mapping[str, Sequence[pb.Transfer]],
        *,
        congestion: str,
        max_seconds: float,
        report_s: float = 0.0,
    ) -> None:
        self._fleet = fleet
        self._id = secrets.token_hex(8)
        self._max_seconds = max_seconds
        self._pending = {(source, transfer.id) for source, own in transfers.items() for transfer in own}
        self._ids = {source: frozenset(transfer.id for transfer in own) for source, own in transfers.items()}
        self._requests = {
            source: pb.ReplayRequest(
                run_id=fleet.run_id,
                replay_id=self._id,
                transfers=own,
                congestion=congestion,
                max_seconds=max_seconds,
                report_s=report_s,
            )
            for source, own in transfers.items()
        }

    def pace(self, paces: Mapping[str, Mapping[int, float]]) -> None:
        """Change the paces of transfers that began with one: sending host to transfer to bit/s of TCP payload."""
        own = {
            source: {id_: pace_bps for id_, pace_bps in changes.items() if (source, id_) in self._pending}
            for source, changes in paces.items()
        }
        self._fleet.pace(self._id, {source: changes for source, changes in own.items() if changes})

    def stop(self) -> None:
        """End the transfers at all agents. Returns at once; any thread may call this."""
        self._fleet.interrupt()

    def events(self) -> Iterator[tuple[str, pb.TransferDone | pb.Moved | AgentError]]:
        """Start the transfers, once.

        Yields:
            (sending host, the outcome of a transfer, or what has moved). An `AgentError` means that an agent failed, or
            reported something impossible. It is the last item if it keeps the others from starting.
        """
        for source, request in self._requests.items():
            for transfer in request.transfers:
                if why := self._fleet.wall(source, transfer.target):
                    yield (
                        source,
                        AgentError(f"{source} cannot send to {transfer.target}: {why}", failure=pb.FAILURE_UNREACHABLE),
                    )
                    return
        waiting = set(self._requests)
        logger.info("run %s, replay %s: %d transfers", self._fleet.run_id, self._id, len(self._pending))
        events = self._fleet.replay(
            self._requests,
            deadline_s=self._max_seconds + CONNECT_S,
            silence_s=lambda: CONNECT_S if waiting else self._max_seconds + CONNECT_S,
        )
        for source, reply in events:
            if not isinstance(reply, AgentError) and not self._sound(reply, source, waiting):
                if source in self._fleet.lost:
                    continue
                lie = f"agent on {source}: it reports a transfer twice, too early, or one that it does not have"
                self._fleet.distrust(source, lie)
                reply = AgentError(lie)
            if isinstance(reply, AgentError) and reply.failure == pb.FAILURE_LATE and waiting and source not in waiting:
                # It is silent because others are not ready.
                continue
            if isinstance(reply, AgentError):
                self._pending = {each for each in self._pending if each[0] != source}
                yield source, reply
                if source in waiting:
                    return
            elif reply.HasField("ready"):
                waiting.discard(source)
                if not waiting:
                    try:
                        self._fleet.start(self._requests, self._id)
                    except AgentError as error:
                        yield source, error
                        return
            elif reply.HasField("moved"):
                yield source, reply.moved
            else:
                self._pending.remove((source, reply.done.id))
                yield source, reply.done
        for source in sorted({source for source, _ in self._pending}):
            yield source, AgentError(f"agent on {source}: not all of its transfers were confirmed")

    def _sound(self, reply: pb.ReplayReply, source: str, waiting: Set[str]) -> bool:
        """Return whether an event can be true: each agent is ready once, then done once with each of its transfers."""
        if reply.HasField("ready"):
            return source in waiting
        if reply.HasField("moved"):
            moved = reply.moved
            return (
                source not in waiting and self._ids[source].issuperset(moved.ids) and len(moved.ids) == len(moved.bytes)
            )
        return reply.HasField("done") and source not in waiting and (source, reply.done.id) in self._pending


def replay(
    fleet: Fleet, transfers: Mapping[str, Sequence[pb.Transfer]], *, congestion: str, max_seconds: float
) -> Iterator[tuple[str, pb.TransferDone | AgentError]]:
    """Carry out transfers with plain TCP, and yield the events of a `Replay` without progress reports."""
    for source, event in Replay(fleet, transfers, congestion=congestion, max_seconds=max_seconds).events():
        if not isinstance(event, pb.Moved):
            yield source, event
