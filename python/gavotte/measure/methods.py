"""The ways to measure one path, each with its probe, its cost and how its answer is read."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gavotte.agents import agent_pb2 as pb
from gavotte.errors import GavotteError
from gavotte.terms.goodput import GOODPUT_PER_WIRE, UDP_PAYLOAD_BYTES

BURSTS = 10
BURST_PACKETS = 200
BURST_GAP_S = 0.001
"""Choreo section 4.1: K = 10 bursts of B = 200 packets, 1 ms apart (its EC2 values)."""

MOST_BURSTS, MOST_PACKETS, MOST_TRAIN_PACKETS = 1_000, 20_000, 1_000_000
PAYLOADS = range(44, 65_508)
"""Of one train; agents refuse others. A packet holds a header of 44 bytes."""

TRAIN_USUAL_S, TRAIN_SURE_S = 0.056, 0.006
"""A train without a deep bucket goes on so long: 0.75 MB at 100 Mbit/s, 7 to 8 at 1 Gbit/s. Its receiver takes so much
longer to be sure for each Gbit/s above that, up to half as long again: 16 MB at 2 Gbit/s, 50 at 5."""

TRAIN_SLOW_BYTES, TRAIN_QUIET_S, TRAIN_LEAST_BYTES = 310_000, 0.03, 600_000
"""And until it has 12 blocks of 17 packets, which take longer on slow paths; then its receiver waits for the last ones.
It begins with so much that a slow path loses some: 0.60 MB in 0.17 s at 20 Mbit/s."""

TRAIN_FILL_BYTES = 256 << 10
"""A train begins with so many bytes at once, whatever its path carries."""

TRAIN_BYTES = 64_000_000
"""Most bytes of a gated train: empties a bucket of 60 MB. Seen: 1 to 10 MB up to 1 Gbit/s without a deep bucket."""
TRAIN_MAX_S = 1.0
TRAIN_BIN_S = 0.01
TRAIN_BRIEF_S = 0.2
"""Enough from 5 Mbit/s on; without an end, trains that share a full link would send for all their time."""

BULK_S = 1.0
BULK_BIN_S = 0.01

BULK_SETUP_S: dict[str, float] = {"gavotte": 0.04, "iperf3": 0.5}
"""Of a bulk probe: connecting, pings, the last bytes' way, the report."""

QUEUE_S = 0.05
"""What a shaper's queue holds in time, as labs have it: what finds it full is lost, and takes no time."""

PACKET_S = 1 / 150e3
"""What an agent takes to send one packet of a burst."""

ASSUMED_RATE_BPS = 1e9
"""Of paths that no Network tells, for the estimate, where the user does not say."""

SETUP_S = 0.006
"""Of one round: connecting, pings, the report; 4 ms were seen on a quiet machine, 15 where each round is sent alone."""

PINGPONG_BYTES = (1, 1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20, 8_000_000)
PINGPONG_REPETITIONS = 1
PINGPONG_PATH_BYTES = (sum(PINGPONG_BYTES) + len(PINGPONG_BYTES)) * (PINGPONG_REPETITIONS + 1)
"""RPCA section IV-B measures alpha with 1 byte and beta with 8 MB; the sizes between show whether a line fits. Each
message is answered by one byte."""

RateVerdict = Literal["path-limited", "host-limited", "bucket-not-exhausted", "unproven"]
"""What a rate stands for; all but the first are lower bounds, or, for `unproven`, nobody knows."""


Engine = Literal["gavotte", "iperf3"]
ENGINES: tuple[Engine, ...] = ("gavotte", "iperf3")
_ENGINES: dict[Engine, pb.BulkEngine] = {"gavotte": pb.BULK_ENGINE_OWN, "iperf3": pb.BULK_ENGINE_IPERF3}


@dataclass(frozen=True)
class Reading:
    """What one probe says of its path. Rates are TCP goodput in bit/s.

    Attributes:
        goodput_bps: the path's rate.
        low_bps: lower end of its 95 % interval; NaN = the method has none.
        high_bps: upper end.
        peak_bps: rate while the token bucket lasts; NaN = not told.
        bucket_bytes: depth of the bucket, wire bytes; NaN = not told.
        loss: share of packets lost; NaN = not told.
        verdict: what the rate stands for.
        refusal: why there is no rate; empty = there is one.
        failure: the same as one of the contract's `Failure` codes; 0 = there is one.
        alpha_s: one-way latency, where the method has its own; NaN = half the round trip before the probe.
        residual: relative RMS of what the alpha-beta line leaves unexplained; NaN = no line.
        jain: Jain's fairness index of parallel flows, 1/n to 1; NaN = one flow.
    """

    goodput_bps: float
    low_bps: float = math.nan
    high_bps: float = math.nan
    peak_bps: float = math.nan
    bucket_bytes: float = math.nan
    loss: float = math.nan
    verdict: RateVerdict = "unproven"
    refusal: str = ""
    failure: int = 0
    alpha_s: float = math.nan
    residual: float = math.nan
    jain: float = math.nan


def refused(reason: str, failure: int = pb.FAILURE_NO_RATE) -> Reading:
    """A reading without a rate."""
    return Reading(goodput_bps=math.nan, refusal=reason, failure=failure)


@dataclass(frozen=True)
class Method:
    """One way to measure a path.

    Attributes:
        name: as `--method` takes it.
        probe: what the sender does.
        bytes_per_path: most payload bytes one path costs.
        typical: payload bytes and seconds that a path of a given rate (TCP goodput, bit/s) costs as a rule.
        read: reads an answer without error.
        tolerance: two readings of one path this near to each other agree.
    """

    name: str
    probe: pb.Probe
    bytes_per_path: int
    typical: Callable[[float], tuple[float, float]]
    read: Callable[[pb.ProbeReply], Reading]
    tolerance: float = 0.08

    @property
    def brief(self) -> pb.Probe:
        """The same probe, with less patience for a path that is not steady."""
        probe = pb.Probe()
        probe.CopyFrom(self.probe)
        if self.name == "train":
            probe.gated_train.max_seconds = TRAIN_BRIEF_S
        return probe

    def paused(self, probe: pb.Probe, pause_s: float, max_s: float = 0.0) -> pb.Probe:
        """The same probe, as a train so late that all of its round have connected before one starts.

        Args:
            probe: of this method.
            pause_s: from the beginning of its round.
            max_s: how long it may take then; 0 = as before.
        """
        if self.name != "train":
            return probe
        paused = pb.Probe()
        paused.CopyFrom(probe)
        paused.gated_train.pause_s = pause_s
        # Next to nothing, but held trains tell what arrived when.
        paused.gated_train.hold_s = TRAIN_BIN_S
        paused.gated_train.max_seconds = max_s or probe.gated_train.max_seconds
        return paused

    def capped(self, most_bytes: int) -> Method:
        """The same, with trains of at most so many bytes; what sends a fixed amount stays as it is."""
        if self.name != "train" or most_bytes >= self.bytes_per_path:
            return self
        train = pb.GatedTrain(max_bytes=most_bytes, max_seconds=TRAIN_MAX_S)
        return replace(self, probe=pb.Probe(gated_train=train), bytes_per_path=most_bytes)


def _read_choreo(reply: pb.ProbeReply) -> Reading:
    """Choreo section 3.1 as printed: the smaller of the dispersion rate and Mathis' bound.

    The paper takes the rate in UDP payload for the TCP throughput; so does this baseline (1.7 % high).
    """
    train = reply.burst_train
    rate_bps = min(train.rate_bps, train.mathis_bps) if train.mathis_bps > 0 else train.rate_bps
    lost = max(train.sent - train.received - train.overflow, 0)
    return Reading(goodput_bps=rate_bps, loss=lost / train.sent if train.sent else math.nan)


def choreo(*, bursts: int = BURSTS, packets: int = BURST_PACKETS, payload_bytes: int = UDP_PAYLOAD_BYTES) -> Method:
    """Choreo's trains as published, of any shape: `calibrate` tells which one suits a network (sections 3.1 and 4.1).

    Args:
        bursts: K.
        packets: B, of each burst.
        payload_bytes: P, UDP payload of a packet.

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
    )


def _burst_train_s(through_s: float, sent_s: float) -> float:
    """How long bursts take.

    Args:
        through_s: all their packets, at the path's rate.
        sent_s: until the last is sent, where nothing holds the sender up.
    """
    if through_s <= sent_s + QUEUE_S:
        return max(through_s, sent_s)
    # Some were lost: the receiver waits for more.
    return sent_s + QUEUE_S + TRAIN_QUIET_S


def _read_bulk(reply: pb.ProbeReply) -> Reading:
    rates = [8 * flow.bytes / flow.seconds for flow in reply.bulk.flows if flow.seconds > 0]
    return Reading(goodput_bps=reply.bulk.goodput_bps, jain=jain_index(rates) if len(rates) > 1 else math.nan)


def jain_index(rates: Sequence[float]) -> float:
    """Fairness of shares: (sum x)^2 / (n sum x^2), 1 when all are equal (Jain 1984; OSMeF section IV)."""
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else math.nan


def bulk(*, flows: int = 1, seconds: float = BULK_S, congestion: str = "cubic", engine: Engine = "gavotte") -> Method:
    """Bulk TCP for a fixed time, in 10 ms bins at the receiver.

    Args:
        flows: parallel connections.
        seconds: how long.
        congestion: pinned on every socket.
        engine: who sends and counts: the agents, or the hosts' iperf3 (then without bins).
    """
    asked = pb.Bulk(seconds=seconds, flows=flows, congestion=congestion, bin_s=BULK_BIN_S, engine=_ENGINES[engine])
    return Method(
        name="bulk",
        probe=pb.Probe(bulk=asked),
        bytes_per_path=int(ASSUMED_RATE_BPS / 8 * seconds),
        typical=lambda bps: (bps / 8 * seconds, seconds + BULK_SETUP_S[engine]),
        read=_read_bulk,
    )


def _read_pingpong(reply: pb.ProbeReply) -> Reading:
    """Latency from 1 byte, bandwidth from 8 MB (RPCA section IV-B), and how well a line explains what lies between.

    Each message is answered by one byte, whose way back takes half of what the message of one byte took there and back.
    """
    times = {size.bytes: statistics.median(size.seconds) for size in reply.ping_pong.sizes if size.seconds}
    if PINGPONG_BYTES[0] not in times or PINGPONG_BYTES[-1] not in times:
        return refused("the ping-pong ended early")
    back_s = times[PINGPONG_BYTES[0]] / 2
    times = {size: max(seconds - back_s, 1e-9) for size, seconds in times.items()}
    largest = PINGPONG_BYTES[-1]
    _, _, residual = alpha_beta(list(times), list(times.values()))
    return Reading(goodput_bps=8 * largest / times[largest], alpha_s=times[PINGPONG_BYTES[0]], residual=residual)


def alpha_beta(sizes: Sequence[int], times_s: Sequence[float]) -> tuple[float, float, float]:
    """Fits time = alpha + bytes / beta, each size weighing the same in relative terms.

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


def _read_train(reply: pb.ProbeReply) -> Reading:
    """The sustained wire rate as TCP delivers it; a lower bound where the verdict says so."""
    train = reply.gated_train
    return Reading(
        goodput_bps=train.rate_bps * GOODPUT_PER_WIRE,
        low_bps=train.low_bps * GOODPUT_PER_WIRE,
        high_bps=train.high_bps * GOODPUT_PER_WIRE,
        peak_bps=train.peak_bps * GOODPUT_PER_WIRE,
        bucket_bytes=train.bucket_bytes if train.HasField("bucket_bytes") else math.nan,
        loss=train.loss,
        verdict=_VERDICTS.get(train.verdict, "unproven"),
        refusal=train.refusal,
        failure=pb.FAILURE_NO_RATE if train.refusal else 0,
    )


def _typical_train(rate_bps: float) -> tuple[float, float]:
    slow_s = min(8 * TRAIN_SLOW_BYTES / rate_bps + TRAIN_QUIET_S, TRAIN_MAX_S)
    sure_s = min(max(0.0, TRAIN_SURE_S * (rate_bps / 1e9 - 1)), TRAIN_USUAL_S / 2)
    seconds = max(min(TRAIN_USUAL_S + sure_s, 8 * TRAIN_BYTES / rate_bps), slow_s)
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
            # Twice the largest error of a proven rate.
            tolerance=0.02,
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
        ),
    )
}
