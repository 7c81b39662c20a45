"""Measure cross traffic on a path, as an equivalent number of bulk TCP connections (Choreo section 3.2)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from gavotte.agents import Budget, Neighbour, enrolled
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.schedule import Step, carry_out
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.history import Floats
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.formats.parts.names import known_as, unknown_host
from gavotte.measure.question import ProbeSession
from gavotte.tables import Tabular

CONGESTION = "cubic"
"""The method assumes equal shares among equal connections. BBR does not give them."""

BIN_S = 0.01
"""Width of the bins in which bytes are counted, as in the paper."""

SMOOTH_BINS = 10
"""Number of bins in an evaluated window of 100 ms. Single bins of 10 ms are noise for c above 4."""

SETTLE_S = 0.5
"""Seconds ignored at the start, while a new connection is still growing."""

MOST = 100.0
"""Largest result.

A window in which a lost segment held everything back says nothing about the load, and would give infinity.
"""

LOW, HIGH = 10, 90
"""Percentiles of the interval over time."""

SEVERAL = 8
"""Number of connections that take turns with one if the path's rate is unknown.

The paper has two, whose ratio to one is too imprecise. Turns of 2 s differ by 20 % by chance, and 1 to 8 other
connections in a lab were recognised in 1 of 10 tries.
"""

SLOT_S = 2.0
"""Length of each turn of one or several connections, if the path's rate is unknown.

Load that comes and goes affects both.
"""

LEAST_TURNS = 3

WIDE = 2.0
"""An estimate whose 95 % interval is wider than this, and than the estimate itself, is discarded."""

T95 = {2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}
"""Student's t for 95 % by degrees of freedom; `T95_MANY` beyond."""
T95_MANY = 2.2


@dataclass(frozen=True)
class CrossTraffic(Tabular):
    """Load on a path in addition to our own connection.

    Attributes:
        source: host that sent.
        target: host that received.
        start_s: Unix time at which it began.
        time_s: (k,) middle of each 100 ms window, from the start.
        connections: (k,) equivalent bulk connections in each window; empty if the load is unknown.
        median: median of `connections`; NaN = unknown except for its bounds `low` and `high`.
        low: 10th percentile, at the lower bound of `max_bps`.
        high: 90th percentile, at the upper bound of `max_bps`; infinity = it may be any number.
        max_bps: the path rate c1 that was used, TCP goodput; NaN if the load is unknown.
        rtt_idle_s: round trip before the measurement.
        rtt_loaded_s: the kernel's smoothed round trip at the end, with the queue that the connections fill.
        how: `known rate` or `turns` of one and several connections.
        beside: runs of one's own that moved bytes between the two hosts meanwhile. The load includes them.
    """

    source: str
    target: str
    start_s: float
    time_s: Floats
    connections: Floats
    median: float
    low: float
    high: float
    max_bps: float
    rtt_idle_s: float
    rtt_loaded_s: float
    how: str
    beside: tuple[Neighbour, ...] = ()

    @property
    def told(self) -> bool:
        """Whether the load is known: `median` is a finite number."""
        return bool(np.isfinite(self.median))

    @property
    def warnings(self) -> list[str]:
        """Own runs whose traffic the load includes, one sentence each."""
        return [run.warning("the cross traffic contains them") for run in self.beside]

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row per window."""
        windows = zip(self.time_s.tolist(), self.connections.tolist(), strict=True)
        return [{"time_s": time_s, "connections": number} for time_s, number in windows]


def connections(rate_bps: Floats, max_bps: float) -> Floats:
    """Return the equivalent number of other connections in each window: c = c1 / c2 - 1, from 0 to `MOST`.

    Args:
        rate_bps: (k,) rate of our connection, c2.
        max_bps: its rate alone, c1.
    """
    return np.clip(max_bps / np.maximum(rate_bps, 1e-9 * max_bps) - 1, 0.0, MOST)


def connections_from_ratio(ratio: float, several: int = SEVERAL) -> float:
    """Return the cross traffic of a path of unknown rate, from the rates of several connections together and of one.

    With c others, one of c + 1 gets C / (c + 1) and k of c + k get kC / (c + k). The ratio is k (c + 1) / (c + k),
    solved for c. A ratio of k or more means that the path was not full.

    Args:
        ratio: rate of several connections divided by that of one.
        several: number of several connections, k; the paper has two.

    Returns:
        c, at least 0; infinity when k connections got k times as much as one.
    """
    return float("inf") if ratio >= several else max(0.0, several * (ratio - 1) / (several - ratio))


@dataclass(frozen=True)
class Load:
    """An estimate of other connections with its 95 % interval; infinity = any number, NaN = unknown."""

    connections: float
    low: float
    high: float


def load_from_turns(one_bps: Floats, several_bps: Floats, several: int = SEVERAL) -> Load:
    """Return the cross traffic from turns of one and of several connections, with its error.

    The more others there are, the less the ratio determines c. An error of 3 % is one of 0.2 connections at c = 3, of 1
    at 10 (0.6 and 4 with the paper's two connections). If the ratio may be k, there is no upper bound.

    Args:
        one_bps: (n,) rates of one connection, at least 3 times.
        several_bps: (n,) rates of several together, right before or after.
        several: number of several connections.

    Returns:
        The estimate by the mean of the ratios' logarithms, the interval by Student's t. NaN if the interval is wider
        than `WIDE` and than the estimate.
    """
    ratios = np.log(several_bps / one_bps)
    mean = float(ratios.mean())
    error = T95.get(len(ratios) - 1, T95_MANY) * float(ratios.std(ddof=1)) / len(ratios) ** 0.5
    middle, low, high = (connections_from_ratio(float(np.exp(mean + way * error)), several) for way in (0, -1, 1))
    return Load(middle if high - low <= max(WIDE, middle) else float("nan"), low, high)


def windows(bin_bytes: Floats) -> Floats:
    """Return rates of successive 100 ms windows in bit/s from bytes in 10 ms bins; the rest of a window is dropped."""
    whole = len(bin_bytes) // SMOOTH_BINS * SMOOTH_BINS
    return np.asarray(8 * bin_bytes[:whole].reshape(-1, SMOOTH_BINS).sum(axis=1) / (SMOOTH_BINS * BIN_S))


@dataclass(frozen=True)
class CrossQuestion:
    """Whose cross traffic to estimate.

    Attributes:
        inventory: the hosts.
        source: sending host.
        target: receiving host.
        max_bps: TCP goodput of the path without cross traffic; None = from `known`.
        known: a Network with the path's rate. If neither gives the rate, several connections take turns with one, which
            takes twice as long and is less precise.
        seconds: how long to watch one connection (the paper: 10 s).
    """

    inventory: Inventory
    source: str
    target: str
    max_bps: float | None = None
    known: Network | None = None
    seconds: float = 10.0


@dataclass(frozen=True)
class CrossPlan:
    """The connections that will be watched.

    Attributes:
        ends: the two hosts, the sending one first.
        rate_bps: the path's rate with its interval; None = unknown.
        turns: number of connections in each turn.
        slot_s: duration of a turn.
    """

    ends: Inventory
    rate_bps: tuple[float, ...] | None
    turns: list[int]
    slot_s: float

    @property
    def budget(self) -> Budget:
        """Most bytes and seconds that each agent may spend."""
        return Budget(max_bytes=0, max_seconds=len(self.turns) * self.slot_s + 60)


def plan_cross(question: CrossQuestion) -> CrossPlan:
    """Plan the turns of one and of several connections.

    Raises:
        GavotteError: for an unknown host, a time too short, or a rate that no path has.
    """
    by_name = {host.name: host for host in question.inventory.host}
    source, target = known_as(question.source, by_name), known_as(question.target, by_name)
    for name in (source, target):
        if name not in by_name:
            raise unknown_host(name, by_name, "the inventory")
    if source == target:
        raise GavotteError(f"`{source}` has no path to itself", hint="use two hosts")
    max_bps, seconds = question.max_bps, question.seconds
    if max_bps is not None and not 0 < max_bps < float("inf"):
        raise GavotteError(f"a path cannot carry {max_bps} bit/s", hint="use more than 0")
    if not SETTLE_S + 0.5 <= seconds <= 600:
        raise GavotteError(f"cannot measure for {seconds} s", hint="use 1 to 600 s")
    ends = question.inventory.model_copy(update={"host": [by_name[source], by_name[target]]})
    rate_bps = _rate(max_bps, question.known, source, target)
    if rate_bps is not None:
        return CrossPlan(ends, rate_bps, [1], seconds)
    # One, several, several, one: a steady change affects both alike.
    count = max(LEAST_TURNS, round(seconds / SLOT_S))
    turns = [number for turn in range(count) for number in ((1, SEVERAL) if turn % 2 == 0 else (SEVERAL, 1))]
    return CrossPlan(ends, None, turns, SLOT_S)


def cross(question: CrossQuestion, session: ProbeSession | None = None) -> CrossTraffic:
    """Estimate the cross traffic on one path over time.

    Args:
        question: the path, and what is known about it.
        session: settings of the run.

    Raises:
        GavotteError: for an unknown host, a time too short, or a rate that no path has.
        AgentError: when the path does not answer.
    """
    plan, session = plan_cross(question), session or ProbeSession()
    source, target = plan.ends.names
    turns, rate = plan.turns, plan.rate_bps
    schedule = [[Step(source, target, pb.Probe(bulk=_bulk(flows, plan.slot_s)))] for flows in turns]
    with enrolled(plan.ends, plan.budget, purpose="measure cross", take_over=session.take_over) as fleet:
        if fleet.missing:
            name, reason = next(iter(fleet.missing.items()))
            raise AgentError(f"{name}: {reason}")
        asked_s = time.time()
        answers = []
        for answer in carry_out(fleet, schedule, round_s=plan.slot_s):
            answers.append(answer)
            if session.progress is not None:
                session.progress(len(answers), len(turns))
        answers.sort(key=lambda answer: answer.round)
        replies = [answer.checked() for answer in answers]
        beside = tuple(fleet.beside())
    rates = [_settled(reply) for reply in replies]
    if rate is None:
        means = np.array([window_bps.mean() for window_bps in rates])
        one, several = (means[[flows == number for flows in turns]] for number in (1, SEVERAL))
        load = load_from_turns(one, several)
        rate = tuple(float(one.mean()) * (1 + each) for each in (load.connections, load.low, load.high))
    alone = [(reply, window_bps) for reply, window_bps, flows in zip(replies, rates, turns, strict=True) if flows == 1]
    got = np.concatenate([window_bps for _, window_bps in alone])
    middle, low, high = (connections(got, each) if np.isfinite(each) else None for each in rate)
    starts_s = [reply.started_s - replies[0].started_s for reply, _ in alone]
    time_s = np.concatenate(
        [
            start_s + SETTLE_S + (np.arange(len(window_bps)) + 0.5) * SMOOTH_BINS * BIN_S
            for start_s, (_, window_bps) in zip(starts_s, alone, strict=True)
        ]
    )
    return CrossTraffic(
        source=source,
        target=target,
        start_s=asked_s + replies[0].started_s,
        time_s=time_s if middle is not None else np.zeros(0),
        connections=middle if middle is not None else np.zeros(0),
        median=float(np.median(middle)) if middle is not None else float("nan"),
        low=float(np.percentile(low, LOW)) if low is not None else 0.0,
        high=float(np.percentile(high, HIGH)) if high is not None else float("inf"),
        max_bps=rate[0],
        rtt_idle_s=alone[0][0].rtt_s,
        rtt_loaded_s=alone[-1][0].bulk.flows[0].rtt_s,
        how="known rate" if turns == [1] else "turns",
        beside=beside,
    )


def _bulk(flows: int, seconds: float) -> pb.Bulk:
    return pb.Bulk(seconds=seconds, flows=flows, congestion=CONGESTION, bin_s=BIN_S)


def _rate(max_bps: float | None, known: Network | None, source: str, target: str) -> tuple[float, ...] | None:
    """Return the path's rate with its interval, as far as it is known. A guessed rate does not count.

    Raises:
        GavotteError: when the Network does not have the hosts.
    """
    if max_bps is not None:
        return max_bps, max_bps, max_bps
    if known is None:
        return None
    m, n = known.pair(source, target)
    rate_bps = known.undisturbed_bps(m, n)
    if rate_bps is None or (known.doubt and known.doubt[m][n] is not None):
        return None
    low_bps = (known.rate_low_bps[m][n] if known.rate_low_bps else None) or rate_bps
    return rate_bps, min(low_bps, rate_bps), rate_bps


def _settled(reply: pb.ProbeReply) -> Floats:
    """Return rates of all flows together by window, without the start."""
    length = max(len(flow.bin_bytes) for flow in reply.bulk.flows)
    total = np.zeros(length)
    for flow in reply.bulk.flows:
        total[: len(flow.bin_bytes)] += np.array(flow.bin_bytes, dtype=np.float64)
    kept = windows(total[round(SETTLE_S / BIN_S) :])
    if len(kept) == 0:
        raise AgentError("the connection ended before its rate had settled")
    return kept
