"""Remove the incomplete copies that interrupted broadcasts left on their receivers."""

from __future__ import annotations

from dataclasses import dataclass

from gavotte.agents import Budget, enrolled
from gavotte.errors import AgentError
from gavotte.transfer.question import BroadcastQuestion

LIMIT_S = 60.0


@dataclass(frozen=True)
class Discarded:
    """Result of removing incomplete copies.

    Attributes:
        removed: receivers that had an incomplete copy, which is removed now.
        failed: receiver to reason, for receivers that do not answer or cannot remove theirs.
    """

    removed: list[str]
    failed: dict[str, str]


def discard(question: BroadcastQuestion) -> Discarded:
    """Remove the incomplete copies of a broadcast on its receivers. Complete copies, and those that grow now, remain.

    Args:
        question: the broadcast that left them; its output and receivers count.

    Raises:
        GavotteError: when hosts and output do not belong together.
    """
    paths = question.paths
    budget = Budget(max_bytes=1, max_seconds=LIMIT_S)
    used = question.hosts(question.receivers)
    with enrolled(used, budget, purpose="discard", shared=True, direct=True) as fleet:
        present = {name: path for name, path in paths.items() if name not in fleet.missing}
        replies = fleet.discard(present)
        failed = dict(fleet.missing)
    failed |= {name: str(reply) for name, reply in replies.items() if isinstance(reply, AgentError)}
    return Discarded([name for name, reply in replies.items() if reply is True], failed)
