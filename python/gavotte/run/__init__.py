"""Run a placement with real bytes. Input: a Placement and its Apps. Output: measured completion times."""

from gavotte.run.replay import RunResult, TransferResult, run
from gavotte.run.transfers import HostTransfer, HostTransfers, host_transfers

__all__ = ["HostTransfer", "HostTransfers", "RunResult", "TransferResult", "host_transfers", "run"]
