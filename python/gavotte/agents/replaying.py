"""Transfers that start together: all connect, all are let go at once, and each tells when it was done."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Mapping, Sequence

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.fleet import Fleet
from gavotte.errors import AgentError

logger = logging.getLogger(__name__)

CONNECT_S = 30.0
"""How long the transfers may take to connect."""


def replay(
    fleet: Fleet, transfers: Mapping[str, Sequence[pb.Transfer]], *, congestion: str, max_seconds: float
) -> Iterator[tuple[str, pb.TransferDone | AgentError]]:
    """Carries out transfers between hosts, any number of them from each.

    Args:
        fleet: enrolled agents, those of all hosts named.
        transfers: sending host to its transfers.
        congestion: TCP congestion control of every connection.
        max_seconds: when to give up, from the start.

    Yields:
        (sending host, what became of a transfer); an `AgentError` where an agent fails. It is the last where that
        keeps the others from starting.
    """
    replay_id = secrets.token_hex(8)
    requests = {
        source: pb.ReplayRequest(
            run_id=fleet.run_id,
            replay_id=replay_id,
            transfers=own,
            congestion=congestion,
            max_seconds=max_seconds,
        )
        for source, own in transfers.items()
    }
    waiting = set(requests)
    logger.info("run %s, replay %s: %d transfers", fleet.run_id, replay_id, sum(map(len, transfers.values())))
    pending = {(source, transfer.id) for source, own in transfers.items() for transfer in own}
    for source, reply in fleet.replay(requests, deadline_s=max_seconds + CONNECT_S):
        if isinstance(reply, AgentError):
            pending = {each for each in pending if each[0] != source}
            yield source, reply
            if source in waiting:
                return
        elif reply.HasField("ready"):
            waiting.discard(source)
            if not waiting:
                try:
                    fleet.start(requests, replay_id)
                except AgentError as error:
                    yield source, error
                    return
        elif (source, reply.done.id) in pending:
            pending.remove((source, reply.done.id))
            yield source, reply.done
    for source in sorted({source for source, _ in pending}):
        yield source, AgentError(f"agent on {source}: not all of its transfers were confirmed")
