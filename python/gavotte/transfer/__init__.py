"""Move bulk data in the right order and at the right rates: broadcasts, shuffles, and orders of transfers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.transfer.applications import Broadcast, Shuffle, read_copy
    from gavotte.transfer.broadcasting import broadcast, plan_file, send
    from gavotte.transfer.caching import HostCache
    from gavotte.transfer.carrying import MODES, FlowResult, ShuffleResult, shuffle
    from gavotte.transfer.control import Controller
    from gavotte.transfer.discarding import Discarded, discard
    from gavotte.transfer.guaranteed import guaranteed_hosts, unpaced_warning
    from gavotte.transfer.orders import POLICIES, Coflow, OrderRates, order_rates
    from gavotte.transfer.outcome import BroadcastResult, Receiver
    from gavotte.transfer.planning import BroadcastPlan, plan_broadcast
    from gavotte.transfer.pulling import PullQuestion, PullResult, pull
    from gavotte.transfer.question import BroadcastQuestion, BroadcastSession
    from gavotte.transfer.service import Client, default_socket, serving
    from gavotte.transfer.shuffling import wss_bound, wss_rates
    from gavotte.transfer.simulating import TransferSimulation, simulate_transfers, with_deadlines, write_completions
    from gavotte.transfer.synthetic import synthetic_trace
    from gavotte.transfer.traces import Trace, read_trace, write_trace

__all__ = [
    "MODES",
    "POLICIES",
    "Broadcast",
    "BroadcastPlan",
    "BroadcastQuestion",
    "BroadcastResult",
    "BroadcastSession",
    "Client",
    "Coflow",
    "Controller",
    "Discarded",
    "FlowResult",
    "HostCache",
    "OrderRates",
    "PullQuestion",
    "PullResult",
    "Receiver",
    "Shuffle",
    "ShuffleResult",
    "Trace",
    "TransferSimulation",
    "broadcast",
    "default_socket",
    "discard",
    "guaranteed_hosts",
    "order_rates",
    "plan_broadcast",
    "plan_file",
    "pull",
    "read_copy",
    "read_trace",
    "send",
    "serving",
    "shuffle",
    "simulate_transfers",
    "synthetic_trace",
    "unpaced_warning",
    "with_deadlines",
    "write_completions",
    "write_trace",
    "wss_bound",
    "wss_rates",
]

load_on_first_use(
    __name__,
    {
        "applications": ("Broadcast", "Shuffle", "read_copy"),
        "broadcasting": ("broadcast", "plan_file", "send"),
        "caching": ("HostCache",),
        "carrying": ("MODES", "FlowResult", "ShuffleResult", "shuffle"),
        "control": ("Controller",),
        "discarding": ("Discarded", "discard"),
        "guaranteed": ("guaranteed_hosts", "unpaced_warning"),
        "orders": ("POLICIES", "Coflow", "OrderRates", "order_rates"),
        "outcome": ("BroadcastResult", "Receiver"),
        "planning": ("BroadcastPlan", "plan_broadcast"),
        "pulling": ("PullQuestion", "PullResult", "pull"),
        "question": ("BroadcastQuestion", "BroadcastSession"),
        "service": ("Client", "default_socket", "serving"),
        "shuffling": ("wss_bound", "wss_rates"),
        "simulating": ("TransferSimulation", "simulate_transfers", "with_deadlines", "write_completions"),
        "synthetic": ("synthetic_trace",),
        "traces": ("Trace", "read_trace", "write_trace"),
    },
)
