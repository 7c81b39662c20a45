"""Results of a broadcast and of each of its receivers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from gavotte.tables import Tabular
from gavotte.transfer.planning import BroadcastPlan

SHOWN = 4
"""Number of hosts that one cause names."""


def shown(names: Sequence[str]) -> str:
    """Return the first names of a list, and the number of the others."""
    return f"{', '.join(names[:SHOWN])}{f' and {len(names) - SHOWN} more' * (len(names) > SHOWN)}"


def causes(lost: Mapping[str, str], output: str) -> list[str]:
    """Return each cause once, after the hosts that it kept from their copies.

    Args:
        lost: host to cause.
        output: path of the copies, which causes name with the receiver's name in place of `{host}`.
    """
    hosts: dict[str, list[str]] = {}
    for host, why in lost.items():
        hosts.setdefault(why.replace(output.replace("{host}", host), output), []).append(host)
    return [f"{shown(names)}: {why}" for why, names in hosts.items()]


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
    cached_bytes: int = 0


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
        encrypted: whether blocks were encrypted between hosts.
    """

    plan: BroadcastPlan
    receivers: list[Receiver]
    setup_s: float = 0.0
    elapsed_s: float | None = None
    checksum: str = ""
    source_sent_bytes: int = 0
    changes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    encrypted: bool = False

    @property
    def ratio(self) -> float | None:
        """Time divided by the lower bound."""
        return self.plan.ratio(self.elapsed_s)

    @property
    def lost(self) -> dict[str, str]:
        """Receivers without a complete copy, and why."""
        return {each.host: each.error for each in self.receivers if not each.ok}

    def loss_message(self, output: str) -> str:
        """Return how many receivers have no copy, which, and why.

        Args:
            output: path of the copies, with `{host}` for the receiver's name.
        """
        lost = self.lost
        why = "; ".join(causes(lost, output))
        return f"{len(lost)} of {len(self.receivers)} receivers did not get the file: {why}"

    def remedy(self, output: str) -> str:
        """Return what the user can do so that the lost receivers get their copies. Arguments as above."""
        lost = self.lost
        unwritten = [host for host, why in lost.items() if ".partial: " in why]
        if any(".partial: No such file" in why for why in lost.values()):
            folder = f"make the folder `{PurePosixPath(output).parent}` on each of them, or "
        else:
            folder = ""
        if unwritten:
            return f"{folder}give -o a folder that each receiver has, may write to and has room in"
        return f"send it again to {shown(list(lost))}: what has arrived there is not sent again"

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row per receiver."""
        return [
            {key: getattr(each, key) for key in ("host", "finish_s", "ok", "error", "joined_s")}
            for each in self.receivers
        ]
