"""Runs a placement with real bytes: a Placement and its Apps go in, measured completion times come out."""

from gavotte.run.replay import RunResult, TransferResult, run
from gavotte.run.schedule import Schedule, schedule

__all__ = ["RunResult", "Schedule", "TransferResult", "run", "schedule"]
