"""Runs a placement with real bytes: a Placement and its Apps go in, measured completion times come out."""

from gavotte.run.replay import RunResult, TransferResult, run
from gavotte.run.transfers import HostTransfer, HostTransfers, host_transfers

__all__ = ["HostTransfer", "HostTransfers", "RunResult", "TransferResult", "host_transfers", "run"]
