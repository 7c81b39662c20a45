"""What became of a broadcast and of each of its receivers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gavotte.tables import Tabular
from gavotte.transfer.planning import BroadcastPlan


@dataclass
class Receiver:
    """What became of one receiver.

    Attributes:
        host: its name.
        path: where its copy is.
        finish_s: when it had all, under its name, in seconds since the source began to send; None = never.
        ok: whether it has all.
        error: why not; empty = it has.
        joined_s: when it came, in seconds since the source began to send, if it was not there at the start or went
            meanwhile; None = it was.
        bytes: how much it has.
        bad_blocks: blocks that came wrong, were thrown away and sent again.
    """

    host: str
    path: str
    finish_s: float | None = None
    ok: bool = False
    error: str = ""
    joined_s: float | None = None
    bytes: int = 0
    bad_blocks: int = 0


@dataclass
class BroadcastResult(Tabular):
    """A broadcast as it went. All times in seconds.

    Attributes:
        plan: how it was to go.
        receivers: in the plan's order.
        setup_s: from the first call to the agents until the source began to send.
        elapsed_s: from there until the last healthy receiver had all; None = none has.
        checksum: BLAKE3 of the hashes of all blocks, the same at each receiver that has all; hexadecimal.
        source_sent_bytes: payload that left the source.
        changes: what was changed under way and why.
    """

    plan: BroadcastPlan
    receivers: list[Receiver]
    setup_s: float = 0.0
    elapsed_s: float | None = None
    checksum: str = ""
    source_sent_bytes: int = 0
    changes: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        """How many times the lower bound it took."""
        return self.plan.ratio(self.elapsed_s)

    @property
    def lost(self) -> dict[str, str]:
        """Receivers that do not have it, and why."""
        return {each.host: each.error for each in self.receivers if not each.ok}

    def to_records(self) -> list[dict[str, Any]]:
        """One row a receiver."""
        return [
            {key: getattr(each, key) for key in ("host", "finish_s", "ok", "error", "joined_s")}
            for each in self.receivers
        ]
