"""Moves bulk data in the right order and at the right rates: broadcasts and shuffles that end as early as any can."""

from gavotte.transfer.broadcasting import BroadcastResult, Receiver, broadcast, plan_file
from gavotte.transfer.carrying import MODES, FlowResult, ShuffleResult, shuffle
from gavotte.transfer.planning import BroadcastPlan, plan_broadcast
from gavotte.transfer.shuffling import wss_bound, wss_rates

__all__ = [
    "MODES",
    "BroadcastPlan",
    "BroadcastResult",
    "FlowResult",
    "Receiver",
    "ShuffleResult",
    "broadcast",
    "plan_broadcast",
    "plan_file",
    "shuffle",
    "wss_bound",
    "wss_rates",
]
