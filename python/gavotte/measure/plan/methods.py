"""Methods to measure one path, each with its probe, its cost and the way to read its answer."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Literal

import numpy as np

from gavotte.agents import agent_pb2 as pb
from gavotte.errors import GavotteError
from gavotte.formats.history import ByTcp
from gavotte.measure.plan.credit import find_credit
from gavotte.terms.goodput import ETHERNET_BYTES, UDP_HEADER_BYTES, UDP_PAYLOAD_BYTES, goodput_per_wire

BURSTS = 10
BURST_PACKETS = 200
BURST_GAP_S = 0.001
"""Choreo section 4.1: K = 10 bursts of B = 200 packets, 1 ms apart (its EC2 values)."""

MOST_BURSTS, MOST_PACKETS, MOST_TRAIN_PACKETS = 1_000, 20_000, 1_000_000
PAYLOADS = range(44, 65_508)
"""UDP payloads of one train that agents accept. A packet holds a header of 44 bytes."""

IPV6_HEADER_BYTES = 40

TRAIN_USUAL_S, TRAIN_SURE_S = 0.056, 0.006
"""Usual duration of a train without a deep bucket: 7 to 8 MB at 1 Gbit/s.

Its receiver takes the second value longer for each Gbit/s above that, at most 1.5 times as long in total: 16 MB at
2 Gbit/s, 50 at 5.
"""

TRAIN_LONG_BYTES, TRAIN_LONG_S = 1_000_000, 0.16
"""A slower train sends this many bytes, or takes this long: it may meet a policer whose bucket is not yet empty."""

TRAIN_SLOW_BYTES, TRAIN_QUIET_S, TRAIN_LEAST_BYTES = 310_000, 0.03, 600_000
"""A train also lasts until it has 12 blocks of 17 packets, which takes longer on slow paths.

Then its receiver waits for the last packets. Its first bytes exceed what a slow path can queue, so that it loses some:
0.60 MB in 0.17 s at 20 Mbit/s.
"""

TRAIN_FILL_BYTES = 256 << 10
"""Bytes that a train sends at once at its start, whatever its path carries."""

TRAIN_BYTES = 64_000_000
"""Most bytes of a gated train: empties a bucket of 60 MB. Without a deep bucket, 1 to 10 MB were seen up to 1 Gbit/s.
"""
TRAIN_MAX_S = 1.0
TRAIN_BIN_S = 0.01
TRAIN_BRIEF_S = 0.2
"""Enough from 5 Mbit/s on. Without this limit, trains that share a full link would send for all their time."""

FAR_S = 0.004
"""Round trip of a far path, on which agents do not count TCP's start."""

BULK_S = 1.0
BULK_BIN_S, MOST_BULK_BINS = 0.01, 8_000

BULK_SETUP_S: dict[str, float] = {"gavotte": 0.04, "iperf3": 0.5}
"""Time of a bulk probe in addition to sending: connecting, pings, the last bytes' way, the report."""

QUEUE_S = 0.05
"""Time that a shaper's queue holds, as in labs. Packets that find it full are lost, and take no time."""

PACKET_S = 1 / 150e3
"""Time that an agent needs to send one packet of a burst."""

ASSUMED_RATE_BPS = 1e9
"""Rate of paths that no Network covers, for the estimate, unless the user gives one."""

SETUP_S = 0.006
"""Time of one round: connecting, pings, the report. 4 ms were seen on a quiet machine, 15 if each round is sent alone.
"""

PINGPONG_BYTES = (1, 1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20, 8_000_000)
PINGPONG_REPETITIONS = 1
PINGPONG_PATH_BYTES = (sum(PINGPONG_BYTES) + len(PINGPONG_BYTES)) * (PINGPONG_REPETITIONS + 1)
"""Bytes of ping-pong on one path; each message is answered by one byte.

RPCA section IV-B measures alpha with 1 byte and beta with 8 MB; the sizes between show whether a line fits.
"""

RateVerdict = Literal["path-limited", "host-limited", "bucket-not-exhausted", "unproven"]
"""Meaning of a rate. All but the first are lower bounds, except that the meaning of `unproven` is unknown."""


LOWER_BOUNDS: tuple[RateVerdict, ...] = ("host-limited", "bucket-not-exhausted")

Engine = Literal["gavotte", "iperf3"]
ENGINES: tuple[Engine, ...] = ("gavotte", "iperf3")
_ENGINES: dict[Engine, pb.BulkEngine] = {"gavotte": pb.BULK_ENGINE_OWN, "iperf3": pb.BULK_ENGINE_IPERF3}


@dataclass(frozen=True)
class Reading:
    """Result of one probe of a path. Rates are TCP goodput in bit/s.

    Attributes:
        goodput_bps: the path's rate.
        low_bps: lower end of its 95 % interval; NaN = the method has none.
        high_bps: upper end of it.
        peak_bps: rate while the token bucket lasts; NaN = unknown.
        bucket_bytes: depth of the bucket, wire bytes; NaN = unknown.
        loss: share of packets lost; NaN = unknown.
        unqueued: packets that met no full queue, lost ones included; 0 = not counted.
        unqueued_lost: losses among them, not by overflow but at random; packets lost in a row count once.
        verdict: meaning of the rate.
        refusal: why there is no rate; empty = there is one.
        failure: the same as one of the contract's `Failure` codes; 0 = there is one.
        alpha_s: one-way latency, if the method measures its own; NaN = half the round trip before the probe.
        residual: relative RMS residual of the alpha-beta line; NaN = no line.
        policed: whether the path drops what exceeds the rate instead of letting it wait.
        jain: Jain's fairness index of parallel flows, 1/n to 1; NaN = one flow.
        by_tcp: why bulk TCP measured it although another method was requested; empty = it did not.
        several_bps: total rate of `connections` parallel connections; NaN = not tried.
        connections: the least number that carries that; 0 = not tried.
        sent_bytes: TCP payload, or as many bytes of a train, that the probe carried at this rate; NaN = unknown.
    """

    goodput_bps: float
    low_bps: float = math.nan
    high_bps: float = math.nan
    peak_bps: float = math.nan
    bucket_bytes: float = math.nan
    loss: float = math.nan
    unqueued: int = 0
    unqueued_lost: int = 0
    verdict: RateVerdict = "unproven"
    refusal: str = ""
    failure: int = 0
    alpha_s: float = math.nan
    residual: float = math.nan
    jain: float = math.nan
    by_tcp: ByTcp = ""
    policed: bool = False
    several_bps: float = math.nan
    connections: int = 0
    sent_bytes: float = math.nan


UNSTEADY = 0.6
"""Share of trains that find no rate on a full link with other trains, and then use all their time."""

LOST = 0.98
"""A pair that carries less than this share of its rate alone has lost to others."""

BURST_NOISE = 0.025
"""Noise of Choreo's trains: 94 to 103 Mbit/s on a path of 96, so that some paths are measured twice."""


@dataclass(frozen=True)
class Play:
    """Conditions that a simulated network gives one probe. Rates are TCP goodput in bit/s.

    Attributes:
        probe: the probe.
        share_bps: the path's rate next to all others that send now.
        alone_bps: its rate alone.
        typical: usual bytes and seconds of the method at a rate.
        taken: bytes and seconds of trains, as multiples of the usual ones.
        goodput: TCP goodput of a wire rate on this path.
        mtu_bytes: MTU of the path.
        payload_bytes: UDP payload of a packet.
        wire_bytes: the same packet as a shaper counts it.
        random: decides which trains find no rate, and how much readings scatter.
    """

    probe: pb.Probe
    share_bps: float
    alone_bps: float
    typical: Callable[[float], tuple[float, float]]
    taken: tuple[float, float]
    goodput: float
    mtu_bytes: int
    payload_bytes: int
    wire_bytes: int
    random: random.Random

    def reply(self) -> pb.ProbeReply:
        """Return an answer without a result, of the usual bytes and seconds."""
        size, seconds = self.typical(self.share_bps)
        return pb.ProbeReply(seconds=seconds - SETUP_S, bytes_sent=int(size))


def refused(reason: str, failure: int = pb.FAILURE_NO_RATE) -> Reading:
    """Return a reading without a rate."""
    return Reading(goodput_bps=math.nan, refusal=reason, failure=failure)


@dataclass(frozen=True)
class Method:
    """Way to measure a path: its probe, its cost, and how to read its answer.

    Attributes:
        name: the name that `--method` accepts.
        probe: instructions for the sender.
        bytes_per_path: most payload bytes that one path costs.
        typical: payload bytes and seconds that a path of a given rate (TCP goodput, bit/s) usually costs.
        read: reads an answer without error.
        play: makes the answer of a simulated network.
        tolerance: largest relative difference of two readings of one path that agree.
        adapts_to_noise: whether it sends until its rate is steady. A rate that it finds then is the path's, and where
            it finds none, other traffic fills the path.
        shows_noise: whether its rates change with other traffic, so that two readings alone show that there is some.
        can_pause: whether its probes can connect first and start together later, end early, and be shorter.
        fixed_bytes: whether `bytes_per_path` is the most that it sends on any path; otherwise it sends for a time.
        by_udp: whether TCP takes its place where UDP does not pass.
        has_faster_paths: whether paths may be faster than it can measure. TCP measures them afterwards.
    """

    name: str
    probe: pb.Probe
    bytes_per_path: int
    typical: Callable[[float], tuple[float, float]]
    read: Callable[[pb.ProbeReply], Reading]
    play: Callable[[Play], pb.ProbeReply]
    tolerance: float = 0.08
    adapts_to_noise: bool = False
    shows_noise: bool = False
    can_pause: bool = False
    fixed_bytes: bool = True
    by_udp: bool = False
    has_faster_paths: bool = False

    @property
    def kind(self) -> str:
        """Name of the probe's kind, a field of the contract's `Probe` message."""
        return self.probe.WhichOneof("kind") or ""

    @property
    def brief(self) -> pb.Probe:
        """Return the same probe, with less patience for a path that is not steady."""
        probe = pb.Probe()
        probe.CopyFrom(self.probe)
        if self.can_pause:
            probe.gated_train.max_seconds = TRAIN_BRIEF_S
        return probe

    def paused(self, probe: pb.Probe, pause_s: float, max_s: float = 0.0) -> pb.Probe:
        """Return the same probe, with a train so late that all of its round have connected before one starts.

        Args:
            probe: a probe of this method.
            pause_s: from the beginning of its round.
            max_s: how long it may then take; 0 = as before.
        """
        if not self.can_pause:
            return probe
        paused = pb.Probe()
        paused.CopyFrom(probe)
        paused.gated_train.pause_s = pause_s
        # A very short hold, but held trains report what arrived when.
        paused.gated_train.hold_s = TRAIN_BIN_S
        paused.gated_train.max_seconds = max_s or probe.gated_train.max_seconds
        return paused

    def capped(self, most_bytes: int) -> Method:
        """Return the method with trains of at most this many bytes. A method with a fixed amount is not changed."""
        if not self.can_pause or most_bytes >= self.bytes_per_path:
            return self
        train = pb.GatedTrain(max_bytes=most_bytes, max_seconds=TRAIN_MAX_S)
        return replace(self, probe=pb.Probe(gated_train=train), bytes_per_path=most_bytes)


def _read_choreo(reply: pb.ProbeReply) -> Reading:
    """Read a rate as in Choreo section 3.1: the smaller of the dispersion rate and Mathis' bound.

    The paper uses the rate in UDP payload as the TCP throughput; so does this baseline (1.7 % high).
    """
    train = reply.burst_train
    rate_bps = min(train.rate_bps, train.mathis_bps) if train.mathis_bps > 0 else train.rate_bps
    lost = max(train.sent - train.received - train.overflow, 0)
    return Reading(goodput_bps=rate_bps, loss=lost / train.sent if train.sent else math.nan)


def _play_choreo(play: Play) -> pb.ProbeReply:
    reply = play.reply()
    reply.burst_train.rate_bps = play.share_bps * (1 + play.random.gauss(0, BURST_NOISE))
    return reply


def choreo(*, bursts: int = BURSTS, packets: int = BURST_PACKETS, payload_bytes: int = UDP_PAYLOAD_BYTES) -> Method:
    """Return Choreo's trains as published, of any shape; `calibrate` finds one for a network (sections 3.1, 4.1).

    Args:
        bursts: K.
        packets: B, packets of each burst.
        payload_bytes: P, UDP payload of a packet. Agents send smaller packets if the path's MTU allows no more.

    Raises:
        GavotteError: for a shape that agents refuse.
    """
    fine = 1 <= bursts <= MOST_BURSTS and 2 <= packets <= MOST_PACKETS and bursts * packets <= MOST_TRAIN_PACKETS
    if not fine or payload_bytes not in PAYLOADS:
        raise GavotteError(
            f"a train cannot have {bursts} bursts of {packets} packets of {payload_bytes} bytes",
            hint=f"use 1 to {MOST_BURSTS} bursts of 2 to {MOST_PACKETS}, at most {MOST_TRAIN_PACKETS} in all",
        )
    size = bursts * packets * payload_bytes
    sent_s = (bursts - 1) * BURST_GAP_S + bursts * packets * PACKET_S
    train = pb.BurstTrain(bursts=bursts, packets=packets, payload_bytes=payload_bytes, gap_s=BURST_GAP_S)
    return Method(
        name="choreo",
        probe=pb.Probe(burst_train=train),
        bytes_per_path=size,
        typical=lambda bps: (size, SETUP_S + _burst_train_s(8 * size / bps, sent_s)),
        read=_read_choreo,
        play=_play_choreo,
        by_udp=True,
    )


def _burst_train_s(through_s: float, sent_s: float) -> float:
    """Return the duration of bursts.

    Args:
        through_s: time of all their packets, at the path's rate.
        sent_s: time until the last is sent, if nothing delays the sender.
    """
    if through_s <= sent_s + QUEUE_S:
        return max(through_s, sent_s)
    # Some were lost: the receiver waits for more.
    return sent_s + QUEUE_S + TRAIN_QUIET_S


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


def _read_pingpong(reply: pb.ProbeReply) -> Reading:
    """Latency from 1 byte, bandwidth from 8 MB (RPCA section IV-B), and how well a line fits the sizes between.

    Each message is answered by one byte. Its way back takes half the round trip of the one-byte message.
    """
    times = {size.bytes: statistics.median(size.seconds) for size in reply.ping_pong.sizes if size.seconds}
    if PINGPONG_BYTES[0] not in times or PINGPONG_BYTES[-1] not in times:
        return refused("the ping-pong ended early")
    back_s = times[PINGPONG_BYTES[0]] / 2
    times = {size: max(seconds - back_s, 1e-9) for size, seconds in times.items()}
    largest = PINGPONG_BYTES[-1]
    _, _, residual = alpha_beta(list(times), list(times.values()))
    return Reading(goodput_bps=8 * largest / times[largest], alpha_s=times[PINGPONG_BYTES[0]], residual=residual)


def _play_pingpong(play: Play) -> pb.ProbeReply:
    reply = play.reply()
    for message in PINGPONG_BYTES:
        reply.ping_pong.sizes.add(bytes=message, seconds=[8 * message / play.share_bps])
    return reply


def alpha_beta(sizes: Sequence[int], times_s: Sequence[float]) -> tuple[float, float, float]:
    """Fit time = alpha + bytes / beta, each size weighing the same in relative terms.

    Args:
        sizes: message sizes, bytes.
        times_s: one-way times.

    Returns:
        alpha in seconds (at least 0), beta in bytes/s, and the relative RMS residual.
    """
    size, time_s = np.asarray(sizes, dtype=np.float64), np.asarray(times_s, dtype=np.float64)
    design = np.column_stack([1 / time_s, size / time_s])
    (alpha_s, per_byte_s), *_ = np.linalg.lstsq(design, np.ones_like(size), rcond=None)
    alpha_s = max(float(alpha_s), 0.0)
    left = (alpha_s + size * per_byte_s) / time_s - 1
    return alpha_s, float(1 / per_byte_s) if per_byte_s > 0 else math.inf, float(np.sqrt(np.mean(left**2)))


_VERDICTS: dict[int, RateVerdict] = {
    pb.VERDICT_PATH_LIMITED: "path-limited",
    pb.VERDICT_HOST_LIMITED: "host-limited",
    pb.VERDICT_BUCKET_NOT_EXHAUSTED: "bucket-not-exhausted",
}


def goodput_share(reply: pb.ProbeReply) -> float:
    """Return the TCP goodput of a wire rate on a train's path, by its MTU and its packets' headers."""
    train = reply.gated_train
    ip_header_bytes = train.wire_bytes - ETHERNET_BYTES - UDP_HEADER_BYTES - train.payload_bytes
    return goodput_per_wire(reply.mtu_bytes, ipv6=ip_header_bytes == IPV6_HEADER_BYTES)


def _read_train(reply: pb.ProbeReply) -> Reading:
    """Return the sustained wire rate as TCP goodput; a lower bound if the verdict says so."""
    train, share = reply.gated_train, goodput_share(reply)
    return Reading(
        goodput_bps=train.rate_bps * share,
        low_bps=train.low_bps * share,
        high_bps=train.high_bps * share,
        peak_bps=train.peak_bps * share,
        bucket_bytes=train.bucket_bytes if train.HasField("bucket_bytes") else math.nan,
        loss=train.loss,
        unqueued=train.unqueued,
        unqueued_lost=train.unqueued_lost,
        policed=train.policed,
        verdict=_VERDICTS.get(train.verdict, "unproven"),
        refusal=train.refusal,
        failure=pb.FAILURE_NO_RATE if train.refusal else 0,
    )


def _play_train(play: Play) -> pb.ProbeReply:
    """Return the answer of a train; one that loses to others may find no rate."""
    asked, lost = play.probe.gated_train, play.share_bps < LOST * play.alone_bps
    train = pb.GatedTrainResult(payload_bytes=play.payload_bytes, wire_bytes=play.wire_bytes)
    if lost and play.random.random() < UNSTEADY:
        seconds = asked.max_seconds or TRAIN_MAX_S
        size = TRAIN_FILL_BYTES + play.alone_bps / 8 * seconds
        train.refusal, train.refused = "the rate is unsteady", pb.GATED_REFUSAL_UNSTEADY
    else:
        level_bps = play.random.uniform(play.share_bps, play.alone_bps) if lost else play.alone_bps
        size, seconds = play.typical(level_bps)
        size, seconds = play.taken[0] * size, play.taken[1] * (seconds - SETUP_S)
        train.verdict = pb.VERDICT_PATH_LIMITED
        train.rate_bps = train.low_bps = train.high_bps = level_bps / play.goodput
    train.seconds = seconds
    return pb.ProbeReply(
        seconds=asked.pause_s + seconds,
        bytes_sent=min(int(size), asked.max_bytes or int(size)),
        gated_train=train,
        mtu_bytes=play.mtu_bytes,
        error=train.refusal,
        failure=pb.FAILURE_NO_RATE if train.refusal else pb.FAILURE_UNSPECIFIED,
    )


def _typical_train(rate_bps: float) -> tuple[float, float]:
    slow_s = min(8 * TRAIN_SLOW_BYTES / rate_bps + TRAIN_QUIET_S, TRAIN_MAX_S)
    sure_s = min(max(0.0, TRAIN_SURE_S * (rate_bps / 1e9 - 1)), TRAIN_USUAL_S / 2)
    least_s = min(8 * TRAIN_LONG_BYTES / rate_bps, TRAIN_LONG_S)
    seconds = max(min(TRAIN_USUAL_S + sure_s, 8 * TRAIN_BYTES / rate_bps), slow_s, least_s)
    through = rate_bps / 8 * seconds
    return min(max(TRAIN_LEAST_BYTES, through), TRAIN_FILL_BYTES + through), SETUP_S + seconds


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            name="train",
            probe=pb.Probe(gated_train=pb.GatedTrain(max_bytes=TRAIN_BYTES, max_seconds=TRAIN_MAX_S)),
            bytes_per_path=TRAIN_BYTES,
            typical=_typical_train,
            read=_read_train,
            play=_play_train,
            # Twice the largest error of a proven rate.
            tolerance=0.02,
            adapts_to_noise=True,
            can_pause=True,
            by_udp=True,
            has_faster_paths=True,
        ),
        choreo(),
        bulk(),
        Method(
            name="pingpong",
            probe=pb.Probe(
                ping_pong=pb.PingPong(bytes=PINGPONG_BYTES, repetitions=PINGPONG_REPETITIONS, congestion="cubic")
            ),
            bytes_per_path=PINGPONG_PATH_BYTES,
            typical=lambda bps: (PINGPONG_PATH_BYTES, SETUP_S + 8 * PINGPONG_PATH_BYTES / bps),
            read=_read_pingpong,
            play=_play_pingpong,
        ),
    )
}

SHAPED: dict[str, Callable[..., Method]] = {"choreo": choreo, "bulk": bulk}
"""Methods whose probes can have other shapes, with the functions that make them."""
