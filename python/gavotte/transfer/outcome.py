"""Results of a broadcast and of each of its receivers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gavotte.tables import Tabular
from gavotte.transfer.planning import BroadcastPlan


@dataclass
class Receiver:
    """Result of one receiver.

    Attributes:
        host: its name.
        path: path of its copy.
        finish_s: when its copy was complete, under its final name, in seconds since the source began to send; None =
            never.
        ok: whether its copy is complete.
        error: why not; empty = it is.
        joined_s: when it joined, in seconds since the source began to send, if it was missing at the start or
            disappeared meanwhile; None = it took part all the time.
        bytes: bytes that it has.
        bad_blocks: blocks that arrived damaged, were discarded and sent again.
    """

    host: str
    path: str
    finish_s: float | None = None
    ok: bool = False
    error: str = ""
    joined_s: float | None = None
    bytes: int = 0
    bad_blocks: int = 0


@dataclass(frozen=True)
class BroadcastResult(Tabular):
    """Result of a broadcast. All times are in seconds.

    Attributes:
        plan: the plan that it followed.
        receivers: in the plan's order.
        setup_s: from the first call to the agents until the source began to send.
        elapsed_s: from then until the last healthy receiver had everything; None = none has.
        checksum: BLAKE3 of the hashes of all blocks, the same at each complete receiver; hexadecimal.
        source_sent_bytes: payload that left the source.
        changes: changes to the plan during the broadcast, with reasons.
        warnings: what may have made it slow, one line each.
    """

    plan: BroadcastPlan
    receivers: list[Receiver]
    setup_s: float = 0.0
    elapsed_s: float | None = None
    checksum: str = ""
    source_sent_bytes: int = 0
    changes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        """Time divided by the lower bound."""
        return self.plan.ratio(self.elapsed_s)

    @property
    def lost(self) -> dict[str, str]:
        """Receivers without a complete copy, and why."""
        return {each.host: each.error for each in self.receivers if not each.ok}

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row per receiver."""
        return [
            {key: getattr(each, key) for key in ("host", "finish_s", "ok", "error", "joined_s")}
            for each in self.receivers
        ]
