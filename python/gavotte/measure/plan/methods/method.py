"""The shape of a method: its probe, its cost, what it can do, and the reading that it gives."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from gavotte.agents import agent_pb2 as pb
from gavotte.formats.history import ByTcp

TRAIN_MAX_S = 1.0
TRAIN_BIN_S = 0.01
TRAIN_BRIEF_S = 0.2
"""Enough from 5 Mbit/s on. Without this limit, trains that share a full link would send for all their time."""

ASSUMED_RATE_BPS = 1e9
"""Rate of paths that no Network covers, for the estimate, unless the user gives one."""

SETUP_S = 0.006
"""Time of one round: connecting, pings, the report. 4 ms were seen on a quiet machine, 15 if each round is sent alone.
"""

RateVerdict = Literal["path-limited", "host-limited", "bucket-not-exhausted", "unproven"]
"""Meaning of a rate. All but the first are lower bounds, except that the meaning of `unproven` is unknown."""

LOWER_BOUNDS: tuple[RateVerdict, ...] = ("host-limited", "bucket-not-exhausted")


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


def refused(reason: str, failure: int = pb.FAILURE_NO_RATE) -> Reading:
    """Return a reading without a rate."""
    return Reading(goodput_bps=math.nan, refusal=reason, failure=failure)


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
