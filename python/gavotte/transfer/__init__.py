"""Moves bulk data in the right order and at the right rates: shuffles that end as early as any can."""

from gavotte.transfer.shuffling import wss_bound, wss_rates

__all__ = ["wss_bound", "wss_rates"]
