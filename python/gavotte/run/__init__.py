"""Run a placement with real bytes. Input: a Placement and its Apps. Output: measured completion times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.run.replay import RunResult, TransferResult, run
    from gavotte.run.transfers import HostTransfer, HostTransfers, host_transfers

__all__ = ["HostTransfer", "HostTransfers", "RunResult", "TransferResult", "host_transfers", "run"]

load_on_first_use(
    __name__,
    {
        "replay": ("RunResult", "TransferResult", "run"),
        "transfers": ("HostTransfer", "HostTransfers", "host_transfers"),
    },
)
