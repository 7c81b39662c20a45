"""Moves bulk data in the right order and at the right rates: shuffles that end as early as any can."""

from gavotte.transfer.carrying import MODES, FlowResult, ShuffleResult, shuffle
from gavotte.transfer.shuffling import wss_bound, wss_rates

__all__ = ["MODES", "FlowResult", "ShuffleResult", "shuffle", "wss_bound", "wss_rates"]
