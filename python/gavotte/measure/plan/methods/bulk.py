"""Bulk TCP for a fixed time or a fixed number of bytes, on one or several connections."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import zip_longest
from typing import Literal

from gavotte.agents import agent_pb2 as pb
from gavotte.measure.plan.methods.method import ASSUMED_RATE_BPS, Method, Play, Reading
from gavotte.terms.credit import find_credit
from gavotte.terms.goodput import goodput_per_wire

FAR_S = 0.004
"""Round trip of a far path, on which agents do not count TCP's start."""

BULK_S = 1.0
BULK_BIN_S, MOST_BULK_BINS = 0.01, 8_000

BULK_SETUP_S: dict[str, float] = {"gavotte": 0.04, "iperf3": 0.5}
"""Time of a bulk probe in addition to sending: connecting, pings, the last bytes' way, the report."""

Engine = Literal["gavotte", "iperf3"]
ENGINES: tuple[Engine, ...] = ("gavotte", "iperf3")
_ENGINES: dict[Engine, pb.BulkEngine] = {"gavotte": pb.BULK_ENGINE_OWN, "iperf3": pb.BULK_ENGINE_IPERF3}


def _read_bulk(reply: pb.ProbeReply, bin_s: float) -> Reading:
    """Return what all connections carry. If a credit ran out on the way, it is the rate after that, not the average."""
    rates = [8 * flow.bytes / flow.seconds for flow in reply.bulk.flows if flow.seconds > 0]
    jain = jain_index(rates) if len(rates) > 1 else math.nan
    bins = [sum(column) for column in zip_longest(*(flow.bin_bytes for flow in reply.bulk.flows), fillvalue=0)]
    credit = find_credit(bins, bin_s)
    if credit is None:
        usual_bps = usual_rate(bins, bin_s, reply.rtt_s) if reply.rtt_s >= FAR_S else math.nan
        return Reading(goodput_bps=reply.bulk.goodput_bps if math.isnan(usual_bps) else usual_bps, jain=jain)
    return Reading(
        goodput_bps=credit.rate_bps,
        peak_bps=credit.peak_bps,
        bucket_bytes=credit.size_bytes / goodput_per_wire(reply.mtu_bytes),
        jain=jain,
    )


def _play_bulk(play: Play) -> pb.ProbeReply:
    reply = play.reply()
    reply.bulk.goodput_bps = play.share_bps
    reply.bulk.flows.add(bytes=reply.bytes_sent, seconds=play.typical(play.share_bps)[1])
    return reply


def usual_rate(bins: Sequence[int], bin_s: float, round_trip_s: float) -> float:
    """Return the mean rate of the middle half of the windows of one round trip, in bit/s; NaN = fewer than 4 windows.

    A lost packet holds back what comes after it for a round trip or more. All of that then counts in one window,
    perhaps in the first: up to 17 % too much of a second at 150 ms.

    Args:
        bins: bytes that arrived in each bin.
        bin_s: width of a bin.
        round_trip_s: of the path.
    """
    width = max(1, round(round_trip_s / bin_s))
    windows = sorted(sum(bins[at : at + width]) for at in range(0, len(bins) - width + 1, width))
    outer = len(windows) // 4
    middle = windows[outer : len(windows) - outer]
    return 8 * statistics.fmean(middle) / (width * bin_s) if outer else math.nan


def jain_index(rates: Sequence[float]) -> float:
    """Return the fairness of shares: (sum x)^2 / (n sum x^2), 1 when all are equal (Jain 1984; OSMeF section IV)."""
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else math.nan


def bulk(
    *,
    flows: int = 1,
    seconds: float = BULK_S,
    congestion: str = "cubic",
    engine: Engine = "gavotte",
    max_bytes: int = 0,
) -> Method:
    """Return bulk TCP for a fixed time, in bins of 10 ms at the receiver, or longer ones from 80 s on.

    On far paths, from 4 ms on, agents send for 12 round trips longer and do not count these: TCP fills such a path
    slowly. Everything counts if the limit of bytes ends the probe before.

    Args:
        flows: parallel connections.
        seconds: duration.
        congestion: set on every socket.
        engine: the program that sends and counts: the agents, or the hosts' iperf3 (then without bins).
        max_bytes: payload of all connections after which the agents stop early; 0 = no limit.
    """
    # Agents refuse more than 8192.
    bin_s = max(BULK_BIN_S, seconds / MOST_BULK_BINS)
    asked = pb.Bulk(
        seconds=seconds,
        flows=flows,
        congestion=congestion,
        bin_s=bin_s,
        engine=_ENGINES[engine],
        max_bytes=max_bytes,
        settled=True,
    )

    def typical(bps: float) -> tuple[float, float]:
        size = min(bps / 8 * seconds, max_bytes or math.inf)
        return size, 8 * size / bps + BULK_SETUP_S[engine]

    return Method(
        name="bulk",
        probe=pb.Probe(bulk=asked),
        bytes_per_path=max_bytes or int(ASSUMED_RATE_BPS / 8 * seconds),
        typical=typical,
        read=lambda reply: _read_bulk(reply, bin_s),
        play=_play_bulk,
        shows_noise=True,
        fixed_bytes=False,
    )
