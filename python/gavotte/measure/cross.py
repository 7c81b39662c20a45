"""Cross traffic on a path, as an equivalent number of bulk TCP connections (Choreo section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gavotte.agents import Budget, enrolled
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.schedule import Step, carry_out
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.history import Floats
from gavotte.formats.inventory import Inventory
from gavotte.tables import Tabular

CONGESTION = "cubic"
"""Equal shares among equal connections are the method's assumption; BBR does not keep it."""

BIN_S = 0.01
"""The paper's bin."""

SMOOTH_BINS = 10
"""Bins of 10 ms are noise for c above 4; 100 ms are judged together."""

SETTLE_S = 0.5
"""Left out at the start: a new connection is still growing."""

MOST = 100.0
"""A window in which a lost segment held everything back says nothing of the load, and would say infinity."""

LOW, HIGH = 10, 90
"""Percentiles of the interval over time."""


@dataclass(frozen=True)
class CrossTraffic(Tabular):
    """Load on a path beside our own connection.

    Attributes:
        source: host that sent.
        target: host that received.
        time_s: (k,) middle of each 100 ms window, from the start.
        connections: (k,) equivalent bulk connections in each.
        median: of `connections`.
        low: 10th percentile.
        high: 90th percentile.
        max_bps: path rate c1 that was used, TCP goodput.
        rtt_idle_s: round trip before.
        rtt_loaded_s: the kernel's smoothed round trip at the end: the queue that the connections fill.
        how: `known rate` or `two connections`.
    """

    source: str
    target: str
    time_s: Floats
    connections: Floats
    median: float
    low: float
    high: float
    max_bps: float
    rtt_idle_s: float
    rtt_loaded_s: float
    how: str

    def to_records(self) -> list[dict[str, Any]]:
        """One row a window."""
        windows = zip(self.time_s.tolist(), self.connections.tolist(), strict=True)
        return [{"time_s": time_s, "connections": number} for time_s, number in windows]


def connections(rate_bps: Floats, max_bps: float) -> Floats:
    """Equivalent other connections in each window: c = c1 / c2 - 1, from 0 to `MOST`.

    Args:
        rate_bps: (k,) what our connection got, c2.
        max_bps: what it gets alone, c1.
    """
    return np.clip(max_bps / np.maximum(rate_bps, 1e-9 * max_bps) - 1, 0.0, MOST)


def connections_from_two(one_bps: float, two_bps: float) -> float:
    """Cross traffic where the path's rate is unknown: one connection got `one_bps`, two together `two_bps`.

    With c others, one of c + 1 gets C / (c + 1) and two of c + 2 get 2C / (c + 2); the ratio of the two is
    2 (c + 1) / (c + 2), solved for c. A ratio of 2 or more means that the path was not full.

    Returns:
        c, at least 0; infinity when two connections got twice of one.
    """
    ratio = two_bps / one_bps
    return float("inf") if ratio >= 2 else max(0.0, (2 * ratio - 2) / (2 - ratio))


def windows(bin_bytes: Floats) -> Floats:
    """Rates of successive 100 ms windows in bit/s from bytes in 10 ms bins; the rest of a window is dropped."""
    whole = len(bin_bytes) // SMOOTH_BINS * SMOOTH_BINS
    return np.asarray(8 * bin_bytes[:whole].reshape(-1, SMOOTH_BINS).sum(axis=1) / (SMOOTH_BINS * BIN_S))


def cross(
    inventory: Inventory, source: str, target: str, *, max_bps: float | None = None, seconds: float = 10.0
) -> CrossTraffic:
    """Estimates the cross traffic on one path over time.

    Args:
        inventory: the hosts.
        source: sending host.
        target: receiving host.
        max_bps: TCP goodput of the path without cross traffic; None = unknown, then a second measurement with
            two connections tells.
        seconds: how long to watch (the paper: 10 s).

    Raises:
        GavotteError: for an unknown host or a time too short.
        AgentError: when the path does not answer.
    """
    by_name = {host.name: host for host in inventory.host}
    for name in (source, target):
        if name not in by_name:
            raise GavotteError(f"`{name}` is not a host of the inventory", hint="check its spelling")
    if source == target:
        raise GavotteError(f"`{source}` has no path to itself", hint="use two hosts")
    if not SETTLE_S + 0.5 <= seconds <= 600:
        raise GavotteError(f"cannot measure for {seconds} s", hint="use 1 to 600 s")
    ends = inventory.model_copy(update={"host": [by_name[source], by_name[target]]})
    flows = [1] if max_bps is not None else [1, 2]
    schedule = [
        [Step(source, target, pb.Probe(bulk=pb.Bulk(seconds=seconds, flows=n, congestion=CONGESTION, bin_s=BIN_S)))]
        for n in flows
    ]
    budget = Budget(max_bytes=0, max_seconds=len(flows) * seconds + 60)
    with enrolled(ends, budget, purpose="measure cross") as fleet:
        if fleet.missing:
            name, reason = next(iter(fleet.missing.items()))
            raise AgentError(f"{name}: {reason}")
        answers = sorted(carry_out(fleet, schedule, round_s=seconds), key=lambda answer: answer.round)
    replies = [answer.checked() for answer in answers]
    rates = [_settled(reply) for reply in replies]
    how = "known rate"
    if max_bps is None:
        how = "two connections"
        load = connections_from_two(float(np.median(rates[0])), float(np.median(rates[1])))
        if not np.isfinite(load):
            raise AgentError(
                f"{source} to {target}: two connections carried twice as much as one, so the path was not full",
                hint="use --max-rate, or measure longer",
            )
        max_bps = float(np.median(rates[0])) * (1 + load)
    found = connections(rates[0], max_bps)
    flow = replies[0].bulk.flows[0]
    return CrossTraffic(
        source=source,
        target=target,
        time_s=np.asarray(SETTLE_S + (np.arange(len(found)) + 0.5) * SMOOTH_BINS * BIN_S, dtype=np.float64),
        connections=found,
        median=float(np.median(found)),
        low=float(np.percentile(found, LOW)),
        high=float(np.percentile(found, HIGH)),
        max_bps=max_bps,
        rtt_idle_s=replies[0].rtt_s,
        rtt_loaded_s=flow.rtt_s,
        how=how,
    )


def _settled(reply: pb.ProbeReply) -> Floats:
    """Rates of all flows together by window, without the start."""
    length = max(len(flow.bin_bytes) for flow in reply.bulk.flows)
    total = np.zeros(length)
    for flow in reply.bulk.flows:
        total[: len(flow.bin_bytes)] += np.array(flow.bin_bytes, dtype=np.float64)
    kept = windows(total[round(SETTLE_S / BIN_S) :])
    if len(kept) == 0:
        raise AgentError("the connection ended before its rate had settled")
    return kept
